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

use indexmap::IndexMap;
use thalweg_cluster::NodeId;
use thalweg_protocol::Uuid;
use thalweg_protocol::planted::{Bug, is_planted};

use crate::completed_fetch::CompletedFetch;
use crate::offset_spec::IsolationLevel;
use crate::partition_state::{Ahead, FetchPosition, HandedOut, Leader, PartitionState, Phase};
use crate::topic_partition::TopicPartition;

/// A revoked partition that the fetcher still has to remove from its nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removed {
    pub(crate) handle: u32,
    pub(crate) in_session: Option<NodeId>,
    pub(crate) counted_at: Option<NodeId>,
}

/// See [`crate::subscription::Subscription::changes`]. Written under the lock, read without it.
#[derive(Debug, Default)]
pub(crate) struct Changes(AtomicU64);

impl Changes {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The records that a drain took from one fetch.
#[derive(Clone, Copy, Debug)]
struct Taken {
    handle: u32,
    stamp: u64,
    from: FetchPosition,
    records: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Assigned {
    partitions: IndexMap<TopicPartition, PartitionState>,
    /// Handle -> index in `partitions`.
    indexes: BTreeMap<u32, usize>,
    touched: Vec<u32>,
    removed: Vec<Removed>,
    /// By the last drain, in its order.
    taken: Vec<Taken>,
    /// Handles of partitions that a drain asked for by name and found no records of.
    asked_for: BTreeSet<u32>,
    paused: usize,
    next_turn: u64,
    next_stamp: u64,
    next_handle: u32,
    /// Counts changes of the assignment, so that the I/O thread notices them.
    version: u64,
    changes: Arc<Changes>,
}

impl Assigned {
    fn stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp
    }

    /// Returns the last stamp. It grows with every change that makes fetches stale: a changed
    /// position or a revoked partition.
    pub(crate) fn last_stamp(&self) -> u64 {
        self.next_stamp
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

    /// Returns the table index of the partition with this stamp: the hint, or else a search by
    /// name.
    pub(crate) fn index_of(&self, hint: usize, partition: &TopicPartition, stamp: u64) -> usize {
        match self.partitions.get_index(hint) {
            Some((_, state)) if state.stamp == stamp => hint,
            _ => self
                .partitions
                .get_index_of(partition)
                .unwrap_or(usize::MAX),
        }
    }

    /// Returns the partition's state if it still has this stamp. Each stamp is used once, so if
    /// the hint matches, no name is hashed or compared. That would be expensive for each record.
    pub(crate) fn stamped(
        &self,
        index: usize,
        partition: &TopicPartition,
        stamp: u64,
    ) -> Option<&PartitionState> {
        let (_, state) = self
            .partitions
            .get_index(self.index_of(index, partition, stamp))?;
        (state.stamp == stamp || is_planted(Bug::StalePrefetch)).then_some(state)
    }

    /// Returns the state for a change, and marks the partition to be checked.
    pub(crate) fn edit(&mut self, partition: &TopicPartition) -> Option<&mut PartitionState> {
        let state = self.partitions.get_mut(partition)?;
        if !state.touched {
            state.touched = true;
            self.touched.push(state.handle);
        }
        Some(state)
    }

    /// Returns the state for a change, if responses under `stamp` are not stale.
    pub(crate) fn current(
        &mut self,
        partition: &TopicPartition,
        stamp: u64,
    ) -> Option<&mut PartitionState> {
        if self.partitions.get(partition)?.stamp == stamp {
            self.edit(partition)
        } else {
            None
        }
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
        let before = std::mem::replace(&mut state.paused, paused);
        self.changes.note();
        self.paused = self.paused + usize::from(paused) - usize::from(before);
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
                self.next_turn += 1;
                self.next_stamp += 1;
                self.next_handle += 1;
                self.touched.push(self.next_handle);
                PartitionState::new(self.next_handle, self.next_stamp, self.next_turn)
            });
            self.partitions.insert(partition.clone(), state);
        }
        self.removed.extend(old.values().map(|gone| Removed {
            handle: gone.handle,
            in_session: gone.in_session,
            counted_at: gone.counted_at,
        }));
        // No partition has this stamp. It only shows that fetches of revoked partitions are stale.
        self.next_stamp += 1;
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

    /// Enters a phase with another position. Responses in flight and the progress of a running
    /// drain become stale. Returns false if the partition is not assigned.
    pub(crate) fn enter(&mut self, partition: &TopicPartition, phase: Phase) -> bool {
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
        let stamp = self.stamp();
        self.changes.note();
        match self.edit(partition) {
            Some(state) => {
                state.enter(phase, stamp);
                true
            }
            None => false,
        }
    }

