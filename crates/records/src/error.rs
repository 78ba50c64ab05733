//! What can be wrong with record batches, with the offset that the trouble belongs to.

use std::fmt;
use std::ops::RangeInclusive;

use crate::batches::CONTROL_BATCH_BYTES_MAX;
use crate::compression::Compression;

/// An error of a whole batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// The declared length cannot hold the batch's own header.
    #[error(
        "batch at offset {base_offset}: declared length {length} is below the least, {length_min}"
    )]
    BatchLength {
        base_offset: i64,
        length: i32,
        length_min: i32,
    },
    /// Fewer bytes than the header of a batch needs.
    #[error("a batch header takes {needed} bytes, only {found} are there")]
    Truncated { needed: usize, found: usize },
    /// A magic byte that no version of Kafka writes.
    #[error("batch at offset {base_offset}: unknown magic {magic} (0, 1 and 2 are known)")]
    Magic { base_offset: i64, magic: i8 },
    /// The bytes are not those that were written.
    #[error(
        "batch at offset {base_offset} is corrupt: its checksum is {computed:#010x}, the header says {stored:#010x}"
    )]
    Crc {
        base_offset: i64,
        stored: u32,
        computed: u32,
    },
    /// A compression id that is not in 0..=4, or one that the magic cannot carry.
    #[error("batch at offset {base_offset}: unknown compression id {id} for magic {magic}")]
    CompressionId { base_offset: i64, id: u8, magic: i8 },
    /// Compressed data that its codec refuses.
    #[error("batch at offset {base_offset}: {codec} data is corrupt: {reason}")]
    Compressed {
        base_offset: i64,
        codec: Compression,
        reason: &'static str,
    },
    /// More bytes than the caller allows; nothing above the limit was allocated.
    #[error(
        "batch at offset {base_offset}: {codec} data decompresses to more than the limit of {limit_bytes} bytes"
    )]
    TooLarge {
        base_offset: i64,
        codec: Compression,
        limit_bytes: usize,
    },
    /// A compressed control batch that is far larger than any control record.
    #[error(
        "control batch at offset {base_offset} is corrupt: its {codec} data decompresses to more than the {CONTROL_BATCH_BYTES_MAX} bytes that a control batch may have"
    )]
    ControlTooLarge {
        base_offset: i64,
        codec: Compression,
    },
    /// A count of records that the bytes cannot hold.
    #[error("batch at offset {base_offset}: {count} records declared, {section_bytes} bytes there")]
    RecordsCount {
        base_offset: i64,
        count: i32,
        section_bytes: usize,
    },
    /// One record is malformed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A compression level outside of the codec's range (KIP-390).
    #[error("compression level {level} is outside of {codec}'s {}..={}", range.start(), range.end())]
    Level {
        codec: Compression,
        level: i32,
        range: RangeInclusive<i32>,
    },
    /// A codec without levels was given one.
    #[error("{codec} has no compression levels")]
    NoLevels { codec: Compression },
    /// A v0/v1 message set that breaks the rules of nesting.
    #[error("message set at offset {base_offset}: {reason}")]
    MessageSet {
        base_offset: i64,
        reason: &'static str,
    },
}

/// A malformed record. Small and `Copy`, because the hot loop returns it by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("record {index} of the batch at offset {base_offset}: {problem}")]
pub struct RecordError {
    /// Base offset of the batch.
    pub base_offset: i64,
    /// Place of the record in the batch, from 0.
    pub index: i32,
    /// What is wrong with it.
    pub problem: RecordProblem,
}

impl RecordError {
    /// The offset that the record has in a batch without holes.
    pub fn offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.index))
    }
}

/// What a single record can have wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordProblem {
    /// A variable-length integer that is too long or cut off.
    Varint,
    /// The record's length is negative or reaches beyond the batch.
    Length,
    /// The fields need more bytes than the record's length gives.
    Overrun,
    /// The record's length has bytes left after its fields.
    Underrun,
    /// The offset lies before the batch.
    OffsetDelta,
    /// A negative count of headers.
    HeaderCount,
    /// A header without a key.
    HeaderKey,
    /// Bytes are left after the last declared record.
    TrailingBytes,
    /// Fewer records than declared.
    Missing,
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Varint => "a variable-length integer is malformed",
            Self::Length => "its declared length does not fit into the batch",
            Self::Overrun => "its fields need more bytes than its declared length",
            Self::Underrun => "its declared length has bytes left after its fields",
            Self::OffsetDelta => "its offset lies before the batch",
            Self::HeaderCount => "its count of headers is impossible",
            Self::HeaderKey => "a header has no key",
            Self::TrailingBytes => "bytes are left after the last declared record",
            Self::Missing => "the batch ends before the declared count of records",
        })
    }
}
