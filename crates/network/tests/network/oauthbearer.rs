//! OAUTHBEARER against a broker of our own: what the client sends, and how it treats refusals.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use thalweg_cluster::{ConnectionError, Idle, Purpose};
use thalweg_network::sasl::{
    OAuthBearerConfig, RefreshConfig, SaslConfig, Secret, Token, TokenError, TokenProvider,
    TokenReply,
};
use thalweg_network::{
    Client, ClientConfig, ClientError, Request, RequestTarget, SecurityProtocol, WallClock,
};
use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};
use thalweg_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use thalweg_protocol::{ApiKey, ErrorCode, Str};
use tokio::time::Instant;

use crate::broker::{Broker, Got, Reaction};
use crate::handshake::outcome;
use crate::requests::heartbeat;
use crate::support::finished;

const INVALID: &str = r#"{"status":"invalid_token"}"#;

/// Supplies "token1", "token2" and so on, which all expire in an hour.
#[derive(Default)]
struct Numbered {
    supplied: AtomicUsize,
    silent: bool,
    kept: Mutex<Vec<TokenReply>>,
}

impl TokenProvider for Numbered {
    fn request(&self, reply: TokenReply) {
        let number = self.supplied.fetch_add(1, Ordering::Relaxed) + 1;
        if self.silent {
            self.kept.lock().expect("never poisoned").push(reply);
            return;
        }
        reply.send(Ok(Token {
            value: Secret::new(format!("token{number}")),
            expires_at_ms: Some(3_600_000),
            principal: Some("alice".to_owned()),
            extensions: vec![("traceId".to_owned(), "7".to_owned())],
        }));
    }
}

/// Supplies tokens of unknown expiry, so that each connection asks, and raises in one of its calls.
struct DownOnce {
    down_in: usize,
    calls: AtomicUsize,
}

impl DownOnce {
    fn new(down_in: usize) -> Arc<Self> {
        Arc::new(Self {
            down_in,
            calls: AtomicUsize::new(0),
        })
    }
}

impl TokenProvider for DownOnce {
    fn request(&self, reply: TokenReply) {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        reply.send(if number == self.down_in {
            Err(TokenError::new("f raised OSError: down", None))
        } else {
            Ok(Token {
                value: Secret::new("token"),
                expires_at_ms: None,
                principal: None,
                extensions: Vec::new(),
            })
        });
    }
}

fn config(broker: &Broker, provider: Arc<dyn TokenProvider>) -> ClientConfig {
    let refresh = RefreshConfig::default();
    ClientConfig {
        security_protocol: SecurityProtocol::SaslPlaintext,
        sasl: Some(SaslConfig::OAuthBearer(OAuthBearerConfig {
            provider,
            refresh,
        })),
        wall_clock: WallClock::Virtual {
            start: Instant::now().into_std(),
            start_ms: 0,
        },
        ..broker.config()
    }
}

/// How a broker responds to a message.
enum Says {
    /// Bytes without an error code.
    Bytes(Vec<u8>),
    Refusal,
    Closes,
}

fn broker(respond: impl Fn(&[u8]) -> Says + Send + Sync + 'static) -> Broker {
    Broker::start(move |got| match got.key {
        ApiKey::SASL_HANDSHAKE => {
            let request: SaslHandshakeRequest = got.decode();
            assert_eq!(&*request.mechanism, "OAUTHBEARER");
            got.respond(&SaslHandshakeResponse::default())
        }
        ApiKey::SASL_AUTHENTICATE => authenticate(got, &respond),
        _ => Reaction::Usual,
    })
}

fn authenticate(got: &Got, respond: &dyn Fn(&[u8]) -> Says) -> Reaction {
    let request: SaslAuthenticateRequest = got.decode();
    match respond(&request.auth_bytes) {
        Says::Bytes(bytes) => got.respond(&SaslAuthenticateResponse {
            auth_bytes: Bytes::from(bytes),
            ..SaslAuthenticateResponse::default()
        }),
        Says::Refusal => got.respond(&SaslAuthenticateResponse {
            error_code: ErrorCode::SASL_AUTHENTICATION_FAILED.0,
            error_message: Some(Str::from(INVALID)),
            ..SaslAuthenticateResponse::default()
        }),
        Says::Closes => Reaction::BytesThenClose(Vec::new()),
    }
}

