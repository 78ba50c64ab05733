//! What an error code in a coordinator's response means, as one table.

use thalweg_protocol::{ApiKey, ErrorCode};

/// What to do after a response, in ascending order of gravity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Done,
    /// Send the same request again after the backoff.
    Retry,
    /// Look up the coordinator, then send the same request again.
    FindCoordinator,
    /// The transaction can only be aborted.
    Abortable,
    /// The producer has failed permanently.
    Fatal,
}

/// Returns what to do about an error code. It decides as Kafka's `TransactionManager`, with three
/// exceptions. An `EndTxn` or `InitProducerId` that ends in `UNKNOWN_SERVER_ERROR` may have been
/// processed, so it is sent again. If a group's coordinator refuses the content of offsets, that
/// fails the transaction and not the producer. An `InitProducerId` that is refused
/// with `TRANSACTION_ABORTABLE` fails the producer, because there is no transaction to abort.
pub(crate) fn verdict(api: ApiKey, code: ErrorCode) -> Verdict {
    use ApiKey as A;
    use ErrorCode as E;
    match (code, api) {
        (E::NONE, _) => Verdict::Done,
        (E::NOT_COORDINATOR | E::COORDINATOR_NOT_AVAILABLE, _)
        | (E::REQUEST_TIMED_OUT, A::TXN_OFFSET_COMMIT) => Verdict::FindCoordinator,
        (E::UNKNOWN_SERVER_ERROR, A::END_TXN | A::INIT_PRODUCER_ID) => Verdict::Retry,
        (
            E::PRODUCER_FENCED
            | E::INVALID_PRODUCER_EPOCH
            | E::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | E::INVALID_PRODUCER_ID_MAPPING
            | E::INVALID_TXN_STATE
            | E::UNSUPPORTED_VERSION,
            _,
        )
        | (E::TRANSACTION_ABORTABLE, A::INIT_PRODUCER_ID) => Verdict::Fatal,
        (E::TRANSACTION_ABORTABLE, _)
        | (E::UNKNOWN_PRODUCER_ID, A::ADD_PARTITIONS_TO_TXN | A::ADD_OFFSETS_TO_TXN | A::END_TXN)
        | (E::GROUP_AUTHORIZATION_FAILED, A::ADD_OFFSETS_TO_TXN | A::TXN_OFFSET_COMMIT)
        | (
            E::FENCED_INSTANCE_ID
            | E::UNKNOWN_MEMBER_ID
            | E::ILLEGAL_GENERATION
            | E::STALE_MEMBER_EPOCH
            | E::GROUP_ID_NOT_FOUND
            | E::TOPIC_AUTHORIZATION_FAILED
            | E::OFFSET_METADATA_TOO_LARGE
            | E::INVALID_COMMIT_OFFSET_SIZE,
            A::TXN_OFFSET_COMMIT,
        ) => Verdict::Abortable,
        (code, _) if code.is_retriable() => Verdict::Retry,
        // Any other error of a partition: nothing of the request was added.
        (_, A::ADD_PARTITIONS_TO_TXN) => Verdict::Abortable,
        _ => Verdict::Fatal,
    }
}

/// Returns whether a batch that failed with this error fails the producer. Any other error only
/// makes the transaction abortable.
pub(crate) fn is_fatal_for_batch(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::PRODUCER_FENCED
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_PRODUCER_ID_MAPPING
            | ErrorCode::UNSUPPORTED_VERSION
    )
}
