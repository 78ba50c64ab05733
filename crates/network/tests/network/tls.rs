//! TLS with certificates made for the test: trust, names, client certificates, revocation.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use thalweg_cluster::{ConnectionError, Idle};
use thalweg_network::tls::{Pem, TlsConfig};
use thalweg_network::{
    Client, ClientConfig, ClientError, Request, RequestTarget, SecurityProtocol,
};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::broker::{Broker, Reaction};
use crate::requests::heartbeat;

type Ca = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Ca {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA")
}

/// Makes a certificate and its key for a host, signed by `ca`.
fn certificate(ca: &Ca, host: &str, serial: u8) -> (String, KeyPair) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![host.to_owned()]).expect("a host name");
    params.serial_number = Some(SerialNumber::from(vec![serial]));
    (params.signed_by(&key, ca).expect("signed").pem(), key)
}

fn server(ca: &Ca, host: &str, clients: Option<&Ca>) -> TlsAcceptor {
    let (cert, key) = certificate(ca, host, 7);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring knows them");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca.der().clone()).expect("a CA");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.expect("a verifier"))
        }
    };
    let chain =
        vec![rustls::pki_types::CertificateDer::from_pem_slice(cert.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).expect("PEM");
    TlsAcceptor::from(Arc::new(
        builder.with_single_cert(chain, key).expect("a pair"),
    ))
}

/// Starts a broker behind TLS at "broker:9092".
fn broker(acceptor: TlsAcceptor) -> Broker {
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen("broker", 9092);
    let serving = broker.clone();
    tokio::spawn(async move {
        while let Some(stream) = listener.accept().await {
            let (acceptor, serving) = (acceptor.clone(), serving.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serving.connection(stream).await;
                }
            });
        }
    });
    broker
}

async fn outcome(broker: &Broker, tls: TlsConfig) -> Result<(), ClientError> {
    let security_protocol = SecurityProtocol::Ssl;
    let config = ClientConfig {
        security_protocol,
        tls,
        ..broker.config()
    };
    let client = Client::start_here(broker.parts(&config), Idle);
    let timeout = Some(Duration::from_secs(5));
    let request = Request {
        timeout,
        ..heartbeat(RequestTarget::LeastLoaded)
    };
    client.view().request(request).await.map(drop)
}

fn trusting(ca: &Ca) -> TlsConfig {
    TlsConfig {
        ca: Some(Pem::Inline(ca.pem())),
        ..TlsConfig::default()
    }
}

