//! The SASL half of a broker whose sessions end (KIP-368): what Kafka's `SaslServerAuthenticator` and
//! `SocketServer` check, and in Kafka's words.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};
use thalweg_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use thalweg_protocol::{ApiKey, ErrorCode, Str};
use tokio::time::Instant;

use crate::broker::{Got, Reaction};

/// Kafka refuses a second re-authentication within this time.
const BETWEEN_MIN: Duration = Duration::from_secs(1);

/// What a broker knows about one connection.
#[derive(Default)]
struct Connection {
    mechanism: Option<Str>,
    /// Whose connection it is. `None` before the first authentication.
    principal: Option<String>,
    /// When the session ends, if it does.
    ends: Option<Instant>,
    reauthenticated_at: Option<Instant>,
    handshakes: usize,
}

#[derive(Default)]
struct State {
    connections: BTreeMap<usize, Connection>,
    killed: Vec<ApiKey>,
    reauthentications: usize,
    refused: Vec<String>,
    messages: Vec<Vec<u8>>,
}

type Accepts = dyn Fn(&[u8]) -> bool + Send + Sync;

/// The sessions of one broker.
#[derive(Clone)]
pub(crate) struct Sessions {
    lifetime_ms: i64,
    accepts: Arc<Accepts>,
    state: Arc<Mutex<State>>,
}

impl Sessions {
    /// `accepts` decides about each message with credentials.
    pub(crate) fn new(
        lifetime_ms: i64,
        accepts: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            lifetime_ms,
            accepts: Arc::new(accepts),
            state: Arc::default(),
        }
    }

    fn with<T>(&self, of: impl FnOnce(&mut State) -> T) -> T {
        of(&mut self.state.lock().expect("never poisoned"))
    }

    /// Returns the requests that came after the end of their session, which cost the connection.
    pub(crate) fn killed(&self) -> Vec<ApiKey> {
        self.with(|state| state.killed.clone())
    }

    pub(crate) fn reauthentications(&self) -> usize {
        self.with(|state| state.reauthentications)
    }

    /// Returns the reasons of all refusals.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.with(|state| state.refused.clone())
    }

    /// Returns all messages with credentials, in the order in which they came.
    pub(crate) fn messages(&self) -> Vec<Vec<u8>> {
        self.with(|state| state.messages.clone())
    }

    /// Handles requests of SASL, and those that come at the wrong time. `None`: the request is for
    /// the rest of the broker.
    pub(crate) fn react(&self, got: &Got) -> Option<Reaction> {
        let now = Instant::now();
        match got.key {
            ApiKey::API_VERSIONS => None,
            ApiKey::SASL_HANDSHAKE => Some(self.handshake(got, now)),
            ApiKey::SASL_AUTHENTICATE => Some(self.authenticate(got, now)),
            _ => self.with(|state| {
                let connection = state.connections.get(&got.connection);
                let allowed = connection.is_some_and(|known| {
                    known.principal.is_some() && known.ends.is_none_or(|end| now <= end)
                });
                if allowed {
                    return None;
                }
                state.killed.push(got.key);
                Some(Reaction::BytesThenClose(Vec::new()))
            }),
        }
    }

    fn handshake(&self, got: &Got, now: Instant) -> Reaction {
        let request: SaslHandshakeRequest = got.decode();
        self.with(|state| {
            let connection = state.connections.entry(got.connection).or_default();
            let mut response = SaslHandshakeResponse::default();
            let too_soon = connection
                .reauthenticated_at
                .is_some_and(|at| now < at + BETWEEN_MIN);
            let changed = (connection.mechanism.as_ref()).is_some_and(|m| *m != request.mechanism);
            if too_soon || changed {
                response.error_code = ErrorCode::ILLEGAL_SASL_STATE.0;
                state
                    .refused
                    .push("the wrong time, or another mechanism".to_owned());
                return got.respond(&response);
            }
            connection.mechanism = Some(request.mechanism);
            connection.handshakes += 1;
            if connection.principal.is_some() {
                connection.reauthenticated_at = Some(now);
            }
            got.respond(&response)
        })
    }

    fn authenticate(&self, got: &Got, now: Instant) -> Reaction {
        let request: SaslAuthenticateRequest = got.decode();
        let message = request.auth_bytes.to_vec();
        let accepted = (self.accepts)(&message);
        let principal = principal(&message);
        self.with(|state| {
            state.messages.push(message);
            let connection = state.connections.entry(got.connection).or_default();
            let again = connection.principal.is_some();
            let reason = match &connection.principal {
                _ if !accepted && again => Some("invalid credentials, during re-authentication"),
                _ if !accepted => Some("invalid credentials"),
                Some(before) if *before != principal => {
                    Some("Cannot change principals during re-authentication")
                }
                _ => None,
            };
            let mut response = SaslAuthenticateResponse::default();
            if let Some(reason) = reason {
                state.refused.push(reason.to_owned());
                response.error_code = ErrorCode::SASL_AUTHENTICATION_FAILED.0;
                response.error_message = Some(Str::from(reason));
                let Reaction::Bytes(bytes) = got.respond(&response) else {
                    unreachable!("a response is bytes")
                };
                return Reaction::BytesThenClose(bytes);
            }
            connection.principal = Some(principal);
            state.reauthentications += usize::from(again);
            response.session_lifetime_ms = self.lifetime_ms;
            let lifetime = u64::try_from(self.lifetime_ms).unwrap_or(0);
            let ends = now.checked_add(Duration::from_millis(lifetime));
            connection.ends = ends.filter(|_| lifetime > 0);
            got.respond(&response)
        })
    }
}

/// Returns whom a message identifies: the user of PLAIN. All tokens identify one user.
fn principal(message: &[u8]) -> String {
    let mut parts = message.split(|&byte| byte == 0).skip(1);
    let user = parts.next().unwrap_or_default();
    String::from_utf8_lossy(user).into_owned()
}
