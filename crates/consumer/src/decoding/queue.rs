//! Decides which batch is decoded next, and when decoding waits.
//!
//! The oldest batch is decoded first, because batches are drained in that order. A batch of a
//! paused partition waits until it is resumed. A batch of a dropped fetch is dropped too. Decoding
//! continues while the memory limit has room. Beyond the limit it continues only if nothing else
//! can make progress: no job runs, and nothing is drainable or being drained. Or a drain found
//! nothing of the batch's partition.
//!
//! Decoding does not run far ahead of the application either, because that gains nothing. A
//! codec's buffers are reused once they are drained, and new buffers cost as much as the
//! decompression. Batches that a drain could not take (of paused partitions, or of partitions that
//! it did not ask for) do not count as ahead.
//!
//! The decoded size of a batch is known only afterwards. So the client reserves memory by the
//! growth of recent batches, and decodes the very first batch alone.

use std::collections::VecDeque;

use crate::decoding::job::{DecodeDone, DecodeJob};
use crate::fetching::fetcher::Fetcher;
use crate::partitions::table::Assigned;

/// Growth is counted in sixteenths.
const UNIT: usize = 16;
/// A newer, smaller growth lowers the old one by this fraction.
const FORGET: usize = 16;
/// Maximum of bytes decoded, or being decoded, ahead of the drain: what codecs keep in buffers
/// (`SPARES_BYTES_MAX` of records).
const AHEAD_BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct DecodeQueue {
    /// In the order in which their batches arrived.
    pub(crate) waiting: VecDeque<DecodeJob>,
    pub(crate) running: usize,
    /// Decoded bytes per compressed byte, in sixteenths: the recent maximum.
    growth: Option<usize>,
    /// Decoded bytes that the last drain without records did not take.
    passed_over: usize,
    /// The number of the next batch that arrives.
    next_batch: u64,
}

impl DecodeQueue {
    fn guess(&self, compressed_bytes: usize) -> usize {
        let growth = self.growth.unwrap_or(UNIT);
        compressed_bytes.saturating_mul(growth).div_ceil(UNIT)
    }

    /// Returns how many batches of a job fit into the free memory, at least one, and their decoded
    /// bytes.
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
        // Several jobs may have a rest. The one that is drained first is decoded first: otherwise
        // nothing could be drained, and decoding would exceed the memory limit.
        // A rest that nothing waits for must not keep its frame in memory.
        if let Some(rest) = done.rest.filter(|rest| !rest.is_orphaned()) {
            let before = |job: &DecodeJob| job.first_batch < rest.first_batch;
            let index = self.waiting.partition_point(before);
            self.waiting.insert(index, rest);
        }
    }

    /// Numbers the batches of the jobs from this index on, which have just arrived.
    pub(crate) fn number(&mut self, from: usize) {
        for job in self.waiting.range_mut(from..) {
            job.first_batch = self.next_batch;
            self.next_batch += job.len() as u64;
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
        let starved = self.shared.signals.take_starved();
        let queue = &mut self.decode;
        queue.passed_over = if starved {
            decoded
        } else {
            queue.passed_over.min(decoded)
        };
        // At least twice the next batch: one is drained while another is decoded.
        let far_ahead = decoded - queue.passed_over >= AHEAD_BYTES_MAX.max(2 * wanted);
        let full = wanted > free;
        let waits = full || far_ahead;
        if waits && queue.running > 0 {
            return None;
        }
        // A running drain will free memory, so a full buffer waits for it. But if another drain found
        // nothing, it may be a call from a deserializer, inside the running one. That cannot wait.
        let draining = full && !starved && self.shared.partitions.is_draining();
        if waits && (draining || self.shared.has_drainable()) {
            index = self.job_asked_for()?;
            (batches, wanted) = self.decode.fitting(&self.decode.waiting[index], free);
        }
        let queue = &mut self.decode;
        let mut job = queue.waiting.remove(index)?;
        if let Some(rest) = job.split_off(batches) {
            queue.waiting.insert(index, rest);
        }
        job.start(wanted, &self.shared.partitions);
        queue.running += 1;
        Some(job)
    }

    /// Returns the oldest job whose partition may be drained. Orphans are dropped all at once,
    /// when one is found or when buffered data has become stale. Searching for them every time
    /// would take quadratic time.
    fn first_job(&mut self) -> Option<usize> {
        let mut assigned = self.shared.partitions.lock();
        let mut orphaned = assigned.take_discarded();
        if !orphaned {
            let found = self.decode.waiting.iter().position(|job| {
                orphaned |= job.is_orphaned();
                orphaned || may_run(job, &assigned)
            });
            if !orphaned {
                return found;
            }
        }
        self.decode.waiting.retain(|job| !job.is_orphaned());
        let mut waiting = self.decode.waiting.iter();
        waiting.position(|job| may_run(job, &assigned))
    }

    /// Returns the oldest job of a partition that a drain asked for in vain, once for each such
    /// drain.
    fn job_asked_for(&self) -> Option<usize> {
        let mut assigned = self.shared.partitions.lock();
        let mut waiting = self.decode.waiting.iter();
        waiting.position(|job| {
            !job.is_orphaned() && may_run(job, &assigned) && assigned.serve(&job.partition)
        })
    }

    /// Whether anything waits to be decoded that may be drained afterwards.
    pub(crate) fn has_job(&self) -> bool {
        let assigned = self.shared.partitions.lock();
        let mut waiting = self.decode.waiting.iter();
        waiting.any(|job| !job.is_orphaned() && may_run(job, &assigned))
    }
}

fn may_run(job: &DecodeJob, assigned: &Assigned) -> bool {
    let state = assigned.get(&job.partition);
    state.is_some_and(|state| state.stamp == job.stamp && !state.paused)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use thalweg_records::{BatchHeader, RawBatch};

    use super::*;
    use crate::decoding::job::{DecodeCell, DecodeLimits};
    use crate::fetching::memory::FetchMemory;
    use crate::topic_partition::TopicPartition;

    const FRAME_BYTES: usize = 100;

    fn batch() -> RawBatch {
        RawBatch {
            header: BatchHeader::default(),
            data: Bytes::from_static(&[0; FRAME_BYTES / 2]),
        }
    }

    /// A job of two batches, which holds its frame in memory, and the second batch's cell.
    fn job(memory: &Arc<FetchMemory>) -> (DecodeJob, Arc<DecodeCell>) {
        let limits = DecodeLimits {
            check_crcs: true,
            batch_bytes_max: usize::MAX,
        };
        let mut job = DecodeJob::new(
            TopicPartition::new("t", 0),
            (0, 0),
            batch(),
            Arc::default(),
            limits,
            Arc::clone(memory),
            Arc::new(memory.charge(FRAME_BYTES)),
        );
        let cell = job.push(batch());
        (job, cell)
    }

    #[test]
    fn a_rest_gives_its_frame_back_if_its_fetch_was_dropped() {
        for is_dropped in [false, true] {
            let memory = FetchMemory::new(1_000);
            let (mut running, cell) = job(&memory);
            let rest = running.split_off(1);
            let cell = (!is_dropped).then_some(cell);
            drop(running);
            let mut queue = DecodeQueue::default();
            queue.done(DecodeDone {
                compressed_bytes: FRAME_BYTES / 2,
                decoded_bytes: FRAME_BYTES,
                rest,
            });
            let held = if cell.is_some() { FRAME_BYTES } else { 0 };
            assert_eq!(memory.used(), held);
            assert_eq!(queue.waiting.is_empty(), is_dropped);
        }
    }
}
