//! OAUTHBEARER (RFC 7628, KIP-255, KIP-342): the client's side.
//!
//! ```text
//!   n,,^Aauth=Bearer token^Akey=value^A^A ─▶
//!                                          ◀─ empty: the broker accepts the token
//!                                          ◀─ or JSON that says why it refuses the token
//!   ^A                                     ─▶
//!                                          ◀─ error code 58
//! ```
//! The application's [`TokenProvider`] supplies the tokens. [`Tokens`] keeps the last one, shares it
//! among the connections of a client, and refreshes it before it expires.

mod keeper;
mod messages;
mod refresh;
mod token;

use std::sync::Arc;

use super::{Refused, SaslError, Session};
use crate::clock::{self, WallClock};
use keeper::SuppliedToken;
pub(super) use keeper::Tokens;
use messages::Refusal;
#[cfg(test)]
pub(super) use messages::client_first;

pub use refresh::RefreshConfig;
pub use token::{Token, TokenError, TokenProvider, TokenReply};

/// The options of OAUTHBEARER.
#[derive(Clone)]
pub struct OAuthBearerConfig {
    pub provider: Arc<dyn TokenProvider>,
    pub refresh: RefreshConfig,
}

impl std::fmt::Debug for OAuthBearerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OAuthBearerConfig")
            .field("refresh", &self.refresh)
            .finish_non_exhaustive()
    }
}

/// Returns why a broker refuses a token, as an error shows it.
pub(super) fn refusal(message: &[u8]) -> String {
    Refusal::parse(message).to_string()
}

enum State {
    Start,
    /// The client has sent its token.
    Sent,
    /// The broker has refused the token. The client has responded with the byte that ends the
    /// exchange.
    Refused(Refusal),
    Ended,
}

/// One exchange.
pub(super) struct OAuthBearer {
    tokens: Arc<Tokens>,
    supplied: SuppliedToken,
    wall_clock: WallClock,
    state: State,
}

impl OAuthBearer {
    /// Waits for a token.
    pub(super) async fn start(
        tokens: &Arc<Tokens>,
        wall_clock: WallClock,
    ) -> Result<Self, TokenError> {
        Ok(Self {
            supplied: tokens.get().await?,
            tokens: Arc::clone(tokens),
            wall_clock,
            state: State::Start,
        })
    }

    /// Describes the token, as far as a log may know it.
    fn described(&self) -> String {
        let now_ms = self.wall_clock.now_ms(clock::now());
        self.supplied.token.described(now_ms)
    }
}

impl Session for OAuthBearer {
    fn step(&mut self, received: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Start => {
                self.state = State::Sent;
                Ok(Some(messages::client_first(&self.supplied.token)))
            }
            State::Sent if received.is_empty() => Ok(None),
            State::Sent => {
                self.state = State::Refused(Refusal::parse(received));
                Ok(Some(messages::END.to_vec()))
            }
            State::Refused(refusal) => Err(SaslError::ByClient(format!(
                "the broker refused the token ({}), and then accepted it. Check that the address \
                 belongs to a broker that you trust",
                refusal.status
            ))),
            State::Ended => Err(SaslError::ByClient(
                "the broker sent a message after the end of the SASL exchange".to_owned(),
            )),
        }
    }

    fn is_refused(&self) -> bool {
        matches!(self.state, State::Refused(_))
    }

    fn refused(&mut self) -> Refused {
        self.tokens.refused(&self.supplied.token);
        let words = match &self.state {
            State::Refused(refusal) => Some(format!(
                "the broker refuses the token: {refusal} ({})",
                self.described()
            )),
            _ => None,
        };
        Refused {
            words,
            // The broker may have new keys, or the token was revoked.
            try_again: self.supplied.cached,
        }
    }
}

#[cfg(test)]
mod tests;
