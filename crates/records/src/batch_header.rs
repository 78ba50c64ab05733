//! The header of a batch: the 61 bytes before its records.
//!
//! ```text
//! at  0 base offset 8 | 8 batch length 4 | 12 partition leader epoch 4 | 16 magic 1 | 17 crc 4
//!    21 attributes 2 | 23 last offset delta 4 | 27 base timestamp 8 | 35 max timestamp 8
//!    43 producer id 8 | 51 producer epoch 2 | 53 base sequence 4 | 57 records count 4 | 61 records
//! ```
//! The checksum covers everything from the attributes on. So a broker can set base offset and
//! leader epoch (`set_base_offset_and_epoch`) without computing it again.

use crate::attributes::Attributes;
use crate::crc::Crc32c;
use crate::error::RecordsError;

/// Length of a v2 batch header.
pub const BATCH_HEADER_LEN: usize = 61;
/// Length of base offset and batch length, which the batch length does not include.
pub const BATCH_LOG_OVERHEAD: usize = 12;
/// Where the bytes covered by the checksum begin.
pub const CRC_COVERS_FROM: usize = 21;
pub const NO_PRODUCER_ID: i64 = -1;
pub const NO_PRODUCER_EPOCH: i16 = -1;
pub const NO_SEQUENCE: i32 = -1;
pub const NO_PARTITION_LEADER_EPOCH: i32 = -1;
/// The timestamp of magic 0 messages, which have none.
pub const NO_TIMESTAMP: i64 = -1;

const PARTITION_LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const LAST_OFFSET_DELTA_AT: usize = 23;
const BASE_TIMESTAMP_AT: usize = 27;
const MAX_TIMESTAMP_AT: usize = 35;
const PRODUCER_ID_AT: usize = 43;
const PRODUCER_EPOCH_AT: usize = 51;
const BASE_SEQUENCE_AT: usize = 53;
const RECORDS_COUNT_AT: usize = 57;

/// The header of a batch. For v0 and v1 messages it is built from the message's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: i64,
    /// Number of bytes after this field: 49 bytes of header, and the records.
    pub batch_length: i32,
    pub partition_leader_epoch: i32,
    /// 2, or 0 or 1 for batches that were converted from message sets.
    pub magic: i8,
    pub crc: u32,
    pub attributes: Attributes,
    /// Offset of the last record the batch ever had. Compaction may have removed that record.
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub records_count: i32,
}

impl Default for BatchHeader {
    fn default() -> Self {
        Self {
            base_offset: 0,
            batch_length: (BATCH_HEADER_LEN - BATCH_LOG_OVERHEAD) as i32,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            magic: 2,
            crc: 0,
            attributes: Attributes::default(),
            last_offset_delta: 0,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            records_count: 0,
        }
    }
}

impl BatchHeader {
    /// Returns the last offset of the batch, whether that record still exists or not.
    pub fn last_offset(&self) -> i64 {
        self.base_offset
            .wrapping_add(i64::from(self.last_offset_delta))
    }

    /// Returns the offset at which reading continues after this batch.
    pub fn next_offset(&self) -> i64 {
        self.last_offset().wrapping_add(1)
    }

