//! What was fetched and not yet handed out: the queue between the I/O thread and the poller.
//!
//! ```text
//! Fetcher --push--> [P1 .. P9, P0] --next()--> drain --put_back (leftovers)--> front
//!    codec thread --decoded--^                   '--put_last (refused) -----> back
//!                   errors, one waker
//! ```
//! The front is served first, and leftovers go back to the front, so they come before anything
//! newer; but what begins with a record that nobody could take lets the others pass. It knows
//! neither requests nor records; [`crate::drain`] does the draining, [`crate::record_sets`] the
//! order, [`crate::queued_errors`] keeps the errors.
//!
//! Lock order: what an iteration holds ([`crate::stepping`]), this lock, the subscription's; a batch's
//! cell last of all. Nothing takes them the other way round.

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
    /// For who looks without the lock.
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

    /// Both locks, if both are free.
    pub(crate) fn try_lock_with<'a>(&'a self, subscription: &'a Subscription) -> Option<Both<'a>> {
        let state = sync::try_lock(&self.state)?;
        Some((state, sync::try_lock(subscription.mutex())?))
    }

    /// Waits for what [`Self::try_lock_with`] lacked, with neither held.
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

    /// The polling thread's (or task's) waker: woken once, by the next thing worth looking at.
    /// Register, look, then sleep: what comes in between has woken it already.
    pub fn register(&self, waker: &Waker) {
        let mut state = self.lock();
        match &mut state.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Makes a waiting poll look again.
    pub fn wake(&self) {
        wake(self.lock());
    }

    /// Under the lock already: what is left goes first, or behind all others.
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

    /// Behind all others: its first record was not taken, and theirs may be.
    pub(crate) fn put_last(&self, fetch: Box<CompletedFetch>) {
        self.lock().sets.push_last(fetch);
    }

    /// Batches of the partition with this stamp were decoded; who waits is woken.
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

    /// Takes out what is served next, if it is open amid a batch and nothing is to be raised before.
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

    /// Has what follows the record set that is served next fetched; true if that is new.
    pub(crate) fn run_ahead(&self, subscription: &Subscription, isolation: IsolationLevel) -> bool {
        let (mut state, mut assigned) = self.lock_with(subscription);
        let next = state.sets.front(&assigned);
        next.is_some_and(|next| assigned.run_ahead(next, isolation))
    }

    /// Begins a drain: its horizon (what arrives after this is left to the next one) with the first
    /// that [`Self::next`] would give, or the first error that still holds, whose partitions are
    /// tried again from now on. With one lock: there may be one drain for each record.
    pub(crate) fn begin(
        &self,
        subscription: &Subscription,
        only: &[TopicPartition],
    ) -> Result<(i64, Option<Box<CompletedFetch>>), ConsumerError> {
        let mut stale = VecDeque::new();
        let (mut state, mut assigned) = self.lock_with(subscription);
        // Also of a drain that only raises: it took nothing that could be taken back.
        assigned.begin_drain();
        if let Some(error) = state.errors.take_first(&mut assigned) {
            return Err(error);
        }
        self.has_errors.store(false, Ordering::Release);
        let horizon = state.sets.horizon();
        let first = state.sets.take_front(&assigned, only, horizon, &mut stale);
        Ok((horizon, first))
    }

    /// The first error about a partition that still holds, for who waits for its position; its
    /// partitions are tried again from now on.
    pub(crate) fn take_error_about(
        &self,
        partition: &TopicPartition,
        subscription: &Subscription,
    ) -> Option<ConsumerError> {
        let (mut state, mut assigned) = self.lock_with(subscription);
        state.errors.take_about(partition, &mut assigned)
    }

    /// Takes out the next fetch that can be drained ([`RecordSets::take_front`]); stale ones are
    /// dropped on the way.
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

    /// Drops what an assign or a seek has made worthless.
    pub(crate) fn discard_stale(&self, subscription: &Subscription) {
        let (mut state, assigned) = self.lock_with(subscription);
        let stale = state.sets.take_stale(&assigned);
        state.errors.drop_stale(&assigned);
        drop(assigned);
        drop(state);
        drop(stale);
    }

    /// Whether a poll would find something now, or an error.
    pub(crate) fn has_drainable(&self, subscription: &Subscription) -> bool {
        let (state, assigned) = self.lock_with(subscription);
        !state.errors.is_empty() || state.sets.has_drainable(&assigned)
    }

    /// Partitions with undrained records, in the order in which they will be served; one of which more
    /// was fetched ahead is named twice.
    pub fn buffered(&self) -> Vec<TopicPartition> {
        self.lock().sets.partitions()
    }

    /// Copies out what a paused partition still holds of a frame much larger than it: nobody
    /// knows when it will be resumed, and the frame would count all that time. With `all`, also
    /// what other partitions hold: the application asks for none of them.
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
    // Taken out: a waker may run foreign code, which must not run under our lock.
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}
