//! Counts the memory that undrained records hold, against the limit `fetch_buffer_memory`.
//!
//! Two things are counted: complete frames, until their last undrained slice is gone, and the
//! output of codecs. A charge returns its bytes when it is dropped, in whichever thread that
//! happens: the I/O thread (a stale response), a codec thread, or the application's thread
//! (drained). The output of codecs is also counted separately, because it has its own limit
//! (`decode_queue`).
//!
//! This module counts and never refuses. The fetcher decides whether to fetch or decode more, and
//! may let one batch exceed the limit so that there is always progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct FetchMemory {
    /// All in bytes.
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
    /// The part of `used` that is codec output: reserved, or decoded and not drained.
    decoded: AtomicUsize,
}

impl FetchMemory {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            decoded: AtomicUsize::new(0),
        })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn decoded(&self) -> usize {
        self.decoded.load(Ordering::Relaxed)
    }

    pub(crate) fn free(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(used, Ordering::Relaxed);
        Charge {
            memory: Arc::clone(self),
            bytes,
            decoded: false,
        }
    }

    pub(crate) fn charge_decoded(self: &Arc<Self>, bytes: usize) -> Charge {
        self.decoded.fetch_add(bytes, Ordering::Relaxed);
        let mut charge = self.charge(bytes);
        charge.decoded = true;
        charge
    }
}

/// A number of bytes that count as used until the charge is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    memory: Arc<FetchMemory>,
    bytes: usize,
    decoded: bool,
}

impl Charge {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns this many bytes, or all that are left.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let before = self.memory.used.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(
            before >= bytes,
            "more fetch memory given back than was taken"
        );
        if self.decoded {
            self.memory.decoded.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_come_back_when_dropped() {
        let memory = FetchMemory::new(100);
        let a = memory.charge(60);
        let b = memory.charge(70);
        assert_eq!((memory.used(), memory.free(), memory.peak()), (130, 0, 130));
        drop(b);
        assert_eq!((memory.used(), memory.free()), (60, 40));
        drop(a);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn what_came_out_of_a_codec_is_counted_by_itself_as_well() {
        let memory = FetchMemory::new(100);
        let frame = memory.charge(60);
        let mut decoded = memory.charge_decoded(30);
        assert_eq!((memory.used(), memory.decoded()), (90, 30));
        drop(frame);
        assert_eq!((memory.used(), memory.decoded()), (30, 30));
        decoded.give_back(20);
        assert_eq!((memory.used(), memory.decoded()), (10, 10));
        decoded.give_back(20);
        assert_eq!((memory.used(), memory.decoded()), (0, 0));
        drop(decoded);
        assert_eq!((memory.used(), memory.decoded()), (0, 0));
    }
}
