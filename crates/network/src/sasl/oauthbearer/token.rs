//! [`Token`], and the [`TokenProvider`] of the application that supplies it.

use std::fmt;

use thalweg_cluster::Cause;
use tokio::sync::oneshot;

use crate::sasl::{Secret, shown};

/// A bearer token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub value: Secret,
    /// When the token expires, in Unix milliseconds. `None`: unknown.
    pub expires_at_ms: Option<i64>,
    /// Whom the token identifies, for errors.
    pub principal: Option<String>,
    /// Names and values for the broker (KIP-342).
    pub extensions: Vec<(String, String)>,
}

impl Token {
    /// Describes the token without showing it: its principal, and when it expires.
    pub(super) fn described(&self, now_ms: i64) -> String {
        let subject = match &self.principal {
            Some(principal) => format!("subject '{}', ", shown(principal)),
            None => String::new(),
        };
        let expiry = match self.expires_at_ms.map(|at| at.saturating_sub(now_ms)) {
            None => "its expiry is unknown".to_owned(),
            Some(left @ 1..) => format!("expires in {} s by this machine's clock", left / 1000),
            Some(left) => format!(
                "expired {} s ago by this machine's clock",
                left.unsigned_abs() / 1000
            ),
        };
        format!("{subject}{expiry}")
    }
}

/// Supplies the tokens of one client.
pub trait TokenProvider: Send + Sync {
    /// Starts to get a token. It may block for a moment, but it must not wait for the token: it
    /// answers through `reply`, from any thread. A client has one call in flight at most. If there
    /// is no answer within a minute, the client gives the call up and may start another one.
    fn request(&self, reply: TokenReply);
}

/// Takes the answer of a provider. Dropping it means that there will be no token.
pub struct TokenReply(pub(super) oneshot::Sender<Result<Token, TokenError>>);

impl TokenReply {
    /// Passes the answer to the client. Does nothing if the client no longer waits for it.
    pub fn send(self, answer: Result<Token, TokenError>) {
        let _ = self.0.send(answer);
    }
}

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenError {
    pub(crate) reason: String,
    pub(crate) cause: Option<Cause>,
}

impl TokenError {
    /// Takes a reason without a secret. `cause` is the error of the application's own code.
    pub fn new(reason: &str, cause: Option<Cause>) -> Self {
        Self {
            reason: shown(reason),
            cause,
        }
    }

    /// Returns the error of the application's own code, if there is one.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}
