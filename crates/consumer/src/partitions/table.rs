//! The table of assigned partitions, and which of them the fetcher must check.
//!
//! Every change through [`Assigned::edit`] and similar methods marks the partition as *touched*.
//! The fetcher checks only touched partitions, so the cost of a poll depends on the changes and
//! not on the assignment: with 50,000 partitions and traffic on four, it checks four.
//!
//! Only one change is not marked: a position that draining moves. The next fetch does not depend
//! on it until all fetched records are drained.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use indexmap::IndexMap;
use thalweg_cluster::NodeId;
use thalweg_protocol::Uuid;

use crate::decoding::completed_fetch::CompletedFetch;
use crate::partitions::handing_out::TakenRecords;
use crate::partitions::serving::ServingOrder;
use crate::partitions::state::{Ahead, Current, Leader, PartitionState, Phase};
use crate::partitions::watched::Watched;
use crate::topic_partition::TopicPartition;

/// A revoked partition that the fetcher still has to remove from its nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    pub(crate) handle: u32,
    pub(crate) in_session: Option<NodeId>,
    pub(crate) counted_at: Option<NodeId>,
}

/// See [`crate::partitions::Partitions::changes`]. Written under the lock, read without it.
#[derive(Debug, Default)]
pub(crate) struct Changes(AtomicU64);

impl Changes {
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Assigned {
    partitions: IndexMap<TopicPartition, PartitionState>,
    /// Handle -> index in `partitions`.
    indexes: BTreeMap<u32, usize>,
    /// The fetches that the partitions hold, in the order in which they are served.
    pub(crate) order: ServingOrder,
    /// The number of fetches that drains and iterations have taken out and not given back yet.
    pub(crate) out: usize,
    /// Fetches to drop as soon as the lock is free: their memory may take long to return.
    #[expect(
        clippy::vec_box,
        reason = "they are boxed already, and the lock is held"
    )]
    dropped: Vec<Box<CompletedFetch>>,
    /// Held data was dropped, so jobs that wait for a codec may have lost their purpose.
    discarded: bool,
    touched: Vec<u32>,
    removed: Vec<Removed>,
    /// The records that the last drain took, in its order.
    pub(crate) taken: Vec<TakenRecords>,
    /// Handles of partitions that a drain asked for by name and found no records of.
    pub(crate) asked_for: BTreeSet<u32>,
    pub(crate) watched: Watched,
    paused: usize,
    last_turn: u64,
    last_stamp: u64,
    last_handle: u32,
    /// Counts changes of the assignment, so that the I/O thread notices them.
    version: u64,
    changes: Arc<Changes>,
}

impl Assigned {
    pub(crate) fn stamp(&mut self) -> u64 {
        self.last_stamp += 1;
        self.last_stamp
    }

    pub(crate) fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn get(&self, partition: &TopicPartition) -> Option<&PartitionState> {
        self.partitions.get(partition)
    }

    /// Returns the state for a change, and marks the partition to be checked.
    pub(crate) fn edit(&mut self, partition: &TopicPartition) -> Option<&mut PartitionState> {
        let index = self.partitions.get_index_of(partition)?;
        self.edit_index(index)
    }

    pub(crate) fn edit_handle(&mut self, handle: u32) -> Option<&mut PartitionState> {
        let index = *self.indexes.get(&handle)?;
        self.edit_index(index)
    }

    fn edit_index(&mut self, index: usize) -> Option<&mut PartitionState> {
        let (_, state) = self.partitions.get_index_mut(index)?;
        if !state.touched {
            state.touched = true;
            self.touched.push(state.handle);
        }
        Some(state)
    }

    /// Returns the state for a change, if responses under `stamp` are not stale.
    pub(crate) fn current(&mut self, handle: u32, stamp: u64) -> Option<&mut PartitionState> {
        let index = *self.indexes.get(&handle)?;
        let (_, state) = self.partitions.get_index(index)?;
        (state.stamp == stamp).then(|| self.edit_index(index))?
    }

    /// Works like [`Self::current`], by name.
    pub(crate) fn current_named(
        &mut self,
        partition: &TopicPartition,
        stamp: u64,
    ) -> Option<&mut PartitionState> {
        let handle = self.partitions.get(partition)?.handle;
        self.current(handle, stamp)
    }

    pub(crate) fn touch(&mut self, partition: &TopicPartition) {
        let _ = self.edit(partition);
    }

