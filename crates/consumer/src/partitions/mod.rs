//! The assigned partitions: positions, and what was fetched but not yet returned.
//!
//! ```text
//!  application thread                             I/O thread (Fetcher)
//!  assign, seek, pause, position --> settled() \   / lock() <-- leaders, resets, validations
//!  drain: take, give back        --> settled()  mutex         <-- survey: what to fetch
//!  step  --> in hand, no lock                  /   \         <-- fetches, errors
//!                                     codec threads: decoded
//! ```
//! One short mutex guards all of it. The lock is held only for lookups and field writes, never to
//! wait, decode or call out.
//!
//! - `table` has the partitions by name and by handle, and which of them the fetcher must check.
//! - `state` is one partition: its phase, position, and the fetches that it holds.
//! - `buffer` moves fetches in and out, `serving` orders them, `handing_out` moves the positions.
//! - `bounds` ends the reading of a partition at an offset, for ranges.
//! - `steps` reads one fetch record by record, without the lock.
//! - `errors` keeps what a poll has to raise, and `queries` answers the application's questions.
//!
//! An iteration has a fetch *in hand*: its steps move no position in the table. Only this room
//! knows that. [`Partitions::settled`], which every call of the application uses, first moves the
//! position over the steps and puts the rest of the fetch back. The I/O thread works with stamps
//! and needs no settled position, except for new leaders.
//!
//! This room does not know groups: the coordinator decides who owns which partition, and calls
//! `assign` on the application's half like any other caller.

mod bounds;
mod buffer;
mod errors;
mod handing_out;
mod queries;
mod serving;
pub(crate) mod state;
mod steps;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod watched;

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Instant;

use thalweg_protocol::planted::{Bug, is_planted};

pub(crate) use self::buffer::{Rest, Scope, TakenFetch};
use self::errors::QueuedErrors;
use self::state::{FetchPosition, PartitionNews, Phase};
use self::steps::InHand;
use self::table::{Assigned, Changes};
use crate::error::ConsumerError;
use crate::metrics::Counter;
use crate::offset_spec::OffsetReset;
use crate::signals::Signals;
use crate::sync;
use crate::topic_partition::TopicPartition;

/// Partitions handled under one hold of the lock, about 100 microseconds.
pub(crate) const PARTITIONS_PER_LOCK: usize = 256;

/// What the lock guards.
#[derive(Debug, Default)]
pub(crate) struct State {
    assigned: Assigned,
    errors: QueuedErrors,
    waker: Option<Waker>,
    /// A fetch is in hand. Only changed while `in_hand` is locked too, so a caller that reads false
    /// here needs no second lock.
    has_in_hand: bool,
}

/// The shared state of the assigned partitions. See the module.
#[derive(Debug)]
pub struct Partitions {
    state: Mutex<State>,
    /// Locked before `state`.
    in_hand: Mutex<InHand>,
    changes: Arc<Changes>,
    signals: Arc<Signals>,
    records_consumed: Arc<Counter>,
}

/// The lock. It dereferences to the table, which nearly all callers want.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    /// `None` only while it is being dropped.
    state: Option<MutexGuard<'a, State>>,
    signals: &'a Signals,
}

impl Guard<'_> {
    fn state(&mut self) -> &mut State {
        self.state
            .as_mut()
            .expect("it is locked until it is dropped")
    }

    /// Queues an error for the next poll. `about` has its partitions and their stamps, and is
    /// empty if it concerns the client.
    pub(crate) fn push_error(&mut self, error: ConsumerError, about: Vec<(TopicPartition, u64)>) {
        let state = self.state();
        state.errors.push(error, about);
        // This ends the steps of an iteration.
        state.assigned.changes().note();
    }

    /// Queues an error about partitions, each with the stamp of the refused request. Nothing is
    /// tried for them until it is raised.
    pub(crate) fn block(&mut self, about: Vec<(TopicPartition, u64)>, error: ConsumerError) {
        let mut current = Vec::with_capacity(about.len());
        for (partition, stamp) in about {
            if let Some(state) = self.current_named(&partition, stamp) {
                state.blocked = true;
                state.asked = false;
                current.push((partition, stamp));
            }
        }
        if !current.is_empty() {
            self.push_error(error, current);
        }
    }

    fn take_error(&mut self) -> Option<ConsumerError> {
        let State {
            assigned, errors, ..
        } = self.state();
        errors.take_first(assigned)
    }
}

impl Deref for Guard<'_> {
    type Target = Assigned;

    fn deref(&self) -> &Assigned {
        let state = self.state.as_ref();
        &state.expect("it is locked until it is dropped").assigned
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Assigned {
        &mut self.state().assigned
    }
}

impl Drop for Guard<'_> {
    /// Frees what was dropped under the lock, now that other threads need not wait for it.
    fn drop(&mut self) {
        let dropped = self.take_dropped();
        self.state = None;
        if !dropped.is_empty() {
            drop(dropped);
            self.signals.emptied();
        }
    }
}

impl Partitions {
    pub(crate) fn new(signals: Arc<Signals>, records_consumed: Arc<Counter>) -> Self {
        let state = State::default();
        let changes = Arc::clone(state.assigned.changes());
        Self {
            state: Mutex::new(state),
            in_hand: Mutex::default(),
            changes,
            signals,
            records_consumed,
        }
    }

    fn guard<'a>(&'a self, state: MutexGuard<'a, State>) -> Guard<'a> {
        Guard {
            state: Some(state),
            signals: &self.signals,
        }
    }

