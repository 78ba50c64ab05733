//! What was fetched and not yet handed out: the queue between the I/O thread and the poller.
//!
//! ```text
//! Fetcher --push--> [P1 .. P9, P0] --next()--> drain --put_back (leftovers)--> front
//!                   errors, one waker               '--put_last (refused) -----> back
//! ```
//! The front is served first, and leftovers go back to the front, so they come before anything
//! newer; but what begins with a record that nobody could take lets the others pass. It knows
//! neither requests nor records; [`crate::drain`] does the draining.
//!
//! Lock order: what an iteration holds ([`crate::stepping`]), this lock, the subscription's. Nothing
//! takes them the other way round.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::assigned::Assigned;
use crate::completed_fetch::CompletedFetch;
use crate::error::ConsumerError;
use crate::memory::FetchMemory;
use crate::partition_state::{PartitionState, Phase};
use crate::subscription::Subscription;
use crate::topic_partition::TopicPartition;

/// An error to be raised by the next poll, unless its partitions have moved on.
#[derive(Debug)]
struct QueuedError {
    error: ConsumerError,
    about: Vec<(TopicPartition, u64)>,
}

impl QueuedError {
    /// Whether it still holds of this partition; what is about none in particular is about each.
    fn is_about(&self, partition: &TopicPartition, assigned: &Assigned) -> bool {
        let stamp = assigned.get(partition).map(|state| state.stamp);
        self.about.is_empty()
            || self
                .about
                .iter()
                .any(|(about, of)| about == partition && Some(*of) == stamp)
    }

    /// Whether it still holds; then its partitions are tried again from now on.
    fn is_to_be_raised(&self, assigned: &mut Assigned) -> bool {
        let mut holds = self.about.is_empty();
        for (partition, stamp) in &self.about {
            if let Some(partition) = assigned.current(partition, *stamp) {
                partition.blocked = false;
                partition.backoff_due = true;
                if partition.phase == Phase::Uncommitted {
                    // Somebody may commit an offset until the next look.
                    partition.phase = Phase::Initializing;
                }
                holds = true;
            }
        }
        holds
    }
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Box<CompletedFetch>>,
    errors: VecDeque<QueuedError>,
    waker: Option<Waker>,
    sequence: u64,
}

impl State {
    /// See [`FetchBuffer::next`]. Stale frames are the caller's, to be freed outside of the locks.
    fn take_front(
        &mut self,
        assigned: &Assigned,
        only: &[TopicPartition],
        horizon: u64,
        stale: &mut impl Extend<Box<CompletedFetch>>,
    ) -> Option<Box<CompletedFetch>> {
        let mut index = 0;
        let mut found = loop {
            let fetch = self.queue.get(index)?;
            match standing(assigned, fetch) {
                Standing::Stale => stale.extend(self.queue.remove(index)),
                Standing::Current
                    if fetch.sequence <= horizon
                        && fetch.is_ready()
                        && (only.is_empty() || only.contains(&fetch.partition)) =>
                {
                    break self.queue.remove(index)?;
                }
                _ => index += 1,
            }
        };
        if assigned.stamp_at(found.index) != Some(found.stamp) {
            found.index = assigned.index_of(&found.partition);
        }
        Some(found)
    }
}

#[derive(Debug, Default)]
pub struct FetchBuffer {
    state: Mutex<State>,
    /// For who looks without the lock.
    has_errors: AtomicBool,
}

impl FetchBuffer {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under this lock leaves a queue of whole entries.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        // Taken out: a waker may run foreign code, which must not run under our lock.
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn push(&self, mut fetch: Box<CompletedFetch>) {
        let mut state = self.lock();
        state.sequence += 1;
        fetch.sequence = state.sequence;
        state.queue.push_back(fetch);
    }

    pub(crate) fn put_back(&self, fetch: Box<CompletedFetch>) {
        self.lock().queue.push_front(fetch);
    }

    /// Behind all others: its first record was not taken, and theirs may be.
    pub(crate) fn put_last(&self, fetch: Box<CompletedFetch>) {
        self.lock().queue.push_back(fetch);
    }

    pub(crate) fn push_error(&self, error: ConsumerError, about: Vec<(TopicPartition, u64)>) {
        let mut state = self.lock();
        if !state.errors.iter().any(|queued| queued.error == error) {
            state.errors.push_back(QueuedError { error, about });
            self.has_errors.store(true, Ordering::Release);
        }
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
        let mut state = self.lock();
        if !state.errors.is_empty() || !state.queue.front()?.is_amid_batch() {
            return None;
        }
        let assigned = subscription.lock();
        let fetch = state.queue.front()?;
        if standing(&assigned, fetch) == Standing::Current {
            state.queue.pop_front()
        } else {
            None
        }
    }

