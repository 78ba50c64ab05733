//! What the application asks about its partitions. All positions are settled.

use std::time::Instant;

use thalweg_protocol::planted::{Bug, is_planted};

use super::state::{Ahead, Current, FetchPosition, HandedOut, PartitionState, Phase};
use super::{PARTITIONS_PER_LOCK, Partitions};
use crate::error::ConsumerError;
use crate::offset_spec::IsolationLevel;
use crate::topic_partition::TopicPartition;

impl Partitions {
    /// Collects a value from each partition, [`PARTITIONS_PER_LOCK`] at a time, so that no thread
    /// waits for the lock until all are done. Starts again if the assignment changes in between.
    pub(crate) fn collect<T>(
        &self,
        mut of: impl FnMut(&TopicPartition, &mut PartitionState) -> Option<T>,
    ) -> (u64, Vec<T>) {
        let mut found = Vec::new();
        let (mut version, mut from) = (None, 0);
        loop {
            let mut assigned = self.settled();
            let now = assigned.version();
            if version.replace(now).is_some_and(|before| before != now) {
                found.clear();
                from = 0;
            }
            let mut seen = 0;
            for (partition, state) in assigned.iter_mut().skip(from).take(PARTITIONS_PER_LOCK) {
                seen += 1;
                found.extend(of(partition, state));
            }
            if seen < PARTITIONS_PER_LOCK {
                return (now, found);
            }
            from += seen;
        }
    }

    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.versioned_assignment().1
    }

    /// Returns the assignment with its version.
    pub(crate) fn versioned_assignment(&self) -> (u64, Vec<TopicPartition>) {
        self.collect(|tp, _| Some(tp.clone()))
    }

    pub fn has_assignment(&self) -> bool {
        self.settled().iter().next().is_some()
    }

    pub fn is_assigned(&self, partition: &TopicPartition) -> bool {
        self.settled().get(partition).is_some()
    }

    pub fn paused(&self) -> Vec<TopicPartition> {
        self.collect(|tp, s| s.paused.then(|| tp.clone())).1
    }

    /// Returns the next offset to read, or `None` while it is being looked up.
    pub fn position(
        &self,
        partition: &TopicPartition,
    ) -> Result<Option<FetchPosition>, ConsumerError> {
        self.read(partition, PartitionState::valid_position)
    }

    pub fn high_watermark(&self, partition: &TopicPartition) -> Result<Option<i64>, ConsumerError> {
        self.read(partition, |s| s.high_watermark)
    }

    pub fn last_stable_offset(
        &self,
        partition: &TopicPartition,
    ) -> Result<Option<i64>, ConsumerError> {
        self.read(partition, |s| s.last_stable_offset)
    }

    pub fn log_start_offset(
        &self,
        partition: &TopicPartition,
    ) -> Result<Option<i64>, ConsumerError> {
        self.read(partition, |s| s.log_start_offset)
    }

    /// Returns when a broker last responded to a fetch of the partition, with or without records.
    pub fn fetched_at(&self, partition: &TopicPartition) -> Result<Option<Instant>, ConsumerError> {
        self.read(partition, |s| s.fetched_at)
    }

    /// Returns the number of offsets between the position and the readable end of the log.
    pub fn lag(
        &self,
        partition: &TopicPartition,
        isolation: IsolationLevel,
    ) -> Result<Option<i64>, ConsumerError> {
        self.read(partition, |s| s.distance(isolation).map(|at| at.lag))
    }

    fn read<T>(
        &self,
        partition: &TopicPartition,
        of: impl FnOnce(&PartitionState) -> T,
    ) -> Result<T, ConsumerError> {
        match self.settled().get(partition) {
            Some(state) => Ok(of(state)),
            None => Err(ConsumerError::NotAssigned {
                partition: partition.clone(),
            }),
        }
    }

    /// Returns every known position: the offsets of a commit without arguments.
    ///
    /// A position in a topic that was deleted and created again is left out. Groups keep offsets
    /// by the topic's name, so a committed one would count for the new topic, whose first records
    /// would never be read.
    pub fn all_consumed(&self) -> Vec<(TopicPartition, FetchPosition)> {
        let consumed = |tp: &TopicPartition, s: &mut PartitionState| {
            if s.is_of_former_topic() {
                return None;
            }
            let position = if is_planted(Bug::CommitUnreceived) {
                s.fetch_position()
            } else {
                s.valid_position()
            };
            position.map(|position| (tp.clone(), position))
        };
        self.collect(consumed).1
    }

    /// Returns what was returned of each partition, or `None` if nothing was since its assignment.
    pub fn handed_out(&self, partitions: &[TopicPartition]) -> Vec<Option<HandedOut>> {
        let assigned = self.settled();
        let of_one = |tp: &TopicPartition| assigned.get(tp).and_then(|state| state.handed_out);
        partitions.iter().map(of_one).collect()
    }

    /// Whether the last response about the partition was not an error.
    pub(crate) fn is_answered_well(&self, partition: &TopicPartition) -> bool {
        let assigned = self.settled();
        let state = assigned.get(partition);
        state.is_some_and(|s| s.valid_position().is_some() && s.attempts == 0 && !s.blocked)
    }

    /// Whether a fetch of the partition has arrived whose records are not drained yet.
    pub(crate) fn has_fetched(&self, partition: &TopicPartition) -> bool {
        let assigned = self.settled();
        let state = assigned.get(partition);
        state.is_some_and(|state| {
            !matches!(state.current, Current::None) || matches!(state.ahead, Ahead::Held(_))
        })
    }

    /// Whether the partition is fetched from its leader, and not from a closer replica.
    pub(crate) fn is_read_from_leader(&self, partition: &TopicPartition) -> bool {
        let assigned = self.settled();
        let state = assigned.get(partition);
        state.is_some_and(|s| s.in_session.is_some() && s.in_session == s.leader.map(|l| l.node))
    }

    /// Whether two metadata responses in a row have lacked the partition.
    pub(crate) fn is_absent(&self, partition: &TopicPartition) -> bool {
        let assigned = self.settled();
        let state = assigned.get(partition);
        state.is_some_and(|state| state.absence.is_confirmed())
    }

    pub(crate) fn awaiting_committed(&self) -> Vec<TopicPartition> {
        self.collect(|tp, s| (s.phase == Phase::Initializing).then(|| tp.clone()))
            .1
    }
}
