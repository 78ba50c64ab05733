//! Peers that violate TLS (hostile peers 8 and 9).

use std::time::{Duration, Instant};

use rcgen::{CertificateParams, GeneralSubtree, KeyPair, NameConstraints};
use thalweg_cluster::ConnectionError;
use thalweg_network::ClientError;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Server, authority, broker, certificate, outcome, refusal, trusting};
use crate::broker::{Broker, Reaction};

/// Starts a peer that sends these bytes after the client's hello, and then closes.
fn sending(bytes: Vec<u8>) -> Broker {
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen("broker", 9092);
    tokio::spawn(async move {
        while let Some(mut stream) = listener.accept().await {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut hello = [0; 64];
                let _ = stream.read(&mut hello).await;
                assert_eq!(hello[0], 0x16, "the client never sends plaintext");
                let _ = stream.write_all(&bytes).await;
                let _ = stream.flush().await;
            });
        }
    });
    broker
}

/// Returns a `ServerHello` without extensions.
fn server_hello(version: [u8; 2], random: [u8; 32], suite: [u8; 2]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend(random);
    body.push(0);
    body.extend(suite);
    body.push(0);
    let length = body.len() as u8;
    let mut record = vec![0x16, 3, 3, 0, length + 4, 2, 0, 0, length];
    record.extend(body);
    record
}

async fn failure(broker: &Broker) -> (String, bool) {
    let error = outcome(broker, trusting(&authority("ca")))
        .await
        .expect_err("a hostile peer");
    match error {
        ClientError::Connection(cause) => match &*cause {
            ConnectionError::Tls { fatal, .. } => (cause.to_string(), *fatal),
            other => panic!("{other}"),
        },
        other => (other.to_string(), false),
    }
}

/// Hostile peer 8.
#[tokio::test(start_paused = true)]
async fn old_versions_and_downgrades_are_refused() {
    let suite = [0xc0, 0x2b];
    let mut downgrade = [7; 32];
    downgrade[24..].copy_from_slice(b"DOWNGRD\x01");
    for (hello, part) in [
        (server_hello([3, 1], [7; 32], suite), "no TLS version"),
        (server_hello([3, 2], [7; 32], suite), "no TLS version"),
        (server_hello([3, 0], [7; 32], suite), "no TLS version"),
        (server_hello([3, 3], downgrade, suite), "AttemptedDowngrade"),
        (server_hello([3, 3], [7; 32], [0, 0x2f]), "Suite"),
        (vec![0x15, 3, 3, 0, 2, 2, 70], "ProtocolVersion"),
        (vec![0x15, 3, 3, 0, 2, 2, 40], "HandshakeFailure"),
    ] {
        let (error, is_fatal) = failure(&sending(hello)).await;
        assert!(error.contains(part), "{part}: {error}");
        assert!(is_fatal, "{error}");
    }
}

/// Hostile peer 8.
#[tokio::test(start_paused = true)]
async fn plaintext_and_broken_handshakes_never_make_the_client_use_plaintext() {
    let hello = server_hello([3, 3], [7; 32], [0xc0, 0x2b]);
    for (bytes, part) in [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            "does not speak TLS",
        ),
        (
            vec![0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "does not speak TLS",
        ),
        (
            hello[..20].to_vec(),
            "closed the connection during the TLS handshake",
        ),
        (vec![0x16, 3, 3, 0xff, 0xff, 2], "TLS"),
        (Vec::new(), "plaintext port"),
    ] {
        let (error, _) = failure(&sending(bytes)).await;
        assert!(error.contains(part), "{part}: {error}");
    }
}

/// Hostile peer 8: the end of TLS in the middle of a response.
#[tokio::test(start_paused = true)]
async fn a_close_in_the_middle_of_a_response_is_an_ordinary_disconnect() {
    let ca = authority("ca");
    let acceptor = Server::of(certificate(&ca, "broker", 7)).acceptor();
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen("broker", 9092);
    tokio::spawn(async move {
        while let Some(stream) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let _ = stream.read(&mut [0; 64]).await;
            let _ = stream.write_all(&[0, 0, 1, 0, 1, 2, 3]).await;
            let _ = stream.shutdown().await;
        }
    });
    let error = outcome(&broker, trusting(&ca))
        .await
        .expect_err("it closes");
    assert!(
        error.to_string().contains("closed the connection"),
        "{error}"
    );
}

/// Hostile peer 9.
#[tokio::test(start_paused = true)]
async fn huge_and_wrong_chains_are_refused_quickly() {
    let (ca, other) = (authority("ca"), authority("other"));
    for copies in [60, 1_000] {
        let mut server = Server::of(certificate(&other, "broker", 7));
        server
            .chain
            .extend(std::iter::repeat_n(other.der().clone(), copies));
        let broker = broker(server.acceptor());
        let started = Instant::now();
        refusal(&broker, trusting(&ca)).await;
        assert!(started.elapsed() < Duration::from_secs(30));
    }
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![GeneralSubtree::DnsName("elsewhere.test".to_owned())],
        excluded_subtrees: Vec::new(),
    });
    let key = KeyPair::generate().expect("a key");
    let limited = rcgen::CertifiedIssuer::self_signed(params, key).expect("a CA");
    let broker = self::broker(Server::of(certificate(&limited, "broker", 7)).acceptor());
    let error = refusal(&broker, trusting(&limited)).await;
    assert!(error.contains("NameConstraintViolation"), "{error}");
}
