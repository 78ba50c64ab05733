//! The errors of record batches, with the offset that they belong to.

use std::fmt;
use std::ops::RangeInclusive;

use crate::batches::CONTROL_BATCH_BYTES_MAX;
use crate::compression::Compression;

/// An error of a whole batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// The declared length is too short for the batch's own header.
    #[error(
        "batch at offset {base_offset}: its declared length {length} is below the minimum {length_min}"
    )]
    BatchLength {
        base_offset: i64,
        length: i32,
        length_min: i32,
    },
    /// There are fewer bytes than a batch header needs.
    #[error("a batch header needs {needed} bytes, but only {found} are left")]
    Truncated { needed: usize, found: usize },
    /// No version of Kafka writes this magic byte.
    #[error("batch at offset {base_offset}: unknown magic {magic}, expected 0, 1 or 2")]
    Magic { base_offset: i64, magic: i8 },
    /// The checksum is wrong: the bytes are not those that were written.
    #[error(
        "batch at offset {base_offset} is corrupt: its checksum is {computed:#010x}, but its header has {stored:#010x}"
    )]
    Crc {
        base_offset: i64,
        stored: u32,
        computed: u32,
    },
    /// The compression id is not in 0..=4, or the magic does not allow it.
    #[error("batch at offset {base_offset}: unknown compression id {id} for magic {magic}")]
    CompressionId { base_offset: i64, id: u8, magic: i8 },
    /// The codec refuses the compressed data.
    #[error("batch at offset {base_offset}: {codec} data is corrupt: {reason}")]
    Compressed {
        base_offset: i64,
        codec: Compression,
        reason: &'static str,
    },
    /// There are more bytes than the caller allows. Nothing above the limit was allocated.
    #[error(
        "batch at offset {base_offset}: {codec} data decompresses to more than the limit of {limit_bytes} bytes"
    )]
    TooLarge {
        base_offset: i64,
        codec: Compression,
        limit_bytes: usize,
    },
    /// A compressed control batch is far larger than any control record.
    #[error(
        "control batch at offset {base_offset} is corrupt: its {codec} data decompresses to more than the {CONTROL_BATCH_BYTES_MAX} bytes that a control batch may have"
    )]
    ControlTooLarge {
        base_offset: i64,
        codec: Compression,
    },
    /// The bytes cannot hold the declared number of records.
    #[error(
        "batch at offset {base_offset}: its {section_bytes} bytes cannot contain the declared {count} records"
    )]
    RecordsCount {
        base_offset: i64,
        count: i32,
        section_bytes: usize,
    },
    /// One record is malformed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The compression level is outside the codec's range (KIP-390).
    #[error("compression level {level} is out of range: {codec} accepts {} to {}", range.start(), range.end())]
    Level {
        codec: Compression,
        level: i32,
        range: RangeInclusive<i32>,
    },
    /// A level was given for a codec without levels.
    #[error("{codec} has no compression levels")]
    NoLevels { codec: Compression },
    /// A v0/v1 message set breaks the rules of nesting.
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
    /// Index of the record in the batch, from 0.
    pub index: i32,
    /// What is wrong with it.
    pub problem: RecordProblem,
}

impl RecordError {
    /// Returns the offset that the record has in a batch without gaps.
    pub fn offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.index))
    }
}

/// What can be wrong with a single record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordProblem {
    /// A variable-length integer is too long or cut off.
    Varint,
    /// The record's length is negative or exceeds the batch.
    Length,
    /// The fields need more bytes than the record's length allows.
    Overrun,
    /// Bytes are left between the last field and the end of the record.
    Underrun,
    /// The offset is before the batch.
    OffsetDelta,
    /// The number of headers is negative, or more than the bytes can hold.
    HeaderCount,
    /// A header has no key.
    HeaderKey,
    /// Bytes are left after the last declared record.
    TrailingBytes,
    /// There are fewer records than declared.
    Missing,
}

impl fmt::Display for RecordProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Varint => "a variable-length integer is malformed",
            Self::Length => "its declared length does not fit into the batch",
            Self::Overrun => "its fields need more bytes than its declared length",
            Self::Underrun => "its declared length has bytes left after its fields",
            Self::OffsetDelta => "its offset is before the batch",
            Self::HeaderCount => "its bytes cannot contain the declared count of headers",
            Self::HeaderKey => "a header has no key",
            Self::TrailingBytes => "bytes are left after the last declared record",
            Self::Missing => "the batch ends before the declared count of records",
        })
    }
}
