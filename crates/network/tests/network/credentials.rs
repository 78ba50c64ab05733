//! Passwords that change while a client runs, and passwords that the application supplies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_cluster::{ConnectionError, Idle, Purpose};
use thalweg_network::sasl::{
    PasswordProvider, PasswordReply, PasswordSource, SaslConfig, ScramConfig, ScramHash, Secret,
    TokenError,
};
use thalweg_network::{
    Client, ClientConfig, ClientError, Request, RequestTarget, Response, SecurityProtocol,
};
use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};
use thalweg_protocol::messages::sasl_handshake::SaslHandshakeResponse;
use thalweg_protocol::{ApiKey, ErrorCode};
use tokio::time::{Instant, sleep};

use crate::broker::{Broker, Reaction};
use crate::handshake::outcome;
use crate::requests::heartbeat;

/// A broker that accepts one PLAIN message at a time: the returned one.
fn broker() -> (Broker, Arc<Mutex<Vec<u8>>>) {
    let accepted = Arc::new(Mutex::new(b"\0alice\0old".to_vec()));
    let known = Arc::clone(&accepted);
    let broker = Broker::start(move |got| match got.key {
        ApiKey::SASL_HANDSHAKE => got.respond(&SaslHandshakeResponse::default()),
        ApiKey::SASL_AUTHENTICATE => {
            let request: SaslAuthenticateRequest = got.decode();
            let mut response = SaslAuthenticateResponse::default();
            if request.auth_bytes[..] != known.lock().expect("never poisoned")[..] {
                response.error_code = ErrorCode::SASL_AUTHENTICATION_FAILED.0;
            }
            got.respond(&response)
        }
        _ => Reaction::Usual,
    });
    (broker, accepted)
}

fn config(broker: &Broker) -> ClientConfig {
    ClientConfig {
        security_protocol: SecurityProtocol::SaslPlaintext,
        sasl: Some(SaslConfig::Plain {
            username: "alice".to_owned(),
            password: Secret::new("old"),
        }),
        ..broker.config()
    }
}

#[tokio::test(start_paused = true)]
async fn new_credentials_are_for_the_next_authentication() {
    let (broker, accepted) = broker();
    let client = Client::start_here(broker.parts(&config(&broker)), Idle);
    let ask = || client.view().request(heartbeat(RequestTarget::LeastLoaded));
    ask().await.expect("the old password is right");
    let before = broker.got(ApiKey::SASL_AUTHENTICATE).len();

    *accepted.lock().expect("never poisoned") = b"\0bob\0new".to_vec();
    client
        .view()
        .set_sasl_credentials("bob".to_owned(), Secret::new("new"))
        .expect("PLAIN has a user and a password");
    ask().await.expect("the connection stays");
    assert_eq!(broker.got(ApiKey::SASL_AUTHENTICATE).len(), before);

    broker.hang_up();
    // A request in flight fails with its connection.
    let mut response = ask().await;
    for _ in 0..10 {
        if response.is_err() {
            response = ask().await;
        }
    }
    response.expect("the new password is right");
    assert!(broker.got(ApiKey::SASL_AUTHENTICATE).len() > before);
}

/// Sends a request on a connection that nothing else uses.
async fn ask_alone(client: &Client<Idle>) -> Result<Response, ClientError> {
    let request = Request {
        purpose: Some(Purpose::Rebalance),
        ..heartbeat(RequestTarget::Node(1))
    };
    client.view().request(request).await
}

fn is_refusal(error: &ClientError) -> bool {
    let ClientError::Connection(cause) = error else {
        return false;
    };
    matches!(**cause, ConnectionError::Authentication { .. })
}

#[tokio::test(start_paused = true)]
async fn the_first_call_with_new_credentials_does_not_get_the_old_refusal() {
    let (broker, accepted) = broker();
    let client = Client::start_here(broker.parts(&config(&broker)), Idle);
    let ask = || client.view().request(heartbeat(RequestTarget::Node(1)));
    ask().await.expect("the old password is right");
    *accepted.lock().expect("never poisoned") = b"\0bob\0new".to_vec();
    broker.hang_up();
    let mut error = ask().await.expect_err("the connection is lost");
    for _ in 0..10 {
        if !is_refusal(&error) {
            error = ask().await.expect_err("the old password is wrong");
        }
    }
    assert!(is_refusal(&error), "{error}");
    client
        .view()
        .set_sasl_credentials("bob".to_owned(), Secret::new("new"))
        .expect("PLAIN has a user and a password");
    ask().await.expect("the new password is right");
}

