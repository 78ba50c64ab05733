//! [`CommittedOffsets`]: what groups committed.
//!
//! For now these are groups without members: consumers that `assign` their partitions. Groups
//! with members belong to the group coordinator (see [`groups`](crate::groups)).

use std::collections::BTreeMap;

use thalweg_protocol::Str;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommittedOffset {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: Str,
}

type GroupOffsets = BTreeMap<Str, BTreeMap<i32, CommittedOffset>>;

#[derive(Debug, Default)]
pub(crate) struct CommittedOffsets {
    groups: BTreeMap<Str, GroupOffsets>,
}

impl CommittedOffsets {
    pub(crate) fn commit(
        &mut self,
        group: &Str,
        topic: &Str,
        partition: i32,
        committed: CommittedOffset,
    ) {
        // Names from a frame would keep the whole frame alive.
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
        partitions.insert(partition, committed);
    }

    pub(crate) fn get(&self, group: &str, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.groups.get(group)?.get(topic)?.get(&partition)
    }

    /// All that a group committed: by topic, then partition.
    pub(crate) fn of_group(&self, group: &str) -> Option<&GroupOffsets> {
        self.groups.get(group)
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &Str> {
        self.groups.keys()
    }

    pub(crate) fn delete_group(&mut self, group: &str) -> bool {
        self.groups.remove(group).is_some()
    }

    pub(crate) fn delete(&mut self, group: &str, topic: &str, partition: i32) {
        let Some(topics) = self.groups.get_mut(group) else {
            return;
        };
        if let Some(partitions) = topics.get_mut(topic) {
            partitions.remove(&partition);
        }
        topics.retain(|_, partitions| !partitions.is_empty());
        if topics.is_empty() {
            self.groups.remove(group);
        }
    }

    pub(crate) fn forget_topic(&mut self, topic: &str) {
        for topics in self.groups.values_mut() {
            topics.remove(topic);
        }
        self.groups.retain(|_, topics| !topics.is_empty());
    }
}
