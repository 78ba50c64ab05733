//! The assignment and the state of each assigned partition, shared by the application's thread
//! and the I/O thread under one short mutex.
//!
//! ```text
//!  application thread                         I/O thread (Fetcher)
//!  assign, seek, pause, resume   --> mutex <-- leaders, resets, validations, watermarks
//!  drain: advance(position)      -->       <-- fetchable(node)
//! ```
//!
//! Under the lock: look-ups and field writes, nothing else. It never waits, decodes or calls out.
//! It does not know groups: who may own which partition is decided by the coordinator, which
//! calls [`Subscription::assign`] like anyone else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;

use crate::error::ConsumerError;
use crate::offset_spec::{IsolationLevel, OffsetReset};
use crate::partition_state::{FetchPosition, Leader, PartitionState, Phase};
use crate::topic_partition::TopicPartition;

/// The assigned partitions, in the order of the rotation and by name.
#[derive(Debug, Default)]
pub(crate) struct Assigned {
    partitions: IndexMap<TopicPartition, PartitionState>,
    /// Turn -> index into `partitions`.
    rotation: BTreeMap<u64, usize>,
    next_turn: u64,
    next_stamp: u64,
    next_handle: u32,
    /// Counts changes of the assignment, so that the I/O thread notices one.
    version: u64,
}

impl Assigned {
    fn stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, partition: &TopicPartition) -> Option<&PartitionState> {
        self.partitions.get(partition)
    }

    pub(crate) fn get_mut(&mut self, partition: &TopicPartition) -> Option<&mut PartitionState> {
        self.partitions.get_mut(partition)
    }

    /// The partition's state if nothing has made answers under `stamp` stale since.
    pub(crate) fn current(
        &mut self,
        partition: &TopicPartition,
        stamp: u64,
    ) -> Option<&mut PartitionState> {
        self.partitions
            .get_mut(partition)
            .filter(|state| state.stamp == stamp)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &PartitionState)> {
        self.partitions.iter()
    }

    pub(crate) fn iter_mut(
        &mut self,
    ) -> impl Iterator<Item = (&TopicPartition, &mut PartitionState)> {
        self.partitions.iter_mut()
    }

    /// In the order of the rotation: the longest unserved first.
    pub(crate) fn in_turn(&self) -> impl Iterator<Item = (&TopicPartition, &PartitionState)> {
        self.rotation.values().map(|&index| {
            self.partitions
                .get_index(index)
                .expect("rotation and partitions change together")
        })
    }

    /// Sends a partition to the end of the rotation: it has just been served.
    pub(crate) fn move_to_end(&mut self, partition: &TopicPartition) {
        if let Some((index, _, state)) = self.partitions.get_full_mut(partition) {
            self.rotation.remove(&state.turn);
            self.next_turn += 1;
            state.turn = self.next_turn;
            self.rotation.insert(state.turn, index);
        }
    }

    /// Replaces the assignment: partitions that stay keep their state and their turn.
    fn assign(&mut self, wanted: &[TopicPartition]) {
        let mut old = std::mem::take(&mut self.partitions);
        for partition in wanted {
            let state = old.swap_remove(partition).unwrap_or_else(|| {
                self.next_turn += 1;
                self.next_stamp += 1;
                self.next_handle += 1;
                PartitionState::new(self.next_handle, self.next_stamp, self.next_turn)
            });
            // A partition named twice keeps the state that the first naming moved over.
            self.partitions.entry(partition.clone()).or_insert(state);
        }
        self.rotation = self
            .partitions
            .values()
            .enumerate()
            .map(|(index, s)| (s.turn, index))
            .collect();
        self.version += 1;
    }

    pub(crate) fn enter(&mut self, partition: &TopicPartition, phase: Phase) -> bool {
        let stamp = self.stamp();
        match self.partitions.get_mut(partition) {
            Some(state) => {
                state.enter(phase, stamp);
                true
            }
            None => false,
        }
    }

    /// Moves a position over what was drained from `from` on. False if what is left of that fetch
    /// is worthless now.
    ///
    /// The I/O thread may have begun to validate the position while its records were handed out
    /// without a lock. They are out, so the position moves all the same, within its phase; the
    /// new stamp makes the question about the old position stale.
    pub(crate) fn advance(
        &mut self,
        partition: &TopicPartition,
        stamp: u64,
        from: i64,
        to: FetchPosition,
    ) -> bool {
        let next_stamp = self.stamp();
        let Some(state) = self.partitions.get_mut(partition) else {
            return false;
        };
        match &mut state.phase {
            Phase::Fetching(position) if state.stamp == stamp => {
                debug_assert_eq!(position.offset, from, "fetch offset and position agree");
                *position = to;
                true
            }
            Phase::Fetching(position) | Phase::AwaitValidation(position)
                if position.offset == from =>
            {
                *position = to;
                let phase = state.phase;
                state.enter(phase, next_stamp);
                false
            }
            _ => false,
        }
    }

    /// The buffer holds nothing of this partition any more: it may be fetched again, last.
    pub(crate) fn release(&mut self, partition: &TopicPartition, stamp: u64) {
        if let Some(state) = self.current(partition, stamp) {
            state.buffered = false;
            self.move_to_end(partition);
        }
    }

    /// Takes note of who leads a partition now. A position whose epoch is known must be confirmed
    /// by a leader of another epoch before it is read from again (KIP-320).
    pub(crate) fn set_leader(&mut self, partition: &TopicPartition, leader: Option<Leader>) {
        let stamp = self.stamp();
        let Some(state) = self.partitions.get_mut(partition) else {
            return;
        };
        if state.leader == leader {
            return;
        }
        state.leader = leader;
        state.preferred_replica = None;
        let Some(leader) = leader else { return };
        let before = state.last_leader_epoch.replace(leader.epoch);
        match state.phase {
            Phase::Fetching(position)
                if position.leader_epoch >= 0
                    && leader.epoch >= 0
                    && before.is_some_and(|epoch| epoch != leader.epoch) =>
            {
                state.enter(Phase::AwaitValidation(position), stamp);
            }
            // A request to the old leader will not settle it: ask the new one at once.
            phase @ (Phase::AwaitValidation(_) | Phase::AwaitReset(_)) => state.enter(phase, stamp),
            _ => {}
        }
    }
}

