//! The SASL part of opening a connection (KIP-43, KIP-152), and of renewing its session (KIP-368).
//!
//! ```text
//!   SaslHandshake (mechanism) ─▶ SaslAuthenticate ─▶ ... until the session is done
//! ```

use std::panic::resume_unwind;

use bytes::Bytes;
use thalweg_cluster::{ApiVersions, ConnectionError, SaslSession, SetupStep};
use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};
use thalweg_protocol::messages::sasl_handshake::SaslHandshakeRequest;
use thalweg_protocol::{ApiKey, ErrorCode, Str};
use zeroize::Zeroizing;

use super::open::{Awaiting, Failed, Handshake, host};
use crate::clock;
use crate::sasl::{Mechanism, SaslError, Session, TokenError, shown};

/// The limit on the steps of one exchange. SCRAM needs three. The limit ends an exchange with a
/// hostile broker.
const SASL_STEPS_MAX: usize = 10;

/// The first version of `SaslAuthenticate` with a session lifetime.
const SESSIONS_FROM: i16 = 1;

impl Handshake<'_> {
    pub(super) async fn authenticate(
        &mut self,
        mechanism: &Mechanism,
        versions: &ApiVersions,
        awaiting: Awaiting<'_>,
    ) -> Result<SaslSession, Failed> {
        awaiting(SetupStep::Authentication);
        self.sasl_handshake(mechanism, versions).await?;
        let version = self.require(versions, ApiKey::SASL_AUTHENTICATE)?;
        if let Some(step) = mechanism.awaits() {
            awaiting(step);
        }
        let mut session = mechanism
            .start(host(self.label))
            .await
            .map_err(|error| self.failed(mechanism, error))?;
        awaiting(SetupStep::Authentication);
        let mut received = Bytes::new();
        let mut granted = SaslSession {
            since: clock::now(),
            lifetime_ms: 0,
            can_be_renewed: version >= SESSIONS_FROM,
        };
        for _ in 0..SASL_STEPS_MAX {
            let waits = session.awaits();
            if let Some(step) = waits {
                awaiting(step);
            }
            let (continued, message) = step(session, received)
                .await
                .map_err(|error| self.failed(mechanism, error))?;
            if waits.is_some() {
                awaiting(SetupStep::Authentication);
            }
            let Some(message) = message else {
                return Ok(granted);
            };
            session = continued;
            // Only the last response counts. Its session began after the client wrote this.
            granted.since = clock::now();
            received = match self.sasl_authenticate(mechanism, message, version).await {
                Ok(response) => {
                    granted.lifetime_ms = response.session_lifetime_ms;
                    response.auth_bytes
                }
                Err(error) => return Err(self.refusal(mechanism, session, error)),
            };
        }
        let reason = "the broker does not end the SASL exchange".to_owned();
        Err(self.failed(mechanism, SaslError::ByClient(reason)).into())
    }

    async fn sasl_handshake(
        &mut self,
        mechanism: &Mechanism,
        versions: &ApiVersions,
    ) -> Result<(), ConnectionError> {
        let version = self.require(versions, ApiKey::SASL_HANDSHAKE)?;
        if version == 0 {
            // Tokens without a header would follow, to which a broker cannot respond with an error.
            return Err(self.unsupported(
                "the broker supports only version 0 of SaslHandshake. SASL needs brokers of Kafka \
                 1.0 or later"
                    .to_owned(),
            ));
        }
        let name = mechanism.name();
        let request = SaslHandshakeRequest {
            mechanism: Str::from(name),
        };
        let response = self.ask(&request, version).await?;
        let code = ErrorCode(response.error_code);
        if code == ErrorCode::NONE {
            return Ok(());
        }
        let reason = if code == ErrorCode::UNSUPPORTED_SASL_MECHANISM {
            let offered: Vec<&str> = response.mechanisms.iter().map(|name| &**name).collect();
            let offered = shown(&offered.join(", "));
            format!(
                "the broker does not offer {name}. It offers {offered}. Set sasl_mechanism to one \
                 of these, or enable {name} on the broker"
            )
        } else {
            in_words(code)
        };
        Err(self.refused(mechanism, code, &reason))
    }

    async fn sasl_authenticate(
        &mut self,
        mechanism: &Mechanism,
        message: Vec<u8>,
        version: i16,
    ) -> Result<SaslAuthenticateResponse, ConnectionError> {
        let room = message.len();
        let request = SaslAuthenticateRequest {
            auth_bytes: Bytes::from_owner(Zeroizing::new(message)),
        };
        let response = self.ask_with_room(&request, version, room).await?;
        let code = ErrorCode(response.error_code);
        if code == ErrorCode::NONE {
            return Ok(response);
        }
        let said = response.error_message.as_deref().unwrap_or_default();
        let said = if said.is_empty() {
            in_words(code)
        } else {
            shown(said)
        };
        let reason = if code == ErrorCode::SASL_AUTHENTICATION_FAILED {
            with_advice(&said, mechanism)
        } else {
            said
        };
        Err(self.refused(mechanism, code, &reason))
    }

    /// Returns the error of an exchange that the broker has ended. Some mechanisms have the reason
    /// within the exchange, and a broker may close the connection after it. If the connection breaks
    /// before that, the credentials may be good.
    fn refusal(
        &self,
        mechanism: &Mechanism,
        mut session: Box<dyn Session>,
        error: ConnectionError,
    ) -> Failed {
        let code = ErrorCode::SASL_AUTHENTICATION_FAILED;
        let is_refusal = matches!(
            error,
            ConnectionError::Authentication { code: Some(refused), .. } if refused == code
        );
        let is_closed = matches!(error, ConnectionError::Connect { .. });
        let by_broker = is_refusal || (is_closed && session.is_refused());
        if !by_broker {
            return error.into();
        }
        let refused = session.refused();
        let error = match &refused.words {
            Some(words) => self.refused(mechanism, code, &with_advice(words, mechanism)),
            None => error,
        };
        Failed {
            error,
            try_again: refused.try_again,
        }
    }

    /// Returns the error of a session.
    fn failed(&self, mechanism: &Mechanism, error: SaslError) -> ConnectionError {
        match error {
            SaslError::ByBroker(said) => {
                let code = ErrorCode::SASL_AUTHENTICATION_FAILED;
                self.refused(mechanism, code, &with_advice(&said, mechanism))
            }
            SaslError::ByClient(reason) => ConnectionError::Authentication {
                address: self.label.to_owned(),
                code: None,
                message: in_context(mechanism, &reason),
            },
            SaslError::NoToken(TokenError { reason, cause }) => ConnectionError::NoCredentials {
                address: self.label.to_owned(),
                message: in_context(mechanism, &reason),
                error: cause,
            },
        }
    }

    /// Returns the error for an error code of the broker.
    fn refused(&self, mechanism: &Mechanism, code: ErrorCode, reason: &str) -> ConnectionError {
        ConnectionError::Authentication {
            address: self.label.to_owned(),
            code: Some(code),
            message: in_context(mechanism, reason),
        }
    }
}

