//! Opening connections: addresses, `ApiVersions`, SASL, and the errors when it fails.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use thalweg_cluster::{Address, ConnectionError, Idle};
use thalweg_network::sasl::{SaslConfig, Secret};
use thalweg_network::{Client, ClientConfig, ClientError, RequestTarget, SecurityProtocol};
use thalweg_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse,
};
use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};
use thalweg_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use thalweg_protocol::{ApiKey, ErrorCode, Str};
use tokio::time::Instant;

use crate::broker::{Broker, Got, Reaction, all_versions, metadata};
use crate::requests::heartbeat;

/// What a client with this configuration gets within its timeout.
pub(crate) async fn outcome(broker: &Broker, config: &ClientConfig) -> Result<(), ClientError> {
    let client = Client::start_here(broker.parts(config), Idle);
    let request = thalweg_network::Request {
        timeout: Some(Duration::from_secs(5)),
        ..heartbeat(RequestTarget::LeastLoaded)
    };
    client.view().request(request).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn says_who_we_are() {
    let broker = Broker::usual();
    outcome(&broker, &broker.config()).await.expect("it works");
    let got = broker.got(ApiKey::API_VERSIONS);
    assert_eq!(got.len(), 1);
    let request: ApiVersionsRequest = got[0].decode();
    assert_eq!(&*request.client_software_name, "thalweg");
    assert!(!request.client_software_version.is_empty(), "KIP-511");
}

/// An old broker's response to an unknown version: version 0, error 35.
fn too_new(got: &Got, api_keys: Vec<ApiVersion>) -> Reaction {
    let error_code = ErrorCode::UNSUPPORTED_VERSION.0;
    let response = ApiVersionsResponse {
        error_code,
        api_keys,
        ..ApiVersionsResponse::default()
    };
    Got {
        version: 0,
        ..got.clone()
    }
    .respond(&response)
}

#[tokio::test(start_paused = true)]
async fn falls_back_to_the_version_that_an_older_broker_names() {
    let broker = Broker::start(|got| match (got.key, got.version) {
        (ApiKey::API_VERSIONS, 3..) => {
            let known = ApiVersion {
                api_key: 18,
                min_version: 0,
                max_version: 2,
            };
            too_new(got, vec![known])
        }
        _ => Reaction::Usual,
    });
    outcome(&broker, &broker.config()).await.expect("it works");
    let asked: Vec<i16> = broker
        .got(ApiKey::API_VERSIONS)
        .iter()
        .map(|got| got.version)
        .collect();
    assert_eq!(asked[1..], [2], "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn falls_back_to_version_0_if_the_broker_names_none() {
    let broker = Broker::start(|got| match (got.key, got.version) {
        (ApiKey::API_VERSIONS, 1..) => too_new(got, Vec::new()),
        _ => Reaction::Usual,
    });
    outcome(&broker, &broker.config()).await.expect("it works");
}

#[tokio::test(start_paused = true)]
async fn foreign_servers_are_named_with_their_address() {
    for (bytes, part) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], "HTTP"),
        (b"SSH-2.0-x\r\n", "SSH"),
    ] {
        let broker = Broker::start(|_| Reaction::Bytes(bytes.to_vec()));
        let error = outcome(&broker, &broker.config())
            .await
            .expect_err("no broker");
        let ClientError::NoBrokersAvailable(causes) = &error else {
            panic!("{error}")
        };
        assert_eq!(causes[0].0, Address::new("broker", 9092));
        assert!(
            causes[0].1.contains(part) && causes[0].1.contains("broker:9092"),
            "{error}"
        );
    }
}