/// The subscription state, shared. See the module.
#[derive(Debug, Default)]
pub struct Subscription {
    assigned: Mutex<Assigned>,
}

impl Subscription {
    /// A panic while the lock was held leaves plain fields behind, each valid by itself, so a
    /// poisoned lock is entered all the same.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Assigned> {
        self.assigned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn assign(&self, partitions: &[TopicPartition]) {
        self.lock().assign(partitions);
    }

    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.lock().partitions.keys().cloned().collect()
    }

    pub fn is_assigned(&self, partition: &TopicPartition) -> bool {
        self.lock().get(partition).is_some()
    }

    /// Moves the position; `leader_epoch` is that of the record before `offset`, -1 if unknown.
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

    /// Asks for the position to be looked up by a policy, lazily: `seek_to_beginning` and such.
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
        match self.lock().get_mut(partition) {
            Some(state) => {
                state.paused = paused;
                Ok(())
            }
            None => Err(ConsumerError::NotAssigned {
                partition: partition.clone(),
            }),
        }
    }

    pub fn paused(&self) -> Vec<TopicPartition> {
        let assigned = self.lock();
        assigned
            .iter()
            .filter(|(_, s)| s.paused)
            .map(|(tp, _)| tp.clone())
            .collect()
    }

    /// The next offset to read, or `None` while it is being looked up.
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

    /// Records between the position and what can be read now.
    pub fn lag(
        &self,
        partition: &TopicPartition,
        isolation: IsolationLevel,
    ) -> Result<Option<i64>, ConsumerError> {
        self.read(partition, |s| {
            let end = match isolation {
                IsolationLevel::ReadUncommitted => s.high_watermark,
                IsolationLevel::ReadCommitted => s.last_stable_offset,
            };
            Some((end? - s.valid_position()?.offset).max(0))
        })
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

    /// Every known position: what a commit without arguments commits.
    pub fn all_consumed(&self) -> Vec<(TopicPartition, FetchPosition)> {
        let assigned = self.lock();
        assigned
            .iter()
            .filter_map(|(tp, s)| s.valid_position().map(|position| (tp.clone(), position)))
            .collect()
    }

    pub(crate) fn awaiting_committed(&self) -> Vec<TopicPartition> {
        let assigned = self.lock();
        assigned
            .iter()
            .filter(|(_, s)| s.phase == Phase::Initializing)
            .map(|(tp, _)| tp.clone())
            .collect()
    }

    /// A late answer changes nothing: only a partition that still waits for it takes it.
    pub(crate) fn set_committed(
        &self,
        partition: &TopicPartition,
        committed: Option<FetchPosition>,
    ) {
        let mut assigned = self.lock();
        if assigned
            .get(partition)
            .is_some_and(|s| s.phase == Phase::Initializing)
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
        self.lock()
            .iter()
            .all(|(_, s)| s.valid_position().is_some())
    }
}
