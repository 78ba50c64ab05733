//! The fetched records that the application has not received yet: each partition holds its own.
//!
//! ```text
//!  response --insert--> Current::Held --take--> Current::Out (a drain, an iteration)
//!                            ^                      | give_back: the position moves with it
//!                            |<---- leftovers ------|
//!                            |                      '-- all drained: Current::None, fetched again
//!                       Ahead::Held  <-- what was fetched beyond it, for an iteration
//! ```
//! A seek, a revocation or a new validation drops what a partition holds in the same step
//! ([`Assigned::enter`], [`Assigned::assign`]). So what is held always begins at the position, and
//! no caller has to ask whether it is stale. Only what is out can become stale, and its stamp shows
//! that when it is given back.

use std::collections::BTreeSet;
use std::sync::Arc;

use thalweg_protocol::planted::{Bug, is_planted};

use crate::decoding::completed_fetch::{CompletedFetch, FetchedBatch};
use crate::error::ConsumerError;
use crate::fetching::memory::FetchMemory;
use crate::offset_spec::IsolationLevel;
use crate::partitions::state::{Ahead, Current, FetchPosition, Phase};
use crate::partitions::table::Assigned;
use crate::topic_partition::TopicPartition;

/// A fetch that a drain or an iteration has taken out, and must give back.
#[derive(Debug)]
pub(crate) struct TakenFetch {
    pub(crate) fetch: Box<CompletedFetch>,
    /// The partition's position.
    pub(crate) from: FetchPosition,
    /// The number of records that were taken from it.
    pub(crate) records: usize,
}

/// Which fetches one drain may take.
#[derive(Debug)]
pub(crate) struct Scope {
    /// Fetches that arrive after this one are left to the next drain.
    horizon: i64,
    /// The handles of the partitions that the caller named. None: all partitions.
    only: Option<BTreeSet<u32>>,
}

impl Scope {
    fn includes(&self, handle: u32) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&handle))
    }
}

/// What happens to a fetch that is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It is served first.
    First,
    /// It is served last. Its first record was refused, but those of others may be taken.
    Last,
    /// Nothing is left of it.
    Empty,
}

impl Assigned {
    /// Stores a fetch that has arrived. It is dropped if the partition was moved since it was
    /// requested.
    pub(crate) fn insert(&mut self, mut fetch: Box<CompletedFetch>) {
        let (handle, start) = (fetch.handle, fetch.next_offset);
        fetch.rank = self.order.next_last();
        let rank = fetch.rank;
        let Some(state) = self.current(handle, fetch.stamp) else {
            self.drop_later(fetch);
            return;
        };
        match (&state.ahead, &state.current, state.phase) {
            (Ahead::From(end), _, Phase::Fetching(_)) if end.offset == start => {
                state.ahead = Ahead::Held(fetch);
            }
            (Ahead::No, Current::None, Phase::Fetching(at)) if at.offset == start => {
                state.current = Current::Held(fetch);
            }
            _ => {
                self.drop_later(fetch);
                return;
            }
        }
        self.order.list(rank, handle, false);
        self.list(handle);
    }

    /// Sorts the partition's fetch into the order again, after something about it has changed.
    pub(crate) fn list(&mut self, handle: u32) {
        let Some((_, state)) = self.by_handle(handle) else {
            return;
        };
        if let Current::Held(fetch) = &state.current {
            let (rank, is_ready) = (fetch.rank, fetch.is_ready() && !state.paused);
            self.order.list(rank, handle, is_ready);
        }
    }

    /// Notes that batches of the partition under this stamp were decoded, not necessarily the
    /// first.
    pub(crate) fn decoded(&mut self, handle: u32, stamp: u64) {
        // A job may outlive its fetch.
        let state = self.by_handle(handle);
        if state.is_some_and(|(_, state)| state.stamp == stamp) {
            self.list(handle);
        }
    }

