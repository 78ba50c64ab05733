//! [`Tokens`]: keeps the last token of a client, and refreshes it.
//!
//! ```text
//!   connection ── get ──▶ keeper (a task) ── on a blocking thread ──▶ TokenProvider
//!              ◀─ token ──┘   ▲  └─ sleeps until the refresh               │
//!                             └──────────────── reply ─────────────────────┘
//! ```
//! The provider is asked at the first authentication, then in the background before the token
//! expires. If the expiry of a token is unknown, the provider is asked for each authentication, and
//! connections that wait at the same time share a token. After failures there are pauses, because
//! each connection tries again about once a second. In a pause, connections get the answer of the
//! last call.

use std::future::pending;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::{mpsc, oneshot};

use super::refresh::life;
use super::token::{Token, TokenError, TokenReply};
use super::{OAuthBearerConfig, messages};
use crate::clock::{self, WallClock};
use crate::log::{self, Level, Logger};

/// The wait after a failed refresh, as in Java and librdkafka. If brokers refuse two tokens within
/// this time, the rest of it is a pause.
const RETRY: Duration = Duration::from_secs(10);

/// The pause after the provider has failed and there is no token.
const PAUSE: Duration = Duration::from_secs(1);

/// The limit on one call of the provider. A token that comes within it, but too late for the
/// connections that waited, serves the next one.
const CALL_MAX: Duration = Duration::from_secs(60);

/// A token for one authentication.
#[derive(Debug, Clone)]
pub(super) struct SuppliedToken {
    pub(super) token: Arc<Token>,
    /// Whether the provider supplied it before this authentication asked for one, so that another
    /// token may be better.
    pub(super) cached: bool,
}

type Waiting = oneshot::Sender<Result<SuppliedToken, TokenError>>;

enum Ask {
    Token(Waiting),
    /// A broker has refused this token.
    Refused(Arc<Token>),
}

/// The tokens of one client. When it is dropped, its keeper ends.
pub(crate) struct Tokens {
    config: OAuthBearerConfig,
    client_id: String,
    wall_clock: WallClock,
    /// The keeper starts with the first question, which comes from the runtime that it runs on.
    keeper: OnceLock<mpsc::UnboundedSender<Ask>>,
}

impl Tokens {
    pub(in crate::sasl) fn new(
        config: OAuthBearerConfig,
        client_id: Option<&str>,
        wall_clock: WallClock,
    ) -> Self {
        Self {
            config,
            client_id: client_id.unwrap_or("client without client_id").to_owned(),
            wall_clock,
            keeper: OnceLock::new(),
        }
    }

    /// Waits for a token.
    pub(super) async fn get(&self) -> Result<SuppliedToken, TokenError> {
        let (waiting, answer) = oneshot::channel();
        self.ask(Ask::Token(waiting));
        let ended = |_| Err(TokenError::new("the client was closed", None));
        answer.await.unwrap_or_else(ended)
    }

    /// Drops a token that a broker has refused.
    pub(super) fn refused(&self, token: &Arc<Token>) {
        self.ask(Ask::Refused(Arc::clone(token)));
    }

    fn ask(&self, ask: Ask) {
        let keeper = self.keeper.get_or_init(|| {
            let (keeper, asks) = mpsc::unbounded_channel();
            tokio::spawn(Keeper::new(self).run(asks));
            keeper
        });
        // Without a keeper, the question is dropped, and `get` sees that.
        let _ = keeper.send(ask);
    }
}

/// A token that has not expired.
struct Kept {
    token: Arc<Token>,
    expires: Instant,
}

/// A call of the provider.
struct TokenCall {
    answer: oneshot::Receiver<Result<Token, TokenError>>,
    given_up_at: Instant,
}

/// What connections get instead of a call of the provider.
struct Pause {
    until: Instant,
    answer: Result<SuppliedToken, TokenError>,
}

struct Keeper {
    config: OAuthBearerConfig,
    client_id: String,
    wall_clock: WallClock,
    kept: Option<Kept>,
    call: Option<TokenCall>,
    /// Connections that wait for the answer to the call.
    waiting: Vec<Waiting>,
    refresh_at: Option<Instant>,
    pause: Option<Pause>,
    /// A token that a broker refused, and when. The second one within [`RETRY`] starts a pause.
    refused: Option<(Arc<Token>, Instant)>,
    /// The last warning without its digits, which may count seconds. It is not repeated.
    warned: Option<String>,
}

impl Keeper {
    fn new(tokens: &Tokens) -> Self {
        Self {
            config: tokens.config.clone(),
            client_id: tokens.client_id.clone(),
            wall_clock: tokens.wall_clock,
            kept: None,
            call: None,
            waiting: Vec::new(),
            refresh_at: None,
            pause: None,
            refused: None,
            warned: None,
        }
    }

    async fn run(mut self, mut asks: mpsc::UnboundedReceiver<Ask>) {
        loop {
            tokio::select! {
                biased;
                answer = answered(&mut self.call) => self.take(answer),
                ask = asks.recv() => match ask {
                    Some(Ask::Token(waiting)) => self.supply(waiting),
                    Some(Ask::Refused(token)) => self.forget(&token),
                    None => return,
                },
                () = reached(self.refresh_at) => {
                    self.refresh_at = None;
                    self.ask_provider();
                }
            }
        }
    }

