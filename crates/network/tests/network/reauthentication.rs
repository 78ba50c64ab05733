//! Sessions that end (KIP-368), in virtual time, against a broker that checks them as Kafka does.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_cluster::{ConnectionError, Idle, Purpose};
use thalweg_network::sasl::{
    OAuthBearerConfig, RefreshConfig, SaslConfig, Secret, Token, TokenProvider, TokenReply,
};
use thalweg_network::{
    Client, ClientConfig, ClientError, Request, RequestTarget, Response, SecurityProtocol,
    WallClock,
};
use thalweg_protocol::ApiKey;
use thalweg_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use tokio::time::{Instant, sleep};

use crate::broker::{Broker, Got, Reaction};
use crate::requests::heartbeat;
use crate::sessions::Sessions;

const SECOND: Duration = Duration::from_secs(1);
const GOOD: &[u8] = b"\0alice\0s3cret";

/// A broker whose script handles what is not about sessions.
fn broker(
    sessions: &Sessions,
    script: impl Fn(&Got) -> Reaction + Send + Sync + 'static,
) -> Broker {
    let sessions = sessions.clone();
    Broker::start(move |got| match sessions.react(got) {
        // A broker at work, so that requests take their time.
        Some(reaction) => Reaction::Later(Duration::from_millis(5), Box::new(reaction)),
        None => script(got),
    })
}

fn config(broker: &Broker) -> ClientConfig {
    ClientConfig {
        security_protocol: SecurityProtocol::SaslPlaintext,
        sasl: Some(SaslConfig::Plain {
            username: "alice".to_owned(),
            password: Secret::new("s3cret"),
        }),
        // No request of the client itself keeps the connection busy.
        metadata_max_age: 1_000_000 * SECOND,
        connections_max_idle: 1_000_000 * SECOND,
        metadata_recovery_rebootstrap_trigger: 1_000_000 * SECOND,
        ..broker.config()
    }
}

fn client(broker: &Broker) -> Client<Idle> {
    Client::start_here(broker.parts(&config(broker)), Idle)
}

async fn ask(client: &Client<Idle>) -> Result<Response, ClientError> {
    let request = heartbeat(RequestTarget::LeastLoaded);
    client.view().request(request).await
}

/// Returns the APIs of one connection's requests.
fn order(broker: &Broker, connection: usize) -> Vec<ApiKey> {
    let got = broker.got.lock().expect("never poisoned");
    let of_one = got.iter().filter(|got| got.connection == connection);
    of_one.map(|got| got.key).collect()
}

const AGAIN: [ApiKey; 2] = [ApiKey::SASL_HANDSHAKE, ApiKey::SASL_AUTHENTICATE];

