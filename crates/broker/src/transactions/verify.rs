//! Whether what a producer writes belongs to its transaction: Kafka's `AddPartitionsToTxnManager`.
//!
//! ```text
//! Produce 3-10, TxnOffsetCommit 0-3   must have been added     INVALID_TXN_STATE
//! Produce 11, TxnOffsetCommit 4       must have been added     TRANSACTION_ABORTABLE (KIP-1050)
//! Produce 12-, TxnOffsetCommit 5-     is added (KIP-890)
//! ```

use thalweg_protocol::ErrorCode;

use super::{Now, OFFSETS_TOPIC, ProducerIdAndEpoch, TopicPartition};
use crate::Core;
use crate::coordinator::partition_for;

/// What the version of a request lets the broker do and say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    /// The client knows errors of old only.
    OldErrors,
    NewErrors,
    /// Adds what is not in the transaction yet.
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
    /// Where the offsets of a group would be.
    pub(crate) fn offsets_partition(&self, group: &str) -> TopicPartition {
        let partition = partition_for(group, self.options.offsets_partitions);
        (OFFSETS_TOPIC.into(), partition)
    }

    /// Whether a partition is in the transaction of the producer.
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

    /// Checks a partition against the transaction of the producer, or adds it.
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
            // What clients have always known from partitions.
            ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::TRANSACTION_ABORTABLE if verification == Verification::OldErrors => {
                ErrorCode::INVALID_TXN_STATE
            }
            other => other,
        })
    }
}
