//! What was fetched and not yet handed out: the queue between the I/O thread and the poller.
//!
//! ```text
//! Fetcher --push--> ready [P1 .. P9, P0] --next()--> drain --put_back (leftovers)--> front
//!            |        ^ decoded()                      |---put_last (refused) -----> back
//!            '----> undecoded <------------------------'   put_back (the next batch is in work)
//!                   errors, one waker
//! ```
//! The front is served first, and leftovers go back to the front, so they come before anything
//! newer; but what begins with a record that nobody could take lets the others pass. It knows
//! neither requests nor records; [`crate::drain`] does the draining.
//!
//! What waits for a codec thread waits apart: with a thousand partitions in work each look for what
//! is ready would pass nearly all of them.
//!
//! Lock order: what an iteration holds ([`crate::stepping`]), this lock, the subscription's. Nothing
//! takes them the other way round.

use std::collections::{BTreeMap, VecDeque};
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
    /// Something can be done with the front of each; in the order of their ranks.
    ready: VecDeque<Box<CompletedFetch>>,
    /// The front of each is being decoded, or waits to be; by their stamps, of which no two
    /// partitions have the same.
    undecoded: BTreeMap<u64, Box<CompletedFetch>>,
    errors: VecDeque<QueuedError>,
    waker: Option<Waker>,
    last_rank: u64,
    /// The subscription's, when nothing of `undecoded` was stale.
    changes: u64,
}

impl State {
    fn add(&mut self, fetch: Box<CompletedFetch>) {
        if fetch.is_ready() {
            let rank = fetch.rank;
            let index = self.ready.partition_point(|other| other.rank < rank);
            self.ready.insert(index, fetch);
        } else {
            self.changes = self.changes.min(fetch.changes);
            let before = self.undecoded.insert(fetch.stamp, fetch);
            debug_assert!(
                before.is_none(),
                "a partition is fetched when it is drained"
            );
        }
    }

    fn add_first(&mut self, mut fetch: Box<CompletedFetch>) {
        fetch.rank = 0;
        self.add(fetch);
    }

    fn add_last(&mut self, mut fetch: Box<CompletedFetch>) {
        self.last_rank += 1;
        fetch.rank = self.last_rank;
        self.add(fetch);
    }

    /// See [`FetchBuffer::next`]. Stale frames are the caller's, to be freed outside of the locks.
    fn take_front(
        &mut self,
        assigned: &Assigned,
        only: &[TopicPartition],
        horizon: u64,
        stale: &mut impl Extend<Box<CompletedFetch>>,
    ) -> Option<Box<CompletedFetch>> {
        let mut index = 0;
        loop {
            let fetch = self.ready.get_mut(index)?;
            if assigned.stamp_at(fetch.index) != Some(fetch.stamp) {
                fetch.index = assigned.index_of(&fetch.partition);
            }
            match standing(assigned, fetch) {
                Standing::Stale => stale.extend(self.ready.remove(index)),
                Standing::Current
                    if fetch.rank <= horizon
                        && (only.is_empty() || only.contains(&fetch.partition)) =>
                {
                    return self.ready.remove(index);
                }
                _ => index += 1,
            }
        }
    }

    /// Nobody decodes for a partition that has moved on: what waits for that would stay for ever.
    fn take_stale(&mut self, assigned: &Assigned, stale: &mut impl Extend<Box<CompletedFetch>>) {
        for (stamp, fetch) in std::mem::take(&mut self.undecoded) {
            if standing(assigned, &fetch) == Standing::Stale {
                stale.extend([fetch]);
            } else {
                self.undecoded.insert(stamp, fetch);
            }
        }
        self.changes = assigned.changes().count();
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
        wake(self.lock());
    }

    pub(crate) fn push(&self, fetch: Box<CompletedFetch>) {
        self.lock().add_last(fetch);
    }

    pub(crate) fn put_back(&self, fetch: Box<CompletedFetch>) {
        self.lock().add_first(fetch);
    }

    /// Behind all others: its first record was not taken, and theirs may be.
    pub(crate) fn put_last(&self, fetch: Box<CompletedFetch>) {
        self.lock().add_last(fetch);
    }

