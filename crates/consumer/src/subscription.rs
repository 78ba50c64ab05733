//! The assignment and the state of each assigned partition, shared by the application's thread
//! and the I/O thread under one short mutex.
//!
//! ```text
//!  application thread                         I/O thread (Fetcher)
//!  assign, seek, pause, resume   --> mutex <-- leaders, resets, validations, watermarks
//!  drain: advance(position)      -->       <-- survey
//! ```
//!
//! The lock is held only for lookups and field writes, never to wait, decode or call out. This
//! module does not know groups: the coordinator decides who owns which partition, and calls
//! `assign` on the application's half like any other caller.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use thalweg_protocol::planted::{Bug, is_planted};

use crate::absence::AbsenceNote;
use crate::assigned::{Assigned, Changes};
use crate::error::ConsumerError;
use crate::offset_spec::{IsolationLevel, OffsetReset};
use crate::partition_state::{FetchPosition, HandedOut, PartitionState, Phase};
use crate::sync;
use crate::topic_partition::TopicPartition;

/// Partitions handled under one hold of the lock, about 100 microseconds.
pub(crate) const PARTITIONS_PER_LOCK: usize = 256;

/// The shared subscription state. See the module.
#[derive(Debug)]
pub struct Subscription {
    assigned: Mutex<Assigned>,
    changes: Arc<Changes>,
}

impl Default for Subscription {
    fn default() -> Self {
        let assigned = Assigned::default();
        let changes = Arc::clone(assigned.changes());
        Self {
            assigned: Mutex::new(assigned),
            changes,
        }
    }
}

impl Subscription {
    /// Locks the table. No other lock of the consumer may be held, see [`crate::sync`].
    pub(crate) fn lock(&self) -> MutexGuard<'_, Assigned> {
        sync::lock(&self.assigned)
    }

    pub(crate) fn mutex(&self) -> &Mutex<Assigned> {
        &self.assigned
    }

    /// Collects a value from each partition, [`PARTITIONS_PER_LOCK`] at a time, so that no thread
    /// waits for the lock until all are done. Starts again if the assignment changes in between.
    pub(crate) fn collect<T>(
        &self,
        mut of: impl FnMut(&TopicPartition, &mut PartitionState) -> Option<T>,
    ) -> (u64, Vec<T>) {
        let mut found = Vec::new();
        let (mut version, mut from) = (None, 0);
        loop {
            let mut assigned = self.lock();
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

    /// Returns a counter that can be read without the lock. It grows with every change that may
    /// prevent records outside of the buffer from being returned: a new phase, assignment or pause
    /// of any partition.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.count()
    }

    pub(crate) fn assign(&self, partitions: &[TopicPartition]) {
        self.lock().assign(partitions);
    }

    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.versioned_assignment().1
    }

    /// Returns the assignment with its version.
    pub(crate) fn versioned_assignment(&self) -> (u64, Vec<TopicPartition>) {
        self.collect(|tp, _| Some(tp.clone()))
    }

    pub fn has_assignment(&self) -> bool {
        self.lock().iter().next().is_some()
    }

    pub fn is_assigned(&self, partition: &TopicPartition) -> bool {
        self.lock().get(partition).is_some()
    }

    /// Moves the position. `leader_epoch` is that of the record before `offset`, -1 if unknown.
    pub(crate) fn seek(
        &self,
        partition: &TopicPartition,
        offset: i64,
        leader_epoch: i32,
    ) -> Result<(), ConsumerError> {
        let position = FetchPosition {
            offset,
            leader_epoch,
        };
        let phase = if leader_epoch >= 0 {
            Phase::AwaitValidation(position)
        } else {
            Phase::Fetching(position)
        };
        self.enter(partition, phase)
    }

    /// Requests a lazy lookup of the position by a policy, for `seek_to_beginning` and similar
    /// calls.
    pub(crate) fn request_reset(
        &self,
        partition: &TopicPartition,
        reset: OffsetReset,
    ) -> Result<(), ConsumerError> {
        self.enter(partition, Phase::AwaitReset(reset))
    }

    fn enter(&self, partition: &TopicPartition, phase: Phase) -> Result<(), ConsumerError> {
        if self.lock().enter(partition, phase) {
            Ok(())
        } else {
            Err(ConsumerError::NotAssigned {
                partition: partition.clone(),
            })
        }
    }

    pub(crate) fn set_paused(
        &self,
        partition: &TopicPartition,
        paused: bool,
    ) -> Result<(), ConsumerError> {
        if self.lock().set_paused(partition, paused) {
            Ok(())
        } else {
            Err(ConsumerError::NotAssigned {
                partition: partition.clone(),
            })
        }
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
        match self.lock().get(partition) {
            Some(state) => Ok(of(state)),
            None => Err(ConsumerError::NotAssigned {
                partition: partition.clone(),
            }),
        }
    }

    /// Returns every known position: the offsets of a commit without arguments.
    pub fn all_consumed(&self) -> Vec<(TopicPartition, FetchPosition)> {
        let consumed = |tp: &TopicPartition, s: &mut PartitionState| {
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
        let assigned = self.lock();
        let of_one = |tp: &TopicPartition| assigned.get(tp).and_then(|state| state.handed_out);
        partitions.iter().map(of_one).collect()
    }

    /// Whether the last response about the partition was not an error.
    pub(crate) fn is_answered_well(&self, partition: &TopicPartition) -> bool {
        let assigned = self.lock();
        let state = assigned.get(partition);
        state.is_some_and(|s| s.valid_position().is_some() && s.attempts == 0 && !s.blocked)
    }

    /// Whether two metadata responses in a row have lacked the partition.
    pub(crate) fn is_absent(&self, partition: &TopicPartition) -> bool {
        let assigned = self.lock();
        let state = assigned.get(partition);
        state.is_some_and(|state| state.absence == AbsenceNote::Told)
    }

    pub(crate) fn awaiting_committed(&self) -> Vec<TopicPartition> {
        self.collect(|tp, s| (s.phase == Phase::Initializing).then(|| tp.clone()))
            .1
    }

    /// Sets the committed offset, if the partition still waits for it. A late one changes nothing.
    pub(crate) fn set_committed(
        &self,
        partition: &TopicPartition,
        committed: Option<FetchPosition>,
    ) {
        let mut assigned = self.lock();
        if assigned
            .get(partition)
            .is_some_and(|s| s.phase == Phase::Initializing || is_planted(Bug::LateCommitted))
        {
            let phase = match committed {
                None => Phase::Uncommitted,
                Some(position) if position.leader_epoch >= 0 => Phase::AwaitValidation(position),
                Some(position) => Phase::Fetching(position),
            };
            assigned.enter(partition, phase);
        }
    }

    pub fn has_all_positions(&self) -> bool {
        let lacking =
            |_: &TopicPartition, s: &mut PartitionState| s.valid_position().is_none().then_some(());
        self.collect(lacking).1.is_empty()
    }
}