/// Returns the TLS error that ended the request, which must come quickly.
async fn refusal(broker: &Broker, tls: TlsConfig) -> String {
    let start = Instant::now();
    let error = outcome(broker, tls).await.expect_err("refused");
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "scenario 24: fails fast: {error}"
    );
    let ClientError::Connection(cause) = &error else {
        panic!("{error}")
    };
    assert!(
        matches!(**cause, ConnectionError::Tls { fatal: true, .. }),
        "{error}"
    );
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_trusted_broker_with_the_right_name_is_accepted() {
    let ca = authority("ca");
    let broker = broker(server(&ca, "broker", None));
    outcome(&broker, trusting(&ca)).await.expect("all is well");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_authority_is_refused() {
    let broker = broker(server(&authority("theirs"), "broker", None));
    let error = refusal(&broker, trusting(&authority("ours"))).await;
    assert!(
        error.contains("broker:9092") && error.contains("UnknownIssuer"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wrong_name_is_refused_unless_names_are_not_checked() {
    let ca = authority("ca");
    let broker = broker(server(&ca, "someone-else", None));
    let error = refusal(&broker, trusting(&ca)).await;
    assert!(error.contains("someone-else"), "{error}");
    let unchecked = TlsConfig {
        check_hostname: false,
        ..trusting(&ca)
    };
    outcome(&broker, unchecked)
        .await
        .expect("the chain is good");
}

#[tokio::test(start_paused = true)]
async fn without_name_checks_the_chain_is_still_checked() {
    let broker = broker(server(&authority("theirs"), "someone-else", None));
    let unchecked = TlsConfig {
        check_hostname: false,
        ..trusting(&authority("ours"))
    };
    refusal(&broker, unchecked).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_certificate_is_shown_when_asked_for() {
    let (ca, clients) = (authority("ca"), authority("clients"));
    let broker = broker(server(&ca, "broker", Some(&clients)));
    let error = refusal(&broker, trusting(&ca)).await;
    assert!(error.to_lowercase().contains("certificate"), "{error}");
    let (cert, key) = certificate(&clients, "me", 1);
    let separate = TlsConfig {
        cert: Some(Pem::Inline(cert.clone())),
        key: Some(Pem::Inline(key.serialize_pem())),
        ..trusting(&ca)
    };
    outcome(&broker, separate)
        .await
        .expect("the certificate is good");
    let together = cert + &key.serialize_pem();
    let one_file = TlsConfig {
        cert: Some(Pem::Inline(together)),
        ..trusting(&ca)
    };
    outcome(&broker, one_file)
        .await
        .expect("certificate and key in one PEM");
}

/// Makes a PEM list of `issuer` that revokes one serial number.
fn revocations(issuer: &Ca, serial: u8, until: i32) -> String {
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(until, 1, 1),
        crl_number: SerialNumber::from(vec![1]),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(vec![serial]),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params
        .signed_by(issuer)
        .expect("signed")
        .pem()
        .expect("PEM")
}

fn checking(ca: &Ca, lists: String) -> TlsConfig {
    TlsConfig {
        crl: Some(Pem::Inline(lists)),
        ..trusting(ca)
    }
}

/// Scenario 24.
#[tokio::test(start_paused = true)]
async fn a_revoked_certificate_is_refused() {
    let ca = authority("ca");
    let broker = broker(server(&ca, "broker", None));
    let list = |serial, until| checking(&ca, revocations(&ca, serial, until));
    outcome(&broker, list(99, 2090))
        .await
        .expect("another one is revoked");
    let error = refusal(&broker, list(7, 2090)).await;
    assert!(error.contains("Revoked"), "{error}");
    let error = refusal(&broker, list(99, 2021)).await;
    assert!(error.contains("evocation list expired"), "{error}");
}

/// A list that does not cover a certificate does not make it valid.
#[tokio::test(start_paused = true)]
async fn a_revocation_list_of_another_authority_lets_nobody_in() {
    let (ca, other) = (authority("ca"), authority("other"));
    let broker = broker(server(&ca, "broker", None));
    let error = refusal(&broker, checking(&ca, revocations(&other, 99, 2090))).await;
    assert!(error.contains("UnknownRevocationStatus"), "{error}");
    let both = revocations(&other, 99, 2090) + &revocations(&ca, 7, 2090);
    let error = refusal(&broker, checking(&ca, both)).await;
    assert!(error.contains("Revoked"), "{error}");
}

/// Returns the constructor's error.
fn refused_settings(tls: TlsConfig) -> String {
    let config = ClientConfig {
        security_protocol: SecurityProtocol::Ssl,
        tls,
        ..ClientConfig::plaintext("h:1").expect("a good address")
    };
    let error = thalweg_network::Parts::new(&config).err();
    error.expect("a bad setting").to_string()
}

#[test]
fn a_revocation_list_that_is_none_is_refused_at_once() {
    let ca = authority("ca");
    for nothing in ["", "no list at all", &ca.pem()] {
        let config = TlsConfig {
            crl: Some(Pem::Inline(nothing.to_owned())),
            ..trusting(&ca)
        };
        let error = refused_settings(config);
        assert!(error.contains("ssl_crlfile"), "{error}");
        assert!(error.contains("BEGIN X509 CRL"), "{error}");
    }
}

#[test]
fn a_revocation_list_that_cannot_be_read_is_named_by_its_option() {
    let ca = authority("ca");
    let good = revocations(&ca, 99, 2090);
    let block = |body: &str| format!("-----BEGIN X509 CRL-----\n{body}\n-----END X509 CRL-----\n");
    let unended = "-----BEGIN X509 CRL-----\nMAA=\n".to_owned();
    for bad in [block("MAA="), block("?"), block(""), unended] {
        // A good list beside it does not help: nobody knows what the bad one would have revoked.
        for lists in [bad.clone(), good.clone() + &bad] {
            let error = refused_settings(checking(&ca, lists.clone()));
            assert!(error.starts_with("ssl_crlfile: "), "{error}, of {lists}");
        }
    }
}

/// For example, an environment variable contains a key that has lost its line breaks.
#[test]
fn a_key_on_one_line_is_not_shown() {
    let ca = authority("ca");
    let (cert, key) = certificate(&ca, "client", 8);
    let line = key.serialize_pem().replace('\n', " ");
    let bytes = format!("{:?}", &line.as_bytes()[28..40]);
    let body = key.serialize_pem();
    let unended = body[..body.len() - 20].to_owned();
    for text in [line, unended] {
        let error = refused_settings(TlsConfig {
            cert: Some(Pem::Inline(cert.clone())),
            key: Some(Pem::Inline(text.clone())),
            ..trusting(&ca)
        });
        assert!(error.starts_with("ssl_keyfile: "), "{error}");
        assert!(!error.contains(&text[28..40]), "{error}");
        assert!(!error.contains(bytes.trim_matches(['[', ']'])), "{error}");
        assert!(!error.contains("45, 45"), "no bytes as numbers: {error}");
    }
}

#[test]
fn key_text_without_its_first_line_is_not_shown() {
    let ca = authority("ca");
    let (cert, key) = certificate(&ca, "client", 8);
    let pem = key.serialize_pem();
    let body: Vec<&str> = pem
        .lines()
        .filter(|line| !line.starts_with("---"))
        .collect();
    let joined = body.join("");
    let urlsafe = joined.replace('+', "-").replace('/', "_");
    let quoted = format!("'{joined}'");
    for text in [body.join("\n"), body.join(" "), joined, urlsafe, quoted] {
        let config = TlsConfig {
            cert: Some(Pem::Inline(cert.clone())),
            key: Some(Pem::File(text.clone().into())),
            ..trusting(&ca)
        };
        let error = refused_settings(config);
        assert!(error.starts_with("ssl_keyfile: is neither"), "{error}");
        assert!(!error.contains(&text[..20]), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plaintext_port_gets_a_hint() {
    // A broker that reads the client's hello as a length closes the connection, as Kafka does.
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen("broker", 9092);
    tokio::spawn(async move { while listener.accept().await.is_some() {} });
    let error = outcome(&broker, trusting(&authority("ca")))
        .await
        .expect_err("no TLS there");
    assert!(error.to_string().contains("plaintext port"), "{error}");
}

#[test]
fn all_files_that_cannot_be_read_are_named_at_once() {
    let file = |name: &str| Some(Pem::File(name.into()));
    let error = refused_settings(TlsConfig {
        ca: file("/no/ca"),
        cert: file("/no/cert"),
        key: file("/no/key"),
        crl: file("/no/crl"),
        check_hostname: true,
    });
    for part in [
        "ssl_cafile: /no/ca",
        "ssl_certfile: /no/cert",
        "ssl_keyfile: /no/key",
        "ssl_crlfile: /no/crl",
    ] {
        assert!(error.contains(part), "{error} should contain {part}");
    }
}

#[test]
fn bad_settings_fail_in_the_constructor_and_name_their_option() {
    let ca = authority("ca");
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let (cert, _) = certificate(&ca, "me", 1);
    let inline = |text: &str| Some(Pem::Inline(text.to_owned()));
    let cases = [
        (
            TlsConfig {
                ca: inline("no PEM"),
                ..TlsConfig::default()
            },
            "ssl_cafile",
        ),
        (
            TlsConfig {
                ca: Some(Pem::File("/no/such/file".into())),
                ..TlsConfig::default()
            },
            "/no/such/file",
        ),
        (
            TlsConfig {
                cert: inline(&cert),
                key: inline(encrypted),
                ..trusting(&ca)
            },
            "encrypted",
        ),
        (
            TlsConfig {
                cert: inline(&cert),
                ..trusting(&ca)
            },
            "private key",
        ),
        (
            TlsConfig {
                key: inline("x"),
                ..trusting(&ca)
            },
            "ssl_certfile",
        ),
    ];
    for (tls, part) in cases {
        let config = ClientConfig {
            security_protocol: SecurityProtocol::Ssl,
            tls,
            ..ClientConfig::plaintext("h:1").expect("a good address")
        };
        let error = thalweg_network::Parts::new(&config)
            .err()
            .expect("a bad setting");
        assert!(
            error.to_string().contains(part),
            "{error} should contain {part}"
        );
        assert!(matches!(error, ClientError::Configuration(_)));
    }
}