#[tokio::test(start_paused = true)]
async fn scenario_64_a_session_is_renewed_on_its_connection_as_often_as_it_ends() {
    let sessions = Sessions::new(3_000, |message| message == GOOD);
    let broker = broker(&sessions, |_| Reaction::Usual);
    let client = client(&broker);
    let start = Instant::now();
    while start.elapsed() < 60 * SECOND {
        ask(&client).await.expect("no request is lost");
        sleep(Duration::from_millis(50)).await;
    }
    let renewed = sessions.reauthentications();
    assert!((60 / 3..=25).contains(&renewed), "{renewed} in a minute");
    assert_eq!(sessions.killed(), []);
    assert_eq!(sessions.refused(), [""; 0]);
    assert_eq!(broker.got(ApiKey::API_VERSIONS).len(), 1, "one connection");
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_outlives_its_session_until_somebody_wants_it() {
    let sessions = Sessions::new(3_000, |message| message == GOOD);
    let broker = broker(&sessions, |_| Reaction::Usual);
    let client = client(&broker);
    ask(&client).await.expect("a new session");
    sleep(3600 * SECOND).await;
    assert_eq!(sessions.reauthentications(), 0);
    ask(&client).await.expect("a renewed session");
    let order = order(&broker, 1);
    assert_eq!(order[order.len() - 3..order.len() - 1], AGAIN);
    assert_eq!(
        (sessions.reauthentications(), sessions.killed().len()),
        (1, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewal_uses_the_newest_password() {
    let changed = Arc::new(AtomicBool::new(false));
    let new = Arc::clone(&changed);
    let sessions = Sessions::new(3_000, move |message| {
        let now: &[u8] = if new.load(Ordering::Relaxed) {
            b"\0alice\0new"
        } else {
            GOOD
        };
        message == now
    });
    let broker = broker(&sessions, |_| Reaction::Usual);
    let client = client(&broker);
    ask(&client).await.expect("the old password is right");
    changed.store(true, Ordering::Relaxed);
    let changes = client.view();
    changes
        .set_sasl_credentials("alice".to_owned(), Secret::new("new"))
        .expect("PLAIN has a password");
    sleep(3 * SECOND).await;
    ask(&client).await.expect("the new password is right");
    assert_eq!(sessions.reauthentications(), 1);
    assert_eq!(broker.got(ApiKey::API_VERSIONS).len(), 1);
}

/// Another user needs a new connection. No caller sees the refusal.
#[tokio::test(start_paused = true)]
async fn a_changed_user_costs_a_connection_and_no_error() {
    let sessions = Sessions::new(3_000, |_| true);
    let broker = broker(&sessions, |_| Reaction::Usual);
    let client = client(&broker);
    ask(&client).await.expect("alice");
    let changes = client.view();
    changes
        .set_sasl_credentials("bob".to_owned(), Secret::new("other"))
        .expect("PLAIN has a user");
    sleep(3 * SECOND).await;
    ask(&client).await.expect("bob");
    assert_eq!(
        sessions.refused(),
        ["Cannot change principals during re-authentication"]
    );
    assert_eq!(broker.got(ApiKey::API_VERSIONS).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn scenario_66_a_refused_renewal_and_a_refused_connection_are_an_error() {
    let removed = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&removed);
    let sessions = Sessions::new(3_000, move |_| !gone.load(Ordering::Relaxed));
    let broker = broker(&sessions, |_| Reaction::Usual);
    let mut slow = config(&broker);
    slow.reconnect_backoff_max = 10 * SECOND;
    let client = Client::start_here(broker.parts(&slow), Idle);
    ask(&client).await.expect("a new session");
    removed.store(true, Ordering::Relaxed);
    sleep(3 * SECOND).await;
    let start = Instant::now();
    let error = ask(&client).await.expect_err("the user is gone");
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
    let ClientError::Connection(cause) = &error else {
        panic!("{error}")
    };
    assert!(
        matches!(**cause, ConnectionError::Authentication { .. }),
        "{cause}"
    );
    let refused = sessions.refused();
    assert!(
        refused[0].contains("during re-authentication") && refused.len() == 2,
        "{refused:?}"
    );
    // After a failure the client tries at the slow pace: directories lock accounts.
    sleep(35 * SECOND).await;
    let refused = sessions.refused().len();
    assert!((4..=7).contains(&refused), "{refused}");
    removed.store(false, Ordering::Relaxed);
    sleep(11 * SECOND).await;
    ask(&client).await.expect("the user is back");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_silent_during_a_renewal_is_left_and_no_request_is_lost() {
    let sessions = Sessions::new(3_000, |message| message == GOOD);
    let (rules, silent) = (sessions.clone(), AtomicUsize::new(0));
    let broker = Broker::start(move |got| {
        if got.key == ApiKey::SASL_HANDSHAKE && silent.fetch_add(1, Ordering::Relaxed) == 1 {
            return Reaction::Silence;
        }
        rules.react(got).unwrap_or(Reaction::Usual)
    });
    let mut config = config(&broker);
    config.request_timeout = 5 * SECOND;
    let client = Client::start_here(broker.parts(&config), Idle);
    ask(&client).await.expect("a new session");
    sleep(3 * SECOND).await;
    let start = Instant::now();
    let request = Request {
        timeout: Some(20 * SECOND),
        ..heartbeat(RequestTarget::LeastLoaded)
    };
    client
        .view()
        .request(request)
        .await
        .expect("on a new connection");
    let waited = start.elapsed();
    assert!(waited >= 5 * SECOND && waited < 6 * SECOND, "{waited:?}");
    assert_eq!(broker.got(ApiKey::API_VERSIONS).len(), 2);
}

/// A held request has its own timeout, which does not wait for that of the renewal.
#[tokio::test(start_paused = true)]
async fn a_held_request_times_out_by_itself() {
    let sessions = Sessions::new(3_000, |message| message == GOOD);
    let (rules, silent) = (sessions.clone(), AtomicUsize::new(0));
    let broker = Broker::start(move |got| {
        if got.key == ApiKey::SASL_HANDSHAKE && silent.fetch_add(1, Ordering::Relaxed) == 1 {
            return Reaction::Silence;
        }
        rules.react(got).unwrap_or(Reaction::Usual)
    });
    let client = client(&broker);
    ask(&client).await.expect("a new session");
    sleep(3 * SECOND).await;
    let request = Request {
        timeout: Some(2 * SECOND),
        ..heartbeat(RequestTarget::LeastLoaded)
    };
    let start = Instant::now();
    let error = client.view().request(request).await.expect_err("too late");
    assert!(matches!(error, ClientError::TimedOut(_)), "{error}");
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn scenario_65_a_join_may_wait_over_the_end_of_its_session() {
    let sessions = Sessions::new(3_000, |message| message == GOOD);
    let broker = broker(&sessions, |got| match got.key {
        ApiKey::JOIN_GROUP => {
            let joined = got.respond(&JoinGroupResponse::default());
            Reaction::Later(20 * SECOND, Box::new(joined))
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let on_join_connection = |request: Request| Request {
        purpose: Some(Purpose::Rebalance),
        ..request
    };
    let join = Request::typed(RequestTarget::Node(1), JoinGroupRequest::default());
    let join = client.view().request(on_join_connection(join));
    let (joined, ()) = tokio::join!(join, async {
        // Other connections renew their sessions meanwhile.
        for _ in 0..15 {
            sleep(SECOND).await;
            ask(&client).await.expect("not affected");
        }
    });
    joined.expect("the response comes after the end of the session");
    let next = on_join_connection(heartbeat(RequestTarget::Node(1)));
    client
        .view()
        .request(next)
        .await
        .expect("a renewed session");
    let joins = broker.got(ApiKey::JOIN_GROUP);
    let order = order(&broker, joins[0].connection);
    let at = order.iter().position(|&key| key == ApiKey::JOIN_GROUP);
    let after = &order[at.expect("it joined") + 1..];
    assert_eq!(after, [AGAIN[0], AGAIN[1], ApiKey::HEARTBEAT]);
    assert_eq!(sessions.killed(), []);
}

#[tokio::test(start_paused = true)]
async fn absurd_lifetimes_cost_one_authentication_a_second_at_most() {
    for (lifetime_ms, allowed) in [(1, 1..=21), (-1, 0..=0), (i64::MAX, 0..=0), (50, 1..=21)] {
        let sessions = Sessions::new(lifetime_ms, |message| message == GOOD);
        let rules = sessions.clone();
        let broker = Broker::start(move |got| rules.react(got).unwrap_or(Reaction::Usual));
        let client = client(&broker);
        let start = Instant::now();
        let mut answered = 0;
        while start.elapsed() < 20 * SECOND {
            let request = Request {
                timeout: Some(3 * SECOND),
                ..heartbeat(RequestTarget::LeastLoaded)
            };
            answered += usize::from(client.view().request(request).await.is_ok());
            sleep(Duration::from_millis(10)).await;
        }
        let renewed = sessions.reauthentications();
        assert!(allowed.contains(&renewed), "{renewed} for {lifetime_ms}");
        assert!(answered > 5, "{answered} for {lifetime_ms}");
        assert_eq!(sessions.refused(), [""; 0], "none came too soon");
        assert_eq!(sessions.killed(), [], "{lifetime_ms}");
    }
}

/// During a renewal, too, a response is small.
#[tokio::test(start_paused = true)]
async fn a_renewal_ends_with_a_huge_or_foreign_response() {
    let huge = 2_000_000_i32.to_be_bytes().to_vec();
    let foreign = [8_i32.to_be_bytes(), 1_i32.to_be_bytes(), [0; 4]].concat();
    for bytes in [huge, foreign, b"HTTP/1.1 400 Bad Request\r\n".to_vec()] {
        let sessions = Sessions::new(3_000, |message| message == GOOD);
        let (rules, handshakes) = (sessions.clone(), AtomicUsize::new(0));
        let broker = Broker::start(move |got| {
            let second = got.key == ApiKey::SASL_HANDSHAKE
                && handshakes.fetch_add(1, Ordering::Relaxed) == 1;
            if second {
                return Reaction::Bytes(bytes.clone());
            }
            rules.react(got).unwrap_or(Reaction::Usual)
        });
        let client = client(&broker);
        ask(&client).await.expect("a new session");
        sleep(3 * SECOND).await;
        let start = Instant::now();
        ask(&client).await.expect("on a new connection");
        assert!(start.elapsed() < SECOND);
        assert_eq!(broker.got(ApiKey::API_VERSIONS).len(), 2);
    }
}

/// Supplies "token1", "token2" and so on. Nobody knows when they expire.
#[derive(Default)]
struct Numbered {
    supplied: AtomicUsize,
    /// The next reply is kept, as by a provider that hangs.
    hangs: AtomicBool,
    kept: Mutex<Vec<TokenReply>>,
}

impl TokenProvider for Numbered {
    fn request(&self, reply: TokenReply) {
        if self.hangs.load(Ordering::Relaxed) {
            self.kept.lock().expect("never poisoned").push(reply);
            return;
        }
        let number = self.supplied.fetch_add(1, Ordering::Relaxed) + 1;
        reply.send(Ok(Token {
            value: Secret::new(format!("token{number}")),
            expires_at_ms: None,
            principal: None,
            extensions: Vec::new(),
        }));
    }
}

fn with_tokens(broker: &Broker, provider: &Arc<Numbered>) -> ClientConfig {
    ClientConfig {
        sasl: Some(SaslConfig::OAuthBearer(OAuthBearerConfig {
            provider: Arc::clone(provider) as Arc<dyn TokenProvider>,
            refresh: RefreshConfig::default(),
        })),
        ..config(broker)
    }
}

#[tokio::test(start_paused = true)]
async fn each_renewal_sends_a_token_of_its_own() {
    // Each token is good once.
    let seen = Mutex::new(Vec::new());
    let sessions = Sessions::new(3_000, move |message: &[u8]| {
        let mut seen = seen.lock().expect("never poisoned");
        let is_new = !seen.contains(&message.to_vec());
        seen.push(message.to_vec());
        is_new
    });
    let broker = broker(&sessions, |_| Reaction::Usual);
    let provider = Arc::new(Numbered::default());
    let config = with_tokens(&broker, &provider);
    let client = Client::start_here(broker.parts(&config), Idle);
    let start = Instant::now();
    while start.elapsed() < 30 * SECOND {
        ask(&client).await.expect("no request is lost");
        sleep(Duration::from_millis(100)).await;
    }
    assert!(sessions.reauthentications() >= 10);
    assert_eq!(sessions.messages()[1], b"n,,\x01auth=Bearer token2\x01\x01");
    assert_eq!((sessions.refused(), sessions.killed()), (vec![], vec![]));
    assert_eq!(broker.got(ApiKey::API_VERSIONS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_during_a_renewal_is_named_by_the_next_attempt() {
    let sessions = Sessions::new(3_000, |_| true);
    let broker = broker(&sessions, |_| Reaction::Usual);
    let provider = Arc::new(Numbered::default());
    let mut config = with_tokens(&broker, &provider);
    config.request_timeout = 5 * SECOND;
    config.socket_connection_setup_timeout = 2 * SECOND;
    let client = Client::start_here(broker.parts(&config), Idle);
    ask(&client).await.expect("the first token");
    provider.hangs.store(true, Ordering::Relaxed);
    sleep(3 * SECOND).await;
    let request = Request {
        timeout: Some(20 * SECOND),
        ..heartbeat(RequestTarget::Node(1))
    };
    let error = client.view().request(request).await.expect_err("no token");
    assert!(error.to_string().contains("the token provider"), "{error}");
    let kept = std::mem::take(&mut *provider.kept.lock().expect("never poisoned"));
    provider.hangs.store(false, Ordering::Relaxed);
    drop(kept);
    sleep(5 * SECOND).await;
    ask(&client).await.expect("the provider is back");
    assert_eq!(sessions.killed(), []);
}

const DAY_MS: i64 = 86_400_000;

/// Supplies tokens that expire an hour later, by a wall clock that the test moves.
struct Hourly {
    clock: &'static AtomicI64,
    supplied: AtomicUsize,
}

impl TokenProvider for Hourly {
    fn request(&self, reply: TokenReply) {
        self.supplied.fetch_add(1, Ordering::Relaxed);
        reply.send(Ok(Token {
            value: Secret::new("token"),
            expires_at_ms: Some(self.clock.load(Ordering::Relaxed) + 3_600_000),
            principal: None,
            extensions: Vec::new(),
        }));
    }
}

/// Scenario 27: sessions and tokens are measured on the monotonic clock.
#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_changes_no_session_and_no_token() {
    let sessions = Sessions::new(3_000, |_| true);
    let broker = broker(&sessions, |_| Reaction::Usual);
    let clock: &AtomicI64 = Box::leak(Box::new(AtomicI64::new(DAY_MS * 20_000)));
    let supplied = AtomicUsize::new(0);
    let provider = Arc::new(Hourly { clock, supplied });
    let config = ClientConfig {
        sasl: Some(SaslConfig::OAuthBearer(OAuthBearerConfig {
            provider: Arc::clone(&provider) as Arc<dyn TokenProvider>,
            refresh: RefreshConfig::default(),
        })),
        wall_clock: WallClock::Manual(clock),
        ..config(&broker)
    };
    let client = Client::start_here(broker.parts(&config), Idle);
    for jump in [0, DAY_MS, -2 * DAY_MS, DAY_MS] {
        clock.fetch_add(jump, Ordering::Relaxed);
        let start = Instant::now();
        let before = sessions.reauthentications();
        while start.elapsed() < 30 * SECOND {
            ask(&client).await.expect("no request is lost");
            sleep(Duration::from_millis(100)).await;
        }
        let renewed = sessions.reauthentications() - before;
        assert!((9..=13).contains(&renewed), "{renewed} after {jump}");
    }
    assert_eq!(provider.supplied.load(Ordering::Relaxed), 1);
    assert_eq!((sessions.refused(), sessions.killed()), (vec![], vec![]));
    sleep(3_100 * SECOND).await;
    let supplied = provider.supplied.load(Ordering::Relaxed);
    assert_eq!(supplied, 2, "refreshed after 80 to 85% of its life");
}
