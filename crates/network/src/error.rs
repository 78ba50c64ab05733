//! The errors that callers of a client get.

use std::fmt::Write as _;
use std::sync::Arc;

use thalweg_cluster::{Address, ConnectionError, InvalidTopic, RequestError};
use thalweg_consumer::ConsumerError;
use thalweg_producer::ProducerError;
use thalweg_protocol::{DecodeError, EncodeError, ErrorCode, Str};
use thiserror::Error;

/// Why a call on a client failed. It never contains a secret.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ClientError {
    /// No bootstrap address could be reached in time. Lists each address with its cause.
    #[error("no brokers available: {}", causes(.0))]
    NoBrokersAvailable(Vec<(Address, String)>),
    /// The time is over. The text says what the call was waiting for, and that it did not come in
    /// time.
    #[error("{0}")]
    TimedOut(String),
    /// Authentication, certificates or versions: another attempt does not help.
    #[error("{0}")]
    Connection(Arc<ConnectionError>),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    InvalidTopic(#[from] InvalidTopic),
    /// A broker's error code, with what it refers to.
    #[error("{context}: {}", code.name())]
    Broker { code: ErrorCode, context: String },
    /// Fresh metadata of the topic does not have the partition.
    #[error(
        "partition {partition} of topic {topic} does not exist: the topic has {partitions} partitions"
    )]
    UnknownPartition {
        topic: Str,
        partition: i32,
        partitions: i32,
    },
    #[error("the cluster has no node {0}: describe_cluster() returns its nodes")]
    UnknownNode(i32),
    #[error("{0}")]
    Configuration(String),
    /// The system has no more threads or descriptors.
    #[error(
        "the system has no thread or file descriptor left for the client: {0}. Close other clients, or raise \
         the limits of the process (ulimit -n, ulimit -u)"
    )]
    System(String),
    #[error(transparent)]
    Producer(#[from] ProducerError),
    #[error(transparent)]
    Consumer(#[from] ConsumerError),
    #[error("the client is closed")]
    Closed,
    /// A panic in the client's part of the I/O thread, which is a bug of this library.
    #[error(
        "the client failed and cannot be used any more: {0}. This is a bug: please report it. \
         Close the client and create a new one"
    )]
    Failed(Arc<str>),
    /// The runtime's thread and the sockets stayed in the parent process.
    #[error(
        "this client was created before fork(), in the parent process. Create a new one in this \
         process"
    )]
    Forked,
}

impl ClientError {
    /// Whether a broker, or the client itself, has refused the login.
    pub fn is_refused_login(&self) -> bool {
        matches!(self, Self::Connection(cause)
            if matches!(**cause, ConnectionError::Authentication { .. }))
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::TimedOut(_) => true,
            Self::Connection(error) => !error.is_fatal(),
            Self::Request(error) => error.is_retriable(),
            Self::Consumer(error) => error.is_retriable(),
            Self::Broker { code, .. } => code.is_retriable(),
            _ => false,
        }
    }
}

fn causes(causes: &[(Address, String)]) -> String {
    let mut text = String::new();
    for (address, cause) in causes {
        let separator = if text.is_empty() { "" } else { "; " };
        // Most causes already name their address.
        let named = cause.starts_with(&address.to_string());
        let _ = if named {
            write!(text, "{separator}{cause}")
        } else {
            write!(text, "{separator}{address}: {cause}")
        };
    }
    text
}