    fn supply(&mut self, waiting: Waiting) {
        if let Some(answer) = self.known(clock::now()) {
            let _ = waiting.send(answer);
            return;
        }
        // Attempts that ran out of time have left.
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(waiting);
        self.ask_provider();
    }

    /// Returns the answer for a connection if it needs no call of the provider.
    fn known(&self, now: Instant) -> Option<Result<SuppliedToken, TokenError>> {
        if let Some(kept) = &self.kept
            && now < kept.expires
        {
            return Some(Ok(SuppliedToken {
                token: Arc::clone(&kept.token),
                cached: true,
            }));
        }
        let pause = self.pause.as_ref()?;
        (now < pause.until).then(|| pause.answer.clone())
    }

    fn forget(&mut self, token: &Arc<Token>) {
        if let Some(kept) = &self.kept
            && Arc::ptr_eq(&kept.token, token)
        {
            self.kept = None;
            self.refresh_at = None;
        }
        let now = clock::now();
        match &self.refused {
            // Several connections sent it.
            Some((refused, _)) if Arc::ptr_eq(refused, token) => {}
            // A third token would hardly be better. The broker may accept this one later.
            Some((_, at)) if now < *at + RETRY => {
                self.pause = Some(Pause {
                    until: *at + RETRY,
                    answer: Ok(SuppliedToken {
                        token: Arc::clone(token),
                        cached: false,
                    }),
                });
            }
            _ => self.refused = Some((Arc::clone(token), now)),
        }
    }

    fn ask_provider(&mut self) {
        if self.call.is_some() {
            return;
        }
        let (reply, answer) = oneshot::channel();
        let given_up_at = clock::now() + CALL_MAX;
        self.call = Some(TokenCall {
            answer,
            given_up_at,
        });
        let provider = Arc::clone(&self.config.provider);
        // The provider may have to wait for the interpreter's lock.
        tokio::task::spawn_blocking(move || provider.request(TokenReply(reply)));
    }

    /// Takes the provider's answer.
    fn take(&mut self, answer: Result<Token, TokenError>) {
        self.call = None;
        match answer.and_then(checked) {
            Ok(token) => self.keep(Arc::new(token)),
            Err(error) => self.fail(error),
        }
    }

    fn keep(&mut self, token: Arc<Token>) {
        let now = clock::now();
        // Even an expired token is sent: the broker decides whether it has expired.
        for waiting in self.waiting.drain(..) {
            let token = Arc::clone(&token);
            let _ = waiting.send(Ok(SuppliedToken {
                token,
                cached: false,
            }));
        }
        (self.warned, self.pause) = (None, None);
        (self.kept, self.refresh_at) = (None, None);
        let Some(expires_at_ms) = token.expires_at_ms else {
            return;
        };
        let life = life(expires_at_ms, self.wall_clock.now_ms(now));
        if life.is_zero() {
            return;
        }
        self.refresh_at = Some(now + self.config.refresh.after(life, random()));
        let expires = now + life;
        self.kept = Some(Kept { token, expires });
    }

    fn fail(&mut self, error: TokenError) {
        let now = clock::now();
        for waiting in self.waiting.drain(..) {
            let _ = waiting.send(Err(error.clone()));
        }
        if self.kept.as_ref().is_none_or(|kept| now >= kept.expires) {
            self.pause = Some(Pause {
                until: now + PAUSE,
                answer: Err(error),
            });
            return;
        }
        self.refresh_at = Some(now + RETRY);
        let is_digit = |char: char| char.is_ascii_digit();
        let words = error.reason.replace(is_digit, "");
        if self.warned.as_ref() != Some(&words) {
            log::emit(Logger::Network, Level::Warning, || {
                let client = &self.client_id;
                format!(
                    "{client}: cannot get a new token: {error}. The client uses the old token \
                     until it expires, and tries again in {} s",
                    RETRY.as_secs()
                )
            });
            self.warned = Some(words);
        }
    }
}

/// Waits for the provider's answer.
async fn answered(call: &mut Option<TokenCall>) -> Result<Token, TokenError> {
    let Some(call) = call else {
        return pending().await;
    };
    match tokio::time::timeout_at(call.given_up_at.into(), &mut call.answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(TokenError::new(
            "the token provider ended without a token",
            None,
        )),
        Err(_) => Err(TokenError::new(
            &format!(
                "the token provider did not return a token within {} s. Set a timeout for the \
                 requests that it sends",
                CALL_MAX.as_secs()
            ),
            None,
        )),
    }
}

async fn reached(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => pending().await,
    }
}

fn checked(token: Token) -> Result<Token, TokenError> {
    match messages::problem(&token) {
        None => Ok(token),
        Some(problem) => Err(TokenError::new(
            &format!("the token provider returned a token that cannot be sent: {problem}"),
            None,
        )),
    }
}

/// Returns a number from 0 to 1. It spreads the refreshes of many clients.
fn random() -> f64 {
    let mut byte = [0];
    // Without a random number, all of them refresh at the same part of the life.
    let _ = SystemRandom::new().fill(&mut byte);
    f64::from(byte[0]) / f64::from(u8::MAX)
}
