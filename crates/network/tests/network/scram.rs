//! SCRAM against a broker of our own: who is accepted, and how the client refuses hostile brokers.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use ring::{digest, hmac, pbkdf2};
use thalweg_cluster::{ConnectionError, Idle};
use thalweg_network::sasl::{SaslConfig, ScramConfig, ScramHash, Secret};
use thalweg_network::{
    Client, ClientConfig, ClientError, Request, RequestTarget, SecurityProtocol,
};
use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};
use thalweg_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use thalweg_protocol::{ApiKey, ErrorCode, Str};
use tokio::time::Instant;

use crate::broker::{Broker, Got, Reaction, ranges};
use crate::handshake::outcome;
use crate::requests::heartbeat;

/// The limit of a login in real time.
const PATIENCE: Duration = Duration::from_secs(60);
const PASSWORD: &str = "s3cret";
const SALT: &[u8] = b"the salt of alice";
const REFUSAL: &str = "Authentication failed during authentication due to invalid credentials";

/// What Kafka keeps of a user, and the open exchanges by connection.
struct Server {
    iterations: NonZeroU32,
    algorithm: hmac::Algorithm,
    stored: Vec<u8>,
    signing: hmac::Key,
    /// The client-first message without its header, and the response to it.
    exchanges: Mutex<BTreeMap<usize, (String, String)>>,
}

impl Server {
    fn new(hash: ScramHash, iterations: u32) -> Self {
        let (algorithm, derivation) = match hash {
            ScramHash::Sha256 => (hmac::HMAC_SHA256, pbkdf2::PBKDF2_HMAC_SHA256),
            ScramHash::Sha512 => (hmac::HMAC_SHA512, pbkdf2::PBKDF2_HMAC_SHA512),
        };
        let mut salted = vec![0; algorithm.digest_algorithm().output_len()];
        let iterations = NonZeroU32::new(iterations).expect("above 0");
        pbkdf2::derive(
            derivation,
            iterations,
            SALT,
            PASSWORD.as_bytes(),
            &mut salted,
        );
        let salted = hmac::Key::new(algorithm, &salted);
        let client_key = hmac::sign(&salted, b"Client Key");
        let server_key = hmac::sign(&salted, b"Server Key");
        Self {
            iterations,
            algorithm,
            stored: digest::digest(algorithm.digest_algorithm(), client_key.as_ref())
                .as_ref()
                .to_vec(),
            signing: hmac::Key::new(algorithm, server_key.as_ref()),
            exchanges: Mutex::default(),
        }
    }

    /// Returns the message for the client, or `None` if the proof is wrong.
    fn respond(&self, connection: usize, message: &str) -> Option<String> {
        let mut exchanges = self.exchanges.lock().expect("never poisoned");
        if let Some(bare) = message.strip_prefix("n,,") {
            let nonce = bare.strip_prefix("n=alice,r=")?;
            let salt = BASE64_STANDARD.encode(SALT);
            let first = format!("r={nonce}andours,s={salt},i={}", self.iterations);
            exchanges.insert(connection, (bare.to_owned(), first.clone()));
            return Some(first);
        }
        let (bare, first) = exchanges.remove(&connection)?;
        let (without_proof, proof) = message.rsplit_once(",p=")?;
        let nonce = first.split(',').next()?;
        assert_eq!(without_proof, format!("c=biws,{nonce}"));
        let signed = format!("{bare},{first},{without_proof}");
        let stored_key = hmac::Key::new(self.algorithm, &self.stored);
        let signature = hmac::sign(&stored_key, signed.as_bytes());
        let proof = BASE64_STANDARD.decode(proof).ok()?;
        let client_key: Vec<u8> = proof
            .iter()
            .zip(signature.as_ref())
            .map(|(proof, signature)| proof ^ signature)
            .collect();
        let shown = digest::digest(self.algorithm.digest_algorithm(), &client_key);
        let signature = hmac::sign(&self.signing, signed.as_bytes());
        (shown.as_ref() == self.stored).then(|| format!("v={}", BASE64_STANDARD.encode(signature)))
    }
}

/// A broker with the user alice. `change` may change what it says.
fn broker(hash: ScramHash, change: impl Fn(String) -> Vec<u8> + Send + Sync + 'static) -> Broker {
    serving(hash, Server::new(hash, 4096), change)
}

fn serving(
    hash: ScramHash,
    server: Server,
    change: impl Fn(String) -> Vec<u8> + Send + Sync + 'static,
) -> Broker {
    Broker::start(move |got| match got.key {
        ApiKey::SASL_HANDSHAKE => {
            let request: SaslHandshakeRequest = got.decode();
            assert_eq!(&*request.mechanism, hash.mechanism());
            got.respond(&SaslHandshakeResponse::default())
        }
        ApiKey::SASL_AUTHENTICATE => authenticate(&server, got, &change),
        _ => Reaction::Usual,
    })
}