    /// Returns the scope of a drain that begins now, of the partitions in `only` (of all if it is
    /// empty).
    pub(crate) fn scope(&self, only: &[TopicPartition]) -> Scope {
        let named = only.iter().filter_map(|partition| self.get(partition));
        Scope {
            horizon: self.order.horizon(),
            only: (!only.is_empty()).then(|| named.map(|state| state.handle).collect()),
        }
    }

    /// Takes out the first fetch that can be drained and is in the scope.
    pub(crate) fn take_next(&mut self, scope: &Scope) -> Option<TakenFetch> {
        let ready = self.order.ready();
        let mut ready = ready.take_while(|(rank, _)| *rank <= scope.horizon);
        let (_, handle) = ready.find(|(_, handle)| scope.includes(*handle))?;
        drop(ready);
        self.take(handle)
    }

    fn take(&mut self, handle: u32) -> Option<TakenFetch> {
        let (_, state) = self.by_handle(handle)?;
        let Current::Held(fetch) = std::mem::replace(&mut state.current, Current::Out) else {
            return None;
        };
        if is_planted(Bug::StalePrefetch) && fetch.stamp != state.stamp {
            state.current = Current::None;
        }
        self.order.remove(fetch.rank);
        self.out += 1;
        let from = fetch.position();
        Some(TakenFetch {
            fetch,
            from,
            records: 0,
        })
    }

    /// Takes out the fetch that is served next, if a batch of it is partly drained.
    pub(crate) fn take_amid_batch(&mut self) -> Option<TakenFetch> {
        let (_, handle) = self.order.ready().next()?;
        let (_, state) = self.by_handle(handle)?;
        let is_amid_batch = match &state.current {
            Current::Held(fetch) => fetch.is_amid_batch(),
            Current::None | Current::Out => false,
        };
        is_amid_batch.then(|| self.take(handle)).flatten()
    }

    /// Takes a fetch back, and moves the position over the records that were taken from it.
    /// Returns false if the partition was moved in the meantime: the rest is dropped.
    pub(crate) fn give_back(&mut self, taken: TakenFetch, rest: Rest) -> bool {
        let TakenFetch {
            mut fetch,
            from,
            records,
        } = taken;
        self.out -= 1;
        let (handle, stamp, to) = (fetch.handle, fetch.stamp, fetch.position());
        if !self.advance(handle, stamp, from.offset, to, records) {
            self.drop_later(fetch);
            return false;
        }
        fetch.rank = match rest {
            Rest::First => self.order.next_first(),
            Rest::Last => self.order.next_last(),
            Rest::Empty => {
                self.finish(handle, stamp);
                self.drop_emptied(fetch);
                return true;
            }
        };
        if let Some((_, state)) = self.by_handle(handle) {
            let (rank, is_ready) = (fetch.rank, fetch.is_ready() && !state.paused);
            state.current = Current::Held(fetch);
            self.order.list(rank, handle, is_ready);
        }
        true
    }

    /// Takes back a fetch with a corrupt batch in front, and drops it. The client fetches it again
    /// later, which helps if it was damaged in transit, and serves the other partitions until then.
    /// Returns the error, unless the partition was moved in the meantime.
    pub(crate) fn give_up(&mut self, mut taken: TakenFetch) -> Option<ConsumerError> {
        let fetch = &mut taken.fetch;
        let (handle, stamp, offset) = (fetch.handle, fetch.stamp, fetch.next_offset);
        let reason = match fetch.batches.pop_front() {
            Some(FetchedBatch::Failed(fault)) => fault.0,
            _ => String::new(),
        };
        let partition = fetch.partition.clone();
        if let Some(state) = self.current(handle, stamp) {
            state.backoff_due = true;
        }
        let error = ConsumerError::CorruptBatch {
            partition,
            offset,
            reason,
        };
        self.give_back(taken, Rest::Empty).then_some(error)
    }

