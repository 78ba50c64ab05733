//! The partition that a record goes to: chosen without a lock, and checked again under the
//! partition's lock.
//!
//! ```text
//!   choose_place ── lock the partition ── has_moved_on? ── append ── switch_if_due
//!        ▲                                     │ yes
//!        └────────────── unlock ───────────────┘
//! ```

use std::sync::Arc;

use super::{Accumulator, AppendRefusal};
use crate::accumulator::partition_queue::PartitionQueue;
use crate::batch::record::Record;
use crate::partitioning::partitioner::Choice;
use crate::partitioning::topic::{Sticky, StickyRules, TopicEntry};
use crate::sync::lock;

/// The partition that a record goes to.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) topic: &'a Arc<TopicEntry>,
    pub(super) partition: i32,
    /// Set if the partition was chosen as the sticky one.
    pub(super) sticky: Option<Sticky>,
}

impl Place<'_> {
    /// Returns whether the partition was sticky when it was chosen and no longer is. Call this with
    /// the partition's lock held.
    #[inline]
    pub(super) fn has_moved_on(&self) -> bool {
        self.sticky.is_some_and(|seen| !self.topic.is_sticky(seen))
    }

    /// Returns the refusal of a record whose partition its topic does not have.
    #[cold]
    pub(super) fn unknown(topic: &TopicEntry) -> AppendRefusal {
        let partitions = topic.partition_count();
        AppendRefusal::UnknownPartition { partitions }
    }
}

impl Accumulator {
    /// Chooses the record's partition, and remembers whether it was chosen as the sticky one.
    /// Returns `None` if the topic does not have the partition.
    #[inline(always)]
    pub(super) fn choose_place<'a>(
        &self,
        topic: &'a Arc<TopicEntry>,
        record: &Record<'_>,
    ) -> Option<Place<'a>> {
        let mut partitions = topic.partition_count();
        let known = match record.partition {
            Some(partition) => (0..partitions as i32).contains(&partition),
            None => partitions > 0,
        };
        if !known {
            partitions = self.refresh_for(topic, record.partition)?;
        }
        let (partition, sticky) = match record.partition {
            Some(partition) => (partition, None),
            None => match self.partitioner.choose(record.key, self.ignore_keys) {
                Choice::Hash(hash) => ((hash % partitions) as i32, None),
                Choice::Next => (topic.next_in_turn(), None),
                Choice::Sticky => {
                    let first = || self.with_rules(|rules| topic.first_sticky(rules));
                    let sticky = topic.sticky().unwrap_or_else(first);
                    (sticky.partition(), Some(sticky))
                }
            },
        };
        Some(Place {
            topic,
            partition,
            sticky,
        })
    }

    /// Applies the latest metadata. Returns the partition count if the topic now has the partition.
    #[cold]
    fn refresh_for(&self, topic: &TopicEntry, partition: Option<i32>) -> Option<u32> {
        self.refresh(topic);
        let partitions = topic.partition_count();
        let wanted = partition.is_none_or(|wanted| (0..partitions as i32).contains(&wanted));
        (partitions > 0 && wanted).then_some(partitions)
    }

    fn with_rules<T>(&self, f: impl FnOnce(StickyRules<'_>) -> T) -> T {
        let unavailable = lock(&self.unavailable);
        f(StickyRules {
            adaptive: self.adaptive,
            unavailable: &unavailable,
        })
    }

    /// Switches the sticky partition if it has received its share, and returns whether it did. The
    /// share is one batch if no batch is open (the record needs a new one anyway), otherwise two.
    #[cold]
    pub(super) fn switch_if_due(
        &self,
        place: &Place<'_>,
        record: &Record<'_>,
        queue: &mut PartitionQueue,
    ) -> bool {
        let Some(seen) = place.sticky else {
            return false;
        };
        // The uncompressed bytes that an open batch accepts when it is compressed later.
        let share = place
            .topic
            .ratio
            .raw_limit(self.compression, self.batch_size);
        let bytes = queue.count_sticky(seen.generation(), 0);
        let due = if queue.open().is_none() {
            bytes > 0 && bytes + record.len_bound() >= share
        } else {
            bytes >= share.saturating_mul(2)
        };
        if due {
            self.with_rules(|rules| place.topic.switch_sticky(seen, rules));
        }
        due
    }
}
