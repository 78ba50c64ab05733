//! Which brokers the client trusts, and how it shows its own certificate.

use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber,
    date_time_ymd,
};
use thalweg_cluster::Address;
use thalweg_network::tls::{Pem, TlsConfig};
use thalweg_network::{ClientConfig, ClientError, SecurityProtocol};

use super::{
    Ca, Seen, Server, authority, broker, certificate, heartbeat_of, leaf_that_signs, outcome,
    refusal, refused_settings, seeing_at, self_signed, server, trusting,
};
use crate::broker::{Broker, Reaction};

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
        error.contains("broker:9092") && error.contains("issuer is unknown"),
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

/// The client checks the name that it is configured with, and never the address of that name.
#[tokio::test(start_paused = true)]
async fn names_are_matched_as_in_browsers() {
    let ca = authority("ca");
    for (host, name, sni) in [
        ("kafka.example", "kafka.example", Some("kafka.example")),
        ("kafka.example.", "kafka.example", Some("kafka.example")),
        ("KAFKA.example", "kafka.example", Some("kafka.example")),
        (
            "a.kafka.example",
            "*.kafka.example",
            Some("a.kafka.example"),
        ),
        ("10.1.2.3", "10.1.2.3", None),
        ("2001:db8::1", "2001:db8::1", None),
    ] {
        let (seen, _) = connected(&ca, host, name).await;
        let seen = seen.unwrap_or_else(|| panic!("{host} with {name}"));
        assert_eq!(
            seen.name.map(|name| name.to_lowercase()).as_deref(),
            sni,
            "{host}"
        );
    }
    for (host, name) in [
        ("kafka.example", "kafka.test"),
        ("b.a.kafka.example", "*.kafka.example"),
        ("kafka.example", "*.kafka.example"),
        ("kafka.example", "*.example"), // a wildcard for everything below one label
        ("10.1.2.3", "10.1.2.4"),
        ("kafka.example", "10.0.0.1"), // the address of the name
        ("2001:db8::1", "2001:db8::2"),
    ] {
        let (seen, error) = connected(&ca, host, name).await;
        assert!(seen.is_none(), "{host} with {name}");
        let shown = host.trim_end_matches('.');
        let wanted = format!("not valid for the host name \"{shown}\"");
        assert!(
            error.contains(&wanted) && error.contains(name),
            "{host}: {error}"
        );
    }
}

/// Connects to a host whose certificate has this name. Returns the handshake, if there was one.
async fn connected(ca: &Ca, host: &str, name: &str) -> (Option<Seen>, String) {
    let (broker, seen) = seeing_at(host, server(ca, name, None));
    let config = ClientConfig {
        bootstrap_servers: vec![Address::new(host, 9092)],
        security_protocol: SecurityProtocol::Ssl,
        tls: trusting(ca),
        ..broker.config()
    };
    let error = heartbeat_of(&broker, &config).await.err();
    let seen = seen.lock().expect("no panic").first().cloned();
    (
        seen,
        error.map_or_else(String::new, |error| error.to_string()),
    )
}

/// A file or folder of authorities often also has the client's own certificate.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_is_no_authority_cannot_issue_others() {
    let ca = authority("ca");
    let leaf = leaf_that_signs(&ca);
    let broker = broker(server(&leaf, "broker", None));
    let both = format!("{}{}", ca.pem(), leaf.pem());
    let tls = TlsConfig {
        ca: Some(Pem::Inline(both)),
        ..trusting(&ca)
    };
    let error = refusal(&broker, tls).await;
    assert!(error.contains("issuer is unknown"), "{error}");
    let alone = TlsConfig {
        ca: Some(Pem::Inline(leaf.pem())),
        ..trusting(&ca)
    };
    let error = refused_settings(alone);
    assert!(error.contains("no certificate of an authority"), "{error}");
}

/// The key of a broker whose certificate is pinned must not issue certificates for others.
#[tokio::test(start_paused = true)]
async fn a_pinned_certificate_is_good_only_as_the_brokers_own() {
    let pinned = self_signed("broker");
    let key = KeyPair::from_pem(&pinned.key().serialize_pem()).expect("its own key");
    let own = broker(Server::of((pinned.pem(), key)).acceptor());
    outcome(&own, trusting(&pinned))
        .await
        .expect("it is the broker's own");
    // Names and dates count as usual.
    let elsewhere = self_signed("elsewhere");
    let key = KeyPair::from_pem(&elsewhere.key().serialize_pem()).expect("its own key");
    let other = broker(Server::of((elsewhere.pem(), key)).acceptor());
    let error = refusal(&other, trusting(&elsewhere)).await;
    assert!(error.contains("elsewhere"), "{error}");
    let any_name = TlsConfig {
        check_hostname: false,
        ..trusting(&elsewhere)
    };
    outcome(&other, any_name).await.expect("any name");
    // What it has signed is refused, whatever else the client trusts and does not check.
    let forged = broker(server(&pinned, "broker", None));
    let both = format!("{}{}", pinned.pem(), authority("ca").pem());
    for ca in [pinned.pem(), both] {
        for check_hostname in [true, false] {
            let tls = TlsConfig {
                ca: Some(Pem::Inline(ca.clone())),
                check_hostname,
                ..trusting(&pinned)
            };
            let error = refusal(&forged, tls).await;
            assert!(
                error.contains("issuer is unknown") && error.contains("cannot issue others"),
                "{error}"
            );
        }
    }
}

/// A certificate may have the name of the authority that issued it.
#[tokio::test(start_paused = true)]
async fn a_certificate_with_the_name_of_its_issuer_is_no_authority() {
    let ca = authority("a leaf");
    let leaf = leaf_that_signs(&ca);
    let broker = broker(server(&leaf, "broker", None));
    let error = refusal(&broker, trusting(&leaf)).await;
    assert!(error.contains("issuer is unknown"), "{error}");
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
    assert!(error.contains("is revoked by a list"), "{error}");
    let error = refusal(&broker, list(99, 2021)).await;
    assert!(
        error.contains("revocation list in ssl_crlfile expired on 2021-01-01"),
        "{error}"
    );
}

/// A list that does not cover a certificate does not make it valid.
#[tokio::test(start_paused = true)]
async fn a_revocation_list_of_another_authority_lets_nobody_in() {
    let (ca, other) = (authority("ca"), authority("other"));
    let broker = broker(server(&ca, "broker", None));
    let error = refusal(&broker, checking(&ca, revocations(&other, 99, 2090))).await;
    assert!(error.contains("no list in ssl_crlfile says"), "{error}");
    let both = revocations(&other, 99, 2090) + &revocations(&ca, 7, 2090);
    let error = refusal(&broker, checking(&ca, both)).await;
    assert!(error.contains("is revoked by a list"), "{error}");
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
        ..TlsConfig::default()
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