    /// The fetch at the position is drained or given up. The partition may be fetched again, last
    /// in the rotation, unless the next records were already fetched ahead.
    fn finish(&mut self, handle: u32, stamp: u64) {
        let turn = self.next_turn();
        let Some(state) = self.current(handle, stamp) else {
            return;
        };
        state.current = Current::None;
        let at = state.valid_position().map(|position| position.offset);
        let ahead = std::mem::take(&mut state.ahead);
        match ahead {
            Ahead::Held(next) if at == Some(next.next_offset) => {
                state.current = Current::Held(next);
                self.list(handle);
            }
            // Its response comes later.
            Ahead::From(end) if at == Some(end.offset) => {}
            Ahead::No | Ahead::GivenUp => state.turn = turn,
            // The fetch ended early, so records fetched ahead do not follow the position.
            ahead @ (Ahead::Held(_) | Ahead::From(_)) => {
                state.turn = turn;
                if let Ahead::Held(next) = ahead {
                    self.discard(next);
                }
                let stamp = self.stamp();
                if let Some((_, state)) = self.by_handle(handle) {
                    state.stamp = stamp;
                }
            }
        }
    }

    /// Lets the fetcher continue from the end of the fetch that is served next while that is being
    /// drained. Returns true if this is new.
    pub(crate) fn run_ahead(&mut self, isolation: IsolationLevel) -> bool {
        let Some((_, handle)) = self.order.ready().next() else {
            return false;
        };
        let Some((_, state)) = self.by_handle(handle) else {
            return false;
        };
        if !state.run_ahead(isolation) {
            return false;
        }
        let turn = self.next_turn();
        if let Some(state) = self.edit_handle(handle) {
            state.turn = turn;
        }
        true
    }

    /// Drops what a partition holds, because its position is no longer the one that was fetched.
    pub(crate) fn discard_held(&mut self, handle: u32) {
        let Some((_, state)) = self.by_handle(handle) else {
            return;
        };
        if is_planted(Bug::StalePrefetch) && matches!(state.current, Current::Held(_)) {
            return;
        }
        let current = std::mem::take(&mut state.current);
        let ahead = std::mem::take(&mut state.ahead);
        if let Current::Held(fetch) = current {
            self.discard(fetch);
        }
        if let Ahead::Held(fetch) = ahead {
            self.discard(fetch);
        }
    }

    /// Drops a fetch that is listed in the order.
    pub(crate) fn discard(&mut self, fetch: Box<CompletedFetch>) {
        self.order.remove(fetch.rank);
        self.drop_later(fetch);
    }

    /// Drops everything that is held.
    pub(crate) fn discard_all(&mut self) {
        for handle in self.order.all() {
            self.discard_held(handle);
        }
    }

    /// Whether a drain would find records now.
    pub(crate) fn has_ready(&self) -> bool {
        self.order.has_ready()
    }

    /// Returns the partitions with undrained records, in the order in which they will be served,
    /// if each is decoded in time. A partition that was also fetched ahead is listed twice.
    pub(crate) fn buffered(&self) -> Vec<TopicPartition> {
        let all = self.order.all().into_iter();
        all.filter_map(|handle| self.name_of(handle).cloned())
            .collect()
    }

    /// Copies the records of paused partitions out of frames that are much larger than them. The
    /// pause may be long, and the complete frame would count as used memory during it. With `all`,
    /// also copies those of other partitions, because the application asks for none of them.
    pub(crate) fn unpin(&mut self, memory: &Arc<FetchMemory>, all: bool) {
        if !all && !self.has_paused() {
            return;
        }
        let ready = self.order.ready().filter(|_| all).map(|(_, handle)| handle);
        let handles: Vec<u32> = self.order.waiting().chain(ready).collect();
        for handle in handles {
            let Some((_, state)) = self.by_handle(handle) else {
                continue;
            };
            if !all && !state.paused {
                continue;
            }
            if let Current::Held(fetch) = &mut state.current {
                fetch.unpin(memory);
            }
            if let Ahead::Held(fetch) = &mut state.ahead {
                fetch.unpin(memory);
            }
        }
    }
}
