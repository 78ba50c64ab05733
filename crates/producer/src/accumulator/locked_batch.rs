//! [`LockedBatch`]: appends a run of records to one open batch under a single lock, which makes
//! whole columns cheap.

use std::sync::{Arc, MutexGuard};

use super::Accumulator;
use crate::accumulator::bulk::Group;
use crate::accumulator::partition_queue::PartitionQueue;
use crate::batch::completion::BatchCompletion;
use crate::batch::open_batch::OpenBatch;
use crate::batch::record::Record;
use crate::partitioning::partitioner::Choice;
use crate::partitioning::topic::{Sticky, TopicEntry};
use crate::sync::lock;

impl Accumulator {
    /// Locks the batch of the last appended record, to append the next records of the same group.
    /// Returns `None` if the batch accepts no more of them.
    pub(crate) fn lock_batch<'a>(
        &'a self,
        topic: &'a TopicEntry,
        completion: &Arc<BatchCompletion>,
        group: Group,
    ) -> Option<LockedBatch<'a>> {
        let queue = lock(&topic.partition(completion.partition()).queue);
        let same = |open: &OpenBatch| Arc::ptr_eq(&open.completion, completion);
        if self.gate.is_shut() || !queue.open().is_some_and(same) {
            return None;
        }
        let sticky = match group {
            // The topic may have got more partitions since the rows were grouped.
            Group::Partition(partition) if partition != completion.partition() => return None,
            Group::Partition(_) => None,
            // The sticky partition cannot change while its lock is held.
            Group::Sticky => Some(
                topic
                    .sticky()
                    .filter(|s| s.partition() == completion.partition())?,
            ),
            Group::Single => return None,
        };
        Some(LockedBatch {
            accumulator: self,
            queue,
            sticky,
        })
    }

    /// Returns the group of a row in a topic with `partition_count` partitions. Rows of one group
    /// are appended together.
    pub(crate) fn group_of(&self, partition_count: u32, record: &Record<'_>) -> Group {
        if let Some(partition) = record.partition {
            return Group::Partition(partition);
        }
        match self.partitioner.choose(record.key, self.ignore_keys) {
            Choice::Hash(hash) => match hash.checked_rem(partition_count) {
                Some(partition) => Group::Partition(partition as i32),
                None => Group::Single,
            },
            Choice::Sticky => Group::Sticky,
            Choice::Next => Group::Single,
        }
    }
}

/// An open batch whose partition stays locked, so that no other thread appends to it.
#[derive(Debug)]
pub(crate) struct LockedBatch<'a> {
    accumulator: &'a Accumulator,
    queue: MutexGuard<'a, PartitionQueue>,
    sticky: Option<Sticky>,
}

impl LockedBatch<'_> {
    /// Appends a record and returns its index in the batch. Returns `None` if it does not fit: the
    /// batch is then closed, and the next ordinary append reports it to the sender and opens
    /// another.
    #[inline]
    pub(crate) fn try_append(&mut self, record: &Record<'_>) -> Option<u32> {
        if !self.accumulator.surely_fits(record) {
            self.accumulator.check_size(record).ok()?;
        }
        let index = self.queue.try_append(record, &self.accumulator.pool)?;
        if let Some(seen) = self.sticky {
            self.queue
                .count_sticky(seen.generation(), record.len_bound());
        }
        Some(index)
    }
}