    /// Returns the state for the check itself, which does not mark the partition again.
    pub(crate) fn by_handle(
        &mut self,
        handle: u32,
    ) -> Option<(&TopicPartition, &mut PartitionState)> {
        let index = *self.indexes.get(&handle)?;
        self.partitions.get_index_mut(index)
    }

    pub(crate) fn name_of(&self, handle: u32) -> Option<&TopicPartition> {
        let (partition, _) = self.partitions.get_index(*self.indexes.get(&handle)?)?;
        Some(partition)
    }

    /// Drops a fetch whose records will not be returned, once the lock is free.
    pub(crate) fn drop_later(&mut self, fetch: Box<CompletedFetch>) {
        self.discarded = true;
        self.dropped.push(fetch);
    }

    /// Drops a fetch that was drained, once the lock is free.
    pub(crate) fn drop_emptied(&mut self, fetch: Box<CompletedFetch>) {
        self.dropped.push(fetch);
    }

    /// Returns the fetches to drop.
    #[expect(
        clippy::vec_box,
        reason = "they are boxed already, and the lock is held"
    )]
    pub(crate) fn take_dropped(&mut self) -> Vec<Box<CompletedFetch>> {
        std::mem::take(&mut self.dropped)
    }

    /// Returns whether held data was dropped since the last call.
    pub(crate) fn take_discarded(&mut self) -> bool {
        std::mem::take(&mut self.discarded)
    }

    pub(crate) fn take_touched(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.touched)
    }

    pub(crate) fn take_removed(&mut self) -> Vec<Removed> {
        std::mem::take(&mut self.removed)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &PartitionState)> {
        self.partitions.iter()
    }

    /// Iterates for metrics, which marks nothing.
    pub(crate) fn iter_mut(
        &mut self,
    ) -> impl Iterator<Item = (&TopicPartition, &mut PartitionState)> {
        self.partitions.iter_mut()
    }

    pub(crate) fn has_paused(&self) -> bool {
        self.paused > 0
    }

    pub(crate) fn set_paused(&mut self, partition: &TopicPartition, paused: bool) -> bool {
        let Some(state) = self.edit(partition) else {
            return false;
        };
        let handle = state.handle;
        let before = std::mem::replace(&mut state.paused, paused);
        self.changes.note();
        self.paused = self.paused + usize::from(paused) - usize::from(before);
        self.list(handle);
        true
    }

    /// Replaces the assignment. Partitions that stay keep their state and their turn.
    pub(crate) fn assign(&mut self, wanted: &[TopicPartition]) {
        let mut old = std::mem::take(&mut self.partitions);
        for partition in wanted {
            if self.partitions.contains_key(partition) {
                continue;
            }
            let state = old.swap_remove(partition).unwrap_or_else(|| {
                self.last_turn += 1;
                self.last_stamp += 1;
                self.last_handle += 1;
                self.touched.push(self.last_handle);
                PartitionState::new(self.last_handle, self.last_stamp, self.last_turn)
            });
            self.partitions.insert(partition.clone(), state);
        }
        for (_, gone) in old {
            self.removed.push(Removed {
                handle: gone.handle,
                in_session: gone.in_session,
                counted_at: gone.counted_at,
            });
            if let Current::Held(fetch) = gone.current {
                self.discard(fetch);
            }
            if let Ahead::Held(fetch) = gone.ahead {
                self.discard(fetch);
            }
        }
        let handles = self.partitions.values().enumerate();
        self.indexes = handles
            .map(|(index, state)| (state.handle, index))
            .collect();
        let indexes = &self.indexes;
        self.asked_for.retain(|handle| indexes.contains_key(handle));
        self.paused = self
            .partitions
            .values()
            .filter(|state| state.paused)
            .count();
        self.version += 1;
        self.changes.note();
    }

    /// Enters a phase with another position, in whichever topic has the name. Responses in flight
    /// and the progress of a running drain become stale. Returns false if the partition is not
    /// assigned.
    pub(crate) fn enter(&mut self, partition: &TopicPartition, phase: Phase) -> bool {
        let entered = self.enter_in_same_topic(partition, phase);
        if let Some(state) = self.partitions.get_mut(partition) {
            state.fetched_from = Uuid::ZERO;
        }
        entered
    }

    /// Works like [`Self::enter`], for a position that has a meaning only in the topic that was read.
    pub(crate) fn enter_in_same_topic(&mut self, partition: &TopicPartition, phase: Phase) -> bool {
        let entered = self.enter_unmoved(partition, phase);
        if let Some(state) = self.partitions.get_mut(partition) {
            state.moved_at = state.stamp;
            state.handed_out = None;
        }
        entered
    }

    /// Works like [`Self::enter`], for a phase that keeps the position that was read or confirmed.
    /// A running drain still moves that position.
    pub(crate) fn enter_unmoved(&mut self, partition: &TopicPartition, phase: Phase) -> bool {
        let Some(handle) = self.get(partition).map(|state| state.handle) else {
            return false;
        };
        self.discard_held(handle);
        let stamp = self.stamp();
        self.changes.note();
        if let Some(state) = self.edit_handle(handle) {
            state.enter(phase, stamp);
        }
        true
    }

    /// Notes that a drain of these partitions found nothing.
    pub(crate) fn ask_for(&mut self, partitions: &[TopicPartition]) {
        for partition in partitions {
            if let Some(state) = self.partitions.get(partition) {
                self.asked_for.insert(state.handle);
            }
        }
    }

    /// Returns the partitions that a drain asked for in vain, if no extra fetch has served them
    /// since.
    pub(crate) fn asked_for(&self) -> &BTreeSet<u32> {
        &self.asked_for
    }

    /// An extra fetch brought records. Each waiting drain checks again, and asks again if it finds
    /// nothing.
    pub(crate) fn serve_all(&mut self) {
        self.asked_for.clear();
    }

    /// Returns true if a drain asked for this partition in vain. It counts as served from now on.
    pub(crate) fn serve(&mut self, partition: &TopicPartition) -> bool {
        let state = self.partitions.get(partition);
        state.is_some_and(|state| self.asked_for.remove(&state.handle))
    }

    /// Returns the last place in the rotation.
    pub(crate) fn next_turn(&mut self) -> u64 {
        self.last_turn += 1;
        self.last_turn
    }

    /// Sets the partition's leader. If the epoch of a position is known, a leader of another epoch
    /// must confirm the position before it is used again (KIP-320).
    pub(crate) fn set_leader(&mut self, partition: &TopicPartition, leader: Option<Leader>) {
        if self
            .get(partition)
            .is_none_or(|state| state.leader == leader)
        {
            return;
        }
        let Some(state) = self.edit(partition) else {
            return;
        };
        state.leader = leader;
        state.preferred_replica = None;
        let Some(leader) = leader else { return };
        let before = state.last_leader_epoch.replace(leader.epoch);
        let phase = match state.phase {
            Phase::Fetching(position)
                if position.leader_epoch >= 0
                    && leader.epoch >= 0
                    && before.is_some_and(|epoch| epoch != leader.epoch) =>
            {
                Phase::AwaitValidation(position)
            }
            // A request to the old leader cannot settle the phase, so ask the new leader at once.
            phase @ (Phase::AwaitValidation(_) | Phase::AwaitReset(_)) => phase,
            _ => return,
        };
        self.enter_unmoved(partition, phase);
    }

    /// Stops reading from this follower in all partitions, whichever leader named it.
    pub(crate) fn give_up_replica(&mut self, node: NodeId) {
        for state in self.partitions.values_mut() {
            if state
                .preferred_replica
                .take_if(|(id, _)| *id == node)
                .is_some()
                && !state.touched
            {
                state.touched = true;
                self.touched.push(state.handle);
            }
        }
    }

    /// Sets the topic's ID. The broker that reported it may lag behind, so a changed ID does not
    /// change the position before the leader has responded to a fetch that names it.
    pub(crate) fn set_topic_id(&mut self, partition: &TopicPartition, id: Uuid) {
        if id == Uuid::ZERO || self.get(partition).is_none_or(|state| state.topic_id == id) {
            return;
        }
        if let Some(state) = self.edit(partition) {
            state.topic_id = id;
        }
    }

    /// Notes whether this version of the metadata lacks the partition. Returns true if a warning
    /// is due. The fetcher can do nothing about it, so the partition is not touched.
    pub(crate) fn note_absence(
        &mut self,
        partition: &TopicPartition,
        absent: bool,
        version: u64,
        now: Instant,
    ) -> bool {
        let state = self.partitions.get_mut(partition);
        state.is_some_and(|state| state.absence.look(absent, version, now))
    }
}