/// Runs the next step of a session. A slow one runs on another thread, because all connections of
/// the process share this one.
async fn step(
    mut session: Box<dyn Session>,
    received: Bytes,
) -> Result<(Box<dyn Session>, Option<Vec<u8>>), SaslError> {
    let (is_slow, turns) = (session.is_slow(), session.turns());
    let run = move || session.step(&received).map(|message| (session, message));
    if !is_slow {
        return run();
    }
    // Only the step holds the permit, and not the connection: a step outlives an attempt that takes
    // too long. An error would mean that the semaphore is closed, and it never is.
    let turn = match turns {
        Some(turns) => turns.acquire_owned().await.ok(),
        None => None,
    };
    let run = move || {
        let _turn = turn;
        run()
    };
    match tokio::task::spawn_blocking(run).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(SaslError::ByClient("the I/O thread ended".to_owned())),
        },
    }
}

/// Adds the mechanism and the user to a reason.
fn in_context(mechanism: &Mechanism, reason: &str) -> String {
    let name = mechanism.name();
    match mechanism.username() {
        Some(user) => format!("{name} as user '{}': {reason}", shown(&user)),
        None => format!("{name}: {reason}"),
    }
}

fn with_advice(said: &str, mechanism: &Mechanism) -> String {
    format!("{}. {}", said.trim_end_matches('.'), mechanism.advice())
}

fn in_words(code: ErrorCode) -> String {
    let meaning = match code {
        ErrorCode::ILLEGAL_SASL_STATE => {
            "the broker did not expect SASL here. If the listener does not use it, set \
             security_protocol to PLAINTEXT or SSL"
        }
        _ => code.message(),
    };
    format!("{}: {meaning}", code.name())
}
