//! [`Tokens`]: keeps the last token of a client, and refreshes it.
//!
//! ```text
//!   connection ── get ──▶ keeper (a task) ── on a blocking thread ──▶ TokenProvider
//!              ◀─ token ──┘   ▲  └─ sleeps until the refresh               │
//!                             └──────────────── reply ─────────────────────┘
//! ```
//! The provider is asked at the first authentication, then in the background before the token
//! expires. If nobody knows when a token expires, the provider is asked for each authentication, and
//! connections that wait at the same time share a token.

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

/// The wait after a failed refresh, as in Java and librdkafka.
const RETRY: Duration = Duration::from_secs(10);

/// A token for one authentication.
#[derive(Debug, Clone)]
pub(super) struct SuppliedToken {
    pub(super) token: Arc<Token>,
    /// Whether the provider supplied it before this authentication asked for one.
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
            client_id: client_id.unwrap_or("without client_id").to_owned(),
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

struct Keeper {
    config: OAuthBearerConfig,
    client_id: String,
    wall_clock: WallClock,
    kept: Option<Kept>,
    /// The provider's answer, if the provider was asked.
    asked: Option<oneshot::Receiver<Result<Token, TokenError>>>,
    /// Connections that wait for that answer.
    waiting: Vec<Waiting>,
    refresh_at: Option<Instant>,
    /// The last warning, which is not repeated.
    warned: Option<String>,
}

impl Keeper {
    fn new(tokens: &Tokens) -> Self {
        Self {
            config: tokens.config.clone(),
            client_id: tokens.client_id.clone(),
            wall_clock: tokens.wall_clock,
            kept: None,
            asked: None,
            waiting: Vec::new(),
            refresh_at: None,
            warned: None,
        }
    }

    async fn run(mut self, mut asks: mpsc::UnboundedReceiver<Ask>) {
        loop {
            tokio::select! {
                biased;
                answer = answered(&mut self.asked) => self.take(answer),
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
        if let Some(kept) = &self.kept
            && clock::now() < kept.expires
        {
            let token = Arc::clone(&kept.token);
            let _ = waiting.send(Ok(SuppliedToken {
                token,
                cached: true,
            }));
            return;
        }
        // Attempts that ran out of time have left.
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(waiting);
        self.ask_provider();
    }

    fn forget(&mut self, token: &Arc<Token>) {
        if let Some(kept) = &self.kept
            && Arc::ptr_eq(&kept.token, token)
        {
            self.kept = None;
            self.refresh_at = None;
        }
    }

    fn ask_provider(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let (reply, answer) = oneshot::channel();
        self.asked = Some(answer);
        let provider = Arc::clone(&self.config.provider);
        // The provider may have to wait for the interpreter's lock.
        tokio::task::spawn_blocking(move || provider.request(TokenReply(reply)));
    }

    /// Takes the provider's answer.
    fn take(&mut self, answer: Result<Token, TokenError>) {
        self.asked = None;
        match answer.and_then(checked) {
            Ok(token) => self.keep(Arc::new(token)),
            Err(error) => self.fail(error),
        }
    }

    fn keep(&mut self, token: Arc<Token>) {
        let now = clock::now();
        // The broker decides whether a token has expired, so that one goes out, too.
        for waiting in self.waiting.drain(..) {
            let token = Arc::clone(&token);
            let _ = waiting.send(Ok(SuppliedToken {
                token,
                cached: false,
            }));
        }
        self.warned = None;
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
        // After its end, the next connection asks for a token.
        if self.kept.as_ref().is_none_or(|kept| now >= kept.expires) {
            return;
        }
        self.refresh_at = Some(now + RETRY);
        if self.warned.as_ref() != Some(&error.reason) {
            log::emit(Logger::Network, Level::Warning, || {
                let client = &self.client_id;
                format!("{client}: the token could not be refreshed: {error}. It still works")
            });
            self.warned = Some(error.reason);
        }
    }
}

/// Waits for the provider's answer.
async fn answered(
    asked: &mut Option<oneshot::Receiver<Result<Token, TokenError>>>,
) -> Result<Token, TokenError> {
    match asked {
        Some(answer) => answer.await.unwrap_or_else(|_| {
            Err(TokenError::new(
                "the token provider ended without a token",
                None,
            ))
        }),
        None => pending().await,
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
