//! The transaction coordinator (KIP-98, 360, 447, 588, 664, 890).
//!
//! ```text
//! InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn --> coordinator: which node, which id
//! Produce, TxnOffsetCommit: in the transaction? --verify-------->     |
//! tick: older than its timeout? -------------------------------->     v
//!                                      Transaction: transitions by the table in states.rs
//!                                                                     | prepared
//!                          markers: control batches in partitions, offsets of groups <-'
//! ```
//! Everything is in one process, so the markers are written before the response to `EndTxn`, and
//! `InitProducerId` can roll back without asking the client to retry. Tests can hold markers back
//! with a fault on `WriteTxnMarkers`: a delaying fault holds them back for that long, and any other
//! fault makes one attempt fail (the coordinator tries again).

mod batch;
mod coordinator;
mod markers;
mod pattern;
mod states;
mod transaction;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use thalweg_protocol::{ErrorCode, Str};

pub(crate) use pattern::Pattern;
pub(crate) use states::State;
pub(crate) use transaction::{Level, Now, TopicPartition, Transaction};
pub(crate) use verify::Verification;

/// The limit on transactional ids that are kept at a time.
const IDS_MAX: usize = 100_000;
/// The limit on partitions in transactions at a time, for all ids together.
const PARTITIONS_MAX: usize = 1_000_000;

pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

const NO_EPOCH: i16 = -1;
const NO_PRODUCER: ProducerIdAndEpoch = ProducerIdAndEpoch {
    id: -1,
    epoch: NO_EPOCH,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProducerIdAndEpoch {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// All transactional ids, and the time when each needs attention.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    by_id: BTreeMap<Str, Transaction>,
    /// Deadlines of open and prepared transactions.
    deadlines: BTreeSet<(Instant, Str)>,
    /// The number of partitions in all transactions.
    partitions: usize,
}

impl Transactions {
    pub(crate) fn get(&self, id: &str) -> Option<&Transaction> {
        self.by_id.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Str, &Transaction)> {
        self.by_id.iter()
    }

    /// Adds an id unless it exists.
    fn ensure(&mut self, id: &Str, new: impl FnOnce() -> Transaction) -> Result<(), ErrorCode> {
        if self.by_id.contains_key(id) {
            return Ok(());
        }
        if self.by_id.len() >= IDS_MAX {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        self.by_id.insert(id.detached(), new());
        Ok(())
    }

    fn has_room_for(&self, partitions: usize) -> bool {
        self.partitions + partitions <= PARTITIONS_MAX
    }

    /// Changes a transaction and updates its deadline and size. All changes must go through here.
    fn change<T>(&mut self, id: &str, step: impl FnOnce(&mut Transaction) -> T) -> Option<T> {
        let transaction = self.by_id.get_mut(id)?;
        let before = transaction.deadline;
        self.partitions -= transaction.partitions.len();
        let outcome = step(transaction);
        self.partitions += transaction.partitions.len();
        let after = transaction.deadline;
        if before != after {
            let (key, _) = self.by_id.get_key_value(id)?;
            if let Some(time) = before {
                self.deadlines.remove(&(time, key.clone()));
            }
            if let Some(time) = after {
                self.deadlines.insert((time, key.clone()));
            }
        }
        Some(outcome)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(time, _)| *time)
    }

    fn due(&self, now: Instant) -> Vec<Str> {
        let due = self.deadlines.iter().take_while(|(time, _)| *time <= now);
        due.map(|(_, id)| id.clone()).collect()
    }

    /// Forgets ids that nothing has happened to for this long.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.by_id.retain(|_, transaction| {
            !transaction.is_idle() || now_ms - transaction.updated_ms < expiration_ms
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_end_to_transactional_ids() {
        let mut transactions = Transactions::default();
        let mut ensure = |index: usize| {
            let id = Str::from(format!("id-{index}"));
            transactions.ensure(&id, || Transaction::new(index as i64, 1))
        };
        for index in 0..IDS_MAX {
            ensure(index).unwrap();
        }
        assert_eq!(ensure(IDS_MAX), Err(ErrorCode::POLICY_VIOLATION));
        assert_eq!(ensure(7), Ok(()));
        transactions.expire(1000, 10);
        assert_eq!(transactions.iter().count(), 0);
    }
}
