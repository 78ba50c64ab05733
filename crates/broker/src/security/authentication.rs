//! [`Authentication`]: whether a connection has logged in, and what it may send (KIP-43, KIP-368).
//!
//! ```text
//! Unauthenticated ─SaslHandshake─▶ LoggingIn ─SaslAuthenticate ...─▶ Authenticated
//!                                      ▲                                  │
//!                                      └─ SaslHandshake, if sessions end ─┘
//! ```
//! A refused login ends the connection. When a session has ended, `SaslHandshake` is the only
//! request that the broker still accepts. This follows Kafka's `SaslServerAuthenticator` and
//! `KafkaChannel`.

use std::time::{Duration, Instant};

use thalweg_protocol::{ApiKey, ErrorCode};

use super::exchange::{Accepted, Exchange, Step};
use super::{Principal, SaslMechanism, Security};
use crate::error::ApiError;
use crate::faults::logins::LoginFaults;

/// A client that logs in again within this time is refused.
const REAUTHENTICATION_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// A longer session does not end.
const SESSION_MS_MAX: u64 = 100 * 365 * 24 * 60 * 60 * 1000;

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Authentication {
    stage: Stage,
    principal: Principal,
    /// The mechanism of the first login, which later ones must use, too.
    mechanism: Option<SaslMechanism>,
    /// The end of the session. `None`: it does not end.
    session_end: Option<Instant>,
    last_reauthentication: Option<Instant>,
    is_by_token: bool,
    /// The number of the time in which the session began. See [`Security::era`].
    era: u64,
}

#[derive(Debug)]
enum Stage {
    Unauthenticated,
    LoggingIn(SaslMechanism, Exchange),
    /// The client has chosen another mechanism than before. `SaslAuthenticate` gets these words.
    WrongMechanism(String),
    Authenticated,
    Refused,
}

/// How the broker responds to `SaslAuthenticate`.
pub(crate) struct Progress {
    pub(crate) message: Vec<u8>,
    /// The lifetime of the session. 0: it does not end, or the exchange continues.
    pub(crate) session_lifetime_ms: i64,
}

/// Why the response is an error.
pub(crate) struct Refused {
    pub(crate) error: ApiError,
    /// Whether the broker closes the connection after the response.
    pub(crate) is_final: bool,
}

/// The time of a step, and the limit on sessions.
pub(crate) struct At {
    pub(crate) now: Instant,
    pub(crate) now_ms: i64,
    /// `connections.max.reauth.ms`. 0: no limit.
    pub(crate) session_ms_max: u64,
}

impl Authentication {
    pub(crate) fn new(has_sasl: bool) -> Self {
        let stage = if has_sasl {
            Stage::Unauthenticated
        } else {
            Stage::Authenticated
        };
        Self {
            stage,
            principal: Principal::anonymous(),
            mechanism: None,
            session_end: None,
            last_reauthentication: None,
            is_by_token: false,
            era: 0,
        }
    }

