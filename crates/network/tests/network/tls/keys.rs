//! Encrypted keys and PKCS#12 stores, as OpenSSL and keytool write them.
//!
//! `tests/keys` has one key in every encryption, `tests/stores` the same key with its chain. Their
//! password is [`PASSWORD`].

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use thalweg_network::sasl::{PasswordProvider, PasswordReply, PasswordSource, Secret, TokenError};
use thalweg_network::tls::{KeyError, KeyPassword, Pem, TlsConfig, private_key};
use thalweg_network::{ClientConfig, ClientError, Parts, SecurityProtocol};

use super::{authority, broker, certificate, outcome, refused_settings, server_for, trusting};

const PASSWORD: &str = "correct horse";

fn path(name: &str) -> PathBuf {
    let is_key = Path::new(name).extension().is_some_and(|end| end == "key");
    let folder = if is_key { "keys" } else { "stores" };
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder)
        .join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).expect("a file of this test")
}

fn file(name: &str) -> Pem {
    Pem::File(path(name))
}

fn fixed(password: &str) -> KeyPassword {
    KeyPassword::Fixed(Secret::new(password))
}

/// Scenario 50.
#[test]
fn a_key_of_every_encryption_is_read() {
    let plain = private_key(&bytes("plain.key"), None).expect("not encrypted");
    for name in [
        "3des",
        "aes128-sha1",
        "aes192-sha512",
        "aes256-sha256",
        "aes256-sha384",
        "scrypt",
        "pbe-2des",
        "pbe-3des",
        "pbe-rc2-40",
        "pbe-rc2-128",
    ] {
        let text = bytes(&format!("{name}.key"));
        let key =
            private_key(&text, Some(PASSWORD)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(key.secret_der(), plain.secret_der(), "{name}");
        let wrong = private_key(&text, Some("wrong")).expect_err("the password is wrong");
        assert_eq!(wrong, KeyError::WrongPassword, "{name}");
        let none = private_key(&text, None).expect_err("there is no password");
        assert_eq!(none, KeyError::NoPassword, "{name}");
    }
}

#[test]
fn a_wrong_password_is_never_a_key() {
    // One of 256 gives bytes with a padding that looks right.
    let text = bytes("pbe-rc2-40.key");
    for number in 0..3_000 {
        let wrong = private_key(&text, Some(&format!("wrong {number}")));
        assert_eq!(wrong.err(), Some(KeyError::WrongPassword), "{number}");
    }
}

#[test]
fn other_encryptions_are_refused_with_what_to_do() {
    for name in ["pbe-rc4", "pbe-des", "sha224", "old"] {
        let error = private_key(&bytes(&format!("{name}.key")), Some(PASSWORD));
        let text = error.expect_err("not supported").to_string();
        assert!(text.contains("openssl pkcs8 -topk8"), "{name}: {text}");
    }
}

/// Returns the DER of a key, with its bytes changed, as PEM.
fn changed(name: &str, from: &[u8], to: &[u8]) -> Vec<u8> {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let text = String::from_utf8(bytes(name)).expect("PEM");
    let body: String = text
        .lines()
        .filter(|line| !line.starts_with("--"))
        .collect();
    let mut der = STANDARD.decode(body).expect("base64");
    let place = der.windows(from.len()).position(|window| window == from);
    let place = place.expect("the key has these bytes");
    der[place..place + to.len()].copy_from_slice(to);
    let body = STANDARD.encode(der);
    let kind = "ENCRYPTED PRIVATE KEY";
    format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n").into_bytes()
}

/// Scenario 51: the file says how much work it is, and the client does not believe it.
#[test]
fn a_key_that_asks_for_too_much_work_is_refused_at_once() {
    let started = Instant::now();
    // scrypt: N = 16384, r = 8, p = 1 becomes r = 127: 254 MiB.
    let cost = [2, 2, 0x40, 0, 2, 1, 8, 2, 1, 1];
    for more in [
        [2, 2, 0x40, 0, 2, 1, 127, 2, 1, 1],
        [2, 2, 0x40, 0, 2, 1, 8, 2, 1, 127],
    ] {
        let error = private_key(&changed("scrypt.key", &cost, &more), Some(PASSWORD));
        assert_eq!(error.err(), Some(KeyError::TooMuchWork));
    }
    assert!(started.elapsed() < Duration::from_secs(30));
}

/// Any change of a byte gives an error or a key, but no panic and no long wait.
#[test]
fn damaged_keys_and_stores_are_refused() {
    for name in ["aes256-sha256.key", "scrypt.key", "pbe-rc2-40.key"] {
        let text = bytes(name);
        for place in (0..text.len()).step_by(17) {
            let mut damaged = text.clone();
            damaged[place] ^= 1;
            let _ = private_key(&damaged, Some(PASSWORD));
            let _ = private_key(&text[..place], Some(PASSWORD));
        }
    }
    for name in ["openssl3.p12", "openssl1.p12", "nothing.p12"] {
        let whole = bytes(name);
        let folder = std::env::temp_dir();
        let damaged = folder.join(format!("thalweg-{}-{name}", std::process::id()));
        for place in (0..whole.len()).step_by(13) {
            let mut changed = whole.clone();
            changed[place] ^= 0x11;
            for contents in [&changed[..], &whole[..place]] {
                std::fs::write(&damaged, contents).expect("a temporary file");
                let config = TlsConfig {
                    ca: Some(file("ca.pem")),
                    cert: Some(Pem::File(damaged.clone())),
                    password: Some(fixed(PASSWORD)),
                    ..TlsConfig::default()
                };
                let _ = config.prepare(&mut |_| unreachable!("the password is fixed"));
            }
        }
        std::fs::remove_file(damaged).expect("it was written");
    }
}

/// OpenSSL issues such certificates if nobody asks for extensions, and brokers accept them.
#[test]
fn a_certificate_of_the_old_version_is_compared_with_its_key() {
    let config = |key: &str| TlsConfig {
        cert: Some(file("version1.pem")),
        ..with_key(key, None)
    };
    let mut unasked = |_: &_| unreachable!("there is no password");
    config("plain.key").prepare(&mut unasked).expect("a pair");
    let (_, other) = certificate(&authority("ca"), "me", 1);
    let error = refused_settings(TlsConfig {
        key: Some(Pem::Inline(other.serialize_pem())),
        ..config("plain.key")
    });
    assert_eq!(
        error,
        "ssl_keyfile: the private key belongs to another certificate"
    );
}

/// Java writes EC keys without their public half.
#[tokio::test(start_paused = true)]
async fn a_key_without_its_public_half_is_completed_from_its_certificate() {
    for name in ["no-public.key", "no-public-sec1.key"] {
        let config = with_key(name, None);
        is_accepted(name, config.clone()).await;
        let (cert, _) = certificate(&authority("ca"), "me", 1);
        let error = refused_settings(TlsConfig {
            cert: Some(Pem::Inline(cert)),
            ..config
        });
        assert_eq!(
            error,
            "ssl_keyfile: the private key belongs to another certificate"
        );
    }
}

/// A client whose certificate comes from `cert` must be accepted by a broker that knows only the
/// root, so the chain has to be complete.
async fn is_accepted(name: &str, config: TlsConfig) {
    let ca = authority("ca");
    let root = CertificateDer::from_pem_slice(&bytes("ca.pem")).expect("PEM");
    let broker = broker(server_for(&ca, "broker", Some(root)));
    let config = TlsConfig {
        ca: trusting(&ca).ca,
        ..config
    };
    let result = outcome(&broker, config).await;
    result.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Scenario 50.
#[tokio::test(start_paused = true)]
async fn a_client_shows_the_chain_of_its_store() {
    for name in [
        "openssl1.p12",
        "openssl3.p12",
        "keytool.p12",
        "keytool-old.p12",
    ] {
        let config = TlsConfig {
            cert: Some(file(name)),
            password: Some(fixed(PASSWORD)),
            ..TlsConfig::default()
        };
        is_accepted(name, config.clone()).await;
        let by_java = TlsConfig {
            password: None,
            store_password: Some(fixed(PASSWORD)),
            ..config.clone()
        };
        is_accepted(name, by_java).await;
        let both = TlsConfig {
            key: Some(file(name)),
            ..config
        };
        is_accepted(name, both).await;
    }
    let config = TlsConfig {
        cert: Some(file("chain.pem")),
        key: Some(file("scrypt.key")),
        password: Some(fixed(PASSWORD)),
        ..TlsConfig::default()
    };
    is_accepted("scrypt.key", config).await;
}

#[test]
fn a_store_may_have_no_password() {
    for name in ["nothing.p12", "empty-password.p12"] {
        let config = TlsConfig {
            ca: Some(file("ca.pem")),
            cert: Some(file(name)),
            ..TlsConfig::default()
        };
        let result = config.prepare(&mut |_| unreachable!("there is no password"));
        result.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn authorities_may_be_in_a_store() {
    let config = TlsConfig {
        ca: Some(file("truststore.p12")),
        ca_password: Some(fixed(PASSWORD)),
        ..TlsConfig::default()
    };
    let mut unasked = |_: &_| unreachable!("the password is fixed");
    config.prepare(&mut unasked).expect("the password is right");
    let openssl = TlsConfig {
        ca: Some(file("certificates.p12")),
        ..config.clone()
    };
    openssl
        .prepare(&mut unasked)
        .expect("certificates of OpenSSL");
    // Only the certificate of its own key, and nobody's: the authorities are others.
    let own = TlsConfig {
        ca: Some(file("nothing.p12")),
        ..config
    };
    let error = own.prepare(&mut unasked).expect_err("no authority");
    assert!(
        error.to_string().contains("no certificate of an authority"),
        "{error}"
    );
}

fn with_key(name: &str, password: Option<KeyPassword>) -> TlsConfig {
    TlsConfig {
        cert: Some(file("chain.pem")),
        key: Some(file(name)),
        password,
        ..with_store("chain.pem", None)
    }
}

fn with_store(name: &str, password: Option<KeyPassword>) -> TlsConfig {
    TlsConfig {
        ca: Some(file("ca.pem")),
        cert: Some(file(name)),
        password,
        ..TlsConfig::default()
    }
}

fn with_authorities(name: &str, ca_password: Option<KeyPassword>) -> TlsConfig {
    TlsConfig {
        ca: Some(file(name)),
        ca_password,
        ..TlsConfig::default()
    }
}

/// Scenario 51.
#[test]
fn wrong_passwords_and_stores_are_named_and_not_shown() {
    const WRONG: &str = "battery staple";
    let wrong = || Some(fixed(WRONG));
    let java = TlsConfig {
        store_password: wrong(),
        ..with_store("keytool.p12", None)
    };
    for (config, option, part) in [
        (
            with_key("scrypt.key", wrong()),
            "ssl_keyfile",
            "the password in ssl_password does not decrypt the private key. Correct ssl_password",
        ),
        (
            with_key("scrypt.key", None),
            "ssl_keyfile",
            "no password for it: set ssl_password",
        ),
        (
            with_key("old.key", wrong()),
            "ssl_keyfile",
            "openssl pkcs8 -topk8",
        ),
        (
            with_store("openssl3.p12", wrong()),
            "ssl_certfile",
            "than that in ssl_password",
        ),
        (
            with_store("openssl1.p12", None),
            "ssl_certfile",
            "set ssl_password",
        ),
        (
            with_store("truststore.jks", wrong()),
            "ssl_certfile",
            "keytool -importkeystore",
        ),
        (java, "ssl_certfile", "than that in ssl_keystore_password"),
        (
            with_authorities("truststore.p12", wrong()),
            "ssl_cafile",
            "than that in ssl_truststore_password",
        ),
        (
            with_authorities("truststore.p12", None),
            "ssl_cafile",
            "set ssl_truststore_password",
        ),
        (
            with_authorities("truststore.jks", wrong()),
            "ssl_cafile",
            "keytool -importkeystore",
        ),
    ] {
        let error = refused_settings(config);
        assert!(error.starts_with(&format!("{option}: ")), "{error}");
        assert!(error.contains(part), "{part}: {error}");
        assert!(
            !error.contains(WRONG) && !error.contains(PASSWORD),
            "{error}"
        );
    }
    let without_key = refused_settings(with_store("certificates.p12", Some(fixed(PASSWORD))));
    assert!(without_key.contains("no private key"), "{without_key}");
}

/// Responds to each request, or keeps it unanswered.
pub(super) struct Supply {
    response: Option<Result<&'static str, &'static str>>,
    pub(super) calls: AtomicUsize,
    kept: Mutex<Vec<PasswordReply>>,
}

impl PasswordProvider for Supply {
    fn request(&self, reply: PasswordReply) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.response {
            None => self.kept.lock().expect("no panic").push(reply),
            Some(Ok(password)) => reply.send(Ok(Secret::new(password))),
            Some(Err(reason)) => reply.send(Err(TokenError::new(reason, None))),
        }
    }
}

pub(super) fn supplied(
    response: Option<Result<&'static str, &'static str>>,
) -> (Arc<Supply>, Option<KeyPassword>) {
    let supply = Arc::new(Supply {
        response,
        calls: AtomicUsize::new(0),
        kept: Mutex::default(),
    });
    let source = PasswordSource(Arc::clone(&supply) as Arc<dyn PasswordProvider>);
    (supply, Some(KeyPassword::Asked(source)))
}

/// Scenario 52.
#[test]
fn a_password_may_be_supplied_when_it_is_needed() {
    let long = Duration::from_secs(60);
    let settings = |cert: &str, key: Option<&str>, password, patience| ClientConfig {
        security_protocol: SecurityProtocol::Ssl,
        tls: TlsConfig {
            ca: Some(file("ca.pem")),
            cert: Some(file(cert)),
            key: key.map(file),
            password,
            ..TlsConfig::default()
        },
        socket_connection_setup_timeout_max: patience,
        ..ClientConfig::plaintext("h:1").expect("a good address")
    };
    for (cert, key, calls) in [
        ("chain.pem", Some("scrypt.key"), 1),
        ("openssl3.p12", None, 1),
        ("chain.pem", Some("plain.key"), 0),
    ] {
        let (supply, password) = supplied(Some(Ok(PASSWORD)));
        let parts = Parts::new(&settings(cert, key, password, long));
        assert!(parts.is_ok(), "{:?}", parts.err());
        assert_eq!(
            supply.calls.load(Ordering::Relaxed),
            calls,
            "{cert}, {key:?}"
        );
    }
    for (response, patience, text) in [
        (
            Some(Err("the function raised ValueError")),
            long,
            "ssl_password: the function raised ValueError",
        ),
        (
            None,
            Duration::from_millis(50),
            "ssl_password: the function returned no password within 0.05 s",
        ),
    ] {
        let (_supply, password) = supplied(response);
        let settings = settings("chain.pem", Some("scrypt.key"), password, patience);
        let error = Parts::new(&settings).err();
        assert_eq!(error, Some(ClientError::Configuration(text.to_owned())));
    }
}
