//! Why a connection or a request failed, and whether another attempt can help.

use std::error::Error as StdError;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use thalweg_protocol::{ApiKey, ErrorCode};
use thiserror::Error;

use crate::allowed_hosts::AllowedHosts;
use crate::request::NodeId;

/// What a connection waits for after the other side has accepted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupStep {
    TlsHandshake,
    ApiVersions,
    /// The application's token provider, whose token the SASL authentication needs.
    Token,
    /// The application's function that supplies the password.
    Password,
    /// What signs a login with the AWS credentials.
    AwsLogin,
    /// The Kerberos library, which may wait for the KDC.
    Kerberos,
    Authentication,
}

impl SetupStep {
    /// Says that the step is not over yet.
    fn pending(self) -> &'static str {
        match self {
            Self::TlsHandshake => {
                "accepted the connection, but has not responded to the TLS handshake yet"
            }
            Self::ApiVersions => {
                "accepted the connection, but has not responded to ApiVersions yet"
            }
            Self::Token => "the token provider has not returned a token yet",
            Self::Password => "the function in sasl_plain_password has not returned yet",
            Self::AwsLogin => "AWS has not supplied credentials yet",
            Self::Kerberos => "the Kerberos library has not returned a ticket yet",
            Self::Authentication => {
                "accepted the connection, but has not responded to the SASL authentication yet"
            }
        }
    }

    /// Says that the step was not over in time.
    fn late(self) -> &'static str {
        match self {
            Self::TlsHandshake => {
                "accepted the connection, but did not respond to the TLS handshake"
            }
            Self::ApiVersions => "accepted the connection, but did not respond to ApiVersions",
            Self::Token => "the token provider did not return a token",
            Self::Password => "the function in sasl_plain_password did not return",
            Self::AwsLogin => "AWS did not supply credentials",
            Self::Kerberos => "the Kerberos library did not return a ticket",
            Self::Authentication => {
                "accepted the connection, but did not respond to the SASL authentication"
            }
        }
    }

    /// A possible cause, for the error message.
    fn hint(self) -> &'static str {
        match self {
            Self::TlsHandshake => "Perhaps this is not a TLS port, or not a Kafka broker",
            Self::ApiVersions => {
                "Perhaps this is a TLS port (set security_protocol), or not a Kafka broker"
            }
            Self::Password => {
                "Give the requests of the function a timeout below socket_connection_setup_timeout_ms"
            }
            Self::Token => {
                "Give the requests of the provider a timeout below socket_connection_setup_timeout_ms"
            }
            Self::AwsLogin => "Check that this machine reaches the source of its AWS credentials",
            Self::Kerberos => "Check that this machine reaches the KDCs in krb5.conf, and its DNS",
            Self::Authentication => "Perhaps the broker is overloaded",
        }
    }
}

/// An error of the application's own code, for the binding to show. Two are equal if they are the
/// same error. The error is never formatted here, because this may take the interpreter's lock.
#[derive(Clone)]
pub struct Cause(Arc<dyn StdError + Send + Sync>);

impl Cause {
    pub fn new(error: impl StdError + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// Returns the error if it is of this type.
    pub fn downcast_ref<T: StdError + 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Cause {}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cause")
    }
}

/// Why a connection could not be made or was closed. It never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectionError {
    #[error("{host}: name resolution failed: {reason}")]
    Dns { host: String, reason: String },
    #[error("{address}: {reason}")]
    Connect { address: String, reason: String },
    #[error("{address}: no connection within {} ms", timeout.as_millis())]
    SetupTimedOut { address: String, timeout: Duration },
    /// The other side accepted the connection and then sent nothing.
    #[error("{address}: {} within {} ms. {}", step.late(), timeout.as_millis(), step.hint())]
    StepTimedOut {
        address: String,
        step: SetupStep,
        timeout: Duration,
    },
    /// The other side accepted a connection that is still being made, and has sent nothing so far.
    #[error("{address}: {}. {}", step.pending(), step.hint())]
    Unanswered { address: String, step: SetupStep },
    /// `fatal` means that a certificate or host name was refused, so another attempt cannot help.
    #[error("{address}: TLS: {reason}")]
    Tls {
        address: String,
        reason: String,
        fatal: bool,
    },
    /// `code` is the broker's error code (KIP-152). Without one, the client refused the broker.
    #[error("{address}: authentication failed: {message}")]
    Authentication {
        address: String,
        code: Option<ErrorCode>,
        message: String,
    },
    /// The application's code for credentials has supplied none. `error` is what it raised.
    #[error("{address}: authentication failed: {message}")]
    NoCredentials {
        address: String,
        message: String,
        error: Option<Cause>,
    },
    /// A broker advertises an address to which the options do not allow a connection.
    #[error(
        "node {node} advertises {address}, and advertised_hosts_allowed ({allowed}) does not allow this host. Add it only if it is one of your brokers"
    )]
    HostNotAllowed {
        node: NodeId,
        address: String,
        allowed: AllowedHosts,
    },
    #[error("{address}: {reason}")]
    Unsupported { address: String, reason: String },
    /// The broker did not renew the session of a connection (KIP-368). A new connection may still be
    /// possible.
    #[error("re-authentication failed: {0}")]
    Reauthentication(Box<Self>),
    #[error("the broker closed the connection")]
    ClosedByPeer,
    #[error("{0}")]
    Io(String),
    /// Bytes that no Kafka broker sends. The reason includes a hint where there is one.
    #[error("unreadable response: {0}")]
    Malformed(String),
    #[error("the response has correlation ID {got}, but {expected} was expected")]
    WrongCorrelationId { expected: i32, got: i32 },
    #[error("the response has correlation ID {0}, but no such request was sent")]
    Unsolicited(i32),
    #[error("no response to {api} within {} ms", timeout.as_millis())]
    RequestTimedOut { api: ApiKey, timeout: Duration },
    #[error("the connection was idle for connections_max_idle_ms")]
    Idle,
    #[error("the client closed all connections, to start again from bootstrap_servers")]
    Rebootstrap,
    #[error("the client was closed")]
    ClientClosed,
}

