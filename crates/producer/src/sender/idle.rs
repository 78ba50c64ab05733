//! Frees topics that are no longer used: their entries, and the state of their partitions in the
//! accumulator and the sender.
//!
//! Without this, a producer that sends to ever new topics would keep all of them. A topic is freed
//! if two checks, `metadata_max_idle` apart, find that nothing was sent to it in between. Only the
//! sequences of its partitions are kept: a broker refuses a batch that does not follow the last
//! sequence it knows.
//!
//! A topic must never have two entries, as each has its own queues. So an entry is freed only while
//! nothing else holds it: the sender's partitions release theirs, and [`Accumulator::free`] checks
//! and frees in one step. If an append holds the entry, everything stays as it was.
//!
//! [`Accumulator::free`]: crate::accumulator::Accumulator::free

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_protocol::{Str, Uuid};

use crate::accumulator::ready_queue::Arrival;
use crate::idempotence::{Continuity, Sequences};
use crate::partitioning::topic::TopicEntry;
use crate::sender::Sender;
use crate::sender::partition::SenderPartition;

/// The sequences of a partition that the sender has freed.
#[derive(Debug)]
struct Numbering {
    topic_id: Uuid,
    sequences: Sequences,
}

#[derive(Debug, Default)]
pub(super) struct Idle {
    looked_at: Option<Instant>,
    /// Indexes of `Sender::partitions` that can be reused.
    vacant: Vec<usize>,
    /// The sequences of freed topics, by topic and partition.
    numberings: BTreeMap<Str, BTreeMap<i32, Numbering>>,
}

impl Idle {
    /// Creates the state of a partition, with its earlier sequences, if any. Also returns an
    /// index to reuse, if there is one.
    pub(super) fn new_state(
        &mut self,
        topic: Arc<TopicEntry>,
        partition: i32,
    ) -> (SenderPartition, Option<usize>) {
        let mut kept = None;
        if let Some(partitions) = self.numberings.get_mut(topic.name()) {
            kept = partitions.remove(&partition);
            if partitions.is_empty() {
                self.numberings.remove(topic.name());
            }
        }
        let mut state = SenderPartition::new(topic, partition);
        if let Some(kept) = kept {
            (state.topic_id, state.sequences) = (kept.topic_id, kept.sequences);
        }
        (state, self.vacant.pop())
    }

    fn is_due(&mut self, every: Duration, now: Instant) -> bool {
        let looked_at = *self.looked_at.get_or_insert(now);
        let is_due = now.duration_since(looked_at) >= every;
        if is_due {
            self.looked_at = Some(now);
        }
        is_due
    }
}

impl Sender {
    /// Returns the index of a partition, and creates its state at the first arrival.
    pub(super) fn index_of(&mut self, arrival: &Arrival) -> usize {
        let entry = arrival.topic.partition(arrival.partition);
        if let Some(index) = entry.sender_index() {
            return index;
        }
        let (state, vacant) = self
            .idle
            .new_state(Arc::clone(&arrival.topic), arrival.partition);
        let index = vacant.unwrap_or(self.partitions.len());
        entry.set_sender_index(index);
        if vacant.is_some() {
            self.partitions[index] = state;
        } else {
            self.partitions.push(state);
        }
        index
    }

    /// Checks for idle topics after each `max_idle`. It sets no deadline: the refresh of
    /// the metadata wakes even a producer that does nothing else.
    pub(super) fn free_idle_topics(&mut self, max_idle: Duration, now: Instant) {
        if !self.idle.is_due(max_idle, now) {
            return;
        }
        let mut indexes_of: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, state) in self.partitions.iter().enumerate() {
            indexes_of
                .entry(state.topic.index())
                .or_default()
                .push(index);
        }
        let in_requests: BTreeSet<usize> = self
            .requests
            .values()
            .flat_map(|request| request.batches().map(|sent| sent.index))
            .collect();
        for topic in self.accumulator.topics() {
            let indexes = indexes_of.remove(&topic.index()).unwrap_or_default();
            let is_busy = |index: &usize| in_requests.contains(index) || self.is_in_use(*index);
            if !topic.take_used() && !indexes.iter().any(is_busy) {
                self.free(topic, &indexes);
            }
        }
    }

    fn is_in_use(&self, index: usize) -> bool {
        let state = &self.partitions[index];
        let in_transaction = self.transactions.as_ref().is_some_and(|t| t.has(index));
        self.active.contains(&index)
            || in_transaction
            || state.is_searching()
            || state.sequences.continuity() != Continuity::Whole
    }

    /// Frees a topic with its partitions, unless something else holds it.
    fn free(&mut self, topic: Arc<TopicEntry>, indexes: &[usize]) {
        self.loaded.remove(&topic.index());
        for &index in indexes {
            self.partitions[index].topic = Arc::clone(&self.no_topic);
        }
        let name = topic.name().clone();
        if let Err(topic) = self.accumulator.free(topic) {
            for &index in indexes {
                self.partitions[index].topic = Arc::clone(&topic);
            }
            return;
        }
        for &index in indexes {
            let vacant = SenderPartition::new(Arc::clone(&self.no_topic), 0);
            let state = std::mem::replace(&mut self.partitions[index], vacant);
            if state.sequences.producer().is_some() {
                let numbering = Numbering {
                    topic_id: state.topic_id,
                    sequences: state.sequences,
                };
                let partitions = self.idle.numberings.entry(name.clone()).or_default();
                partitions.insert(state.partition, numbering);
            }
        }
        self.idle.vacant.extend(indexes);
    }
}