    /// Whether the client has logged in once, or need not.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.stage, Stage::Authenticated) || self.mechanism.is_some()
    }

    /// Whether the client has logged in with a delegation token.
    pub(crate) fn is_by_token(&self) -> bool {
        self.is_by_token
    }

    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Sets the user of a connection that needs no login: its certificate says who it is.
    pub(crate) fn identify(&mut self, principal: Principal) {
        if matches!(self.stage, Stage::Authenticated) {
            self.principal = principal;
        }
    }

    /// Whether the broker accepts a request of this API now. If not, it closes the connection.
    pub(crate) fn admits(&self, key: ApiKey, security: &Security, now: Instant) -> bool {
        match self.stage {
            Stage::Unauthenticated => matches!(key, ApiKey::API_VERSIONS | ApiKey::SASL_HANDSHAKE),
            Stage::LoggingIn(..) | Stage::WrongMechanism(_) => key == ApiKey::SASL_AUTHENTICATE,
            Stage::Authenticated => {
                let is_over = self.session_end.is_some_and(|end| end <= now);
                key == ApiKey::SASL_HANDSHAKE || !(is_over || self.is_ended(security))
            }
            Stage::Refused => false,
        }
    }

    /// Whether `expire_sessions` has ended all sessions since the login.
    fn is_ended(&self, security: &Security) -> bool {
        self.mechanism.is_some() && self.era != security.era
    }

    /// Handles `SaslHandshake`. If the client may not log in again, its session continues.
    pub(crate) fn begin(
        &mut self,
        security: &Security,
        name: &str,
        now: Instant,
    ) -> Result<(), Refused> {
        if matches!(self.stage, Stage::Authenticated) {
            if !self.may_log_in_again(security, now) {
                return Err(not_now(
                    "SaslHandshake request received after successful authentication",
                ));
            }
            self.last_reauthentication = Some(now);
        }
        let mut offered = security.mechanisms.iter();
        let Some(&chosen) = offered.find(|mechanism| mechanism.name() == name) else {
            return Err(self.refuse(ApiError::of(ErrorCode::UNSUPPORTED_SASL_MECHANISM)));
        };
        self.stage = match self.mechanism {
            Some(first) if first != chosen => Stage::WrongMechanism(format!(
                "SASL mechanism '{name}' requested by client is not supported for \
                 re-authentication of mechanism '{}'",
                first.name()
            )),
            _ => Stage::LoggingIn(chosen, Exchange::Begun(chosen)),
        };
        Ok(())
    }

    /// As in Kafka, only a client whose session ends may log in again.
    fn may_log_in_again(&self, security: &Security, now: Instant) -> bool {
        let is_soon = |last| now < last + REAUTHENTICATION_INTERVAL_MIN;
        let ends = self.session_end.is_some() || self.is_ended(security);
        ends && !self.last_reauthentication.is_some_and(is_soon)
    }

    /// Handles `SaslAuthenticate`.
    pub(crate) fn step(
        &mut self,
        security: &mut Security,
        message: &[u8],
        at: &At,
        faults: &mut LoginFaults<'_>,
    ) -> Result<Progress, Refused> {
        let during = match self.mechanism {
            Some(_) => "re-authentication",
            None => "authentication",
        };
        let (mechanism, exchange) = match std::mem::replace(&mut self.stage, Stage::Refused) {
            Stage::LoggingIn(mechanism, exchange) => (mechanism, exchange),
            Stage::WrongMechanism(words) => return Err(self.failed(words)),
            stage @ (Stage::Authenticated | Stage::Unauthenticated | Stage::Refused) => {
                self.stage = stage;
                return Err(not_now(
                    "SaslAuthenticate request received after successful authentication",
                ));
            }
        };
        match exchange.step(security, message, during, at.now_ms, faults) {
            Step::Continue(exchange, message) => {
                self.stage = Stage::LoggingIn(mechanism, exchange);
                Ok(Progress {
                    message,
                    session_lifetime_ms: 0,
                })
            }
            Step::Refused(refusal) => Err(self.failed(refusal.words())),
            Step::Done(accepted) => {
                self.era = security.era;
                self.complete(mechanism, accepted, at)
            }
        }
    }

    /// Refuses the login. The broker closes the connection after the response.
    pub(crate) fn refuse(&mut self, error: ApiError) -> Refused {
        self.stage = Stage::Refused;
        Refused {
            error,
            is_final: true,
        }
    }

    fn failed(&mut self, words: impl Into<String>) -> Refused {
        self.refuse(ApiError::new(ErrorCode::SASL_AUTHENTICATION_FAILED, words))
    }

    fn complete(
        &mut self,
        mechanism: SaslMechanism,
        accepted: Accepted,
        at: &At,
    ) -> Result<Progress, Refused> {
        let Accepted {
            message,
            principal,
            expires_at_ms,
            is_by_token,
        } = accepted;
        if self.mechanism.is_some() && principal != self.principal {
            let words = format!(
                "Cannot change principals during re-authentication from User.{}: User.{}",
                self.principal.name(),
                principal.name()
            );
            return Err(self.failed(words));
        }
        let lifetime_ms = session_ms(expires_at_ms, at);
        self.session_end = lifetime_ms.map(|ms| at.now + Duration::from_millis(ms));
        self.stage = Stage::Authenticated;
        self.principal = principal;
        self.is_by_token = is_by_token;
        self.mechanism = Some(mechanism);
        Ok(Progress {
            message,
            session_lifetime_ms: lifetime_ms.map_or(0, |ms| ms as i64),
        })
    }
}

/// Returns the earlier of the end of the credentials and the limit of sessions.
fn session_ms(expires_at_ms: Option<i64>, at: &At) -> Option<u64> {
    let left = expires_at_ms.map(|end| end.saturating_sub(at.now_ms).max(0) as u64);
    let limit = Some(at.session_ms_max).filter(|ms| *ms > 0);
    let earlier = [left, limit].into_iter().flatten().min();
    earlier.filter(|ms| *ms <= SESSION_MS_MAX)
}

/// The connection stays as it is.
fn not_now(words: &str) -> Refused {
    Refused {
        error: ApiError::new(ErrorCode::ILLEGAL_SASL_STATE, words),
        is_final: false,
    }
}
