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
    /// A bug ended the client that was to send it.
    #[error("{reason}{}", outcome(*possibly_written))]
    ClientFailed {
        reason: Arc<str>,
        possibly_written: bool,
    },
    /// The call, or the record, is not for the state that the producer is in.
    #[error("{0}")]
    IllegalState(Arc<str>),
    /// KIP-654: `abort_transaction` dropped the record before it was sent.
    #[error("{topic}-{partition}: not sent, as its transaction was aborted")]
    TransactionAborted { topic: Str, partition: i32 },
    /// The open transaction can only be aborted.
    #[error("{0}; the way on is abort_transaction()")]
    TransactionAbortable(Arc<TransactionFailure>),
    /// The transactional producer cannot go on.
    #[error("{0}; the producer can only be closed")]
    TransactionFatal(Arc<TransactionFailure>),
    /// A batch could not be compressed or taken apart: a bug of a codec, not of the record.
    #[error("{topic}-{partition}: {reason}")]
    Codec {
        topic: Str,
        partition: i32,
        reason: Arc<str>,
    },
}

/// What went wrong with a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{during}: {reason}")]
pub struct TransactionFailure {
    pub kind: FailureKind,
    /// The request or the record that failed.
    pub during: Arc<str>,
    /// [`ErrorCode::NONE`] if no broker said anything.
    pub code: ErrorCode,
    pub reason: Arc<str>,
    /// The record's own error, if it was a record.
    pub record: Option<Box<ProducerError>>,
}

/// What applications tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A newer producer with the same transactional id took over.
    Fenced,
    /// The transactional id is not ours to use.
    NotAuthorized,
    /// The broker itself said that the transaction is to be aborted (KIP-890, KIP-1050).
    ToldToAbort,
    /// The group has moved on, so the offsets cannot be committed.
    CommitFailed,
    Other,
}

impl FailureKind {
    /// What an error code in a coordinator's answer says.
    pub(crate) fn of(code: ErrorCode) -> Self {
        match code {
            ErrorCode::PRODUCER_FENCED | ErrorCode::INVALID_PRODUCER_EPOCH => Self::Fenced,
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => Self::NotAuthorized,
            ErrorCode::TRANSACTION_ABORTABLE => Self::ToldToAbort,
            ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::STALE_MEMBER_EPOCH => Self::CommitFailed,
            _ => Self::Other,
        }
    }
}

impl TransactionFailure {
    /// A coordinator's error code.
    pub(crate) fn told(during: &str, code: ErrorCode, message: &str) -> Self {
        Self {
            kind: FailureKind::of(code),
            during: Arc::from(during),
            code,
            reason: Arc::from(format!("{code}: {message}")),
            record: None,
        }
    }

    /// No broker said it.
    pub(crate) fn local(during: &str, reason: &str) -> Self {
        Self {
            kind: FailureKind::Other,
            during: Arc::from(during),
            code: ErrorCode::NONE,
            reason: Arc::from(reason),
            record: None,
        }
    }

    /// A record of the transaction failed.
    pub(crate) fn of_record(error: &ProducerError) -> Self {
        let code = error.code().unwrap_or(ErrorCode::NONE);
        // An old epoch is a sure sign of a newer producer to a coordinator only: to a partition it
        // is what a transaction that ran out of time looks like as well (KIP-588).
        let kind = match FailureKind::of(code) {
            FailureKind::Fenced if code == ErrorCode::INVALID_PRODUCER_EPOCH => FailureKind::Other,
            FailureKind::CommitFailed => FailureKind::Other,
            kind => kind,
        };
        Self {
            kind,
            during: Arc::from("a record of the transaction failed"),
            code,
            reason: Arc::from(error.to_string()),
            record: Some(Box::new(error.clone())),
        }
    }
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
            }
            | Self::ClientFailed {
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
            Self::TransactionAbortable(failure) | Self::TransactionFatal(failure) => {
                Some(failure.code).filter(|code| code.is_error())
            }
            _ => None,
        }
    }
}