    /// Batches of the partition with this stamp were decoded; who waits is woken.
    pub(crate) fn decoded(&self, stamp: u64) {
        let mut state = self.lock();
        if let Some(fetch) = state.undecoded.remove(&stamp) {
            state.add(fetch);
        }
        wake(state);
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
        if !state.errors.is_empty() || !state.ready.front()?.is_amid_batch() {
            return None;
        }
        let assigned = subscription.lock();
        let fetch = state.ready.front()?;
        if standing(&assigned, fetch) == Standing::Current {
            state.ready.pop_front()
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
        if state.changes != assigned.changes().count() {
            state.take_stale(&assigned, &mut stale);
        }
        let horizon = state.last_rank;
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
    /// way), not paused (those stay), its first batch decoded, no later than `horizon`, of a
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
        for fetch in state.ready.drain(..) {
            if standing(&assigned, &fetch) == Standing::Stale {
                stale.push(fetch);
            } else {
                kept.push_back(fetch);
            }
        }
        state.ready = kept;
        state.take_stale(&assigned, &mut stale);
        drop(assigned);
        drop(state);
        drop(stale);
    }

    /// Whether a poll would find something now, or an error.
    pub(crate) fn has_drainable(&self, subscription: &Subscription) -> bool {
        let state = self.lock();
        let assigned = subscription.lock();
        let mut ready = state.ready.iter();
        !state.errors.is_empty()
            || ready.any(|fetch| standing(&assigned, fetch) == Standing::Current)
    }

    /// Partitions with undrained records, in the order in which they will be served.
    pub fn buffered(&self) -> Vec<TopicPartition> {
        let state = self.lock();
        let mut all: Vec<_> = state.ready.iter().chain(state.undecoded.values()).collect();
        all.sort_by_key(|fetch| fetch.rank);
        all.into_iter()
            .map(|fetch| fetch.partition.clone())
            .collect()
    }

    /// Copies out what a paused partition still holds of a frame much larger than it: nobody
    /// knows when it will be resumed, and the frame would count all that time.
    pub(crate) fn unpin_paused(&self, subscription: &Subscription, memory: &Arc<FetchMemory>) {
        let mut state = self.lock();
        if state.ready.is_empty() {
            return;
        }
        let assigned = subscription.lock();
        if !assigned.has_paused() {
            return;
        }
        for fetch in &mut state.ready {
            if standing(&assigned, fetch) == Standing::Paused {
                fetch.unpin(memory);
            }
        }
    }

    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        let all = (
            std::mem::take(&mut state.ready),
            std::mem::take(&mut state.undecoded),
        );
        drop(state);
        drop(all);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completed_fetch::{Fault, Slot};
    use crate::job::DecodeCell;
    use crate::partition_state::FetchPosition;

    const START: FetchPosition = FetchPosition {
        offset: 0,
        leader_epoch: -1,
    };

    struct Buffered {
        buffer: FetchBuffer,
        subscription: Subscription,
        memory: Arc<FetchMemory>,
    }

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    impl Buffered {
        fn new(partitions: i32) -> Self {
            let subscription = Subscription::default();
            subscription.assign(&(0..partitions).map(tp).collect::<Vec<_>>());
            for partition in 0..partitions {
                subscription
                    .lock()
                    .enter(&tp(partition), Phase::Fetching(START));
            }
            Self {
                buffer: FetchBuffer::default(),
                subscription,
                memory: FetchMemory::new(1 << 20),
            }
        }

        /// As it comes from the broker, with one batch in work.
        fn fetched(&self, partition: i32) -> (Box<CompletedFetch>, Arc<DecodeCell>) {
            let cell = Arc::new(DecodeCell::default());
            let assigned = self.subscription.lock();
            let fetch = CompletedFetch {
                partition: tp(partition),
                stamp: assigned.get(&tp(partition)).map_or(0, |it| it.stamp),
                index: usize::MAX,
                changes: assigned.changes().count(),
                rank: 0,
                next_offset: 0,
                leader_epoch: -1,
                slots: VecDeque::from([Slot::Decoding(Arc::clone(&cell))]),
                frame: Arc::new(self.memory.charge(100)),
            };
            (Box::new(fetch), cell)
        }

        fn push(&self, partition: i32) -> impl Fn() {
            let (fetch, cell) = self.fetched(partition);
            let stamp = fetch.stamp;
            self.buffer.push(fetch);
            move || {
                cell.fill(Err(Fault(String::new())));
                self.buffer.decoded(stamp);
            }
        }

        fn next(&self) -> Option<Box<CompletedFetch>> {
            let begun = self.buffer.begin(&self.subscription, &[]);
            begun.expect("no error is queued").1
        }

        fn next_partition(&self) -> Option<i32> {
            self.next().map(|fetch| fetch.partition.partition)
        }
    }

    #[test]
    fn what_is_decoded_late_has_its_place_by_its_arrival() {
        let here = Buffered::new(3);
        let decode = [here.push(0), here.push(1), here.push(2)];
        assert_eq!(here.next_partition(), None);
        decode[2]();
        decode[0]();
        assert_eq!(here.buffer.buffered(), [tp(0), tp(1), tp(2)]);
        assert_eq!(here.next_partition(), Some(0));
        assert_eq!(here.next_partition(), Some(2));
        decode[1]();
        assert_eq!(here.next_partition(), Some(1));
    }

    #[test]
    fn leftovers_come_before_what_arrived_earlier_and_was_decoded_later() {
        let here = Buffered::new(3);
        let decode = [here.push(0), here.push(1), here.push(2)];
        decode[1]();
        let leftover = here.next().expect("it is decoded");
        here.buffer.put_back(leftover);
        decode[0]();
        decode[2]();
        let order = [(); 3].map(|()| here.next_partition());
        assert_eq!(order, [Some(1), Some(0), Some(2)]);
    }

    #[test]
    fn what_is_decoded_while_it_is_out_is_ready_when_it_is_put_back() {
        let here = Buffered::new(1);
        let decode = here.push(0);
        decode();
        let mut out = here.next().expect("it is decoded");
        let cell = Arc::new(DecodeCell::default());
        out.slots[0] = Slot::Decoding(Arc::clone(&cell));
        cell.fill(Err(Fault(String::new())));
        here.buffer.decoded(out.stamp);
        here.buffer.put_back(out);
        assert_eq!(here.next_partition(), Some(0));
    }

    /// A seek whose own look at the buffer came before the fetch did.
    #[test]
    fn a_fetch_that_was_overtaken_by_a_seek_is_dropped_though_nobody_decodes_it() {
        let here = Buffered::new(2);
        let (fetch, _cell) = here.fetched(1);
        here.subscription.lock().enter(
            &tp(1),
            Phase::Fetching(FetchPosition { offset: 7, ..START }),
        );
        here.buffer.discard_stale(&here.subscription);
        here.buffer.push(fetch);
        assert_eq!(here.memory.used(), 100);
        assert_eq!(here.next_partition(), None);
        assert_eq!(here.memory.used(), 0);
    }
}
