//! Which batch is decoded next, and when decoding waits.
//!
//! Oldest first, as that is the order of draining. A batch of a paused partition waits until it is
//! resumed; one whose fetch was thrown away is dropped. Decoding goes on while the budget has
//! room; beyond it, only if nothing else can make progress: no job runs, and nothing is drainable
//! or a drain found nothing of the batch's partition.
//!
//! Nor does it run far ahead of the application, which gains nothing by it: a codec's buffers are
//! used again once they were drained, and fresh ones cost as much as the decompression. What a
//! drain could not take (of paused partitions, or of others than it was asked for) is not ahead.
//!
//! How much a batch grows is known only afterwards, so room is taken for what recent batches grew
//! by; the very first one is decoded alone.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use crate::assigned::Assigned;
use crate::fetcher::Fetcher;
use crate::job::{DecodeDone, DecodeJob};

/// Growth is kept in sixteenths.
const UNIT: usize = 16;
/// An old growth is forgotten by this part for each newer, smaller one.
const FORGET: usize = 16;
/// Bytes decoded, or being decoded, ahead of the drain: what codecs keep in buffers (records'
/// `SPARES_BYTES_MAX`).
const AHEAD_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct DecodeQueue {
    pub(crate) waiting: VecDeque<DecodeJob>,
    pub(crate) running: usize,
    /// Decoded bytes for each compressed byte, in sixteenths: the most of late.
    growth: Option<usize>,
    /// Decoded bytes that the last drain without records left where they are.
    passed_over: usize,
}

impl DecodeQueue {
    fn guess(&self, compressed_bytes: usize) -> usize {
        let growth = self.growth.unwrap_or(UNIT);
        compressed_bytes.saturating_mul(growth).div_ceil(UNIT)
    }

    /// How many batches of a job the budget has room for, one at least, and their decoded bytes.
    fn fitting(&self, job: &DecodeJob, free: usize) -> (usize, usize) {
        let all = self.guess(job.compressed_bytes());
        if self.growth.is_some() && all <= free {
            return (job.len(), all);
        }
        let mut sizes = job.sizes();
        let mut compressed_bytes = sizes.next().unwrap_or(0);
        let mut count = 1;
        if self.growth.is_some() {
            for size in sizes {
                if self.guess(compressed_bytes + size) > free {
                    break;
                }
                compressed_bytes += size;
                count += 1;
            }
        }
        (count, self.guess(compressed_bytes))
    }

    pub(crate) fn done(&mut self, done: DecodeDone) {
        self.running = self.running.saturating_sub(1);
        let seen = done.decoded_bytes.saturating_mul(UNIT) / done.compressed_bytes.max(1) + 1;
        let before = self.growth.unwrap_or(0);
        self.growth = Some(seen.max(before - before / FORGET));
        // As the oldest: its record set waits for it.
        if let Some(rest) = done.rest {
            self.waiting.push_front(rest);
        }
    }
}

impl Fetcher {
    pub(crate) fn next_job(&mut self) -> Option<DecodeJob> {
        let queue = &mut self.decode;
        if queue.growth.is_none() && queue.running > 0 {
            return None;
        }
        let mut index = self.first_job()?;
        let memory = &self.shared.memory;
        let (free, decoded) = (memory.free(), memory.decoded());
        let (mut batches, mut wanted) = self.decode.fitting(&self.decode.waiting[index], free);
        let starved = self.shared.starved.swap(false, Ordering::SeqCst);
        let queue = &mut self.decode;
        queue.passed_over = if starved {
            decoded
        } else {
            queue.passed_over.min(decoded)
        };
        // Twice the next one at least: one is drained while another is decoded.
        let far_ahead = decoded - queue.passed_over >= AHEAD_BYTES_MAX.max(2 * wanted);
        let waits = wanted > free || far_ahead;
        if waits && queue.running > 0 {
            return None;
        }
        if waits && self.shared.has_drainable() {
            index = self.job_asked_for()?;
            (batches, wanted) = self.decode.fitting(&self.decode.waiting[index], free);
        }
        let queue = &mut self.decode;
        let mut job = queue.waiting.remove(index)?;
        if let Some(rest) = job.split_off(batches) {
            queue.waiting.insert(index, rest);
        }
        job.start(wanted, &self.shared.buffer);
        queue.running += 1;
        Some(job)
    }

    /// The oldest job whose partition may be drained. Orphans are dropped, all of them at once when
    /// one is met or what was buffered has lost its worth: looking for them each time is quadratic.
    fn first_job(&mut self) -> Option<usize> {
        let mut orphaned = self.shared.discarded.swap(false, Ordering::SeqCst);
        if !orphaned {
            let assigned = self.shared.subscription.lock();
            let found = self.decode.waiting.iter().position(|job| {
                orphaned |= job.is_orphaned();
                orphaned || may_run(job, &assigned)
            });
            if !orphaned {
                return found;
            }
        }
        self.decode.waiting.retain(|job| !job.is_orphaned());
        let assigned = self.shared.subscription.lock();
        let mut waiting = self.decode.waiting.iter();
        waiting.position(|job| may_run(job, &assigned))
    }

    /// The oldest job of a partition of which a drain found nothing: once for each such drain.
    fn job_asked_for(&self) -> Option<usize> {
        let mut assigned = self.shared.subscription.lock();
        let mut waiting = self.decode.waiting.iter();
        waiting.position(|job| {
            !job.is_orphaned() && may_run(job, &assigned) && assigned.serve(&job.partition)
        })
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
