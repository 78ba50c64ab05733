//! [`Exchange`]: one login, with any mechanism.

use thalweg_security::oauthbearer::{self, unsecured};
use thalweg_security::scram::{Challenged, ClientFirst, Credential, ScramHash};
use thalweg_security::{Refusal, plain};

use super::{Principal, SaslMechanism, Security};

/// Where a login is.
#[derive(Debug)]
pub(super) enum Exchange {
    Begun(SaslMechanism),
    Scram(Box<Challenged>),
    /// The client has a refusal, which it must confirm.
    TokenRefused(Refusal),
}

/// What follows from a message of the client.
pub(super) enum Step {
    Continue(Exchange, Vec<u8>),
    Done(Accepted),
    Refused(Refusal),
}

/// A login that has succeeded.
pub(super) struct Accepted {
    /// The broker's last message.
    pub(super) message: Vec<u8>,
    pub(super) principal: Principal,
    /// When the credentials expire, in Unix milliseconds. `None`: never.
    pub(super) expires_at_ms: Option<i64>,
}

impl Exchange {
    /// `during` is the word for the login in Kafka's texts.
    pub(super) fn step(
        self,
        security: &mut Security,
        message: &[u8],
        during: &str,
        now_ms: i64,
    ) -> Step {
        let (outcome, mechanism) = match self {
            Self::Begun(SaslMechanism::Plain) => return plain(security, message),
            Self::Begun(SaslMechanism::Scram(hash)) => {
                (scram_first(security, hash, message), hash.mechanism())
            }
            Self::Scram(challenged) => {
                let mechanism = challenged.hash().mechanism();
                let principal = Principal::user(challenged.user());
                let last = challenged.finish(message);
                (
                    last.map(|message| accepted(message, principal, None)),
                    mechanism,
                )
            }
            Self::Begun(SaslMechanism::OAuthBearer) => return token(message, now_ms),
            Self::TokenRefused(refusal) => return Step::Refused(refusal),
        };
        // The reason stays here, as in Kafka: it would help to find out which users exist.
        outcome.unwrap_or_else(|_| {
            Step::Refused(Refusal::new(format!(
                "Authentication failed during {during} due to invalid credentials with SASL \
                 mechanism {mechanism}"
            )))
        })
    }
}

fn accepted(message: Vec<u8>, principal: Principal, expires_at_ms: Option<i64>) -> Step {
    Step::Done(Accepted {
        message,
        principal,
        expires_at_ms,
    })
}

fn plain(security: &Security, message: &[u8]) -> Step {
    match plain::parse(message) {
        Ok(login) if security.users.accepts(&login) => {
            accepted(Vec::new(), Principal::user(&login.user), None)
        }
        Ok(_) => Step::Refused(plain::wrong_password()),
        Err(refusal) => Step::Refused(refusal),
    }
}

fn scram_first(security: &mut Security, hash: ScramHash, message: &[u8]) -> Result<Step, Refusal> {
    let first = ClientFirst::parse(message)?;
    // There are no delegation tokens, so no token has such an ID.
    let known = if first.has_tokenauth() {
        None
    } else {
        security.users.credential(first.user(), hash)
    };
    let credential = match known {
        Some(credential) => credential.clone(),
        None => Credential::of_nobody(hash, first.user(), &security.salts),
    };
    let nonce = security.nonces.nonce();
    let (message, challenged) = first.challenge(credential, &nonce);
    Ok(Step::Continue(Exchange::Scram(challenged.into()), message))
}

fn token(message: &[u8], now_ms: i64) -> Step {
    let first = match oauthbearer::ClientFirst::parse(message) {
        Ok(first) => first,
        Err(refusal) => return Step::Refused(refusal),
    };
    let Some(verified) = unsecured::check(&first.token, now_ms) else {
        let refusal = oauthbearer::refusal();
        let message = refusal.words().as_bytes().to_vec();
        return Step::Continue(Exchange::TokenRefused(refusal), message);
    };
    match first.check_authorization(&verified.principal) {
        Ok(()) => {
            let principal = Principal::user(&verified.principal);
            accepted(Vec::new(), principal, verified.expires_at_ms)
        }
        Err(refusal) => Step::Refused(refusal),
    }
}
