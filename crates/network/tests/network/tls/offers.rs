//! What the client offers and shows: versions, cipher suites, curves, its certificate.

use std::sync::{Arc, Mutex};

use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion};
use thalweg_network::tls::{Offer, Pem, TlsConfig};

use super::{Ca, Seen, Server, authority, broker, certificate, outcome, refusal, refused_settings};
use super::{seeing, server, trusting};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn offering(ca: &Ca, offer: Offer) -> TlsConfig {
    TlsConfig {
        offer,
        ..trusting(ca)
    }
}

fn last(seen: &Arc<Mutex<Vec<Seen>>>) -> Seen {
    seen.lock()
        .expect("no panic")
        .last()
        .expect("a handshake")
        .clone()
}

/// Scenario 54.
#[tokio::test(start_paused = true)]
async fn only_what_is_configured_is_offered() {
    let ca = authority("ca");
    let (broker, seen) = seeing(server(&ca, "broker", None));
    let offer = Offer {
        protocols: names(&["TLSv1.2"]),
        ciphers: names(&["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"]),
        curves: names(&["P-384"]),
    };
    outcome(&broker, offering(&ca, offer))
        .await
        .expect("both have them");
    let Seen {
        version,
        suite,
        curve,
        ..
    } = last(&seen);
    assert_eq!(version, Some(ProtocolVersion::TLSv1_2));
    let chacha = CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256;
    assert_eq!(suite, Some(chacha));
    assert_eq!(curve, Some(NamedGroup::secp384r1));
    let offer = Offer {
        ciphers: names(&["TLS_AES_128_GCM_SHA256"]),
        ..Offer::default()
    };
    outcome(&broker, offering(&ca, offer))
        .await
        .expect("both have it");
    assert_eq!(last(&seen).version, Some(ProtocolVersion::TLSv1_3));
    assert_eq!(
        last(&seen).suite,
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256)
    );
}

/// Scenario 54.
#[tokio::test(start_paused = true)]
async fn nothing_in_common_is_an_error_that_says_what_the_client_offers() {
    let ca = authority("ca");
    let with = |change: fn(&mut Server)| {
        let mut server = Server::of(certificate(&ca, "broker", 7));
        change(&mut server);
        broker(server.acceptor())
    };
    let old = || Offer {
        protocols: names(&["TLSv1.2"]),
        ..Offer::default()
    };
    let new = || Offer {
        protocols: names(&["TLSv1.3"]),
        ..Offer::default()
    };
    let rsa = || Offer {
        ciphers: names(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]),
        ..Offer::default()
    };
    let curve = || Offer {
        curves: names(&["P-384"]),
        ..Offer::default()
    };
    for (broker, offer, part) in [
        (
            with(|server| server.versions = vec![&TLS13]),
            old(),
            "versions TLSv1.2 (ssl_enabled_protocols)",
        ),
        (
            with(|server| server.versions = vec![&TLS12]),
            new(),
            "versions TLSv1.3 (ssl_enabled_protocols)",
        ),
        (
            with(|_| {}),
            rsa(),
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 (ssl_ciphers)",
        ),
        (
            with(|server| server.provider.kx_groups.truncate(1)),
            curve(),
            "P-384 (ssl_curves_list)",
        ),
    ] {
        let error = refusal(&broker, offering(&ca, offer)).await;
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn suites_without_a_version_and_unknown_names_are_refused_in_the_constructor() {
    let ca = authority("ca");
    let offer = Offer {
        protocols: names(&["TLSv1.3"]),
        ciphers: names(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]),
        ..Offer::default()
    };
    let error = refused_settings(offering(&ca, offer));
    assert!(
        error.starts_with("ssl_ciphers: none of these suites"),
        "{error}"
    );
    let offer = Offer {
        curves: names(&["P-521"]),
        ..Offer::default()
    };
    let error = refused_settings(offering(&ca, offer));
    assert_eq!(
        error,
        "ssl_curves_list: P-521 is not one of X25519, P-256, P-384"
    );
}

/// Scenario 55.
#[tokio::test(start_paused = true)]
async fn without_verification_every_certificate_is_accepted() {
    let broker = broker(server(&authority("theirs"), "someone-else", None));
    let config = trusting(&authority("ours"));
    refusal(&broker, config.clone()).await;
    let config = TlsConfig {
        verify: false,
        ..config
    };
    outcome(&broker, config).await.expect("nothing is verified");
}

