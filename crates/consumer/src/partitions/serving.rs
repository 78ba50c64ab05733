//! The order in which fetched partitions are served.
//!
//! Each fetch that is held has a *rank*. Fetches that arrive get the next higher rank, and
//! leftovers of a drain get a rank below all others, so they come before anything newer.
//!
//! ```text
//! ready    {-1: P0 (leftovers), 3: P2, 7: P5}   a drain takes the first
//! waiting  {4: P1, 5: P3}                       paused, or not decoded yet, or fetched ahead
//! ```
//! This file knows ranks and handles only. [`super::buffer`] decides which fetch is ready.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct ServingOrder {
    /// Rank -> handle of the partition.
    ready: BTreeMap<i64, u32>,
    waiting: BTreeMap<i64, u32>,
    first_rank: i64,
    last_rank: i64,
}

impl ServingOrder {
    /// Returns the rank before all others.
    pub(crate) fn next_first(&mut self) -> i64 {
        self.first_rank -= 1;
        self.first_rank
    }

    /// Returns the rank after all others.
    pub(crate) fn next_last(&mut self) -> i64 {
        self.last_rank += 1;
        self.last_rank
    }

    /// Returns the rank of the last fetch that has arrived. Fetches that arrive from now on are
    /// beyond it, leftovers are not.
    pub(crate) fn horizon(&self) -> i64 {
        self.last_rank
    }

    /// Lists a fetch, or moves it to the other list.
    pub(crate) fn list(&mut self, rank: i64, handle: u32, is_ready: bool) {
        let (to, from) = if is_ready {
            (&mut self.ready, &mut self.waiting)
        } else {
            (&mut self.waiting, &mut self.ready)
        };
        from.remove(&rank);
        to.insert(rank, handle);
    }

    pub(crate) fn remove(&mut self, rank: i64) {
        if self.ready.remove(&rank).is_none() {
            self.waiting.remove(&rank);
        }
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Iterates over the partitions that can be drained, in order.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (i64, u32)> {
        self.ready.iter().map(|(rank, handle)| (*rank, *handle))
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = u32> {
        self.waiting.values().copied()
    }

    /// Returns all partitions in order. One with two fetches is listed twice.
    pub(crate) fn all(&self) -> Vec<u32> {
        let mut all: Vec<_> = self.ready.iter().chain(&self.waiting).collect();
        all.sort_by_key(|(rank, _)| **rank);
        all.into_iter().map(|(_, handle)| *handle).collect()
    }
}