/// A request that needs a second connection to the broker.
fn on_another_connection() -> Request {
    Request {
        purpose: Some(Purpose::Rebalance),
        ..heartbeat(RequestTarget::Node(1))
    }
}

fn is_end(message: &[u8]) -> bool {
    message == b"\x01"
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
    assert!(!error.to_string().contains("token1"), "{error}");
    (*code, error.to_string())
}

#[tokio::test(start_paused = true)]
async fn the_token_goes_out_before_anything_else() {
    let broker = broker(|message| {
        assert_eq!(message, b"n,,\x01auth=Bearer token1\x01traceId=7\x01\x01");
        Says::Bytes(Vec::new())
    });
    let provider = Arc::new(Numbered::default());
    let config = config(&broker, provider);
    outcome(&broker, &config).await.expect("the token is good");
    let got = broker.got.lock().expect("never poisoned");
    let order: Vec<ApiKey> = got.iter().take(4).map(|got| got.key).collect();
    let expected = [
        ApiKey::API_VERSIONS,
        ApiKey::SASL_HANDSHAKE,
        ApiKey::SASL_AUTHENTICATE,
        ApiKey::METADATA,
    ];
    assert_eq!(order, expected);
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_reported_with_all_that_helps() {
    let refuse: fn(&[u8]) -> Says = |message| {
        if is_end(message) {
            Says::Refusal
        } else {
            Says::Bytes(INVALID.into())
        }
    };
    let close: fn(&[u8]) -> Says = |message| {
        if is_end(message) {
            Says::Closes
        } else {
            Says::Bytes(INVALID.into())
        }
    };
    for says in [refuse, close] {
        let broker = broker(says);
        let provider = Arc::new(Numbered::default());
        let config = config(&broker, provider);
        let (code, text) = refusal(&broker, &config).await;
        assert_eq!(code, Some(ErrorCode::SASL_AUTHENTICATION_FAILED));
        for part in [
            "broker:9092",
            "OAUTHBEARER: the broker refuses the token: invalid_token",
            "subject 'alice', expires in 3",
            "sasl_oauth_token_provider",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hostile_broker_is_refused() {
    type Script = fn(&[u8]) -> Says;
    let cases: [(Script, &str); 4] = [
        // Endless rounds, and a success after a refusal.
        (|_| Says::Bytes(INVALID.into()), "and then accepted it"),
        (|_| Says::Bytes(vec![0xff; 100]), "not JSON"),
        (
            |_| Says::Bytes(vec![b'{'; 1_000_000]),
            "a reason of 1000000 bytes",
        ),
        (
            |message| {
                Says::Bytes(if is_end(message) {
                    Vec::new()
                } else {
                    INVALID.into()
                })
            },
            "and then accepted it",
        ),
    ];
    for (says, reason) in cases {
        let broker = broker(says);
        let provider = Arc::new(Numbered::default());
        let config = config(&broker, provider);
        let (code, text) = refusal(&broker, &config).await;
        assert_eq!(code, None, "the client refuses the broker: {text}");
        assert!(text.contains(reason), "{text}");
        assert!(broker.got(ApiKey::METADATA).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_of_the_cache_is_replaced_at_once() {
    // Accepts the first token on one connection only.
    let accepted = AtomicUsize::new(0);
    let broker = broker(move |message| {
        if is_end(message) {
            return Says::Refusal;
        }
        let is_first = message.windows(6).any(|part| part == b"token1");
        if is_first && accepted.fetch_add(1, Ordering::Relaxed) > 0 {
            return Says::Bytes(INVALID.into());
        }
        Says::Bytes(Vec::new())
    });
    let provider = Arc::new(Numbered::default());
    let config = config(&broker, Arc::clone(&provider) as Arc<dyn TokenProvider>);
    let client = Client::start_here(broker.parts(&config), Idle);
    let first = client.view().request(heartbeat(RequestTarget::LeastLoaded));
    first.await.expect("the first token");
    let second = client.view().request(on_another_connection());
    second.await.expect("a second token");
    assert_eq!(provider.supplied.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_keeps_the_token() {
    // Breaks the first two attempts.
    let messages = AtomicUsize::new(0);
    let broker = broker(move |_| {
        if messages.fetch_add(1, Ordering::Relaxed) < 2 {
            Says::Closes
        } else {
            Says::Bytes(Vec::new())
        }
    });
    let provider = Arc::new(Numbered::default());
    let config = config(&broker, Arc::clone(&provider) as Arc<dyn TokenProvider>);
    outcome(&broker, &config).await.expect("the third attempt");
    assert!(broker.got(ApiKey::SASL_AUTHENTICATE).len() >= 3);
    assert_eq!(provider.supplied.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_client_asks_for_no_token_although_its_handle_is_kept() {
    let broker = broker(|_| Says::Bytes(Vec::new()));
    let provider = Arc::new(Numbered::default());
    let config = config(&broker, Arc::clone(&provider) as Arc<dyn TokenProvider>);
    let client = Client::start_here(broker.parts(&config), Idle);
    let first = client.view().request(heartbeat(RequestTarget::LeastLoaded));
    first.await.expect("the first token");
    let close = client.view().close(Some(Duration::from_secs(5)));
    finished(close).await.expect("nothing is left to do");
    tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
    assert!(client.view().is_closed());
    assert_eq!(provider.supplied.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_refuses_every_token_does_not_make_the_provider_busy() {
    let broker = broker(|_| Says::Refusal);
    let provider = Arc::new(Numbered::default());
    let config = config(&broker, Arc::clone(&provider) as Arc<dyn TokenProvider>);
    let client = Client::start_here(broker.parts(&config), Idle);
    tokio::time::sleep(Duration::from_secs(60)).await;
    drop(client);
    let supplied = provider.supplied.load(Ordering::Relaxed);
    assert!((3..=14).contains(&supplied), "{supplied} calls in a minute");
    let attempts = broker.got(ApiKey::SASL_AUTHENTICATE).len();
    assert!(attempts > 10, "{attempts}, so that a cure is seen soon");
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_raises_fails_the_call_at_once_and_the_client_recovers() {
    let broker = broker(|_| Says::Bytes(Vec::new()));
    let config = config(&broker, DownOnce::new(1));
    let client = Client::start_here(broker.parts(&config), Idle);
    let ask = || client.view().request(heartbeat(RequestTarget::LeastLoaded));
    let start = Instant::now();
    let error = ask().await.expect_err("the provider is down");
    assert!(start.elapsed() < Duration::from_secs(1));
    let ClientError::Connection(cause) = &error else {
        panic!("{error}")
    };
    assert!(
        matches!(**cause, ConnectionError::NoCredentials { .. }),
        "{cause}"
    );
    let text = error.to_string();
    assert!(
        text.contains("OAUTHBEARER: f raised OSError: down"),
        "{text}"
    );
    assert!(error.is_retriable());
    assert!(broker.got(ApiKey::SASL_AUTHENTICATE).is_empty());
    tokio::time::sleep(Duration::from_secs(3)).await;
    ask().await.expect("the provider is up again");
}

#[tokio::test(start_paused = true)]
async fn an_old_failure_of_the_provider_does_not_fail_a_call() {
    let broker = broker(|_| Says::Bytes(Vec::new()));
    let config = config(&broker, DownOnce::new(2));
    let client = Client::start_here(broker.parts(&config), Idle);
    let first = client.view().request(heartbeat(RequestTarget::LeastLoaded));
    first.await.expect("the provider is up");
    let ask = || client.view().request(on_another_connection());
    ask().await.expect_err("the provider is down");
    // Nothing else uses this connection, so the client has not tried it again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    ask().await.expect("the provider is up again");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_is_named() {
    let broker = broker(|_| Says::Bytes(Vec::new()));
    let provider = Arc::new(Numbered {
        silent: true,
        ..Numbered::default()
    });
    let mut config = config(&broker, provider);
    config.socket_connection_setup_timeout = Duration::from_secs(1);
    let error = outcome(&broker, &config).await.expect_err("no token");
    let text = error.to_string();
    assert!(text.contains("the token provider"), "{text}");
}
