//! Threads, signals and forks: how the runtime affects the process that it runs in.

use std::fs;
use std::task::Waker;
use std::time::{Duration, Instant};

use thalweg_cluster::Idle;
use thalweg_network::admin::AdminClient;
use thalweg_network::log::{self, Level, Logger};
use thalweg_network::producer::{MaxBlock, ProducerClient};
use thalweg_network::sasl::{SaslConfig, Secret};
use thalweg_network::{
    Client, ClientConfig, ClientError, Operation as _, Parts, RequestTarget, Runtime,
};
use thalweg_producer::{ProducerConfig, ProducerError};
use thalweg_protocol::Str;

use crate::broker::{Broker, Reaction};
use crate::handshake::{sasl_broker, sasl_config};
use crate::requests::heartbeat;
use crate::support::blocking;

/// The limit of what should take no time.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts a scripted broker on a real socket, served by its own thread. Returns its port.
fn tcp_broker() -> u16 {
    let (out, port) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a test runtime").block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
                .await
                .expect("a port");
            let port = listener.local_addr().expect("it is bound").port();
            let broker = Broker::new(move |got| match got.key {
                thalweg_protocol::ApiKey::METADATA => {
                    got.respond(&crate::broker::metadata(got, "127.0.0.1", i32::from(port)))
                }
                _ => Reaction::Usual,
            });
            out.send(port).expect("the test waits for it");
            loop {
                let (stream, _) = listener.accept().await.expect("it listens");
                tokio::spawn(broker.clone().connection(stream));
            }
        });
    });
    port.recv().expect("the broker's thread sends its port")
}

fn config(port: u16) -> ClientConfig {
    ClientConfig::plaintext(&format!("127.0.0.1:{port}")).expect("a good address")
}

#[test]
fn a_client_works_from_plain_threads_and_closes() {
    let admin = AdminClient::start(&config(tcp_broker())).expect("a good config");
    let view = admin.view().clone();
    blocking(view.bootstrap(PATIENCE)).expect("it is there");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let view = view.clone();
            std::thread::spawn(move || {
                for _ in 0..50 {
                    let ticket = view.request(heartbeat(RequestTarget::Node(1)));
                    blocking(ticket).expect("a response");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("all its requests were answered");
    }
    assert_eq!(blocking(view.is_connected()), Ok(true));
    blocking(view.close(Some(PATIENCE))).expect("nothing is left to do");
    assert_eq!(view.check(), Err(ClientError::Closed));
    blocking(view.close(Some(PATIENCE))).expect("closing twice is one close");
    assert_eq!(blocking(view.is_connected()), Ok(false));
    let late = blocking(view.bootstrap(PATIENCE));
    assert_eq!(late, Err(ClientError::Closed));
}

#[test]
fn waiting_for_a_topic_ends_when_the_client_is_closed() {
    let client = ProducerClient::start(&config(1), ProducerConfig::default(), None);
    let client = client.expect("a good config");
    let max_block = MaxBlock::begin(Duration::from_secs(60));
    let mut wait = client.wait_for_partition(&Str::from("t"), None, max_block);
    // It waits already, however late its thread starts.
    assert_eq!(wait.poll(Waker::noop()), None);
    let waiter = std::thread::spawn(move || blocking(wait));
    std::thread::sleep(Duration::from_millis(50));
    blocking(client.view().close(Some(PATIENCE))).expect("it closes");
    assert_eq!(
        waiter.join().expect("it only waits"),
        Err(ClientError::Producer(ProducerError::Closed))
    );
}

#[test]
fn bootstrapping_in_vain_names_every_address_and_its_cause() {
    let mut config = config(1);
    config
        .bootstrap_servers
        .push(thalweg_cluster::Address::new("no-such-host.invalid", 9));
    let admin = AdminClient::start(&config).expect("a good config");
    let limit = Instant::now() + 2 * PATIENCE;
    loop {
        let start = Instant::now();
        let timeout = Duration::from_millis(700);
        let error = blocking(admin.view().bootstrap(timeout)).expect_err("nobody is there");
        assert!(start.elapsed() < PATIENCE);
        let ClientError::NoBrokersAvailable(causes) = &error else {
            panic!("{error}")
        };
        assert_eq!(causes.len(), 2);
        if causes[0].1.contains("refused") {
            break;
        }
        // On a busy machine, the first attempt may take longer than the timeout.
        assert!(Instant::now() < limit, "{error}");
    }
}

/// The threads of this process that are ours, by the kernel's names.
fn our_threads() -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task").expect("Linux").flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            Some(line.split_whitespace().nth(1)?.to_owned())
        };
        let (Some(name), Some(blocked)) = (field("Name:"), field("SigBlk:")) else {
            continue;
        };
        if name.starts_with("thalweg") {
            found.push((
                name,
                u64::from_str_radix(&blocked, 16).expect("a hexadecimal mask"),
            ));
        }
    }
    found
}

