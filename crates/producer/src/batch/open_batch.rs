//! The batch of a partition that still accepts records.
//!
//! A record is encoded once, in its wire form, directly into the batch's rope. Its timestamp delta
//! is relative to the first record's timestamp. What the header needs is counted with each record.

use std::sync::Arc;
use std::time::Instant;

use thalweg_records::record as wire;

use crate::batch::buffer_pool::BufferPool;
use crate::batch::chunk::{Reservation, Rope};
use crate::batch::completion::BatchCompletion;
use crate::batch::record::Record;

#[derive(Debug)]
pub(crate) struct OpenBatch {
    pub(crate) rope: Rope,
    /// Limit of the bytes of records. The first record may be larger.
    bytes_max: usize,
    pub(crate) records: u32,
    /// The upper bound of the longest record's length.
    pub(crate) record_bytes_max: usize,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) completion: Arc<BatchCompletion>,
    /// When the first record was appended. Linger and delivery timeout start here.
    pub(crate) created: Instant,
}

impl OpenBatch {
    /// Creates a batch. `reservation` must have room for the first record.
    pub(crate) fn new(
        reservation: Reservation,
        bytes_max: usize,
        timestamp_ms: i64,
        completion: Arc<BatchCompletion>,
        created: Instant,
    ) -> Self {
        Self {
            rope: Rope::new(reservation),
            bytes_max,
            records: 0,
            record_bytes_max: 0,
            base_timestamp: timestamp_ms,
            max_timestamp: timestamp_ms,
            completion,
            created,
        }
    }

    /// Appends a record and returns its index.
    ///
    /// Returns `None` if the batch accepts no more: the record does not fit (and is not the first
    /// one), or the pool has no memory to grow at once.
    #[inline]
    pub(crate) fn try_append(
        &mut self,
        record: &Record<'_>,
        pool: &Arc<BufferPool>,
    ) -> Option<u32> {
        let index = self.records;
        // Java has the same limit: the offset delta is an i32.
        if index >= i32::MAX as u32 {
            return None;
        }
        let timestamp_delta = record.timestamp_ms.wrapping_sub(self.base_timestamp);
        let fields = record.fields(index as i32, timestamp_delta);
        let bound = record.len_bound();
        if self.rope.len() + bound > self.bytes_max || self.rope.room_in_chunk() < bound {
            // Close to one of the limits, so compute the exact length.
            let len = wire::encoded_len(&fields);
            if index > 0 && self.rope.len() + len > self.bytes_max {
                return None;
            }
            if self.rope.room_in_chunk() < len && !self.rope.grow(pool, len) {
                return None;
            }
        }
        wire::encode(&fields, &mut self.rope);
        self.records = index + 1;
        self.record_bytes_max = self.record_bytes_max.max(bound);
        self.max_timestamp = self.max_timestamp.max(record.timestamp_ms);
        Some(index)
    }

    /// Returns whether not even the shortest record would fit.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.rope.len() + wire::RECORD_LEN_MIN > self.bytes_max
    }

    /// Returns how many bytes of records the batch accepts.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}