#[tokio::test(start_paused = true)]
async fn an_old_refusal_does_not_fail_a_call_and_a_new_one_does_at_once() {
    let (broker, accepted) = broker();
    let client = Client::start_here(broker.parts(&config(&broker)), Idle);
    let first = client.view().request(heartbeat(RequestTarget::LeastLoaded));
    first.await.expect("the password is right");
    *accepted.lock().expect("never poisoned") = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        let error = ask_alone(&client).await.expect_err("the user is locked");
        assert!(is_refusal(&error), "{error}");
        assert!(start.elapsed() < Duration::from_secs(1));
        sleep(Duration::from_secs(60)).await;
    }
    *accepted.lock().expect("never poisoned") = b"\0alice\0old".to_vec();
    ask_alone(&client).await.expect("the user is not locked");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_fails_calls_at_once_also_without_a_pause_between_attempts() {
    let (broker, accepted) = broker();
    let config = ClientConfig {
        reconnect_backoff: Duration::ZERO,
        reconnect_backoff_max: Duration::ZERO,
        ..config(&broker)
    };
    let client = Client::start_here(broker.parts(&config), Idle);
    let first = client.view().request(heartbeat(RequestTarget::LeastLoaded));
    first.await.expect("the password is right");
    *accepted.lock().expect("never poisoned") = Vec::new();
    let start = Instant::now();
    let error = ask_alone(&client).await.expect_err("the user is locked");
    assert!(is_refusal(&error), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn scram_uses_the_new_user_as_well() {
    let (broker, _) = broker();
    let scram = ScramConfig::new(ScramHash::Sha256, "alice", Secret::new("old"));
    let config = ClientConfig {
        sasl: Some(SaslConfig::Scram(scram)),
        ..config(&broker)
    };
    let client = Client::start_here(broker.parts(&config), Idle);
    client
        .view()
        .set_sasl_credentials("bob".to_owned(), Secret::new("new"))
        .expect("SCRAM has a user and a password");
    let request = heartbeat(RequestTarget::LeastLoaded);
    let error = client.view().request(request).await.expect_err("no SCRAM");
    assert!(error.to_string().contains("as user 'bob'"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_password_has_no_credentials_to_change() {
    let broker = Broker::usual();
    let client = Client::start_here(broker.parts(&broker.config()), Idle);
    let changed = client
        .view()
        .set_sasl_credentials("bob".to_owned(), Secret::new("hunter2"));
    let error = changed.expect_err("the client does not authenticate");
    assert!(matches!(error, ClientError::Configuration(_)), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"));
}

/// Supplies the password "wrong" first, then "old".
#[derive(Default)]
struct Counting(AtomicUsize);

impl PasswordProvider for Counting {
    fn request(&self, reply: PasswordReply) {
        let password = match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => "wrong",
            _ => "old",
        };
        reply.send(Ok(Secret::new(password)));
    }
}

fn asking(broker: &Broker, provider: Arc<dyn PasswordProvider>) -> ClientConfig {
    ClientConfig {
        sasl_password: Some(PasswordSource(provider)),
        ..config(broker)
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_asked_for_each_authentication() {
    let (broker, _) = broker();
    let provider = Arc::new(Counting::default());
    let config = asking(&broker, Arc::clone(&provider) as Arc<dyn PasswordProvider>);
    let error = outcome(&broker, &config).await.expect_err("wrong at first");
    assert!(error.to_string().contains("as user 'alice'"), "{error}");
    outcome(&broker, &config).await.expect("right then");
    assert!(provider.0.load(Ordering::Relaxed) >= 2);
}

struct Fails;

impl PasswordProvider for Fails {
    fn request(&self, reply: PasswordReply) {
        reply.send(Err(TokenError::new("f raised OSError", None)));
    }
}

struct Drops;

impl PasswordProvider for Drops {
    fn request(&self, reply: PasswordReply) {
        drop(reply);
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_a_password_fails_the_authentication() {
    let (broker, _) = broker();
    let cases: [(Arc<dyn PasswordProvider>, &str); 2] = [
        (Arc::new(Fails), "f raised OSError"),
        (Arc::new(Drops), "returned no password"),
    ];
    for (provider, words) in cases {
        let config = asking(&broker, provider);
        let error = outcome(&broker, &config).await.expect_err("no password");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(broker.got(ApiKey::SASL_AUTHENTICATE).is_empty());
}
