use std::sync::Mutex;
use std::time::Duration;

use thalweg_cluster::Cause;

use super::*;
use crate::sasl::{SaslConfig, Secret};

/// Answers with the next of its answers. Without any more, it keeps the question.
#[derive(Default)]
struct Scripted {
    answers: Mutex<Vec<Result<Token, TokenError>>>,
    asked: Mutex<usize>,
    unanswered: Mutex<Vec<TokenReply>>,
}

impl TokenProvider for Scripted {
    fn request(&self, reply: TokenReply) {
        *self.asked.lock().expect("never poisoned") += 1;
        let answer = self.answers.lock().expect("never poisoned").pop();
        match answer {
            Some(answer) => reply.send(answer),
            None => self.unanswered.lock().expect("never poisoned").push(reply),
        }
    }
}

impl Scripted {
    /// Answers in this order.
    fn new(answers: impl IntoIterator<Item = Result<Token, TokenError>>) -> Arc<Self> {
        let mut answers: Vec<_> = answers.into_iter().collect();
        answers.reverse();
        Arc::new(Self {
            answers: Mutex::new(answers),
            ..Self::default()
        })
    }

    fn asked(&self) -> usize {
        *self.asked.lock().expect("never poisoned")
    }
}

fn token(value: &str) -> Token {
    Token {
        value: Secret::new(value),
        expires_at_ms: None,
        principal: None,
        extensions: Vec::new(),
    }
}

/// The virtual wall clock starts at 0, with tokio's clock.
fn wall_clock() -> WallClock {
    WallClock::Virtual {
        start: clock::now(),
        start_ms: 0,
    }
}

fn expiring(value: &str, expires_at_ms: i64) -> Token {
    Token {
        expires_at_ms: Some(expires_at_ms),
        ..token(value)
    }
}

fn tokens(provider: &Arc<Scripted>) -> Arc<Tokens> {
    let config = OAuthBearerConfig {
        provider: Arc::clone(provider) as Arc<dyn TokenProvider>,
        refresh: RefreshConfig::default(),
    };
    Arc::new(Tokens::new(config, Some("tester"), wall_clock()))
}

async fn session(provider: &Arc<Scripted>) -> OAuthBearer {
    OAuthBearer::start(&tokens(provider), wall_clock())
        .await
        .expect("a token")
}

async fn value(tokens: &Tokens) -> String {
    let supplied = tokens.get().await.expect("a token");
    supplied.token.value.reveal().to_owned()
}

/// Lets the keeper run, and the blocking threads that it waits for.
async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

// ---- messages -------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn the_message_is_that_of_rfc_7628() {
    let mut given = token("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==");
    given.extensions = vec![
        ("traceId".to_owned(), "12 3".to_owned()),
        ("cluster".to_owned(), String::new()),
    ];
    let mut session = session(&Scripted::new([Ok(given)])).await;
    let message = session.step(b"").expect("no error").expect("a message");
    assert_eq!(
        String::from_utf8(message).expect("ASCII"),
        "n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01traceId=12 \
         3\x01cluster=\x01\x01"
    );
    assert_eq!(session.step(b""), Ok(None));
    assert!(matches!(session.step(b""), Err(SaslError::ByClient(_))));
}

#[test]
fn tokens_that_would_change_the_message_are_refused_without_being_shown() {
    for (value, part) in [
        ("", "empty"),
        ("=", "bearer token"),
        ("hunter2\x01auth=Bearer x", "bearer token"),
        ("hunter2 x", "bearer token"),
        ("hunter2\n", "bearer token"),
        ("hunter2é", "bearer token"),
        ("hunter2=x", "bearer token"),
        ("hunter2".repeat(10_000).as_str(), "more than 65536"),
    ] {
        let problem = messages::problem(&token(value)).expect(part);
        assert!(
            problem.contains(part) && !problem.contains("hunter2"),
            "{problem}"
        );
    }
    assert_eq!(messages::problem(&token("aZ0-._~+/==")), None);
}

