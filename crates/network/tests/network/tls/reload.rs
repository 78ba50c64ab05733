//! Certificates and keys that change while a client runs.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::KeyPair;
use rustls::HandshakeKind;
use thalweg_network::tls::{Pem, Prepared, TlsConfig};
use thalweg_network::{ClientConfig, SecurityProtocol};

use super::keys::supplied;
use super::{Ca, Seen, Server, authority, certificate, heartbeat_of, seeing};
use crate::broker::Broker;

const INTERVAL: Duration = Duration::from_secs(60);

/// A client with its files, and a broker that wants its certificate.
struct Setting {
    folder: PathBuf,
    ca: Ca,
    broker: Broker,
    seen: Arc<Mutex<Vec<Seen>>>,
    prepared: Prepared,
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("a temporary file");
    std::fs::rename(new, path).expect("the same folder");
}

impl Setting {
    fn new(name: &str, interval: Option<Duration>) -> Self {
        let folder = std::env::temp_dir().join(format!("thalweg-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let ca = authority("ca");
        write(&folder.join("ca.pem"), &ca.pem());
        let own = identity(&ca, 1);
        write(&folder.join("cert.pem"), &own.0);
        write(&folder.join("key.pem"), &own.1.serialize_pem());
        let server = Server::of(certificate(&ca, "broker", 7));
        let (broker, seen) = seeing(
            server
                .wanting(ca.der().clone(), |verifier| verifier)
                .acceptor(),
        );
        let file = |name: &str| Some(Pem::File(folder.join(name)));
        let config = TlsConfig {
            ca: file("ca.pem"),
            cert: file("cert.pem"),
            key: file("key.pem"),
            reload_interval: interval,
            ..TlsConfig::default()
        };
        let prepared = config.prepare(&mut |_| unreachable!("no password"));
        Self {
            folder,
            ca,
            broker,
            seen,
            prepared: prepared.expect("good files"),
        }
    }

    fn write(&self, name: &str, text: &str) {
        write(&self.folder.join(name), text);
    }

    /// Opens another connection, and returns how.
    async fn connect(&self) -> Seen {
        let config = ClientConfig {
            security_protocol: SecurityProtocol::Ssl,
            tls_prepared: Some(self.prepared.clone()),
            ..self.broker.config()
        };
        heartbeat_of(&self.broker, &config)
            .await
            .expect("the old or the new files");
        self.seen
            .lock()
            .expect("no panic")
            .last()
            .expect("a handshake")
            .clone()
    }

    async fn connect_later(&self) -> Seen {
        tokio::time::advance(INTERVAL + Duration::from_secs(1)).await;
        self.connect().await
    }
}

fn identity(ca: &Ca, serial: u8) -> (String, KeyPair) {
    certificate(ca, "me", serial)
}

/// Whether the broker has seen this certificate.
fn is(seen: &Seen, pem: &str) -> bool {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    seen.client.as_ref() == CertificateDer::from_pem_slice(pem.as_bytes()).ok().as_ref()
}

/// Scenario 58.
#[tokio::test(start_paused = true)]
async fn new_connections_use_new_files_and_a_broken_pair_changes_nothing() {
    let setting = Setting::new("reload", Some(INTERVAL));
    let first = std::fs::read_to_string(setting.folder.join("cert.pem")).expect("written");
    assert!(is(&setting.connect().await, &first));
    let (second, key) = identity(&setting.ca, 2);
    // The files are replaced one after the other, and a connection comes in between.
    setting.write("cert.pem", &second);
    let seen = setting.connect_later().await;
    assert!(is(&seen, &first), "the key belongs to the first one");
    assert_eq!(seen.kind, Some(HandshakeKind::Resumed));
    setting.write("key.pem", &key.serialize_pem());
    assert!(
        is(&setting.connect().await, &first),
        "the client looks once a minute"
    );
    let seen = setting.connect_later().await;
    assert!(is(&seen, &second));
    // The broker must not take the client for the old one.
    assert_eq!(seen.kind, Some(HandshakeKind::Full));
    for (name, text) in [("ca.pem", "nothing"), ("cert.pem", ""), ("key.pem", "x")] {
        let good = std::fs::read_to_string(setting.folder.join(name)).expect("written");
        setting.write(name, text);
        assert!(is(&setting.connect_later().await, &second), "{name}");
        setting.write(name, &good);
    }
    std::fs::remove_file(setting.folder.join("key.pem")).expect("written");
    assert!(is(&setting.connect_later().await, &second));
}

/// Scenario 58.
#[tokio::test(start_paused = true)]
async fn a_password_is_asked_for_again_when_the_key_has_changed() {
    let mut setting = Setting::new("password", Some(INTERVAL));
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys");
    let store = |name: &str| std::fs::read(keys.join("../stores").join(name)).expect("a store");
    let path = setting.folder.join("cert.p12");
    std::fs::write(&path, store("openssl3.p12")).expect("a temporary file");
    let (supply, password) = supplied(Some(Ok("correct horse")));
    let config = TlsConfig {
        ca: Some(Pem::Inline(setting.ca.pem())),
        cert: Some(Pem::File(path.clone())),
        password,
        reload_interval: Some(INTERVAL),
        ..TlsConfig::default()
    };
    setting.prepared = config
        .prepare(&mut |source| {
            let soon = std::time::Instant::now() + Duration::from_secs(60);
            let supplied = source
                .wait(soon, &mut || false)
                .expect("the function returns at once");
            supplied.map_err(|error| error.to_string())
        })
        .expect("the password is right");
    // The broker of this setting would refuse the certificate.
    let (broker, seen) = seeing(Server::of(certificate(&setting.ca, "broker", 7)).acceptor());
    (setting.broker, setting.seen) = (broker, seen);
    let calls = || supply.calls.load(Ordering::Relaxed);
    setting.connect_later().await;
    assert_eq!(calls(), 1, "nothing has changed");
    std::fs::write(&path, store("keytool.p12")).expect("a temporary file");
    setting.connect_later().await;
    assert_eq!(calls(), 2);
    setting.connect_later().await;
    assert_eq!(calls(), 2);
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_pipe_in_place_of_a_file_does_not_end_the_reloading() {
    let setting = Setting::new("pipe", Some(INTERVAL));
    let first = std::fs::read_to_string(setting.folder.join("cert.pem")).expect("written");
    let (second, key) = identity(&setting.ca, 2);
    let path = setting.folder.join("key.pem");
    std::fs::remove_file(&path).expect("written");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo is there").success());
    // Nobody writes into the pipe.
    assert!(is(&setting.connect_later().await, &first));
    setting.write("cert.pem", &second);
    setting.write("key.pem", &key.serialize_pem());
    assert!(is(&setting.connect_later().await, &second));
}

#[tokio::test(start_paused = true)]
async fn another_authority_is_used_after_the_interval() {
    let setting = Setting::new("authority", Some(INTERVAL));
    setting.connect().await;
    setting.write("ca.pem", &authority("another").pem());
    tokio::time::advance(INTERVAL + Duration::from_secs(1)).await;
    let config = ClientConfig {
        security_protocol: SecurityProtocol::Ssl,
        tls_prepared: Some(setting.prepared.clone()),
        ..setting.broker.config()
    };
    let error = heartbeat_of(&setting.broker, &config)
        .await
        .expect_err("not trusted any more");
    assert!(
        error.to_string().contains("its issuer is unknown"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_files_are_read_once() {
    let setting = Setting::new("never", None);
    let first = std::fs::read_to_string(setting.folder.join("cert.pem")).expect("written");
    let (second, key) = identity(&setting.ca, 2);
    setting.write("cert.pem", &second);
    setting.write("key.pem", &key.serialize_pem());
    tokio::time::advance(Duration::from_secs(100_000)).await;
    assert!(is(&setting.connect_later().await, &first));
}
