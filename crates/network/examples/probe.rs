use std::time::{Duration, Instant};
use thalweg_network::admin::AdminClient;
use thalweg_network::*;
use thalweg_protocol::messages::metadata::MetadataRequest;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut config = ClientConfig::plaintext(&args[1]).unwrap();
    config.bootstrap_timeout = Duration::from_secs(5);
    if let Some(p) = args.get(2) {
        config.security_protocol = SecurityProtocol::from_name(p).unwrap();
    }
    if config.security_protocol.uses_tls() {
        config.tls.ca = Some(tls::Pem::File("/work/scratch/net-kafka/tls/ca.pem".into()));
        config.tls.check_hostname = std::env::var("NOHOST").is_err();
    }
    if config.security_protocol.uses_sasl() {
        let password = std::env::var("PW").unwrap_or("s3cret".into());
        config.sasl = Some(sasl::SaslConfig::Plain {
            username: "alice".into(),
            password: sasl::Secret::new(password),
        });
    }
    log::set_level(log::Logger::Network, 10);
    let t = Instant::now();
    let admin = AdminClient::start(&config).unwrap();
    let r = admin
        .view()
        .wait_bootstrapped(config.bootstrap_timeout, &mut || false);
    println!("bootstrap {:?} in {:?}", r, t.elapsed());
    for e in log::drain(None) {
        println!("  {e}");
    }
    if r.is_err() {
        return;
    }
    println!("{:?}", admin.view().metadata().snapshot());
    let mut times = vec![];
    for _ in 0..5000 {
        let t = Instant::now();
        let ticket = admin.view().request(Request::typed(
            RequestTarget::LeastLoaded,
            MetadataRequest::default(),
        ));
        ticket.wait(None, &mut || false).unwrap();
        times.push(t.elapsed());
    }
    times.sort();
    println!("latency p50 {:?} p99 {:?}", times[2500], times[4950]);
    let t = Instant::now();
    admin
        .close(Instant::now() + Duration::from_secs(1), &mut || false)
        .unwrap();
    println!("closed in {:?}", t.elapsed());
}
