//! What the errors of TLS say, so that a reader knows what to do.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::CertificateDer;
use rustls::version::{TLS12, TLS13};
use thalweg_network::tls::{Pem, TlsConfig};
use tokio::io::AsyncWriteExt as _;

use super::{Ca, Server, authority, broker, certificate, refusal, seeing, server, trusting};
use crate::broker::{Broker, Reaction};

/// Starts a broker whose certificate the test changes.
fn with(ca: &Ca, change: impl FnOnce(&mut CertificateParams)) -> Broker {
    broker(Server::of(issued(ca, change)).acceptor())
}

fn issued(ca: &Ca, change: impl FnOnce(&mut CertificateParams)) -> (String, KeyPair) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["broker".to_owned()]).expect("a host name");
    params
        .distinguished_name
        .push(DnType::CommonName, "kafka 1");
    change(&mut params);
    (params.signed_by(&key, ca).expect("signed").pem(), key)
}

fn contains(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

fn fingerprint(der: &CertificateDer<'_>) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, der);
    let bytes: Vec<String> = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    bytes.join(":")
}

/// Scenario 53.
#[tokio::test(start_paused = true)]
async fn an_unknown_issuer_is_named_with_the_authorities_that_are_trusted() {
    let theirs = authority("their authority");
    let server = Server::of(issued(&theirs, |_| {}));
    let fingerprint = fingerprint(&server.chain[0]);
    let broker = broker(server.acceptor());
    let error = refusal(&broker, trusting(&authority("ours"))).await;
    contains(
        &error,
        &[
            "broker:9092 ",
            "its issuer is unknown",
            "those in ssl_cafile (1 certificate)",
            "add the certificate of its issuer to ssl_cafile",
            "issuer CN=their authority",
            "CN=kafka 1",
            &format!("SHA-256 {fingerprint}"),
        ],
    );
    let path = std::env::temp_dir().join(format!("thalweg-ca-{}.pem", std::process::id()));
    std::fs::write(&path, authority("a").pem() + &authority("b").pem()).expect("a temporary file");
    let config = TlsConfig {
        ca: Some(Pem::File(path.clone())),
        ..TlsConfig::default()
    };
    let error = refusal(&broker, config).await;
    std::fs::remove_file(&path).expect("it was written");
    contains(
        &error,
        &[&format!("ssl_cafile {} (2 certificates)", path.display())],
    );
    // The options come from an `ssl.SSLContext`, beside which `ssl_cafile` is refused.
    let of_context = TlsConfig {
        from_context: true,
        ..trusting(&authority("ours"))
    };
    let error = refusal(&broker, of_context).await;
    contains(
        &error,
        &[
            "those in ssl_context (1 certificate)",
            "to ssl_context, with create_ssl_context(cafile=...), or load_verify_locations()",
        ],
    );
    assert!(!error.contains("ssl_cafile"), "{error}");
}

/// Embedded brokers, and an authority that was created again, have the same name and another key.
#[tokio::test(start_paused = true)]
async fn an_authority_with_another_key_is_explained() {
    let broker = broker(server(&authority("the authority"), "broker", None));
    let error = refusal(&broker, trusting(&authority("the authority"))).await;
    contains(
        &error,
        &[
            "is not signed with the key of an authority that has the name of its issuer",
            "put its current certificate into ssl_cafile",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn a_self_signed_certificate_is_named_as_such() {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["broker".to_owned()]).expect("a host name");
    let own = params.self_signed(&key).expect("signed").pem();
    let broker = broker(Server::of((own, key)).acceptor());
    let error = refusal(&broker, trusting(&authority("ours"))).await;
    contains(&error, &["add this self-signed certificate to ssl_cafile"]);
}

/// Scenario 53.
#[tokio::test(start_paused = true)]
async fn a_wrong_name_is_reported_with_the_names_in_the_certificate() {
    let ca = authority("ca");
    let names = [
        "kafka1.example",
        "*.other.example",
        "10.1.2.3",
        "2001:db8::1",
    ];
    let broker = with(&ca, |params| {
        let names = names.map(str::to_owned).to_vec();
        params.subject_alt_names = CertificateParams::new(names)
            .expect("names")
            .subject_alt_names;
    });
    let error = refusal(&broker, trusting(&ca)).await;
    contains(
        &error,
        &[
            "not valid for the host name \"broker\"",
            &names.join(", "),
            "ssl_check_hostname=False",
        ],
    );
    let broker = with(&ca, |params| params.subject_alt_names.clear());
    let error = refusal(&broker, trusting(&ca)).await;
    contains(
        &error,
        &["only a common name, which the client ignores", "CN=kafka 1"],
    );
}

/// Scenario 53.
#[tokio::test(start_paused = true)]
async fn a_wrong_time_is_reported_with_the_clock() {
    let ca = authority("ca");
    let broker = with(&ca, |params| params.not_after = date_time_ymd(2021, 2, 3));
    let error = refusal(&broker, trusting(&ca)).await;
    contains(
        &error,
        &[
            "the broker's certificate expired on 2021-02-03 00:00:00 UTC",
            "clock says 20",
            "CN=kafka 1",
        ],
    );
    let broker = with(&ca, |params| params.not_before = date_time_ymd(2090, 2, 3));
    let error = refusal(&broker, trusting(&ca)).await;
    contains(
        &error,
        &["not valid before 2090-02-03 00:00:00 UTC", "clock says 20"],
    );
}

#[tokio::test(start_paused = true)]
async fn an_authority_as_broker_is_explained() {
    let ca = authority("ca");
    let broker = with(&ca, |params| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let error = refusal(&broker, trusting(&ca)).await;
    contains(
        &error,
        &["certificate of an authority as its own (basicConstraints CA:TRUE)"],
    );
    // Many people trust the broker's own certificate, which is an authority for itself.
    let own = ca.pem();
    let key = KeyPair::from_pem(&ca.key().serialize_pem()).expect("PEM");
    let broker = self::broker(Server::of((own, key)).acceptor());
    let error = refusal(&broker, trusting(&ca)).await;
    contains(&error, &["certificate of an authority as its own"]);
}

/// Scenario 56.
#[tokio::test(start_paused = true)]
async fn a_refused_client_learns_which_certificate_it_showed() {
    let (ca, ours, theirs) = (authority("ca"), authority("ours"), authority("theirs"));
    for version in [&TLS12, &TLS13] {
        let start = |names_it: bool| {
            let mut server = Server::of(certificate(&ca, "broker", 7));
            server.versions = vec![version];
            let theirs = theirs.der().clone();
            let server = server.wanting(theirs, |builder| {
                if names_it {
                    builder
                } else {
                    builder.clear_root_hint_subjects()
                }
            });
            seeing(server.acceptor()).0
        };
        let error = refusal(&start(true), trusting(&ca)).await;
        contains(
            &error,
            &["the client has none: set ssl_certfile and ssl_keyfile"],
        );
        let (cert, key) = issued(&ours, |_| {});
        let own = TlsConfig {
            cert: Some(Pem::Inline(cert + &key.serialize_pem())),
            ..trusting(&ca)
        };
        let error = refusal(&start(true), own.clone()).await;
        contains(
            &error,
            &[
                "one of 1 authorities",
                "did not send its own",
                "CN=kafka 1",
                "CN=ours",
            ],
        );
        let error = refusal(&start(false), own).await;
        contains(
            &error,
            &[
                "sent its certificate",
                "CN=kafka 1",
                "CN=ours",
                "ssl_certfile",
            ],
        );
    }
}

/// A broker that closes in place of an alert.
#[tokio::test(start_paused = true)]
async fn a_broker_that_closes_after_it_asked_for_a_certificate_gets_a_hint() {
    use rustls::server::ClientCertVerifierBuilder;

    use super::outcome;
    let ca = authority("ca");
    let server = Server::of(certificate(&ca, "broker", 7));
    let server = server.wanting(
        ca.der().clone(),
        ClientCertVerifierBuilder::allow_unauthenticated,
    );
    let acceptor = Server {
        resumes: false, // a resumed session asks for nothing
        ..server
    }
    .acceptor();
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen("broker", 9092);
    tokio::spawn(async move {
        while let Some(stream) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.shutdown().await;
            }
        }
    });
    let error = outcome(&broker, trusting(&ca))
        .await
        .expect_err("it closes");
    contains(
        &error.to_string(),
        &["the client has none: set ssl_certfile"],
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_certificate_is_refused_in_the_constructor() {
    let ca = authority("ca");
    let ((cert, _), (_, other)) = (certificate(&ca, "me", 1), certificate(&ca, "me", 2));
    let config = TlsConfig {
        cert: Some(Pem::Inline(cert)),
        key: Some(Pem::Inline(other.serialize_pem())),
        ..trusting(&ca)
    };
    let error = super::refused_settings(config);
    assert_eq!(
        error,
        "ssl_keyfile: the private key belongs to another certificate"
    );
    // A server's side is not needed, but the certificate itself is fine.
    let _ = server(&ca, "broker", None);
}
