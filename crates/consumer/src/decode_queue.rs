//! Which batch is decoded next, and when decoding waits for memory.
//!
//! Oldest first, as that is the order of draining. A batch of a paused partition waits until it is
//! resumed; one whose fetch was thrown away is dropped. Decoding goes on while the budget has
//! room; beyond it, only if nothing else can make progress: nothing is drainable and no job runs.
//!
//! How much a batch grows is known only afterwards, so room is taken for what recent batches grew
//! by; the very first one is decoded alone.

use std::collections::VecDeque;

use crate::fetcher::Fetcher;
use crate::job::{DecodeDone, DecodeJob};

/// Growth is kept in sixteenths.
const UNIT: usize = 16;
/// An old growth is forgotten by this part for each newer, smaller one.
const FORGET: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct DecodeQueue {
    pub(crate) waiting: VecDeque<DecodeJob>,
    pub(crate) running: usize,
    /// Decoded bytes for each compressed byte, in sixteenths: the most of late.
    growth: Option<usize>,
}

impl DecodeQueue {
    fn guess(&self, job: &DecodeJob) -> usize {
        let growth = self.growth.unwrap_or(UNIT);
        job.compressed_bytes().saturating_mul(growth).div_ceil(UNIT)
    }

    pub(crate) fn done(&mut self, done: &DecodeDone) {
        self.running = self.running.saturating_sub(1);
        let seen = done.decoded_bytes.saturating_mul(UNIT) / done.compressed_bytes.max(1) + 1;
        let before = self.growth.unwrap_or(0);
        self.growth = Some(seen.max(before - before / FORGET));
    }
}

impl Fetcher {
    pub(crate) fn next_job(&mut self) -> Option<DecodeJob> {
        let queue = &mut self.decode;
        queue.waiting.retain(|job| !job.is_orphaned());
        if queue.growth.is_none() && queue.running > 0 {
            return None;
        }
        let index = self.runnable_job()?;
        let wanted = self.decode.guess(&self.decode.waiting[index]);
        let room = wanted <= self.shared.memory.free();
        if !room && (self.decode.running > 0 || self.shared.has_drainable()) {
            return None;
        }
        let mut job = self.decode.waiting.remove(index)?;
        job.start(wanted, &self.shared.buffer);
        self.decode.running += 1;
        Some(job)
    }

    /// The oldest job whose partition may be drained.
    pub(crate) fn runnable_job(&self) -> Option<usize> {
        let assigned = self.shared.subscription.lock();
        self.decode.waiting.iter().position(|job| {
            assigned
                .get(&job.partition)
                .is_some_and(|state| state.stamp == job.stamp && !state.paused)
        })
    }
}
