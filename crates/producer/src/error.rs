//! What can become of a record that was not written, or of which nobody knows.

use std::sync::Arc;
use std::time::Duration;

use thalweg_protocol::{ErrorCode, Str};
use thiserror::Error;

/// Why a record failed. Shared by all records of a batch, so cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProducerError {
    /// The broker refused the batch.
    #[error("{topic}-{partition}: {code}: {message}")]
    Broker {
        topic: Str,
        partition: i32,
        code: ErrorCode,
        message: Str,
        possibly_written: bool,
    },
    /// KIP-467: the broker refused the batch because of this very record.
    #[error("{topic}-{partition}: {code}: record {index} of the batch: {message}")]
    InvalidRecord {
        topic: Str,
        partition: i32,
        code: ErrorCode,
        index: u32,
        message: Str,
    },
    /// KIP-467: the broker refused the batch because of other records in it.
    #[error(
        "{topic}-{partition}: {code}: the record was not written because others of its batch are invalid"
    )]
    OtherRecordsInvalid {
        topic: Str,
        partition: i32,
        code: ErrorCode,
    },
    #[error("{topic}-{partition}: not acknowledged within delivery_timeout_ms ({} ms){}{}", timeout.as_millis(), outcome(*possibly_written), because(cause.as_deref()))]
    DeliveryTimeout {
        topic: Str,
        partition: i32,
        timeout: Duration,
        possibly_written: bool,
        /// Why the last try failed, if there was one.
        cause: Option<Arc<str>>,
    },
    /// The connection broke and no retry was left.
    #[error("{topic}-{partition}: {reason}{}", outcome(*possibly_written))]
    Network {
        topic: Str,
        partition: i32,
        reason: Arc<str>,
        possibly_written: bool,
    },
    /// The broker has a gap where earlier records of this producer should be; this batch may have
    /// been written before under its old sequence, so it cannot be sent under a new one.
    #[error(
        "{topic}-{partition}: out of order sequence after a loss of earlier records (possibly written)"
    )]
    SequenceGap { topic: Str, partition: i32 },
    #[error("record of {size} bytes is larger than {option} ({limit})")]
    RecordTooLarge {
        size: usize,
        limit: usize,
        option: &'static str,
    },
    #[error("no room in buffer_memory within max_block_ms")]
    BufferExhausted,
    #[error("the producer was closed")]
    Closed,
    /// `close` ran out of time; `records` were not acknowledged, in all batches together.
    #[error("the producer was closed with {records} records not acknowledged{}", outcome(*possibly_written))]
    ClosedBeforeDelivery {
        records: u64,
        possibly_written: bool,
    },
    /// The producer cannot go on: no batch will be sent any more.
    #[error("the producer failed: {0}")]
    Fatal(Arc<str>),
    /// A batch could not be compressed or taken apart: a bug of a codec, not of the record.
    #[error("{topic}-{partition}: {reason}")]
    Codec {
        topic: Str,
        partition: i32,
        reason: Arc<str>,
    },
}

fn outcome(possibly_written: bool) -> &'static str {
    if possibly_written {
        " (possibly written)"
    } else {
        ""
    }
}

fn because(cause: Option<&str>) -> String {
    cause.map_or_else(String::new, |cause| format!("; last error: {cause}"))
}

impl ProducerError {
    /// The record may be in the log although nobody acknowledged it.
    pub fn possibly_written(&self) -> bool {
        match self {
            Self::Broker {
                possibly_written, ..
            }
            | Self::DeliveryTimeout {
                possibly_written, ..
            }
            | Self::Network {
                possibly_written, ..
            }
            | Self::ClosedBeforeDelivery {
                possibly_written, ..
            } => *possibly_written,
            Self::SequenceGap { .. } => true,
            _ => false,
        }
    }

    /// The broker's error code, where a broker said one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Broker { code, .. }
            | Self::InvalidRecord { code, .. }
            | Self::OtherRecordsInvalid { code, .. } => Some(*code),
            Self::SequenceGap { .. } => Some(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER),
            _ => None,
        }
    }
}
