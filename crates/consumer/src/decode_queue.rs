//! Which batch is decoded next, and when decoding waits for memory.
//!
//! Oldest first, as that is the order of draining. A batch of a paused partition waits until it is
//! resumed; one whose fetch was thrown away is dropped. Decoding goes on while the budget has
//! room; beyond it, only if nothing else can make progress: nothing is drainable and no job runs.
//!
//! Nor does it run far ahead of the application, which would gain nothing: buffers of a codec are used
//! again when they were drained, and fresh ones cost as much as the decompression.
//!
//! How much a batch grows is known only afterwards, so room is taken for what recent batches grew
//! by; the very first one is decoded alone.

use std::collections::VecDeque;

use crate::assigned::Assigned;
use crate::fetcher::Fetcher;
use crate::job::{DecodeDone, DecodeJob};

/// Growth is kept in sixteenths.
const UNIT: usize = 16;
/// An old growth is forgotten by this part for each newer, smaller one.
const FORGET: usize = 16;

/// With so many bytes decoded and not drained, or being decoded, no more are.
const AHEAD_BYTES: usize = 8 << 20;

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

    /// Leaves the first batch alone in its job.
    fn split_first(&mut self, index: usize) {
        if let Some(rest) = self.waiting[index].split_off_rest() {
            self.waiting.insert(index + 1, rest);
        }
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
        if queue.growth.is_none() && queue.running > 0 {
            return None;
        }
        let index = self.first_job()?;
        let memory = &self.shared.memory;
        let mut wanted = self.decode.guess(&self.decode.waiting[index]);
        if self.decode.growth.is_none() || wanted > memory.free() {
            self.decode.split_first(index);
            wanted = self.decode.guess(&self.decode.waiting[index]);
        }
        let room = wanted <= memory.free() && memory.decoded() < AHEAD_BYTES;
        if !room && (self.decode.running > 0 || self.shared.has_drainable()) {
            return None;
        }
        let mut job = self.decode.waiting.remove(index)?;
        job.start(wanted, &self.shared.buffer);
        self.decode.running += 1;
        Some(job)
    }

    /// The oldest job whose partition may be drained; orphans before it are dropped. Those behind it
    /// come to the front in their turn: looking at all of them for each job is quadratic.
    fn first_job(&mut self) -> Option<usize> {
        let mut orphans = Vec::new();
        let assigned = self.shared.subscription.lock();
        let waiting = &mut self.decode.waiting;
        let mut index = 0;
        let found = loop {
            match waiting.get(index) {
                None => break None,
                Some(job) if job.is_orphaned() => orphans.extend(waiting.remove(index)),
                Some(job) if may_run(job, &assigned) => break Some(index),
                Some(_) => index += 1,
            }
        };
        drop(assigned);
        // The last of them frees its frame: outside of the lock.
        drop(orphans);
        found
    }

    /// Whether there is anything to decode that may be drained afterwards.
    pub(crate) fn has_job(&self) -> bool {
        let assigned = self.shared.subscription.lock();
        let mut waiting = self.decode.waiting.iter();
        waiting.any(|job| !job.is_orphaned() && may_run(job, &assigned))
    }
}

fn may_run(job: &DecodeJob, assigned: &Assigned) -> bool {
    let state = assigned.get(&job.partition);
    state.is_some_and(|state| state.stamp == job.stamp && !state.paused)
}
