//! [`BrokerError`]: why a call of the broker's own API (not of Kafka's protocol) failed.

use std::io;

use thalweg_protocol::{ErrorCode, Str};

/// Errors of the broker's own API, for the program that runs it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// Another process or broker already listens there.
    #[error(
        "node {node}: port {port} of {host} is in use. Choose another port, or 0 for a free one"
    )]
    PortTaken { node: i32, host: String, port: u16 },
    #[error("node {node}: cannot listen on {host}:{port}: {source}")]
    Listen {
        node: i32,
        host: String,
        port: u16,
        source: io::Error,
    },
    /// A wrong option, in the wording of Kafka's `ConfigException`.
    #[error("{0}")]
    Config(String),
    #[error("cannot start the broker's thread: {0}")]
    Thread(io::Error),
    /// The error that a client would get as a code for the same request.
    #[error("{}: {message}", code.name())]
    Kafka { code: ErrorCode, message: String },
    #[error("there is no node {node}: the nodes are 1 to {nodes}")]
    NoSuchNode { node: i32, nodes: i32 },
    #[error("the broker is closed")]
    Closed,
    /// The broker's thread did not respond in time.
    #[error("the broker's thread did not {what} within {seconds} s")]
    Timeout { what: &'static str, seconds: u64 },
}

impl BrokerError {
    /// Returns the code that a client would have got, if there is one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Kafka { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub fn is_port_taken(&self) -> bool {
        matches!(self, Self::PortTaken { .. })
    }
}

/// Why a client's request is refused, in the form that responses use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn unknown_topic() -> Self {
        Self::of(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    }

    /// Makes an error with Kafka's own message for the code.
    pub(crate) fn of(code: ErrorCode) -> Self {
        Self::new(code, code.message())
    }

    /// Returns the code and message fields of a response: 0 and null if nothing was refused.
    pub(crate) fn fields(error: Option<Self>) -> (i16, Option<Str>) {
        match error {
            Some(error) => (error.code.0, Some(error.message.into())),
            None => (0, None),
        }
    }
}

impl From<ApiError> for BrokerError {
    fn from(error: ApiError) -> Self {
        Self::Kafka {
            code: error.code,
            message: error.message,
        }
    }
}