#[test]
fn extensions_that_would_change_the_message_are_refused() {
    for (name, value, part) in [
        ("auth", "Bearer x", "invalid name"),
        ("", "x", "invalid name"),
        ("a=b", "x", "invalid name"),
        ("trace_id", "x", "invalid name"),
        ("a\x01", "x", "invalid name"),
        (
            "a",
            "hunter2\x01auth=Bearer x",
            "the value of the extension \"a\"",
        ),
        ("a", "hunter2é", "the value"),
        ("a", "hunter2\0", "the value"),
    ] {
        let mut given = token("t");
        given.extensions = vec![(name.to_owned(), value.to_owned())];
        let problem = messages::problem(&given).expect(part);
        assert!(
            problem.contains(part) && !problem.contains("hunter2"),
            "{problem}"
        );
    }
}

#[test]
fn any_response_of_a_broker_is_a_refusal() {
    let status = |message: &[u8]| Refusal::parse(message).to_string();
    assert_eq!(status(br#"{"status":"invalid_token"}"#), "invalid_token");
    assert_eq!(
        status(
            br#"{"status":"insufficient_scope","scope":"a b","openid-configuration":"https://i"}"#
        ),
        "insufficient_scope, it requires the scope a b, its OpenID configuration is https://i"
    );
    assert_eq!(status(br#"{"status":"no\nsuch"}"#), "no\\nsuch");
    for (message, part) in [
        (&b"\x00\xff"[..], "not JSON"),
        (b"[]", "not JSON"),
        (b"{", "not JSON"),
        (b"{}", "without a status"),
        (br#"{"status":1}"#, "without a status"),
    ] {
        assert!(status(message).contains(part), "{}", status(message));
    }
    let huge = format!(r#"{{"status":"{}"}}"#, "x".repeat(1_000_000));
    assert_eq!(status(huge.as_bytes()), "a reason of 1000013 bytes");
    let long = format!(r#"{{"status":"{}"}}"#, "x".repeat(10_000));
    assert!(status(long.as_bytes()).len() < 1100);
    let deep = "[".repeat(10_000);
    assert!(status(deep.as_bytes()).contains("not JSON"));
}

// ---- one exchange ---------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_refusal_is_answered_and_then_explained_without_the_token() {
    let mut given = expiring("hunter2", -40_000);
    given.principal = Some("alice".to_owned());
    let mut session = session(&Scripted::new([Ok(given)])).await;
    session.step(b"").expect("the token");
    let end = session.step(br#"{"status":"invalid_token"}"#);
    assert_eq!(end, Ok(Some(b"\x01".to_vec())));
    let refused = session.refused();
    assert_eq!(
        refused.words.as_deref(),
        Some(
            "the broker refuses the token: invalid_token (subject 'alice', expired 40 s ago by this \
             machine's clock)"
        )
    );
    assert!(!refused.try_again, "the token is as new as it can be");
}

#[tokio::test(start_paused = true)]
async fn a_success_after_a_refusal_is_not_one() {
    let mut session = session(&Scripted::new([Ok(token("t"))])).await;
    session.step(b"").expect("the token");
    session.step(br#"{"status":"x"}"#).expect("the end");
    let Err(SaslError::ByClient(reason)) = session.step(b"") else {
        panic!("the client must refuse the broker")
    };
    assert!(reason.contains("and then accepted it"), "{reason}");
    let again = session.step(br#"{"status":"x"}"#);
    assert!(matches!(again, Err(SaslError::ByClient(_))));
}

#[test]
fn debug_hides_tokens() {
    let provider = Scripted::new([Ok(token("hunter2"))]);
    let config = SaslConfig::OAuthBearer(OAuthBearerConfig {
        provider,
        refresh: RefreshConfig::default(),
    });
    let shown = format!("{:?} {config:?}", token("hunter2"));
    assert!(!shown.contains("hunter2"), "{shown}");
}

// ---- the keeper -----------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_token_is_shared_until_it_is_refreshed_in_the_background() {
    let provider = Scripted::new([
        Ok(expiring("one", 3_600_000)),
        Ok(expiring("two", 7_200_000)),
    ]);
    let tokens = tokens(&provider);
    for _ in 0..100 {
        assert_eq!(value(&tokens).await, "one");
    }
    pause(2_870).await;
    assert_eq!(provider.asked(), 1);
    pause(200).await;
    assert_eq!(provider.asked(), 2, "nobody had to ask for it");
    assert_eq!(value(&tokens).await, "two");
}

#[tokio::test(start_paused = true)]
async fn a_failed_refresh_is_repeated_and_the_old_token_serves_while_it_lives() {
    let down = || Err(TokenError::new("the identity provider is down", None));
    let answers = [Ok(expiring("one", 100_000)), down(), down(), down()];
    let provider = Scripted::new(answers);
    let tokens = tokens(&provider);
    assert_eq!(value(&tokens).await, "one");
    pause(99).await;
    assert!(provider.asked() >= 2, "after 80 to 85 s");
    assert_eq!(value(&tokens).await, "one");
    pause(2).await;
    // It has expired. An authentication gets the provider's error.
    let asked = provider.asked();
    let last = provider.answers.lock().expect("never poisoned").len();
    assert_eq!(asked + last, 4);
    if last == 0 {
        provider
            .answers
            .lock()
            .expect("never poisoned")
            .push(down());
    }
    let error = tokens.get().await.expect_err("no token");
    assert_eq!(error.to_string(), "the identity provider is down");
}

#[tokio::test(start_paused = true)]
async fn without_an_expiry_each_authentication_asks_and_concurrent_ones_ask_once() {
    let provider = Scripted::new(["one", "two", "three"].map(|value| Ok(token(value))));
    let tokens = tokens(&provider);
    let (first, second) = tokio::join!(value(&tokens), value(&tokens));
    assert_eq!((first.as_str(), second.as_str()), ("one", "one"));
    assert_eq!(value(&tokens).await, "two");
    assert_eq!(provider.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_has_expired_is_tried_and_not_kept() {
    let provider = Scripted::new([Ok(expiring("old", -1)), Ok(expiring("new", 60_000))]);
    let tokens = tokens(&provider);
    assert_eq!(value(&tokens).await, "old");
    assert_eq!(value(&tokens).await, "new");
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_forgotten_and_another_is_tried_if_it_was_not_new() {
    let provider = Scripted::new(["one", "two"].map(|value| Ok(expiring(value, 3_600_000))));
    let tokens = tokens(&provider);
    assert_eq!(value(&tokens).await, "one");
    let start = || OAuthBearer::start(&tokens, wall_clock());
    let mut cached = start().await.expect("a token");
    assert!(cached.refused().try_again);
    let mut new = start().await.expect("a token");
    assert_eq!(new.supplied.token.value.reveal(), "two");
    assert!(!new.refused().try_again);
    assert_eq!(provider.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn brokers_that_refuse_every_token_cost_few_calls() {
    for expires_at_ms in [Some(3_600_000), Some(-1), None] {
        let answers = (0..100).map(|number| {
            Ok(Token {
                expires_at_ms,
                ..token(&number.to_string())
            })
        });
        let provider = Scripted::new(answers);
        let tokens = tokens(&provider);
        for _ in 0..60 {
            let mut session = OAuthBearer::start(&tokens, wall_clock())
                .await
                .expect("a token");
            session.refused();
            pause(1).await;
        }
        let asked = provider.asked();
        assert!((6..=14).contains(&asked), "{asked} calls in a minute");
    }
}

#[tokio::test(start_paused = true)]
async fn in_the_pause_connections_get_the_refused_token_and_no_second_attempt() {
    let provider =
        Scripted::new(["one", "two", "three"].map(|value| Ok(expiring(value, 3_600_000))));
    let tokens = tokens(&provider);
    for (expected, seconds) in [("one", 1), ("two", 1), ("two", 9), ("three", 0)] {
        let mut session = OAuthBearer::start(&tokens, wall_clock())
            .await
            .expect("a token");
        assert_eq!(session.supplied.token.value.reveal(), expected);
        assert!(!session.refused().try_again);
        pause(seconds).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_two_connections_sent_counts_once() {
    let provider = Scripted::new(["one", "two"].map(|value| Ok(expiring(value, 3_600_000))));
    let tokens = tokens(&provider);
    let start = || OAuthBearer::start(&tokens, wall_clock());
    let mut first = start().await.expect("a token");
    let mut second = start().await.expect("a token");
    first.refused();
    assert!(second.refused().try_again);
    assert_eq!(value(&tokens).await, "two");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_is_not_called_again_for_a_second() {
    let down = Err(TokenError::new("down", None));
    let provider = Scripted::new([down, Ok(expiring("one", 3_600_000))]);
    let tokens = tokens(&provider);
    for _ in 0..50 {
        let error = tokens.get().await.expect_err("down");
        assert_eq!(error.to_string(), "down");
    }
    assert_eq!(provider.asked(), 1);
    pause(1).await;
    assert_eq!(value(&tokens).await, "one");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_up() {
    let provider = Scripted::new([]);
    let tokens = tokens(&provider);
    let start = clock::now();
    let error = tokens.get().await.expect_err("no answer");
    assert!(
        error.reason.contains("did not return a token within 60 s"),
        "{error}"
    );
    assert!(clock::now() - start >= Duration::from_secs(60));
    pause(2).await;
    let answers = [Ok(expiring("one", 3_600_000))];
    provider
        .answers
        .lock()
        .expect("never poisoned")
        .extend(answers);
    assert_eq!(value(&tokens).await, "one");
    assert_eq!(provider.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_hangs_is_given_up_and_repeated() {
    let provider = Scripted::new([Ok(expiring("one", 1_000_000))]);
    let tokens = tokens(&provider);
    assert_eq!(value(&tokens).await, "one");
    pause(699).await;
    assert_eq!(provider.asked(), 1);
    // 60 s for the call and 10 s until the next one.
    pause(75).await;
    assert_eq!(provider.asked(), 3);
    assert_eq!(value(&tokens).await, "one");
}

#[tokio::test(start_paused = true)]
async fn a_late_token_is_kept_for_the_next_connection() {
    let provider = Scripted::new([]);
    let tokens = tokens(&provider);
    let limit = Duration::from_secs(10);
    for _ in 0..3 {
        let waited = tokio::time::timeout(limit, tokens.get()).await;
        waited.expect_err("the provider does not answer");
    }
    assert_eq!(provider.asked(), 1, "one call at a time");
    let reply = provider.unanswered.lock().expect("never poisoned").pop();
    reply
        .expect("a question")
        .send(Ok(expiring("late", 3_600_000)));
    assert_eq!(value(&tokens).await, "late");
}

#[tokio::test(start_paused = true)]
async fn an_error_reaches_all_who_wait_with_its_cause() {
    let cause = Cause::new(std::io::Error::other("down"));
    let error = TokenError::new("f raised OSError: down", Some(cause.clone()));
    let provider = Scripted::new([Err(error)]);
    let tokens = tokens(&provider);
    let (first, second) = tokio::join!(tokens.get(), tokens.get());
    for answer in [first, second] {
        let error = answer.expect_err("the provider raised");
        assert_eq!(error.cause, Some(cause.clone()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_drops_the_question_or_returns_nonsense_is_an_error() {
    let provider = Scripted::new([Ok(token("hunter2 x"))]);
    let tokens = tokens(&provider);
    let error = tokens.get().await.expect_err("nonsense");
    assert!(error.reason.contains("cannot be sent"), "{error}");
    assert!(!error.reason.contains("hunter2"), "{error}");
    pause(2).await;
    let ask = tokens.get();
    let drop_it = async {
        pause(1).await;
        provider.unanswered.lock().expect("never poisoned").clear();
    };
    let (answer, ()) = tokio::join!(ask, drop_it);
    let error = answer.expect_err("dropped");
    assert!(error.reason.contains("ended without a token"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_keeper_ends_with_its_client() {
    let provider = Scripted::new([Ok(expiring("one", 3_600_000))]);
    let tokens = tokens(&provider);
    assert_eq!(value(&tokens).await, "one");
    drop(tokens);
    pause(10_000).await;
    assert_eq!(provider.asked(), 1);
    assert_eq!(Arc::strong_count(&provider), 1);
}
