//! Checks that a producer's writes belong to its transaction, like Kafka's
//! `AddPartitionsToTxnManager`.
//!
//! ```text
//! Produce 3-10, TxnOffsetCommit 0-3   must have been added     INVALID_TXN_STATE
//! Produce 11, TxnOffsetCommit 4       must have been added     TRANSACTION_ABORTABLE (KIP-1050)
//! Produce 12-, TxnOffsetCommit 5-     is added (KIP-890)
//! ```

use thalweg_protocol::ErrorCode;

use super::{Now, OFFSETS_TOPIC, ProducerIdAndEpoch, TopicPartition};
use crate::Core;
use crate::topology::coordinator::partition_for;

/// What the broker does and reports, depending on the version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    /// The client knows only old errors.
    OldErrors,
    NewErrors,
    /// Adds the partition if it is not in the transaction yet.
    Add,
}

impl Verification {
    pub(crate) fn of_produce(version: i16) -> Self {
        match version {
            ..11 => Self::OldErrors,
            11 => Self::NewErrors,
            12.. => Self::Add,
        }
    }

    pub(crate) fn of_offsets(version: i16) -> Self {
        match version {
            ..4 => Self::OldErrors,
            4 => Self::NewErrors,
            5.. => Self::Add,
        }
    }
}

impl Core {
    /// Returns the partition of `__consumer_offsets` for a group.
    pub(crate) fn offsets_partition(&self, group: &str) -> TopicPartition {
        let partition = partition_for(group, self.options.offsets_partitions);
        (OFFSETS_TOPIC.into(), partition)
    }

    /// Checks that a partition is in the producer's transaction.
    pub(crate) fn ask_transaction(
        &self,
        id: &str,
        producer: ProducerIdAndEpoch,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        match self.transactions.get(id) {
            Some(transaction) => transaction.verify(producer, partition),
            None => Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING),
        }
    }

    /// Checks a partition against the producer's transaction, or adds it.
    pub(crate) fn verify_transaction(
        &mut self,
        id: &str,
        producer: ProducerIdAndEpoch,
        partition: &TopicPartition,
        verification: Verification,
        now: Now,
    ) -> Result<(), ErrorCode> {
        let outcome = match verification {
            Verification::Add => {
                self.add_to_transaction(id, producer, std::slice::from_ref(partition), now)
            }
            _ => self.ask_transaction(id, producer, partition),
        };
        outcome.map_err(|code| match code {
            // The code that clients have always known from partitions.
            ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::TRANSACTION_ABORTABLE if verification == Verification::OldErrors => {
                ErrorCode::INVALID_TXN_STATE
            }
            other => other,
        })
    }
}
