//! [`CommittedOffsets`]: the offsets that groups committed.
//!
//! [`groups`](crate::groups) decides who may commit. `retention.rs` decides how long
//! offsets are kept.
//!
//! ```text
//! OffsetCommit    --commit-------------------------------> groups
//! TxnOffsetCommit --pend--> pending --end_transaction----> groups, if it commits
//! ```

pub(crate) mod pending;
mod retention;

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::{ErrorCode, Str};

use crate::offsets::pending::{PendingOffsets, Place};

/// At most this many groups have committed offsets at a time.
const GROUPS_MAX: usize = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommittedOffset {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: Str,
    /// By the wall clock.
    pub(crate) committed_ms: i64,
    /// When it expires, if its commit said so.
    pub(crate) expires_ms: Option<i64>,
}

/// The order in which offsets were written, like the offsets of their records in Kafka. A
/// transaction that ends late must not replace an offset that was committed after the transaction
/// wrote its own.
type Written = u64;

#[derive(Debug)]
pub(crate) struct Committed {
    written: Written,
    pub(crate) committed: CommittedOffset,
}

pub(crate) type PartitionOffsets = BTreeMap<i32, Committed>;
type GroupOffsets = BTreeMap<Str, PartitionOffsets>;

#[derive(Debug, Default)]
pub(crate) struct CommittedOffsets {
    /// Includes groups that have only pending offsets.
    groups: BTreeMap<Str, GroupOffsets>,
    pending: PendingOffsets,
    written: Written,
}

impl CommittedOffsets {
    pub(crate) fn commit(
        &mut self,
        group: &Str,
        topic: &Str,
        partition: i32,
        committed: CommittedOffset,
    ) -> Result<(), ErrorCode> {
        self.check_room(group)?;
        self.written += 1;
        self.put(group, topic, partition, self.written, committed);
        Ok(())
    }

    fn check_room(&self, group: &Str) -> Result<(), ErrorCode> {
        if self.groups.len() < GROUPS_MAX || self.groups.contains_key(group) {
            return Ok(());
        }
        Err(ErrorCode::POLICY_VIOLATION)
    }

    fn put(
        &mut self,
        group: &Str,
        topic: &Str,
        partition: i32,
        written: Written,
        committed: CommittedOffset,
    ) {
        // Detached, because names from a frame would keep the complete frame alive.
        if !self.groups.contains_key(group) {
            self.groups.insert(group.detached(), GroupOffsets::new());
        }
        let Some(topics) = self.groups.get_mut(group) else {
            return;
        };
        if !topics.contains_key(topic) {
            topics.insert(topic.detached(), BTreeMap::new());
        }
        let Some(partitions) = topics.get_mut(topic) else {
            return;
        };
        let newer = partitions
            .get(&partition)
            .is_some_and(|present| present.written > written);
        if !newer {
            partitions.insert(partition, Committed { written, committed });
        }
    }

    /// Keeps an offset until its producer's transaction ends. `home` is the partition of
    /// `__consumer_offsets` that the group belongs to.
    pub(crate) fn pend(
        &mut self,
        (producer_id, home): (i64, i32),
        place: Place,
        committed: CommittedOffset,
    ) -> Result<(), ErrorCode> {
        let group = place.group.clone();
        self.check_room(&group)?;
        self.written += 1;
        self.pending
            .put((producer_id, home), place, (self.written, committed))?;
        self.groups.entry(group).or_default();
        Ok(())
    }

    /// Whether an open transaction may change the offset.
    pub(crate) fn is_pending(&self, place: &Place) -> bool {
        self.pending.contains(place)
    }

    /// Ends the producer's transaction for the groups of this home partition.
    pub(crate) fn end_transaction(&mut self, producer_id: i64, commit: bool, home: i32) {
        for (place, (written, committed)) in self.pending.take(producer_id, home) {
            if commit {
                let (topic, partition) = (&place.topic, place.partition);
                self.put(&place.group, topic, partition, written, committed);
            }
            self.drop_if_empty(&place.group);
        }
    }

    fn drop_if_empty(&mut self, group: &Str) {
        let is_empty = self.groups.get(group).is_some_and(BTreeMap::is_empty);
        if is_empty && !self.pending.has_group(group) {
            self.groups.remove(group);
        }
    }

    /// Returns a group's committed offsets of a topic, by partition.
    pub(crate) fn of_topic(&self, group: &Str, topic: &Str) -> Option<&PartitionOffsets> {
        self.groups.get(group)?.get(topic)
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// Returns the topics and partitions for which a group committed offsets.
    pub(crate) fn of_group(
        &self,
        group: &str,
    ) -> impl Iterator<Item = (&Str, impl Iterator<Item = i32>)> {
        let topics = self.groups.get(group).into_iter().flatten();
        topics.map(|(topic, partitions)| (topic, partitions.keys().copied()))
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Str> {
        self.groups.keys()
    }

    pub(crate) fn delete_group(&mut self, group: &Str) -> bool {
        self.pending.forget_group(group);
        self.groups.remove(group).is_some()
    }

    pub(crate) fn delete(&mut self, place: &Place) {
        self.pending.forget(place);
        let Some(topics) = self.groups.get_mut(&place.group) else {
            return;
        };
        if let Some(partitions) = topics.get_mut(&place.topic) {
            partitions.remove(&place.partition);
            if partitions.is_empty() {
                topics.remove(&place.topic);
            }
        }
        self.drop_if_empty(&place.group);
    }

    /// Drops a group's expired offsets, except those that an open transaction may change.
    pub(crate) fn expire(&mut self, group: &Str, is_over: impl Fn(&Str, &CommittedOffset) -> bool) {
        let pending = &self.pending;
        let Some(topics) = self.groups.get_mut(group) else {
            return;
        };
        for (topic, partitions) in topics.iter_mut() {
            partitions.retain(|partition, offset| {
                let place = || Place {
                    group: group.clone(),
                    topic: topic.clone(),
                    partition: *partition,
                };
                !is_over(topic, &offset.committed) || pending.contains(&place())
            });
        }
        topics.retain(|_, partitions| !partitions.is_empty());
        self.drop_if_empty(group);
    }

    /// Drops the offsets of all these topics in one pass, because it goes through all groups.
    pub(crate) fn forget_topics(&mut self, gone: &BTreeSet<Str>) {
        if gone.is_empty() {
            return;
        }
        self.pending.forget_topics(gone);
        for topics in self.groups.values_mut() {
            topics.retain(|topic, _| !gone.contains(topic));
        }
        let pending = &self.pending;
        self.groups
            .retain(|group, topics| !topics.is_empty() || pending.has_group(group));
    }
}
