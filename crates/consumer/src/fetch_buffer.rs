//! The queue of fetched, undrained records between the I/O thread and the polling thread.
//!
//! ```text
//! Fetcher --push--> [P1 .. P9, P0] --next()--> drain --put_back (leftovers)--> front
//!    codec thread --decoded--^                   '--put_last (refused) -----> back
//!                   errors, one waker
//! ```
//! Fetches are served from the front, and leftovers go back to the front, so they come before
//! anything newer. But a fetch whose first record was refused lets the others pass. The buffer
//! knows neither requests nor records: [`crate::drain`] drains it, [`crate::record_sets`] orders
//! it, and [`crate::queued_errors`] stores the errors.
//!
//! Lock order: the fetch in hand of an iteration ([`crate::stepping`]), this lock, the
//! subscription's lock, and last the cell of a batch. No code takes them in another order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use crate::assigned::Assigned;
use crate::completed_fetch::CompletedFetch;
use crate::error::ConsumerError;
use crate::memory::FetchMemory;
use crate::offset_spec::IsolationLevel;
use crate::queued_errors::QueuedErrors;
use crate::record_sets::RecordSets;
use crate::subscription::Subscription;
use crate::sync;
use crate::topic_partition::TopicPartition;

/// The buffer's lock and the subscription's.
pub(crate) type Both<'a> = (MutexGuard<'a, State>, MutexGuard<'a, Assigned>);

#[derive(Debug, Default)]
pub(crate) struct State {
    sets: RecordSets,
    errors: QueuedErrors,
    waker: Option<Waker>,
}

#[derive(Debug, Default)]
pub struct FetchBuffer {
    state: Mutex<State>,
    /// Readable without the lock.
    has_errors: AtomicBool,
}