    /// Moves a position from `from` over the records that were drained. Returns false if the rest
    /// of that fetch is stale.
    ///
    /// The I/O thread may have started to validate the position while records were returned
    /// without a lock. The application has those records, so the position moves anyway. The new
    /// stamp makes the validation of the old position stale, and the new position is validated
    /// instead. But a seek during that time, from a deserializer or another thread, wins.
    pub(crate) fn advance(
        &mut self,
        index: usize,
        partition: &TopicPartition,
        stamp: u64,
        from: i64,
        to: FetchPosition,
        records: usize,
    ) -> bool {
        // After a new assignment, the partition may have another index.
        let index = self.index_of(index, partition, stamp);
        if let Some((_, state)) = self.partitions.get_index_mut(index)
            && state.stamp == stamp
            && let Phase::Fetching(position) = &mut state.phase
        {
            debug_assert_eq!(position.offset, from, "fetch offset and position agree");
            *position = to;
            state.hand_out(from, to.offset, records);
            return true;
        }
        self.advance_stale(partition, stamp, from, to, records);
        false
    }

    /// A drain begins. The records that earlier drains took can no longer be taken back.
    pub(crate) fn begin_drain(&mut self) {
        self.taken.clear();
    }

    /// Notes that the drain took records of this partition, starting at this position.
    pub(crate) fn note_taken(
        &mut self,
        index: usize,
        partition: &TopicPartition,
        stamp: u64,
        from: FetchPosition,
        records: usize,
    ) {
        let index = self.index_of(index, partition, stamp);
        if let Some((_, state)) = self.partitions.get_index(index) {
            let handle = state.handle;
            self.asked_for.remove(&handle);
            self.taken.push(Taken {
                handle,
                stamp,
                from,
                records,
            });
        }
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

    /// Moves the positions back to where the last drain started. Positions that the application
    /// has moved since then, and positions in logs that no longer exist, do not change.
    pub(crate) fn take_back(&mut self) {
        for Taken {
            handle,
            stamp,
            from,
            records,
        } in std::mem::take(&mut self.taken)
        {
            let Some((partition, state)) = self.by_handle(handle) else {
                continue;
            };
            // This also holds if an earlier fetch of the partition was taken back just now.
            if state.moved_at > stamp {
                continue;
            }
            let phase = match state.phase {
                Phase::AwaitValidation(_) if from.leader_epoch >= 0 => Phase::AwaitValidation(from),
                Phase::Fetching(_) | Phase::AwaitValidation(_) => Phase::Fetching(from),
                _ => continue,
            };
            let partition = partition.clone();
            let handed_out = state.handed_out;
            self.enter(&partition, phase);
            // The application keeps the records that it got before.
            if let Some(state) = self.partitions.get_mut(&partition) {
                state.handed_out = handed_out.map(|out| HandedOut {
                    to: from.offset,
                    records: out.records.saturating_sub(records as u64),
                    ..out
                });
            }
        }
    }

    /// Records the position's distance from the ends of its log for the metrics.
    pub(crate) fn measure(&mut self, index: usize, stamp: u64, isolation: IsolationLevel) {
        if let Some((_, state)) = self.partitions.get_index_mut(index)
            && state.stamp == stamp
        {
            state.measure(isolation);
        }
    }

    /// Works like [`Self::advance`], for a partition whose stamp has changed.
    fn advance_stale(
        &mut self,
        partition: &TopicPartition,
        stamp: u64,
        from: i64,
        to: FetchPosition,
        records: usize,
    ) {
        if is_planted(Bug::LostSeek) {
            self.enter_unmoved(partition, Phase::Fetching(to));
        }
        let state = self.partitions.get(partition);
        let Some(state) = state.filter(|state| state.moved_at <= stamp) else {
            return;
        };
        let moved = match &state.phase {
            // Without an epoch, the position cannot be validated.
            Phase::Fetching(position) if position.offset == from && to.leader_epoch < 0 => {
                Phase::Fetching(to)
            }
            // A validation that finished in the meantime confirmed the old position.
            Phase::Fetching(position) | Phase::AwaitValidation(position)
                if position.offset == from =>
            {
                Phase::AwaitValidation(to)
            }
            _ => return,
        };
        self.enter_unmoved(partition, moved);
        if let Some(state) = self.partitions.get_mut(partition) {
            state.hand_out(from, to.offset, records);
        }
    }

    /// The fetch at the position is drained or dropped. The partition may be fetched again, last
    /// in the rotation, unless the next records were already fetched ahead.
    pub(crate) fn release(&mut self, partition: &TopicPartition, stamp: u64) {
        let turn = self.turn();
        let Some(state) = self.current(partition, stamp) else {
            return;
        };
        let ahead = std::mem::replace(&mut state.ahead, Ahead::No);
        let at = state.valid_position().map(|position| position.offset);
        if let Ahead::From(end) = ahead
            && at == Some(end.offset)
        {
            return;
        }
        state.buffered = false;
        state.turn = turn;
        if let Ahead::From(_) = ahead {
            // The fetch was dropped before its end, so records fetched ahead do not follow the
            // position.
            let stamp = self.stamp();
            if let Some(state) = self.partitions.get_mut(partition) {
                state.stamp = stamp;
            }
        }
    }

    /// Lets the fetcher continue from the end of this fetch while it is being drained. Returns
    /// true if this is new.
    pub(crate) fn run_ahead(&mut self, of: &CompletedFetch, isolation: IsolationLevel) -> bool {
        let found = self.partitions.get_index_mut(of.index);
        let starts = found.zip(of.end).is_some_and(|((_, state), end)| {
            state.stamp == of.stamp && state.run_ahead(end, isolation)
        });
        if starts {
            let turn = self.turn();
            if let Some(state) = self.edit(&of.partition) {
                state.turn = turn;
            }
        }
        starts
    }

    /// Returns the last place in the rotation.
    fn turn(&mut self) -> u64 {
        self.next_turn += 1;
        self.next_turn
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

    /// Returns true if the topic was deleted and created again under the same name.
    pub(crate) fn set_topic_id(&mut self, partition: &TopicPartition, id: Uuid) -> bool {
        if id == Uuid::ZERO || self.get(partition).is_none_or(|state| state.topic_id == id) {
            return false;
        }
        let before = self
            .edit(partition)
            .map(|state| std::mem::replace(&mut state.topic_id, id));
        before.is_some_and(|before| before != Uuid::ZERO)
    }

    /// Notes whether this version of the metadata lacks the partition. Returns true if a warning
    /// is due. The fetcher can do nothing about it, so the partition is not touched.
    pub(crate) fn note_absence(
        &mut self,
        partition: &TopicPartition,
        absent: bool,
        version: u64,
    ) -> bool {
        let state = self.partitions.get_mut(partition);
        state.is_some_and(|state| state.absence.look(absent, version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offset_spec::OffsetReset;

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn at(offset: i64, leader_epoch: i32) -> FetchPosition {
        FetchPosition {
            offset,
            leader_epoch,
        }
    }

    fn fetching(partitions: i32) -> Assigned {
        let mut assigned = Assigned::default();
        assigned.assign(&(0..partitions).map(tp).collect::<Vec<_>>());
        for partition in 0..partitions {
            assigned.enter(&tp(partition), Phase::Fetching(at(0, 1)));
            assigned.set_leader(&tp(partition), Some(Leader { node: 1, epoch: 1 }));
        }
        assigned.take_touched();
        for partition in 0..partitions {
            let handle = assigned.get(&tp(partition)).map_or(0, |state| state.handle);
            if let Some((_, state)) = assigned.by_handle(handle) {
                state.touched = false;
            }
        }
        assigned
    }

    #[test]
    fn only_what_was_changed_is_looked_at_and_once() {
        let mut assigned = fetching(1000);
        assigned.touch(&tp(7));
        assigned.set_paused(&tp(7), true);
        assigned.set_leader(&tp(8), Some(Leader { node: 1, epoch: 1 }));
        assert_eq!(assigned.take_touched().len(), 1);
    }

    #[test]
    fn draining_touches_nothing_until_the_last_record() {
        let mut assigned = fetching(1);
        let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
        assert!(assigned.advance(0, &tp(0), stamp, 0, at(10, 1), 1));
        assert!(assigned.take_touched().is_empty());
        assigned.release(&tp(0), stamp);
        assert_eq!(assigned.take_touched().len(), 1);
    }

    #[test]
    fn a_partition_that_stays_is_advanced_wherever_it_stands_now() {
        let mut assigned = fetching(2);
        let stamp = assigned.get(&tp(1)).map_or(0, |state| state.stamp);
        assigned.assign(&[tp(1)]);
        assert!(assigned.advance(1, &tp(1), stamp, 0, at(10, 1), 1));
        let phase = assigned.get(&tp(1)).map(|state| state.phase);
        assert_eq!(phase, Some(Phase::Fetching(at(10, 1))));
    }

    #[test]
    fn records_handed_out_while_a_validation_began_move_the_position_all_the_same() {
        let mut assigned = fetching(1);
        let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
        assigned.set_leader(&tp(0), Some(Leader { node: 2, epoch: 2 }));
        assert!(
            !assigned.advance(0, &tp(0), stamp, 0, at(10, 1), 1),
            "the rest is worthless"
        );
        let phase = assigned.get(&tp(0)).map(|state| state.phase);
        assert_eq!(phase, Some(Phase::AwaitValidation(at(10, 1))));
    }

    #[test]
    fn a_position_confirmed_while_records_were_out_is_not_the_one_they_lead_to() {
        for (epoch, expected) in [
            (1, Phase::AwaitValidation(at(10, 1))),
            (-1, Phase::Fetching(at(10, -1))),
        ] {
            let mut assigned = fetching(1);
            let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
            assigned.set_leader(&tp(0), Some(Leader { node: 2, epoch: 2 }));
            assigned.enter_unmoved(&tp(0), Phase::Fetching(at(0, 1)));
            assert!(!assigned.advance(0, &tp(0), stamp, 0, at(10, epoch), 1));
            let phase = assigned.get(&tp(0)).map(|state| state.phase);
            assert_eq!(phase, Some(expected));
        }
    }

    /// The targets include the offset where the drain started, which is also the offset that a
    /// validation would confirm.
    #[test]
    fn a_seek_while_records_are_out_counts_wherever_it_leads() {
        for sought in [
            Phase::Fetching(at(0, -1)),
            Phase::Fetching(at(3, -1)),
            Phase::AwaitValidation(at(0, 1)),
            Phase::AwaitReset(OffsetReset::Earliest),
        ] {
            let mut assigned = fetching(1);
            let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
            assigned.enter(&tp(0), sought);
            // A new leader does not turn the seek into a validated position.
            assigned.set_leader(&tp(0), Some(Leader { node: 2, epoch: 2 }));
            assert!(!assigned.advance(0, &tp(0), stamp, 0, at(10, 1), 1));
            assert_eq!(assigned.get(&tp(0)).map(|state| state.phase), Some(sought));
        }
    }

    #[test]
    fn a_drain_is_taken_back_to_where_it_began() {
        let mut assigned = fetching(2);
        let stamp = |assigned: &Assigned, of| assigned.get(&tp(of)).map_or(0, |state| state.stamp);
        let phase = |assigned: &Assigned, of| assigned.get(&tp(of)).map(|state| state.phase);
        let (first, second) = (stamp(&assigned, 0), stamp(&assigned, 1));
        assigned.begin_drain();
        for (from, to) in [(0, 5), (5, 9)] {
            assigned.advance(0, &tp(0), first, from, at(to, 1), 1);
            assigned.note_taken(0, &tp(0), first, at(from, 1), 1);
        }
        assigned.advance(1, &tp(1), second, 0, at(7, 1), 1);
        assigned.note_taken(1, &tp(1), second, at(0, 1), 1);
        // The application has sought in partition 1, and a new leader must confirm partition 0.
        assigned.enter(&tp(1), Phase::Fetching(at(3, -1)));
        assigned.set_leader(&tp(0), Some(Leader { node: 2, epoch: 2 }));
        assigned.take_back();
        assert_eq!(phase(&assigned, 0), Some(Phase::AwaitValidation(at(0, 1))));
        assert_eq!(phase(&assigned, 1), Some(Phase::Fetching(at(3, -1))));
        assigned.enter(&tp(0), Phase::Fetching(at(5, 1)));
        assigned.take_back();
        assert_eq!(phase(&assigned, 0), Some(Phase::Fetching(at(5, 1))), "once");
    }

    #[test]
    fn a_partition_given_away_and_back_while_records_are_out_begins_anew() {
        let mut assigned = fetching(1);
        let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
        assigned.assign(&[]);
        assigned.assign(&[tp(0)]);
        assigned.enter(&tp(0), Phase::Fetching(at(0, 1)));
        assert!(!assigned.advance(0, &tp(0), stamp, 0, at(10, 1), 1));
        let phase = assigned.get(&tp(0)).map(|state| state.phase);
        assert_eq!(phase, Some(Phase::Fetching(at(0, 1))));
    }

    #[test]
    fn staying_partitions_keep_their_state_and_doubles_count_once() {
        let mut assigned = fetching(3);
        let handle = assigned.get(&tp(1)).map(|state| state.handle);
        assigned.assign(&[tp(1), tp(1), tp(9)]);
        assert_eq!(assigned.get(&tp(1)).map(|state| state.handle), handle);
        assert_eq!(assigned.iter().count(), 2);
        assert_eq!(assigned.take_removed().len(), 2);
    }

    #[test]
    fn the_same_leader_after_a_gap_is_no_new_leader() {
        let mut assigned = fetching(1);
        assigned.set_leader(&tp(0), None);
        assigned.set_leader(&tp(0), Some(Leader { node: 1, epoch: 1 }));
        assert!(matches!(
            assigned.get(&tp(0)).map(|s| s.phase),
            Some(Phase::Fetching(_))
        ));
    }
}