fn authenticate(server: &Server, got: &Got, change: &dyn Fn(String) -> Vec<u8>) -> Reaction {
    let request: SaslAuthenticateRequest = got.decode();
    let message = str::from_utf8(&request.auth_bytes).expect("SCRAM is UTF-8");
    let response = match server.respond(got.connection, message) {
        Some(message) => SaslAuthenticateResponse {
            auth_bytes: Bytes::from(change(message)),
            ..SaslAuthenticateResponse::default()
        },
        None => SaslAuthenticateResponse {
            error_code: ErrorCode::SASL_AUTHENTICATION_FAILED.0,
            error_message: Some(Str::from(REFUSAL)),
            ..SaslAuthenticateResponse::default()
        },
    };
    got.respond(&response)
}

fn config(broker: &Broker, hash: ScramHash, password: &str) -> ClientConfig {
    let scram = ScramConfig::new(hash, "alice", Secret::new(password));
    ClientConfig {
        security_protocol: SecurityProtocol::SaslPlaintext,
        sasl: Some(SaslConfig::Scram(scram)),
        ..broker.config()
    }
}

/// Returns the code and the text of a refusal, which must come at once.
async fn refusal(broker: &Broker, config: &ClientConfig) -> (Option<ErrorCode>, String) {
    let start = Instant::now();
    let error = outcome(broker, config).await.expect_err("no agreement");
    assert!(start.elapsed() < Duration::from_secs(1));
    let ClientError::Connection(cause) = &error else {
        panic!("{error}")
    };
    let ConnectionError::Authentication { code, .. } = &**cause else {
        panic!("{error}")
    };
    assert!(cause.is_fatal());
    assert!(broker.got(ApiKey::METADATA).is_empty());
    (*code, error.to_string())
}