    /// Returns the sequence of the last record. Sequences wrap from `i32::MAX` to 0.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        self.base_sequence.wrapping_add(self.last_offset_delta) & i32::MAX
    }

    /// Returns the whole length on the wire.
    pub fn total_len(&self) -> usize {
        BATCH_LOG_OVERHEAD + self.batch_length.max(0) as usize
    }

    /// Encodes the header, with length and checksum as they are in the fields.
    pub fn encode(&self) -> [u8; BATCH_HEADER_LEN] {
        let mut out = [0; BATCH_HEADER_LEN];
        put(&mut out, 0, self.base_offset.to_be_bytes());
        put(&mut out, 8, self.batch_length.to_be_bytes());
        put(
            &mut out,
            PARTITION_LEADER_EPOCH_AT,
            self.partition_leader_epoch.to_be_bytes(),
        );
        put(&mut out, MAGIC_AT, self.magic.to_be_bytes());
        put(&mut out, CRC_AT, self.crc.to_be_bytes());
        put(&mut out, ATTRIBUTES_AT, self.attributes.0.to_be_bytes());
        put(
            &mut out,
            LAST_OFFSET_DELTA_AT,
            self.last_offset_delta.to_be_bytes(),
        );
        put(
            &mut out,
            BASE_TIMESTAMP_AT,
            self.base_timestamp.to_be_bytes(),
        );
        put(&mut out, MAX_TIMESTAMP_AT, self.max_timestamp.to_be_bytes());
        put(&mut out, PRODUCER_ID_AT, self.producer_id.to_be_bytes());
        put(
            &mut out,
            PRODUCER_EPOCH_AT,
            self.producer_epoch.to_be_bytes(),
        );
        put(&mut out, BASE_SEQUENCE_AT, self.base_sequence.to_be_bytes());
        put(&mut out, RECORDS_COUNT_AT, self.records_count.to_be_bytes());
        out
    }

    /// Closes a batch and returns its header: sets length and checksum for the records section. The
    /// section may be in any number of chunks, and is already compressed if the attributes say so.
    pub fn finish<'a, I>(&mut self, records: I) -> [u8; BATCH_HEADER_LEN]
    where
        I: IntoIterator<Item = &'a [u8]>,
        I::IntoIter: Clone,
    {
        let records = records.into_iter();
        let section: usize = records.clone().map(<[u8]>::len).sum();
        let length = BATCH_HEADER_LEN - BATCH_LOG_OVERHEAD + section;
        self.batch_length = i32::try_from(length)
            .expect("the size of a batch is limited by that of a request, which is an i32");
        let mut out = self.encode();
        let mut crc = Crc32c::new();
        crc.update(&out[CRC_COVERS_FROM..]);
        for chunk in records {
            crc.update(chunk);
        }
        self.crc = crc.finish();
        put(&mut out, CRC_AT, self.crc.to_be_bytes());
        out
    }

    /// Parses a v2 header. The length field must cover at least the header.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordsError> {
        let Some(bytes) = bytes.first_chunk::<BATCH_HEADER_LEN>() else {
            return Err(RecordsError::Truncated {
                needed: BATCH_HEADER_LEN,
                found: bytes.len(),
            });
        };
        let header = Self {
            base_offset: i64::from_be_bytes(get(bytes, 0)),
            batch_length: i32::from_be_bytes(get(bytes, 8)),
            partition_leader_epoch: i32::from_be_bytes(get(bytes, PARTITION_LEADER_EPOCH_AT)),
            magic: i8::from_be_bytes(get(bytes, MAGIC_AT)),
            crc: u32::from_be_bytes(get(bytes, CRC_AT)),
            attributes: Attributes(i16::from_be_bytes(get(bytes, ATTRIBUTES_AT))),
            last_offset_delta: i32::from_be_bytes(get(bytes, LAST_OFFSET_DELTA_AT)),
            base_timestamp: i64::from_be_bytes(get(bytes, BASE_TIMESTAMP_AT)),
            max_timestamp: i64::from_be_bytes(get(bytes, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(get(bytes, PRODUCER_ID_AT)),
            producer_epoch: i16::from_be_bytes(get(bytes, PRODUCER_EPOCH_AT)),
            base_sequence: i32::from_be_bytes(get(bytes, BASE_SEQUENCE_AT)),
            records_count: i32::from_be_bytes(get(bytes, RECORDS_COUNT_AT)),
        };
        header.check()
    }

    fn check(self) -> Result<Self, RecordsError> {
        let base_offset = self.base_offset;
        if self.magic != 2 {
            return Err(RecordsError::Magic {
                base_offset,
                magic: self.magic,
            });
        }
        let length_min = (BATCH_HEADER_LEN - BATCH_LOG_OVERHEAD) as i32;
        if self.batch_length < length_min {
            let length = self.batch_length;
            return Err(RecordsError::BatchLength {
                base_offset,
                length,
                length_min,
            });
        }
        Ok(self)
    }
}

/// Sets the fields that a broker sets at append. Both are outside the checksum. For v2 batches
/// only.
pub fn set_base_offset_and_epoch(batch: &mut [u8], base_offset: i64, partition_leader_epoch: i32) {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[PARTITION_LEADER_EPOCH_AT..MAGIC_AT]
        .copy_from_slice(&partition_leader_epoch.to_be_bytes());
}

/// Sets what a broker sets at append if `message.timestamp.type` is `LogAppendTime`: the attribute
/// bit, the maximum timestamp and a new checksum. The records do not change. For v2 batches only.
pub fn set_log_append_time(batch: &mut [u8], now_ms: i64) {
    let bits: [u8; 2] = [batch[ATTRIBUTES_AT], batch[ATTRIBUTES_AT + 1]];
    let attributes = Attributes(i16::from_be_bytes(bits)).with_log_append_time(true);
    batch[ATTRIBUTES_AT..LAST_OFFSET_DELTA_AT].copy_from_slice(&attributes.0.to_be_bytes());
    batch[MAX_TIMESTAMP_AT..PRODUCER_ID_AT].copy_from_slice(&now_ms.to_be_bytes());
    let crc = crate::crc::crc32c([&batch[CRC_COVERS_FROM..]]);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
}

fn put<const N: usize>(out: &mut [u8; BATCH_HEADER_LEN], at: usize, bytes: [u8; N]) {
    out[at..at + N].copy_from_slice(&bytes);
}

fn get<const N: usize>(bytes: &[u8; BATCH_HEADER_LEN], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