    /// Begins a drain: its horizon (what arrives after this is left to the next one) with the first
    /// that [`Self::next`] would give, or the first error that still holds, whose partitions are
    /// tried again from now on. With one lock: there may be one drain for each record.
    pub(crate) fn begin(
        &self,
        subscription: &Subscription,
        only: &[TopicPartition],
    ) -> Result<(u64, Option<Box<CompletedFetch>>), ConsumerError> {
        let mut stale = Vec::new();
        let mut state = self.lock();
        let mut assigned = subscription.lock();
        while let Some(queued) = state.errors.pop_front() {
            if queued.is_to_be_raised(&mut assigned) {
                return Err(queued.error);
            }
        }
        self.has_errors.store(false, Ordering::Release);
        let horizon = state.sequence;
        let first = state.take_front(&assigned, only, horizon, &mut stale);
        Ok((horizon, first))
    }

    /// The first error about a partition that still holds, for who waits for its position; its
    /// partitions are tried again from now on.
    pub(crate) fn take_error_about(
        &self,
        partition: &TopicPartition,
        subscription: &Subscription,
    ) -> Option<ConsumerError> {
        let mut state = self.lock();
        let mut assigned = subscription.lock();
        let mut errors = state.errors.iter();
        let index = errors.position(|queued| queued.is_about(partition, &assigned))?;
        let queued = state.errors.remove(index)?;
        queued
            .is_to_be_raised(&mut assigned)
            .then_some(queued.error)
    }

    /// Takes out the first fetch that can be drained now: not stale (those are dropped on the
    /// way), not paused (those stay), its first batch decoded, arrived before `horizon`, of a
    /// partition in `only` (of any if there are none).
    pub(crate) fn next(
        &self,
        subscription: &Subscription,
        only: &[TopicPartition],
        horizon: u64,
    ) -> Option<Box<CompletedFetch>> {
        let mut stale = Vec::new();
        let mut state = self.lock();
        state.take_front(&subscription.lock(), only, horizon, &mut stale)
    }

    /// Drops what an assign or a seek has made worthless.
    pub(crate) fn discard_stale(&self, subscription: &Subscription) {
        let mut state = self.lock();
        let assigned = subscription.lock();
        let (mut kept, mut stale) = (VecDeque::new(), Vec::new());
        for fetch in state.queue.drain(..) {
            if standing(&assigned, &fetch) == Standing::Stale {
                stale.push(fetch);
            } else {
                kept.push_back(fetch);
            }
        }
        state.queue = kept;
        drop(assigned);
        drop(state);
        drop(stale);
    }

    /// Whether a poll would find something now, or an error.
    pub(crate) fn has_drainable(&self, subscription: &Subscription) -> bool {
        let state = self.lock();
        let assigned = subscription.lock();
        !state.errors.is_empty()
            || state
                .queue
                .iter()
                .any(|fetch| standing(&assigned, fetch) == Standing::Current && fetch.is_ready())
    }

    /// Partitions with undrained records, in the order in which they will be served.
    pub fn buffered(&self) -> Vec<TopicPartition> {
        self.lock()
            .queue
            .iter()
            .map(|fetch| fetch.partition.clone())
            .collect()
    }

    /// Copies out what a paused partition still holds of a frame much larger than it: nobody
    /// knows when it will be resumed, and the frame would count all that time.
    pub(crate) fn unpin_paused(&self, subscription: &Subscription, memory: &Arc<FetchMemory>) {
        let mut state = self.lock();
        if state.queue.is_empty() {
            return;
        }
        let assigned = subscription.lock();
        if !assigned.has_paused() {
            return;
        }
        for fetch in &mut state.queue {
            if standing(&assigned, fetch) == Standing::Paused {
                fetch.unpin(memory);
            }
        }
    }

    pub(crate) fn clear(&self) {
        let queue = std::mem::take(&mut self.lock().queue);
        drop(queue);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Current,
    Paused,
    Stale,
}

fn standing(assigned: &Assigned, fetch: &CompletedFetch) -> Standing {
    match assigned.stamped(fetch.index, &fetch.partition, fetch.stamp) {
        Some(PartitionState {
            phase: Phase::Fetching(position),
            paused,
            ..
        }) if position.offset == fetch.next_offset => {
            if *paused {
                Standing::Paused
            } else {
                Standing::Current
            }
        }
        _ => Standing::Stale,
    }
}
