//! [`Segment`]: a run of batches that retention removes together, like Kafka's log files.

use bytes::{Bytes, BytesMut};

use super::batch::StoredBatch;
use crate::options::TopicOptions;

/// Smaller batches are copied together. Otherwise a batch of one record would keep a complete frame
/// alive, or need its own allocation.
const SMALL_BATCH_BYTES: usize = 2048;
const ARENA_BYTES_MIN: usize = 1024;
const ARENA_BYTES_MAX: usize = 128 * 1024;

#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    pub(crate) batches: Vec<StoredBatch>,
    pub(crate) size_bytes: u64,
    /// The first batch's timestamp, from which the roll time is counted.
    first_timestamp: i64,
    pub(crate) max_timestamp: i64,
    arena: BytesMut,
}

impl Segment {
    pub(crate) fn new(base_offset: i64) -> Self {
        Self {
            base_offset,
            batches: Vec::new(),
            size_bytes: 0,
            first_timestamp: -1,
            max_timestamp: -1,
            arena: BytesMut::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Kafka's `LogSegment.shouldRoll`: it uses the timestamps of records, not the clock.
    pub(crate) fn should_roll(&self, bytes: usize, timestamp: i64, options: &TopicOptions) -> bool {
        if self.is_empty() {
            return false;
        }
        let full = self.size_bytes + bytes as u64 > options.segment_bytes as u64;
        let first = self.first_timestamp;
        let old = timestamp >= 0 && first >= 0 && timestamp - first > options.segment_ms;
        full || old
    }

    pub(crate) fn push(&mut self, mut batch: StoredBatch) {
        if self.is_empty() {
            self.first_timestamp = batch.max_timestamp;
        }
        self.max_timestamp = self.max_timestamp.max(batch.max_timestamp);
        batch.max_timestamp_so_far = self.max_timestamp;
        self.size_bytes += batch.len() as u64;
        self.batches.push(batch);
    }

    /// Returns `data`, or a copy if keeping `data` would hold much more memory than it needs.
    pub(crate) fn settle(&mut self, data: Bytes, frame_bytes: usize) -> Bytes {
        if data.len() <= SMALL_BATCH_BYTES {
            if self.arena.capacity() - self.arena.len() < data.len() {
                // It grows with the segment, so that one record in each of many partitions takes
                // little.
                let wanted = self.size_bytes.min(ARENA_BYTES_MAX as u64) as usize;
                let bytes = wanted.max(ARENA_BYTES_MIN).max(data.len());
                self.arena = BytesMut::with_capacity(bytes);
            }
            self.arena.extend_from_slice(&data);
            return self.arena.split().freeze();
        }
        if data.len() < frame_bytes / 2 {
            return Bytes::copy_from_slice(&data);
        }
        data
    }

    /// Keeps the batches before the first one that is cut, and returns the others.
    pub(crate) fn truncate(&mut self, is_cut: impl Fn(&StoredBatch) -> bool) -> Vec<StoredBatch> {
        let at = self.batches.partition_point(|batch| !is_cut(batch));
        if at == self.batches.len() {
            return Vec::new();
        }
        let gone = self.batches.split_off(at);
        let kept = std::mem::replace(self, Self::new(self.base_offset)).batches;
        for batch in kept {
            self.push(batch);
        }
        gone
    }

    /// Returns the index of the first batch that ends at or after `offset`.
    pub(crate) fn position(&self, offset: i64) -> usize {
        self.batches
            .partition_point(|batch| batch.last_offset() < offset)
    }
}
