//! The five codecs, in the forms that Kafka's clients write and accept.

use std::fmt;
use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::error::RecordsError;

/// How a batch's records section is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The id in a batch's attributes.
    pub const fn id(self) -> u8 {
        self as u8
    }

    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// Kafka's name, as in `compression.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }

    /// Levels that the codec knows (KIP-390), `None` for those without levels.
    pub const fn levels(self) -> Option<RangeInclusive<i32>> {
        match self {
            Self::None | Self::Snappy => None,
            Self::Gzip => Some(1..=9),
            Self::Lz4 => Some(1..=17),
            Self::Zstd => Some(-131_072..=22),
        }
    }

    /// The level that `None` stands for.
    pub const fn default_level(self) -> Option<i32> {
        match self {
            Self::None | Self::Snappy => None,
            Self::Gzip => Some(6),
            Self::Lz4 => Some(9),
            Self::Zstd => Some(3),
        }
    }

    /// Refuses a level outside of the codec's range.
    pub fn check_level(self, level: Option<i32>) -> Result<(), RecordsError> {
        let Some(level) = level else { return Ok(()) };
        let range = self
            .levels()
            .ok_or(RecordsError::NoLevels { codec: self })?;
        if range.contains(&level) || (self == Self::Gzip && level == -1) {
            return Ok(());
        }
        Err(RecordsError::Level {
            codec: self,
            level,
            range,
        })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a codec reports; the batch adds where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecError {
    Corrupt(&'static str),
    /// The output would pass the limit.
    TooLarge,
}

impl CodecError {
    pub(crate) fn at(
        self,
        base_offset: i64,
        codec: Compression,
        limit_bytes: usize,
    ) -> RecordsError {
        match self {
            Self::Corrupt(reason) => RecordsError::Compressed {
                base_offset,
                codec,
                reason,
            },
            Self::TooLarge => RecordsError::TooLarge {
                base_offset,
                codec,
                limit_bytes,
            },
        }
    }
}

/// Compresses records sections. Contexts are made at first use and kept: one for each thread
/// that compresses.
#[derive(Debug, Default)]
pub struct Compressor {}

impl Compressor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the compressed form of the chunks, taken as one, to `out`.
    pub fn compress(
        &mut self,
        codec: Compression,
        level: Option<i32>,
        chunks: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), RecordsError> {
        codec.check_level(level)?;
        if codec != Compression::None {
            todo!("codecs follow");
        }
        for chunk in chunks {
            out.extend_from_slice(chunk);
        }
        Ok(())
    }
}

/// Decompresses records sections, within a limit. Contexts and buffers are kept: one for each
/// thread that decompresses.
#[derive(Debug, Default)]
pub struct Decompressor {}

impl Decompressor {
    pub fn new() -> Self {
        Self::default()
    }

    /// The decompressed bytes: at most `limit_bytes`, else `TooLarge`.
    pub fn decompress(
        &mut self,
        codec: Compression,
        input: &[u8],
        _limit_bytes: usize,
    ) -> Result<Bytes, CodecError> {
        if codec != Compression::None {
            return Err(CodecError::Corrupt("codecs follow"));
        }
        Ok(Bytes::copy_from_slice(input))
    }
}
