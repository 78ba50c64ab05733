//! [`StoredBatch`]: a batch as its producer sent it, with its position in the log.
//!
//! ```text
//! | base offset 8 | length 4 | leader epoch 4 |  magic, crc, attributes, records ...  |
//! '------ prefix: built from the fields -----------'------- shared with the frame ---------'
//! ```
//! Base offset and leader epoch are outside of the checksum, so an append changes nothing else.

use bytes::Bytes;
use thalweg_records::BatchHeader;
use thalweg_records::batch_header::BATCH_LOG_OVERHEAD;

/// The length of the bytes before those that are shared.
pub(crate) const PREFIX_LEN: usize = 16;

#[derive(Debug, Clone)]
pub(crate) struct StoredBatch {
    pub(crate) base_offset: i64,
    pub(crate) last_offset_delta: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) max_timestamp: i64,
    /// The highest timestamp of this batch and of those before it in its segment.
    pub(crate) max_timestamp_so_far: i64,
    /// The complete batch. Its first 16 bytes are the producer's and must not be used.
    data: Bytes,
}

impl StoredBatch {
    pub(crate) fn new(header: &BatchHeader, data: Bytes, base_offset: i64, epoch: i32) -> Self {
        debug_assert_eq!(data.len(), header.total_len());
        Self {
            base_offset,
            last_offset_delta: header.last_offset_delta,
            leader_epoch: epoch,
            max_timestamp: header.max_timestamp,
            max_timestamp_so_far: header.max_timestamp,
            data,
        }
    }

    pub(crate) fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn prefix(&self) -> [u8; PREFIX_LEN] {
        let mut prefix = [0; PREFIX_LEN];
        let length = (self.data.len() - BATCH_LOG_OVERHEAD) as i32;
        prefix[..8].copy_from_slice(&self.base_offset.to_be_bytes());
        prefix[8..12].copy_from_slice(&length.to_be_bytes());
        prefix[12..].copy_from_slice(&self.leader_epoch.to_be_bytes());
        prefix
    }

    /// Returns everything after the prefix, as a slice.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.data[PREFIX_LEN..]
    }

    /// Returns everything after the prefix, shared.
    pub(crate) fn shared_rest(&self) -> Bytes {
        self.data.slice(PREFIX_LEN..)
    }

    /// Returns the batch in one piece, as a copy.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut whole = Vec::with_capacity(self.len());
        whole.extend_from_slice(&self.prefix());
        whole.extend_from_slice(self.rest());
        whole.into()
    }
}