impl FetchBuffer {
    fn lock(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    #[cfg(test)]
    pub(crate) fn mutex(&self) -> &Mutex<State> {
        &self.state
    }

    /// Takes both locks, if both are free.
    pub(crate) fn try_lock_with<'a>(&'a self, subscription: &'a Subscription) -> Option<Both<'a>> {
        let state = sync::try_lock(&self.state)?;
        Some((state, sync::try_lock(subscription.mutex())?))
    }

    /// Waits for the locks that [`Self::try_lock_with`] did not get, while holding neither.
    pub(crate) fn wait_with(&self, subscription: &Subscription) {
        sync::wait(&self.state);
        sync::wait(subscription.mutex());
    }

    fn lock_with<'a>(&'a self, subscription: &'a Subscription) -> Both<'a> {
        loop {
            if let Some(both) = self.try_lock_with(subscription) {
                return both;
            }
            self.wait_with(subscription);
        }
    }

    /// Stores the waker of the polling thread or task. It is woken once, by the next change worth
    /// a check. Register, check, then sleep: a change in between has already woken it.
    pub fn register(&self, waker: &Waker) {
        let mut state = self.lock();
        match &mut state.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Makes a waiting poll check again.
    pub fn wake(&self) {
        wake(self.lock());
    }

    /// Puts a fetch back under the lock: at the front, or at the end if `last`.
    pub(crate) fn put(state: &mut State, fetch: Box<CompletedFetch>, last: bool) {
        if last {
            state.sets.push_last(fetch);
        } else {
            state.sets.push_first(fetch);
        }
    }

    pub(crate) fn push(&self, fetch: Box<CompletedFetch>) {
        self.lock().sets.push_last(fetch);
    }

    pub(crate) fn put_back(&self, fetch: Box<CompletedFetch>) {
        self.lock().sets.push_first(fetch);
    }

    /// Puts a fetch at the end: its first record was refused, but those of others may be taken.
    pub(crate) fn put_last(&self, fetch: Box<CompletedFetch>) {
        self.lock().sets.push_last(fetch);
    }

    /// Notes that batches of the partition with this stamp were decoded, and wakes a waiting poll.
    pub(crate) fn decoded(&self, stamp: u64) {
        let mut state = self.lock();
        state.sets.decoded(stamp);
        wake(state);
    }

    pub(crate) fn push_error(&self, error: ConsumerError, about: Vec<(TopicPartition, u64)>) {
        let mut state = self.lock();
        state.errors.push(error, about);
        self.has_errors.store(true, Ordering::Release);
    }

    /// Whether an error waits to be raised by the next drain.
    pub(crate) fn has_errors(&self) -> bool {
        self.has_errors.load(Ordering::Acquire)
    }

    /// Takes out the fetch that is served next, if a batch of it is partly drained and no error is
    /// queued.
    pub(crate) fn take_amid_batch(
        &self,
        subscription: &Subscription,
    ) -> Option<Box<CompletedFetch>> {
        let (mut state, assigned) = self.lock_with(subscription);
        if !state.errors.is_empty() {
            return None;
        }
        let is_amid_batch = state.sets.front(&assigned)?.is_amid_batch();
        is_amid_batch.then(|| state.sets.pop_front()).flatten()
    }

    /// Allows a fetch of what follows the fetch that is served next. Returns true if this is new.
    pub(crate) fn run_ahead(&self, subscription: &Subscription, isolation: IsolationLevel) -> bool {
        let (mut state, mut assigned) = self.lock_with(subscription);
        let next = state.sets.front(&assigned);
        next.is_some_and(|next| assigned.run_ahead(next, isolation))
    }

    /// Begins a drain. Returns its horizon (fetches that arrive later are left to the next drain)
    /// and the first fetch that [`Self::next`] would return. If an error still holds, it is
    /// returned instead, and its partitions are retried from now on. This takes the locks only
    /// once, because there may be a drain for each record.
    pub(crate) fn begin(
        &self,
        subscription: &Subscription,
        only: &[TopicPartition],
    ) -> Result<(i64, Option<Box<CompletedFetch>>), ConsumerError> {
        let mut stale = VecDeque::new();
        let (mut state, mut assigned) = self.lock_with(subscription);
        // A drain that only returns an error counts too: it took nothing that could be taken back.
        assigned.begin_drain();
        if let Some(error) = state.errors.take_first(&mut assigned) {
            return Err(error);
        }
        self.has_errors.store(false, Ordering::Release);
        let horizon = state.sets.horizon();
        let first = state.sets.take_front(&assigned, only, horizon, &mut stale);
        Ok((horizon, first))
    }

    /// Takes the first error that still holds and concerns the partition, for a thread that waits
    /// for its position. The error's partitions are retried from now on.
    pub(crate) fn take_error_about(
        &self,
        partition: &TopicPartition,
        subscription: &Subscription,
    ) -> Option<ConsumerError> {
        let (mut state, mut assigned) = self.lock_with(subscription);
        state.errors.take_about(partition, &mut assigned)
    }

    /// Takes out the next fetch that can be drained ([`RecordSets::take_front`]), and drops stale
    /// ones before it.
    pub(crate) fn next(
        &self,
        subscription: &Subscription,
        only: &[TopicPartition],
        horizon: i64,
    ) -> Option<Box<CompletedFetch>> {
        let mut stale = VecDeque::new();
        let (mut state, assigned) = self.lock_with(subscription);
        state.sets.take_front(&assigned, only, horizon, &mut stale)
    }

    /// Drops fetches and errors that an assignment or a seek has made stale.
    pub(crate) fn discard_stale(&self, subscription: &Subscription) {
        let (mut state, assigned) = self.lock_with(subscription);
        let stale = state.sets.take_stale(&assigned);
        state.errors.drop_stale(&assigned);
        drop(assigned);
        drop(state);
        drop(stale);
    }

    /// Whether a poll would find records or an error now.
    pub(crate) fn has_drainable(&self, subscription: &Subscription) -> bool {
        let (state, assigned) = self.lock_with(subscription);
        !state.errors.is_empty() || state.sets.has_drainable(&assigned)
    }

    /// Returns the partitions with undrained records, in the order in which they will be served. A
    /// partition that was also fetched ahead is listed twice.
    pub fn buffered(&self) -> Vec<TopicPartition> {
        self.lock().sets.partitions()
    }

    /// Copies the records of paused partitions out of frames that are much larger than them. The
    /// pause may be long, and the complete frame would count as used memory during it. With `all`,
    /// also copies those of other partitions, because the application asks for none of them.
    pub(crate) fn unpin(&self, subscription: &Subscription, memory: &Arc<FetchMemory>, all: bool) {
        let (mut state, assigned) = self.lock_with(subscription);
        if !all && !assigned.has_paused() {
            return;
        }
        for fetch in state.sets.idle_mut(&assigned, all) {
            fetch.unpin(memory);
        }
    }

    pub(crate) fn clear(&self) {
        let sets = std::mem::take(&mut self.lock().sets);
        drop(sets);
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    // The waker is taken out first: it may run foreign code, which must not run under our lock.
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}
