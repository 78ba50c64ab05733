//! The errors of a reader, with the partition and the offset in fields.
//!
//! The binding maps each variant to the exception class of the same name. Only
//! [`ConsumerError::is_retriable`] decides whether a caller can simply call again.

use std::sync::Arc;

use thalweg_cluster::{ConnectionError, NodeId, UnsupportedVersion};
use thalweg_protocol::{ErrorCode, Str};

use crate::partitions::state::FetchPosition;
use crate::topic_partition::{Listed, TopicPartition};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConsumerError {
    /// There is no committed offset, and `auto.offset.reset` is `none`.
    #[error(
        "no committed offset for {}, and auto_offset_reset is 'none': call seek() to choose where to start",
        Listed(.partitions)
    )]
    NoOffsetForPartition { partitions: Vec<TopicPartition> },

    /// The position is outside the log, and `auto.offset.reset` is `none`.
    #[error(
        "offset {offset} of {partition} is out of range (log start {}), and auto_offset_reset is 'none': call seek() to choose where to continue",
        shown(*.log_start_offset)
    )]
    OffsetOutOfRange {
        partition: TopicPartition,
        offset: i64,
        log_start_offset: Option<i64>,
    },

    /// The log was truncated below the position (KIP-320), and there is no reset policy.
    #[error(
        "{partition} was truncated: position {offset} (leader epoch {leader_epoch}), the log \
         diverges at {}. To continue, seek to an offset in the log",
        shown(diverging.map(|at| at.offset))
    )]
    LogTruncation {
        partition: TopicPartition,
        offset: i64,
        leader_epoch: i32,
        /// Where the logs diverge, and the epoch that ends there, if the leader knows.
        diverging: Option<FetchPosition>,
    },

    /// A batch fails its checksum, cannot be decompressed, or has a broken structure.
    #[error(
        "corrupt record batch in {partition} at offset {offset}: {reason}. \
         To skip it, seek to an offset after it"
    )]
    CorruptBatch {
        partition: TopicPartition,
        offset: i64,
        reason: String,
    },

    /// `message` says what to grant.
    #[error("{message}")]
    TopicAuthorizationFailed { topics: Vec<Str>, message: Str },

    #[error(
        "partition {partition} is not assigned to this consumer: assignment() returns the partitions that are"
    )]
    NotAssigned { partition: TopicPartition },

    #[error(
        "Consumer is not subscribed to any topics or assigned any partitions: call subscribe() or assign() first"
    )]
    NotSubscribed,

    /// No connection to a node that leads assigned partitions is possible with these settings.
    #[error("node {node}: {cause}")]
    Connection {
        node: NodeId,
        cause: Arc<ConnectionError>,
    },

    /// A broker returned an unexpected error code.
    #[error("{api} failed with {} ({context})", code.name())]
    Broker {
        api: &'static str,
        code: ErrorCode,
        context: String,
    },

    #[error("{what} did not finish in time. Last error: {}", last.as_deref().unwrap_or("none"))]
    Timeout {
        what: &'static str,
        last: Option<String>,
    },

    /// No record of a range arrived within the timeout (Spark reader).
    #[error(
        "no records of {partition} from offset {position} arrived in time (the range ends at {end}). \
         Raise the timeout (Spark: kafkaConsumer.pollTimeoutMs), or check the partition's leader"
    )]
    RangeTimeout {
        partition: TopicPartition,
        position: i64,
        end: i64,
    },

    #[error(
        "could not find the position of {partition} in time{}",
        why.as_deref().map(|why| format!(": {why}")).unwrap_or_default()
    )]
    PositionTimeout {
        partition: TopicPartition,
        why: Option<String>,
    },

    #[error(transparent)]
    UnsupportedVersion(#[from] UnsupportedVersion),

    /// Records of the requested range are gone: deleted by retention, or truncated (Spark reader).
    #[error(
        "{partition}: offsets {from} to {} of the requested range are not available: {reason}",
        to - 1
    )]
    DataLoss {
        partition: TopicPartition,
        from: i64,
        to: i64,
        reason: &'static str,
    },

    #[error("the consumer is closed")]
    Closed,
}

impl ConsumerError {
    /// Whether the same call can succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::RangeTimeout { .. }
            | Self::PositionTimeout { .. }
            | Self::CorruptBatch { .. } => true,
            Self::Broker { code, .. } => code.is_retriable(),
            _ => false,
        }
    }

    /// Whether both are about the same problem. The text of a refusal may differ each time: it may
    /// contain a time or a request ID.
    pub(crate) fn is_same_problem(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Connection { node, cause },
                Self::Connection {
                    node: other,
                    cause: newer,
                },
            ) => node == other && cause.problem() == newer.problem(),
            _ => self == other,
        }
    }
}

fn shown(offset: Option<i64>) -> String {
    offset.map_or_else(|| "unknown".to_owned(), |o| o.to_string())
}
