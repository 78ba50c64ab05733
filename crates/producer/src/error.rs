//! Why a record was not written, or why it is unknown whether it was.

use std::sync::Arc;
use std::time::Duration;

use thalweg_protocol::{ErrorCode, Str};
use thiserror::Error;

/// Why a record failed. All records of a batch share it, so cloning is cheap.
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
    /// KIP-467: the broker refused the batch because of this record.
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
        "{topic}-{partition}: {code}: the record was not written, because other records of its batch are invalid. Send it again"
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
        /// The error of the last attempt, if there was one.
        cause: Option<Arc<str>>,
    },
    /// The connection broke and no attempt was left, or the request could not be sent.
    #[error("{topic}-{partition}: {reason}{}", outcome(*possibly_written))]
    Network {
        topic: Str,
        partition: i32,
        reason: Arc<str>,
        possibly_written: bool,
    },
    /// The log lacks earlier records of this producer. This batch may have been written under its
    /// old sequence, so it cannot be sent under a new one.
    #[error(
        "{topic}-{partition}: the log has lost earlier records of this producer, so the record cannot be sent again (possibly written)"
    )]
    SequenceGap { topic: Str, partition: i32 },
    #[error(
        "the record has {size} bytes, more than {option} ({limit}). Raise {option}, or send a smaller record"
    )]
    RecordTooLarge {
        size: usize,
        limit: usize,
        option: &'static str,
    },
    #[error(
        "buffer_memory was full for max_block_ms. Send records more slowly, or raise one of these options"
    )]
    BufferExhausted,
    #[error("the producer was closed")]
    Closed,
    /// `close` timed out. `records` counts all records of the producer that were not acknowledged.
    #[error("the producer was closed with {records} records not acknowledged{}", outcome(*possibly_written))]
    ClosedBeforeDelivery {
        records: u64,
        possibly_written: bool,
    },
    /// The producer failed permanently: it sends no more batches.
    #[error("the producer failed and can only be closed: {0}")]
    Fatal(Arc<str>),
    /// A bug ended the client that should have sent the record.
    #[error("{reason}{}", outcome(*possibly_written))]
    ClientFailed {
        reason: Arc<str>,
        possibly_written: bool,
    },
    /// The producer's state does not allow the call or the record.
    #[error("{0}")]
    IllegalState(Arc<str>),
    /// KIP-654: `abort_transaction` dropped the record before it was sent.
    #[error("{topic}-{partition}: not sent, because its transaction was aborted")]
    TransactionAborted { topic: Str, partition: i32 },
    /// The open transaction can only be aborted.
    #[error(
        "call abort_transaction() and begin again (the end of a transaction() block calls it): {0}"
    )]
    TransactionAbortable(Arc<TransactionFailure>),
    /// The transactional producer failed permanently.
    #[error("the producer failed and can only be closed: {0}")]
    TransactionFatal(Arc<TransactionFailure>),
    /// A batch could not be compressed or split. This is a bug of a codec, not an error of the
    /// record.
    #[error("{topic}-{partition}: {reason}")]
    Codec {
        topic: Str,
        partition: i32,
        reason: Arc<str>,
    },
}

/// Why a transaction failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{during}: {reason}")]
pub struct TransactionFailure {
    pub kind: FailureKind,
    /// The request that failed, or a fixed text if a record failed.
    pub during: Arc<str>,
    /// [`ErrorCode::NONE`] if the error is not from a broker.
    pub code: ErrorCode,
    pub reason: Arc<str>,
    /// The record's own error, if a record failed.
    pub record: Option<Box<ProducerError>>,
}

/// The kinds of failure that applications need to distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A newer producer with the same transactional id has taken over.
    Fenced,
    /// The producer has no permission to use the transactional ID.
    NotAuthorized,
    /// The broker asked for the abort (KIP-890, KIP-1050).
    ToldToAbort,
    /// The group has rebalanced without this consumer, so the offsets cannot be committed.
    CommitFailed,
    Other,
}

impl FailureKind {
    /// Returns the kind of failure that an error code in a coordinator's response means.
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
    /// Creates the failure for an error code in a coordinator's response.
    pub(crate) fn told(during: &str, code: ErrorCode, message: &str) -> Self {
        Self {
            kind: FailureKind::of(code),
            during: Arc::from(during),
            code,
            reason: Arc::from(format!("{code}: {message}")),
            record: None,
        }
    }

    /// Creates a failure that no broker reported.
    pub(crate) fn local(during: &str, reason: &str) -> Self {
        Self {
            kind: FailureKind::Other,
            during: Arc::from(during),
            code: ErrorCode::NONE,
            reason: Arc::from(reason),
            record: None,
        }
    }

    /// Creates the failure for a record of the transaction that failed.
    pub(crate) fn of_record(error: &ProducerError) -> Self {
        let code = error.code().unwrap_or(ErrorCode::NONE);
        // An old epoch proves a newer producer only if the coordinator reports it. A partition
        // reports it for a transaction that timed out as well (KIP-588).
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
    cause.map_or_else(String::new, |cause| format!(". Last error: {cause}"))
}

impl ProducerError {
    /// Returns whether the record may be in the log although no broker acknowledged it.
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

    /// Returns the broker's error code, if the error comes from a broker.
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
