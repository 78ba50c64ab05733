//! [`Exchange`]: one login, with any mechanism.

use thalweg_security::oauthbearer::{self, unsecured};
use thalweg_security::scram::{Challenged, ClientFirst, Credential, ScramHash};
use thalweg_security::{Refusal, aws, plain};

use super::{Principal, SaslMechanism, Security};
use crate::faults::logins::LoginFaults;

/// Where a login is.
#[derive(Debug)]
pub(super) enum Exchange {
    Begun(SaslMechanism),
    Scram(Box<Challenged>, Option<ByToken>),
    /// The client has a refusal, which it must confirm.
    TokenRefused(Refusal),
}

/// A login with a delegation token.
#[derive(Debug)]
pub(super) struct ByToken {
    owner: Principal,
    expires_at_ms: i64,
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
    /// Whether the client has logged in with a delegation token.
    pub(super) is_by_token: bool,
}

impl Exchange {
    /// `during` is the word for the login in Kafka's texts.
    pub(super) fn step(
        self,
        security: &mut Security,
        message: &[u8],
        during: &str,
        now_ms: i64,
        faults: &mut LoginFaults<'_>,
    ) -> Step {
        let (outcome, mechanism) = match self {
            Self::Begun(SaslMechanism::Plain) => return plain(security, message),
            Self::Begun(SaslMechanism::Scram(hash)) => {
                let first = scram_first(security, hash, message, now_ms, faults);
                (first, hash.mechanism())
            }
            Self::Scram(challenged, token) => {
                let mechanism = challenged.hash().mechanism();
                let user = Principal::user(challenged.user());
                let last = challenged.finish(message);
                let last = last.map(|message| {
                    if faults.has_bad_signature() {
                        forged(message)
                    } else {
                        message
                    }
                });
                let done = last.map(|message| match token {
                    Some(token) => accepted_token(message, token),
                    None => accepted(message, user, None),
                });
                (done, mechanism)
            }
            Self::Begun(SaslMechanism::OAuthBearer) => return token(security, message, now_ms),
            Self::Begun(SaslMechanism::AwsMskIam) => return signed(security, message, now_ms),
            Self::TokenRefused(refusal) => return Step::Refused(refusal),
        };
        // As in Kafka, the response omits the reason, because it would reveal which users exist.
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
        is_by_token: false,
    })
}

/// The client acts as the owner, and its session ends with the token.
fn accepted_token(message: Vec<u8>, token: ByToken) -> Step {
    Step::Done(Accepted {
        message,
        principal: token.owner,
        expires_at_ms: Some(token.expires_at_ms),
        is_by_token: true,
    })
}

/// Changes a signature, which is in Base64 after `v=`.
fn forged(mut message: Vec<u8>) -> Vec<u8> {
    if let Some(byte) = message.get_mut(2) {
        *byte = if *byte == b'A' { b'B' } else { b'A' };
    }
    message
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

fn scram_first(
    security: &mut Security,
    hash: ScramHash,
    message: &[u8],
    now_ms: i64,
    faults: &mut LoginFaults<'_>,
) -> Result<Step, Refusal> {
    let first = ClientFirst::parse(message)?;
    let token = if first.has_tokenauth() {
        security.tokens.for_login(first.user(), now_ms)
    } else {
        None
    };
    let known = match token {
        Some(token) => token.credential(hash),
        // The name of a user is not the ID of a token.
        None if first.has_tokenauth() => None,
        None => security.users.credential(first.user(), hash),
    };
    let by_token = token.map(|token| ByToken {
        owner: token.owner.clone(),
        expires_at_ms: token.expires_ms,
    });
    let credential = match known {
        Some(credential) => credential.clone(),
        None => Credential::of_nobody(hash, first.user(), &security.salts),
    };
    let credential = match faults.iterations() {
        Some(iterations) => credential.announcing(iterations),
        None => credential,
    };
    let nonce = security.nonces.nonce();
    let (message, challenged) = first.challenge(credential, &nonce);
    Ok(Step::Continue(
        Exchange::Scram(challenged.into(), by_token),
        message,
    ))
}

fn token(security: &Security, message: &[u8], now_ms: i64) -> Step {
    let first = match oauthbearer::ClientFirst::parse(message) {
        Ok(first) => first,
        Err(refusal) => return Step::Refused(refusal),
    };
    let verified = match &security.jwks {
        Some(jwks) => jwks.check(&first.token, &security.expected_claims, now_ms),
        None => unsecured::check(&first.token, now_ms),
    };
    let Some(verified) = verified else {
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

fn signed(security: &mut Security, message: &[u8], now_ms: i64) -> Step {
    let request_id = security.nonces.nonce();
    match aws::Login::parse(message) {
        Some(login) if security.users.have_signed(&login, now_ms) => {
            let principal = Principal::user(login.access_key());
            accepted(aws::accepted(&request_id), principal, None)
        }
        _ => Step::Refused(aws::access_denied(&request_id)),
    }
}