    /// Locks the table for the I/O thread. The steps of an iteration have not moved the positions.
    /// No other lock of the consumer may be held, see [`crate::sync`].
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.guard(sync::lock(&self.state))
    }

    #[cfg(test)]
    pub(crate) fn mutex(&self) -> &Mutex<State> {
        &self.state
    }

    /// Stores the waker of the polling thread or task. It is woken once, by the next change worth
    /// a check. Register, check, then sleep: a change in between has already woken it.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut guard = self.lock();
        match &mut guard.state().waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Makes a waiting poll check again.
    pub(crate) fn wake(&self) {
        wake(self.lock());
    }

    /// Notes that batches were decoded, and wakes a waiting poll.
    pub(crate) fn decoded(&self, handle: u32, stamp: u64) {
        let mut guard = self.lock();
        guard.decoded(handle, stamp);
        wake(guard);
    }

    /// Applies what a version of the metadata says about some partitions. Returns for each of them
    /// whether a warning about its absence is due.
    pub(crate) fn take_news(
        &self,
        news: &[PartitionNews],
        version: u64,
        now: Instant,
    ) -> Vec<bool> {
        // A new leader must confirm the current position of an iteration, not the one where it
        // began.
        let mut assigned = self.settled();
        let mut apply = |news: &PartitionNews| {
            if let Some(id) = news.topic_id {
                assigned.set_topic_id(news.partition, id);
            }
            assigned.set_leader(news.partition, news.leader);
            assigned.note_absence(news.partition, news.is_absent, version, now)
        };
        news.iter().map(&mut apply).collect()
    }

    /// Begins a drain. Returns its horizon (fetches that arrive later are left to the next drain)
    /// and the first fetch to drain. If an error still holds, it is returned instead, and its
    /// partitions are retried from now on. This takes the lock only once, because there may be a
    /// drain for each record.
    pub(crate) fn begin_drain(
        &self,
        only: &[TopicPartition],
    ) -> Result<(Scope, Option<TakenFetch>), ConsumerError> {
        let mut guard = self.settled();
        // A drain that only returns an error counts too: it took nothing that could be taken back.
        guard.begin_drain();
        if let Some(error) = guard.take_error() {
            return Err(error);
        }
        let scope = guard.scope(only);
        let first = guard.take_next(&scope);
        Ok((scope, first))
    }

    /// Takes the first error that still holds and concerns the partition, for a thread that waits
    /// for its position. The error's partitions are retried from now on.
    pub(crate) fn take_error_about(&self, partition: &TopicPartition) -> Option<ConsumerError> {
        let mut guard = self.settled();
        let State {
            assigned, errors, ..
        } = guard.state();
        errors.take_about(partition, assigned)
    }

    /// Whether a poll would find records or an error now.
    pub(crate) fn has_drainable(&self) -> bool {
        let mut guard = self.lock();
        let state = guard.state();
        state.has_in_hand || state.assigned.has_ready() || !state.errors.is_empty()
    }

    /// Whether a drain or an iteration has taken out a fetch, and will free its memory.
    pub(crate) fn is_draining(&self) -> bool {
        self.lock().out > 0
    }

    /// Returns the partitions with undrained records, in the order in which they will be served. A
    /// partition that was also fetched ahead is listed twice.
    pub(crate) fn buffered(&self) -> Vec<TopicPartition> {
        self.settled().buffered()
    }

    /// The client is closed: nothing is returned any more.
    pub(crate) fn clear(&self) {
        self.settled().discard_all();
    }

    /// Returns a counter that can be read without the lock. It grows with every change that may
    /// prevent records in hand from being returned: a new phase, assignment or pause of any
    /// partition, or an error to raise.
    fn changes(&self) -> u64 {
        self.changes.count()
    }

    pub(crate) fn assign(&self, partitions: &[TopicPartition]) {
        self.settled().assign(partitions);
    }

    /// Replaces the assignment, see [`Assigned::assign_ranges`].
    pub(crate) fn assign_ranges(&self, ranges: &[(TopicPartition, i64, i64)]) {
        self.settled().assign_ranges(ranges);
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
        if self.settled().enter(partition, phase) {
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
        if self.settled().set_paused(partition, paused) {
            Ok(())
        } else {
            Err(ConsumerError::NotAssigned {
                partition: partition.clone(),
            })
        }
    }

    /// Sets the committed offset, if the partition still waits for it. A late one changes nothing.
    pub(crate) fn set_committed(
        &self,
        partition: &TopicPartition,
        committed: Option<FetchPosition>,
    ) {
        let mut assigned = self.settled();
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

    /// Undoes the last drain, because its records did not reach the application.
    pub(crate) fn take_back(&self) {
        self.settled().take_back();
    }

    /// Undoes the running drain, whose sink has panicked while records of `taken` went into it.
    pub(crate) fn undo_drain(&self, taken: TakenFetch) {
        let TakenFetch { fetch, from, .. } = taken;
        let mut guard = self.lock();
        guard.note_taken(fetch.handle, fetch.stamp, from, 0);
        guard.out -= 1;
        guard.drop_later(fetch);
        guard.take_back();
        drop(guard);
        self.signals.notify();
    }

    /// Drops errors that seeks and assignments have made stale. They would not be raised anyway.
    pub(crate) fn drop_stale_errors(&self) {
        let mut guard = self.lock();
        let State {
            assigned, errors, ..
        } = guard.state();
        errors.drop_stale(assigned);
    }
}

fn wake(mut guard: Guard<'_>) {
    // The waker is taken out first: it may run foreign code, which must not run under our lock.
    let waker = guard.state().waker.take();
    drop(guard);
    if let Some(waker) = waker {
        waker.wake();
    }
}
