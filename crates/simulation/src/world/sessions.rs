//! SASL sessions that end (KIP-368): what Kafka's brokers check on each connection.
//!
//! The core of the embedded broker sees none of this. [`Login`] responds to the requests of SASL
//! before it, and refuses what comes after the end of a session.

use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_network::sasl::{SaslConfig, Secret};
use thalweg_protocol::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use thalweg_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};
use thalweg_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader, Request, frame};

/// Kafka refuses a second re-authentication within this time.
const BETWEEN_MIN: Duration = Duration::from_secs(1);

const MESSAGE: &[u8] = b"\0alice\0secret";

/// What happened to the sessions of all connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionCounts {
    pub renewed: u64,
    /// Requests after the end of a session. Kafka closes their connections.
    pub late: u64,
    /// Requests of SASL that came too soon, or with the wrong message.
    pub refused: u64,
    /// Requests that did not wait for the response to a request of SASL.
    pub pipelined: u64,
}

impl SessionCounts {
    /// Returns what no weather excuses.
    pub(crate) fn wrong(self) -> Option<String> {
        (self.pipelined > 0).then(|| format!("{} requests ran into SASL", self.pipelined))
    }
}

/// The credentials that a [`Login`] accepts.
pub(crate) fn credentials() -> SaslConfig {
    SaslConfig::Plain {
        username: "alice".to_owned(),
        password: Secret::new("secret"),
    }
}

/// The session of one connection.
pub(crate) struct Login {
    lifetime: Duration,
    ends: Option<Instant>,
    renewed_at: Option<Instant>,
}

/// What a connection does with a request.
pub(crate) enum Taken {
    ForBroker,
    Response(Bytes),
    Late,
}

impl Login {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            ends: None,
            renewed_at: None,
        }
    }

    pub(crate) fn take(
        &mut self,
        frame: &Bytes,
        counts: &mut SessionCounts,
        now: Instant,
    ) -> Taken {
        let mut input = Reader::new(frame.clone());
        let Ok(header) = frame::decode_request_header(&mut input) else {
            return Taken::ForBroker;
        };
        let (version, id) = (header.request_api_version, header.correlation_id);
        match ApiKey(header.request_api_key) {
            ApiKey::API_VERSIONS => Taken::ForBroker,
            ApiKey::SASL_HANDSHAKE => {
                let response = self.handshake(counts, now);
                Taken::Response(encode::<SaslHandshakeRequest>(version, id, &response))
            }
            ApiKey::SASL_AUTHENTICATE => {
                let message = SaslAuthenticateRequest::decode(&mut input, version);
                let message = message.map(|request| request.auth_bytes);
                let response =
                    self.authenticate(message.is_ok_and(|it| it == MESSAGE), counts, now);
                Taken::Response(encode::<SaslAuthenticateRequest>(version, id, &response))
            }
            _ if self.ends.is_some_and(|end| now <= end) => Taken::ForBroker,
            _ => {
                counts.late += 1;
                Taken::Late
            }
        }
    }

    fn handshake(&mut self, counts: &mut SessionCounts, now: Instant) -> SaslHandshakeResponse {
        let mut response = SaslHandshakeResponse::default();
        if self.renewed_at.is_some_and(|at| now < at + BETWEEN_MIN) {
            counts.refused += 1;
            response.error_code = ErrorCode::ILLEGAL_SASL_STATE.0;
        } else if self.ends.is_some() {
            self.renewed_at = Some(now);
        }
        response
    }

    fn authenticate(
        &mut self,
        is_right: bool,
        counts: &mut SessionCounts,
        now: Instant,
    ) -> SaslAuthenticateResponse {
        let mut response = SaslAuthenticateResponse::default();
        if is_right {
            counts.renewed += u64::from(self.ends.is_some());
            self.ends = Some(now + self.lifetime);
            response.session_lifetime_ms = self.lifetime.as_millis() as i64;
        } else {
            counts.refused += 1;
            response.error_code = ErrorCode::SASL_AUTHENTICATION_FAILED.0;
        }
        response
    }
}

fn encode<R: Request>(version: i16, correlation_id: i32, response: &R::Response) -> Bytes {
    let bytes = frame::encode_response(R::KEY, version, correlation_id, response);
    Bytes::from(bytes.expect("our own response fits every version"))
}

/// Adds the APIs of SASL to a response to `ApiVersions`, which includes its length.
pub(crate) fn with_sasl(request: &Bytes, response: &Bytes) -> Bytes {
    let header = frame::decode_request_header(&mut Reader::new(request.clone()));
    let header = header.expect("the core has read it");
    let (key, version) = (ApiKey(header.request_api_key), header.request_api_version);
    if key != ApiKey::API_VERSIONS {
        return response.clone();
    }
    let mut input = Reader::new(response.slice(4..));
    let id = frame::decode_response_header(&mut input, key, version).expect("the core's own");
    let mut versions = ApiVersionsResponse::decode(&mut input, version).expect("the core's own");
    for (key, max_version) in [(ApiKey::SASL_HANDSHAKE, 1), (ApiKey::SASL_AUTHENTICATE, 2)] {
        versions.api_keys.retain(|known| known.api_key != key.0);
        versions.api_keys.push(ApiVersion {
            api_key: key.0,
            min_version: 0,
            max_version,
        });
    }
    let bytes = frame::encode_response(key, version, id, &versions).expect("it was readable");
    Bytes::from(bytes)
}