#[tokio::test(start_paused = true)]
async fn both_mechanisms_authenticate_before_anything_else() {
    for hash in [ScramHash::Sha256, ScramHash::Sha512] {
        let broker = broker(hash, String::into_bytes);
        outcome(&broker, &config(&broker, hash, PASSWORD))
            .await
            .expect("the password is right");
        let got = broker.got.lock().expect("never poisoned");
        let order: Vec<ApiKey> = got.iter().take(5).map(|got| got.key).collect();
        let expected = [
            ApiKey::API_VERSIONS,
            ApiKey::SASL_HANDSHAKE,
            ApiKey::SASL_AUTHENTICATE,
            ApiKey::SASL_AUTHENTICATE,
            ApiKey::METADATA,
        ];
        assert_eq!(order, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_fails_at_once_with_all_that_helps() {
    let broker = broker(ScramHash::Sha512, String::into_bytes);
    let config = config(&broker, ScramHash::Sha512, "hunter2");
    let (code, text) = refusal(&broker, &config).await;
    assert_eq!(code, Some(ErrorCode::SASL_AUTHENTICATION_FAILED));
    for part in [
        "broker:9092",
        "SCRAM-SHA-512 as user 'alice'",
        REFUSAL,
        "Check sasl_plain_username and sasl_plain_password",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!format!("{text} {config:?}").contains("hunter2"));
}

#[tokio::test(start_paused = true)]
async fn a_hostile_broker_is_refused_with_the_reason() {
    type Change = fn(String) -> Vec<u8>;
    fn first(message: &str) -> bool {
        message.starts_with("r=")
    }
    let cases: [(Change, &str); 8] = [
        (
            |m| m.replace("i=4096", "i=1").into_bytes(),
            "fewer than 4096",
        ),
        (
            |m| m.replace("i=4096", "i=1000000000").into_bytes(),
            "sasl_scram_iterations_max",
        ),
        (|m| m.replace("andours", "").into_bytes(), "nonce"),
        (|m| m.replace("s=", "s=?").into_bytes(), "Base64"),
        (|_| vec![b'x'; (1 << 20) - 1000], "a SCRAM message of"),
        (|_| vec![0xff; 100], "not a SCRAM message"),
        (
            |m| {
                let wrong = format!("v={}", BASE64_STANDARD.encode([7_u8; 32]));
                let said = if first(&m) { m } else { wrong };
                said.into_bytes()
            },
            "wrong server signature",
        ),
        (
            |m| {
                if first(&m) {
                    m.into_bytes()
                } else {
                    Vec::new()
                }
            },
            "empty",
        ),
    ];
    for (change, reason) in cases {
        let broker = broker(ScramHash::Sha256, change);
        let config = config(&broker, ScramHash::Sha256, PASSWORD);
        let (code, text) = refusal(&broker, &config).await;
        assert_eq!(code, None, "the client refuses the broker: {text}");
        assert!(text.contains(reason), "{text}");
        assert!(!text.contains(PASSWORD), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_inside_the_exchange_is_the_brokers() {
    let broker = broker(ScramHash::Sha256, |message| {
        if message.starts_with("v=") {
            b"e=other-error".to_vec()
        } else {
            message.into_bytes()
        }
    });
    let config = config(&broker, ScramHash::Sha256, PASSWORD);
    let (code, text) = refusal(&broker, &config).await;
    assert_eq!(code, Some(ErrorCode::SASL_AUTHENTICATION_FAILED));
    assert!(text.contains("other-error"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn before_authentication_no_response_may_be_large() {
    let broker = broker(ScramHash::Sha256, |_| vec![b'x'; 1 << 20]);
    let config = config(&broker, ScramHash::Sha256, PASSWORD);
    let error = outcome(&broker, &config).await.expect_err("too large");
    assert!(
        error.to_string().contains("is larger than 1048576"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_without_headers_are_never_sent() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::API_VERSIONS => got.respond(&ranges(&[
            (ApiKey::API_VERSIONS, 0, 3),
            (ApiKey::SASL_HANDSHAKE, 0, 0),
            (ApiKey::METADATA, 0, 12),
        ])),
        _ => Reaction::Usual,
    });
    let config = config(&broker, ScramHash::Sha256, PASSWORD);
    let error = outcome(&broker, &config).await.expect_err("too old");
    assert!(error.to_string().contains("Kafka 1.0"), "{error}");
    assert!(broker.got(ApiKey::SASL_HANDSHAKE).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_listener_without_sasl_is_named() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::SASL_HANDSHAKE => got.respond(&SaslHandshakeResponse {
            error_code: ErrorCode::ILLEGAL_SASL_STATE.0,
            ..SaslHandshakeResponse::default()
        }),
        _ => Reaction::Usual,
    });
    let config = config(&broker, ScramHash::Sha256, PASSWORD);
    let (code, text) = refusal(&broker, &config).await;
    assert_eq!(code, Some(ErrorCode::ILLEGAL_SASL_STATE));
    assert!(text.contains("security_protocol"), "{text}");
}

/// The time that this thread has worked. Waiting for a CPU core does not count.
fn worked() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call only writes the time, which is ours.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The work of one derivation of keys with the most iterations, and a broker that asks for that
/// number.
fn slow_broker() -> (Duration, Broker) {
    let hash = ScramHash::Sha512;
    let began = worked();
    let server = Server::new(hash, 131_072);
    let derivation = worked().saturating_sub(began);
    (derivation, serving(hash, server, String::into_bytes))
}

/// Scenario 111.
#[tokio::test(start_paused = true)]
async fn a_hundred_reconnects_derive_keys_once() {
    let (derivation, broker) = slow_broker();
    let config = config(&broker, ScramHash::Sha512, PASSWORD);
    let client = Client::start_here(broker.parts(&config), Idle);
    let mut times = Vec::new();
    for _ in 0..101 {
        broker.hang_up();
        let began = std::time::Instant::now();
        // The first request may still go out through the old connection.
        while let Err(error) = client
            .view()
            .request(heartbeat(RequestTarget::LeastLoaded))
            .await
        {
            assert!(error.to_string().contains("closed"), "{error}");
        }
        times.push(began.elapsed());
    }
    let logins = broker.got(ApiKey::SASL_HANDSHAKE).len();
    assert!(logins > 100, "{logins}");
    // A busy machine makes any of them slow. If every second one derived keys, half would be slow.
    let slow = derivation.min(times[0]) / 2;
    let quick = times.iter().filter(|time| **time < slow).count();
    assert!(quick > 60, "{quick}: {derivation:?} {times:?}");
}

/// Scenario 111. The other clients of the process share the thread.
#[tokio::test]
async fn the_io_thread_serves_others_while_keys_are_derived() {
    let mut longest = Vec::new();
    // A busy machine may stop this thread for a while, and the clock of a virtual machine may count
    // a pause as work, but not each time.
    for _ in 0..20 {
        let (derivation, broker) = slow_broker();
        let mut config = config(&broker, ScramHash::Sha512, PASSWORD);
        config.socket_connection_setup_timeout = PATIENCE;
        config.socket_connection_setup_timeout_max = PATIENCE;
        let client = Client::start_here(broker.parts(&config), Idle);
        let request = Request {
            timeout: Some(PATIENCE),
            ..heartbeat(RequestTarget::LeastLoaded)
        };
        let mut login = std::pin::pin!(client.view().request(request));
        let (mut last, mut gap) = (worked(), Duration::ZERO);
        // A step that waits for another thread does no work, but serves nobody.
        let (mut seen, mut wait) = (std::time::Instant::now(), Duration::ZERO);
        loop {
            tokio::select! {
                biased;
                result = &mut login => {
                    result.expect("a right password");
                    break;
                }
                () = tokio::task::yield_now() => {}
            }
            let now = worked();
            gap = gap.max(now.saturating_sub(last));
            last = now;
            wait = wait.max(seen.elapsed());
            seen = std::time::Instant::now();
        }
        longest.push((gap, wait, derivation));
        if gap < derivation / 8 && wait < derivation * 3 / 4 {
            return;
        }
    }
    panic!("work and time of a step of the thread, and the work of a derivation: {longest:?}");
}