#[test]
#[cfg(target_os = "linux")]
fn our_threads_block_all_signals() {
    let admin = AdminClient::start(&config(tcp_broker())).expect("a good config");
    blocking(admin.view().bootstrap(PATIENCE)).expect("it is there");
    // A host name makes the runtime start a thread for the lookup.
    let named = AdminClient::start(&ClientConfig::plaintext("localhost:1").expect("good"));
    let named = named.expect("a good config");
    let _ = blocking(named.view().bootstrap(Duration::from_millis(200)));
    let threads = our_threads();
    assert!(
        threads.iter().any(|(name, _)| name == "thalweg-io"),
        "{threads:?}"
    );
    for (name, blocked) in threads {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGALRM, libc::SIGUSR1] {
            assert!(
                blocked & (1 << (signal - 1)) != 0,
                "{name} lets signal {signal} in"
            );
        }
    }
}

/// Forks, and returns what `check` returned in the child.
fn in_child(check: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `check` and leaves by _exit. It has none of the other threads of the
    // test program, so `check` may only use what it makes itself and what is meant to survive a
    // fork.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(i32::from(!check())),
            child => {
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
            }
        }
    }
}

#[test]
#[cfg(unix)]
fn a_client_of_the_parent_is_refused_in_the_child_and_a_new_one_works() {
    let port = tcp_broker();
    let admin = AdminClient::start(&config(port)).expect("a good config");
    blocking(admin.view().bootstrap(PATIENCE)).expect("it is there");
    let refused = in_child(|| {
        let view = admin.view();
        view.is_inherited()
            && view.check() == Err(ClientError::Forked)
            && matches!(
                view.request(heartbeat(RequestTarget::Node(1))).try_take(),
                Some(Err(ClientError::Forked))
            )
            && blocking(view.close(Some(PATIENCE))) == Err(ClientError::Forked)
    });
    assert!(refused, "use after fork is a clear error, without a hang");
    let works = in_child(|| {
        let Ok(fresh) = AdminClient::start(&config(port)) else {
            return false;
        };
        let view = fresh.view();
        blocking(view.bootstrap(PATIENCE)).is_ok() && blocking(view.close(Some(PATIENCE))).is_ok()
    });
    assert!(works, "the child has a runtime of its own");
    let ticket = admin.view().request(heartbeat(RequestTarget::Node(1)));
    assert!(blocking(ticket).is_ok(), "the parent continues");
}

#[test]
#[cfg(unix)]
fn a_runtime_stops_and_fails_its_clients() {
    let port = tcp_broker();
    let stops = in_child(|| {
        let Ok(admin) = AdminClient::start(&config(port)) else {
            return false;
        };
        if blocking(admin.view().bootstrap(PATIENCE)).is_err() {
            return false;
        }
        let Some(runtime) = Runtime::existing() else {
            return false;
        };
        runtime.shutdown(PATIENCE)
            && admin.view().check() == Err(ClientError::Closed)
            && runtime.shutdown(PATIENCE)
    });
    assert!(stops);
}

/// The logged messages that contain a text. Only one test may take them from the log.
fn logged(lines: &[log::Event], text: &str) -> Vec<String> {
    let ours = lines.iter().filter(|line| line.message.contains(text));
    ours.map(|line| line.message.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn why_no_broker_responds_is_told_once_for_all_addresses_and_a_refused_login_by_itself() {
    log::set_level(Logger::Network, Level::Warning as u8);
    // The other tests write to the same log, which has a limit, and only this one empties it.
    log::drain(None);
    let broker = Broker::new(|_| Reaction::Usual);
    let mut config = broker.config();
    let named = |n: usize| thalweg_cluster::Address::new(format!("unheard-of-{n}"), 9092);
    config.bootstrap_servers = vec![named(1), named(2)];
    let parts = Parts::with_transport(&config, std::sync::Arc::new(broker.network.clone()));
    let waiting = Client::start_here(parts.expect("a good config"), Idle);

    let strict = sasl_broker();
    let mut config = sasl_config(&strict);
    config.client_id = Some("stranger".to_owned());
    config.sasl = Some(SaslConfig::Plain {
        username: "alice".to_owned(),
        password: Secret::new("wrong"),
    });
    let refused = Client::start_here(strict.parts(&config), Idle);

    let mut lines = Vec::new();
    for _ in 0..25 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        lines.append(&mut log::drain(None));
    }
    drop((waiting, refused));
    let [line] = &logged(&lines, "unheard-of")[..] else {
        panic!("{lines:?}")
    };
    for part in ["unheard-of-1", "unheard-of-2", "keeps trying"] {
        assert!(line.contains(part), "{line}");
    }
    // The line of the failed connection may come again, because the client connects again.
    let refusals = logged(&lines, "stranger");
    assert!(!refusals.is_empty(), "{lines:?}");
    for line in refusals {
        assert!(
            line.contains("authentication failed") && !line.contains("keeps trying"),
            "{line}"
        );
    }
}
