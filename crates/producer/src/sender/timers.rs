//! When each partition wants to be looked at again.
//!
//! A partition has one time for each of the two reasons, so the heap holds a few entries for each
//! partition with data, however many batches pass. An entry that comes up too early costs a look,
//! which sets the next; one that was overtaken by an earlier one is passed over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::sender::slot::Slot;

/// Why a partition wants to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// Lingering or a backoff is over: soon.
    Due,
    /// The oldest batch's delivery timeout: late, and later with each batch that is done.
    Expiry,
}

pub(crate) const REASONS: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, Reason, usize)>>,
}

impl Timers {
    /// Looks at the partition at `at`, or earlier.
    pub(crate) fn set(&mut self, index: usize, slot: &mut Slot, reason: Reason, at: Instant) {
        let known = &mut slot.timers[reason as usize];
        if known.is_none_or(|known| at < known) {
            *known = Some(at);
            self.heap.push(Reverse((at, reason, index)));
        }
    }

    /// The next partition whose time has come.
    pub(crate) fn pop(&mut self, slots: &mut [Slot], now: Instant) -> Option<usize> {
        while let Some(&Reverse((at, reason, index))) = self.heap.peek() {
            if at > now {
                return None;
            }
            self.heap.pop();
            let known = &mut slots[index].timers[reason as usize];
            if *known == Some(at) {
                *known = None;
                return Some(index);
            }
        }
        None
    }

    /// The earliest time, at which there may be nothing to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|&Reverse((at, ..))| at)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}