impl ConnectionError {
    /// Whether another attempt cannot help until the user changes a setting.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Authentication { .. }
            | Self::HostNotAllowed { .. }
            | Self::Unsupported { .. } => true,
            Self::Tls { fatal, .. } => *fatal,
            _ => false,
        }
    }

    /// Whether calls that wait for the connection fail with this error at once. That includes
    /// [`Self::NoCredentials`], although another attempt can help: the application's own code has
    /// failed, and the application must hear of it.
    pub fn fails_calls(&self) -> bool {
        self.is_fatal() || matches!(self, Self::NoCredentials { .. })
    }

    /// Returns a text that is the same each time the same problem occurs. The texts of brokers, of
    /// TLS and of the application may contain times or request IDs.
    pub fn problem(&self) -> String {
        match self {
            Self::Authentication { address, code, .. } => {
                format!("{address}: authentication: {code:?}")
            }
            Self::NoCredentials { address, .. } => format!("{address}: no credentials"),
            Self::Tls { address, .. } => format!("{address}: TLS"),
            Self::Reauthentication(cause) => format!("re-authentication: {}", cause.problem()),
            other => other.to_string(),
        }
    }
}

/// A broker and this client have no version of an API in common.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("node {node} and this client have no version of {api} in common: the node supports {}, the client {}", range(theirs.as_ref()), range(ours.as_ref()))]
pub struct UnsupportedVersion {
    pub node: NodeId,
    pub api: ApiKey,
    pub ours: Option<RangeInclusive<i16>>,
    pub theirs: Option<RangeInclusive<i16>>,
}

fn range(range: Option<&RangeInclusive<i16>>) -> String {
    range.map_or_else(
        || "none".to_owned(),
        |r| format!("{} to {}", r.start(), r.end()),
    )
}

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequestError {
    /// The connection broke while the request was in flight, so its outcome is unknown.
    #[error("connection to node {node} lost: {cause}")]
    Disconnected {
        node: NodeId,
        cause: Arc<ConnectionError>,
    },
    /// The request was never written, because the connection was not ready.
    #[error("node {node} is not ready")]
    NotReady { node: NodeId },
    #[error(transparent)]
    UnsupportedVersion(#[from] UnsupportedVersion),
}

impl RequestError {
    /// Whether sending the request again may help. This is false after an authentication failure:
    /// only the connection retries that.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Disconnected { cause, .. } => !cause.is_fatal(),
            Self::NotReady { .. } => true,
            Self::UnsupportedVersion(_) => false,
        }
    }

    /// Whether the broker may have acted on the request although no response came.
    pub fn possibly_written(&self) -> bool {
        matches!(self, Self::Disconnected { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> ConnectionError {
        ConnectionError::Authentication {
            address: "a:1".to_owned(),
            code: Some(ErrorCode::SASL_AUTHENTICATION_FAILED),
            message: message.to_owned(),
        }
    }

    fn without_credentials(message: &str) -> ConnectionError {
        ConnectionError::NoCredentials {
            address: "a:1".to_owned(),
            message: message.to_owned(),
            error: None,
        }
    }

    #[test]
    fn a_text_that_counts_seconds_is_the_same_problem() {
        let (first, second) = ("expired 4 s ago", "expired 5 s ago");
        assert_eq!(refused(first).problem(), refused(second).problem());
        assert_eq!(
            without_credentials(first).problem(),
            without_credentials(second).problem()
        );
        let tls = |reason: &str| ConnectionError::Tls {
            address: "a:1".to_owned(),
            reason: reason.to_owned(),
            fatal: true,
        };
        assert_eq!(tls(first).problem(), tls(second).problem());
        assert_ne!(refused(first).problem(), tls(first).problem());
        assert_ne!(
            refused(first).problem(),
            without_credentials(first).problem()
        );
    }

    #[test]
    fn a_refused_re_authentication_fails_no_call() {
        let error = ConnectionError::Reauthentication(Box::new(refused("wrong")));
        assert!(!error.is_fatal() && !error.fails_calls());
        assert!(error.to_string().contains("wrong"));
        let again = ConnectionError::Reauthentication(Box::new(refused("wrong, 5 s ago")));
        assert_eq!(error.problem(), again.problem());
        assert_ne!(error.problem(), refused("wrong").problem());
    }

    #[test]
    fn missing_credentials_fail_calls_and_requests_are_sent_again() {
        let error = without_credentials("f raised OSError");
        assert!(error.fails_calls());
        assert!(!error.is_fatal());
        let lost = |cause| RequestError::Disconnected {
            node: 1,
            cause: Arc::new(cause),
        };
        assert!(lost(error).is_retriable());
        assert!(!lost(refused("wrong")).is_retriable());
    }
}
