//! The attribute bits of a batch.
//!
//! ```text
//! 15 ...  7 |       6        |    5    |      4        |       3        |   2..0
//!   unused  | delete horizon | control | transactional | timestamp type | compression
//! ```

use crate::compression::Compression;

/// What a record's timestamp means (KIP-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// Messages of magic 0 have no timestamps.
    None,
    /// The producer set the timestamp.
    CreateTime,
    /// The broker set the timestamp at append: the batch's maximum timestamp applies to all
    /// records.
    LogAppendTime,
}

impl TimestampType {
    /// Returns Kafka's id: -1, 0 or 1.
    pub fn id(self) -> i8 {
        match self {
            Self::None => -1,
            Self::CreateTime => 0,
            Self::LogAppendTime => 1,
        }
    }
}

const COMPRESSION_MASK: i16 = 0x07;
const TIMESTAMP_TYPE_BIT: i16 = 0x08;
const TRANSACTIONAL_BIT: i16 = 0x10;
const CONTROL_BIT: i16 = 0x20;
/// KIP-534: the base timestamp field holds the time from which on tombstones may be deleted. The
/// deltas are then relative to it, so readers need no special case.
const DELETE_HORIZON_BIT: i16 = 0x40;

/// The attribute bits of a batch, as on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    /// Returns the compression bits, 0..=7 (5 to 7 are not assigned).
    pub fn compression_id(self) -> u8 {
        (self.0 & COMPRESSION_MASK) as u8
    }

    /// Returns the codec, or `None` if its id is not assigned.
    pub fn compression(self) -> Option<Compression> {
        Compression::from_id(self.compression_id())
    }

    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & TIMESTAMP_TYPE_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    pub fn is_transactional(self) -> bool {
        self.0 & TRANSACTIONAL_BIT != 0
    }

    pub fn is_control(self) -> bool {
        self.0 & CONTROL_BIT != 0
    }

    pub fn has_delete_horizon(self) -> bool {
        self.0 & DELETE_HORIZON_BIT != 0
    }

    #[must_use]
    pub fn with_compression(self, codec: Compression) -> Self {
        Self(self.0 & !COMPRESSION_MASK | i16::from(codec.id()))
    }

    #[must_use]
    pub fn with_log_append_time(self, on: bool) -> Self {
        self.with(TIMESTAMP_TYPE_BIT, on)
    }

    #[must_use]
    pub fn with_transactional(self, on: bool) -> Self {
        self.with(TRANSACTIONAL_BIT, on)
    }

    #[must_use]
    pub fn with_control(self, on: bool) -> Self {
        self.with(CONTROL_BIT, on)
    }

    #[must_use]
    pub fn with_delete_horizon(self, on: bool) -> Self {
        self.with(DELETE_HORIZON_BIT, on)
    }

    fn with(self, bit: i16, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }
}