/// Scenario 9.
#[tokio::test(start_paused = true)]
async fn a_tls_port_is_recognised_at_once() {
    let start = Instant::now();
    let broker = Broker::start(|_| Reaction::Bytes(vec![0x15, 3, 3, 0, 2, 2, 80]));
    let error = outcome(&broker, &broker.config())
        .await
        .expect_err("a TLS port");
    assert!(
        matches!(&error, ClientError::Connection(cause) if cause.is_fatal()),
        "{error}"
    );
    assert!(error.to_string().contains("security_protocol"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_closes_gets_a_hint() {
    let broker = Broker::start(|_| Reaction::BytesThenClose(Vec::new()));
    let error = outcome(&broker, &broker.config())
        .await
        .expect_err("it closes");
    assert!(error.to_string().contains("TLS port"), "{error}");
    // A SASL listener responds to ApiVersions, then closes on any request other than SASL.
    let broker = Broker::start(|got| match got.key {
        ApiKey::API_VERSIONS => Reaction::Usual,
        _ => Reaction::BytesThenClose(Vec::new()),
    });
    let error = outcome(&broker, &broker.config())
        .await
        .expect_err("it closes");
    assert!(
        error
            .to_string()
            .contains("is PLAINTEXT. If so, set it to SASL_PLAINTEXT"),
        "{error}"
    );
}

/// Scenarios 12 and 23.
#[tokio::test(start_paused = true)]
async fn a_silent_address_gives_way_to_the_next_one() {
    let broker = Broker::new(|_| Reaction::Usual);
    let ip = |last| IpAddr::V4(Ipv4Addr::new(10, 9, 9, last));
    broker.network.set_host("broker", vec![ip(1), ip(2), ip(3)]);
    broker.network.set_unreachable(SocketAddr::new(ip(1), 9092));
    let listener = broker.network.listen_on(SocketAddr::new(ip(3), 9092));
    broker.serve(listener);
    let mut config = broker.config();
    config.socket_connection_setup_timeout = Duration::from_secs(2);
    // 10.9.9.1 is silent until the setup timeout, 10.9.9.2 refuses, 10.9.9.3 accepts.
    outcome(&broker, &config)
        .await
        .expect("the third address works");
}

/// Scenario 23.
#[tokio::test(start_paused = true)]
async fn an_unknown_host_is_named() {
    let broker = Broker::usual();
    let mut config = broker.config();
    config.bootstrap_servers = vec![Address::new("nowhere", 9092), Address::new("void", 1)];
    let error = outcome(&broker, &config).await.expect_err("nobody there");
    let ClientError::NoBrokersAvailable(causes) = &error else {
        panic!("{error}")
    };
    assert_eq!(causes.len(), 2);
    assert!(
        causes
            .iter()
            .all(|(address, cause)| cause.contains(&address.host)),
        "{error}"
    );
}

pub(crate) fn sasl_config(broker: &Broker) -> ClientConfig {
    let plain = SaslConfig::Plain {
        username: "alice".to_owned(),
        password: Secret::new("s3cret"),
    };
    ClientConfig {
        security_protocol: SecurityProtocol::SaslPlaintext,
        sasl: Some(plain),
        ..broker.config()
    }
}

/// A broker with SASL that has one user, alice.
pub(crate) fn sasl_broker() -> Broker {
    Broker::start(|got| match got.key {
        ApiKey::SASL_HANDSHAKE => {
            let request: SaslHandshakeRequest = got.decode();
            assert_eq!(&*request.mechanism, "PLAIN");
            got.respond(&SaslHandshakeResponse::default())
        }
        ApiKey::SASL_AUTHENTICATE => {
            let request: SaslAuthenticateRequest = got.decode();
            let mut response = SaslAuthenticateResponse::default();
            if &request.auth_bytes[..] != b"\0alice\0s3cret" {
                response.error_code = ErrorCode::SASL_AUTHENTICATION_FAILED.0;
                response.error_message = Some(Str::from("Invalid credentials for alice"));
            }
            got.respond(&response)
        }
        _ => Reaction::Usual,
    })
}

#[tokio::test(start_paused = true)]
async fn authenticates_before_anything_else() {
    let broker = sasl_broker();
    outcome(&broker, &sasl_config(&broker))
        .await
        .expect("the password is right");
    let got = broker.got.lock().expect("never poisoned");
    let order: Vec<ApiKey> = got.iter().take(4).map(|got| got.key).collect();
    let expected = [
        ApiKey::API_VERSIONS,
        ApiKey::SASL_HANDSHAKE,
        ApiKey::SASL_AUTHENTICATE,
        ApiKey::METADATA,
    ];
    assert_eq!(order, expected);
    assert!(
        got[1].version >= 1,
        "version 0 would be followed by raw tokens"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_fails_at_once_with_the_brokers_words_only() {
    let broker = sasl_broker();
    let mut config = sasl_config(&broker);
    let password = Secret::new("hunter2");
    config.sasl = Some(SaslConfig::Plain {
        username: "alice".to_owned(),
        password,
    });
    let start = Instant::now();
    let error = outcome(&broker, &config)
        .await
        .expect_err("a wrong password");
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "scenario 25: no timeout"
    );
    let ClientError::Connection(cause) = &error else {
        panic!("{error}")
    };
    assert!(matches!(**cause, ConnectionError::Authentication { .. }));
    assert!(
        error.to_string().contains("Invalid credentials for alice"),
        "{error}"
    );
    assert!(!format!("{error:?} {error} {config:?}").contains("hunter2"));
}

#[tokio::test(start_paused = true)]
async fn a_mechanism_that_is_not_offered_is_refused_with_those_that_are() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::SASL_HANDSHAKE => got.respond(&SaslHandshakeResponse {
            error_code: ErrorCode::UNSUPPORTED_SASL_MECHANISM.0,
            mechanisms: vec![Str::from("SCRAM-SHA-256"), Str::from("GSSAPI")],
        }),
        _ => Reaction::Usual,
    });
    let error = outcome(&broker, &sasl_config(&broker))
        .await
        .expect_err("not offered");
    assert!(
        error.to_string().contains("SCRAM-SHA-256, GSSAPI"),
        "{error}"
    );
}

/// After version 0, tokens without a header would follow.
#[tokio::test(start_paused = true)]
async fn a_broker_with_only_version_0_of_the_handshake_is_refused() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::API_VERSIONS => {
            let mut versions = all_versions();
            for each in &mut versions.api_keys {
                if each.api_key == ApiKey::SASL_HANDSHAKE.0 {
                    each.max_version = 0;
                }
            }
            got.respond(&versions)
        }
        _ => Reaction::Usual,
    });
    let error = outcome(&broker, &sasl_config(&broker))
        .await
        .expect_err("too old");
    assert!(error.to_string().contains("only version 0"), "{error}");
    assert!(broker.got(ApiKey::SASL_HANDSHAKE).is_empty());
}