#[tokio::test(start_paused = true)]
async fn authorities_may_be_files_in_a_folder() {
    let (ca, other) = (authority("ca"), authority("other"));
    let folder = std::env::temp_dir().join(format!("thalweg-authorities-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("below")).expect("a temporary folder");
    let write = |name: &str, text: &[u8]| {
        std::fs::write(folder.join(name), text).expect("a temporary file");
    };
    write("a.pem", other.pem().as_bytes());
    write("b.pem", ca.pem().as_bytes());
    write("1234abcd.0", ca.pem().as_bytes());
    write("README", b"no certificate");
    write("store.p12", &[0x30, 0x82, 0, 0]);
    let config = TlsConfig {
        ca: Some(Pem::File(folder.clone())),
        ..TlsConfig::default()
    };
    let broker = broker(server(&ca, "broker", None));
    outcome(&broker, config.clone())
        .await
        .expect("one of them is the right one");
    // OpenSSL, too, takes only files with such names.
    write("1234abcd.0", other.pem().as_bytes());
    refusal(&broker, config.clone()).await;
    write("1234abcd.0", b"no certificate");
    assert!(refused_settings(config.clone()).contains("is a folder without PEM certificates"));
    std::fs::remove_file(folder.join("1234abcd.0")).expect("it was written");
    outcome(&broker, config.clone())
        .await
        .expect("without hashes, all files count");
    for name in ["a.pem", "b.pem"] {
        std::fs::remove_file(folder.join(name)).expect("it was written");
    }
    let error = refused_settings(config);
    std::fs::remove_dir_all(folder).expect("it was made");
    assert!(
        error.contains("is a folder without PEM certificates"),
        "{error}"
    );
}

/// Scenario 56.
#[tokio::test(start_paused = true)]
async fn a_certificate_is_shown_only_to_brokers_that_name_its_authority() {
    let (ca, ours, theirs) = (authority("ca"), authority("ours"), authority("theirs"));
    let (cert, key) = certificate(&ours, "me", 1);
    let config = TlsConfig {
        cert: Some(Pem::Inline(cert + &key.serialize_pem())),
        ..trusting(&ca)
    };
    for version in [&TLS12, &TLS13] {
        let start = |authority: &Ca, names_it: bool| {
            let mut server = Server::of(certificate(&ca, "broker", 7));
            server.versions = vec![version];
            let clients = server.wanting(authority.der().clone(), |builder| {
                let builder = builder.allow_unauthenticated();
                if names_it {
                    builder
                } else {
                    builder.clear_root_hint_subjects()
                }
            });
            seeing(clients.acceptor())
        };
        for (authority, names_it, is_shown) in [
            (&ours, true, true),
            (&theirs, true, false),
            (&ours, false, true),
        ] {
            let (broker, seen) = start(authority, names_it);
            outcome(&broker, config.clone())
                .await
                .expect("a certificate is not required");
            assert_eq!(last(&seen).client.is_some(), is_shown);
        }
    }
}

/// Scenario 57.
#[tokio::test(start_paused = true)]
async fn sessions_are_resumed_but_not_across_configurations() {
    use rustls::HandshakeKind;
    use thalweg_network::{ClientConfig, SecurityProtocol};

    let ca = authority("ca");
    for version in [&TLS12, &TLS13] {
        let mut server = Server::of(certificate(&ca, "broker", 7));
        server.versions = vec![version];
        let (broker, seen) = seeing(server.acceptor());
        let prepared = trusting(&ca).prepare(&mut |_| unreachable!("no password"));
        let prepared = prepared.expect("good settings");
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            // Clients never share what was prepared. This stands for two connections of one.
            let config = ClientConfig {
                security_protocol: SecurityProtocol::Ssl,
                tls_prepared: Some(prepared.clone()),
                ..broker.config()
            };
            super::heartbeat_of(&broker, &config)
                .await
                .expect("all is well");
            assert_eq!(last(&seen).kind, Some(kind));
        }
        // The same settings, but another client. An unverified session must not become a verified
        // one, and nobody compares the settings.
        outcome(&broker, trusting(&ca)).await.expect("all is well");
        assert_eq!(last(&seen).kind, Some(HandshakeKind::Full));
    }
}