#[test]
fn contradictions_are_all_named_at_once() {
    let config = ClientConfig {
        security_protocol: SecurityProtocol::SaslSsl,
        ..ClientConfig::default()
    };
    let text = config.check().expect_err("two problems").to_string();
    assert!(
        text.contains("bootstrap_servers") && text.contains("sasl_mechanism"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn scenario_22_all_brokers_gone_then_rebootstrap() {
    // The cluster moves: every broker goes, and the bootstrap name gets another address.
    let old = Broker::new(|got| match got.key {
        ApiKey::METADATA => got.respond(&metadata(got, "old-1", 9092)),
        _ => Reaction::Usual,
    });
    let ip = |last| IpAddr::V4(Ipv4Addr::new(10, 9, 9, last));
    let network = old.network.clone();
    network.set_host("broker", vec![ip(1)]);
    network.set_host("old-1", vec![ip(1)]);
    old.serve(network.listen_on(SocketAddr::new(ip(1), 9092)));
    let client = Client::start_here(old.parts(&old.config()), Idle);
    let ask = || client.view().request(heartbeat(RequestTarget::LeastLoaded));
    ask().await.expect("the old cluster responds");

    // Nobody listens there any more, and existing connections break.
    drop(network.listen_on(SocketAddr::new(ip(1), 9092)));
    old.hang_up();
    let mut new = Broker::new(|got| match got.key {
        ApiKey::METADATA => got.respond(&metadata(got, "new-1", 9092)),
        _ => Reaction::Usual,
    });
    new.network = network.clone();
    network.set_host("new-1", vec![ip(2)]);
    network.set_host("broker", vec![ip(2)]);
    new.serve(network.listen_on(SocketAddr::new(ip(2), 9092)));
    // A request in flight fails with its connection. The client itself continues.
    let mut response = ask().await;
    for _ in 0..10 {
        if response.is_err() {
            response = ask().await;
        }
    }
    response.expect("the same client finds the new cluster");
    assert!(!new.got(ApiKey::HEARTBEAT).is_empty());
}
