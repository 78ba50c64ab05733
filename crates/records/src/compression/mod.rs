//! The five compression types, in the forms that Kafka's clients write and accept.
//!
//! ```text
//! Compressor    chunks -> gzip | snappy (xerial) | lz4 (frame) | zstd -> Vec
//! Decompressor  slice  -> the same, and the variants of other clients -> Bytes within a limit
//! ```
//! Only a codec's own file uses its library. The top of that file says what the codec accepts
//! beyond what it writes.

mod chunks;
mod gzip;
mod lz4;
mod output;
mod snappy;
mod zstd;

use std::fmt;
use std::ops::RangeInclusive;

use bytes::Bytes;

use crate::error::RecordsError;
use gzip::{GzipDecoder, GzipEncoder};
pub(crate) use lz4::HeaderChecksum;
use lz4::Lz4Encoder;
use output::Spares;
use snappy::SnappyEncoder;
use zstd::{ZstdDecoder, ZstdEncoder};

/// The first guess of how much larger the data was before compression.
const FIRST_RATIO: usize = 3;

/// How the records section of a batch is compressed.
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

    /// Returns the id in a batch's attributes.
    pub const fn id(self) -> u8 {
        self as u8
    }

    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// Returns Kafka's name, as in `compression.type`.
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

    /// Returns the levels of the codec (KIP-390), or `None` if it has none.
    pub const fn levels(self) -> Option<RangeInclusive<i32>> {
        match self {
            Self::None | Self::Snappy => None,
            Self::Gzip => Some(1..=9),
            Self::Lz4 => Some(1..=17),
            Self::Zstd => Some(-131_072..=22),
        }
    }

    /// Returns the level that is used if none is given.
    pub const fn default_level(self) -> Option<i32> {
        match self {
            Self::None | Self::Snappy => None,
            Self::Gzip => Some(6),
            Self::Lz4 => Some(9),
            Self::Zstd => Some(3),
        }
    }

    /// Refuses a level outside the codec's range.
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

/// An error of a codec. The caller adds the batch that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecError {
    Corrupt(&'static str),
    /// The output would exceed the limit.
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

/// Compresses records sections. It creates contexts at first use and keeps them, so use one for
/// each thread.
#[derive(Default)]
pub struct Compressor {
    gzip: Option<GzipEncoder>,
    snappy: Option<SnappyEncoder>,
    lz4: Option<Lz4Encoder>,
    zstd: Option<ZstdEncoder>,
}

impl Compressor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the compressed form of the concatenated chunks to `out`, which grows by at most
    /// `compressed_len_max`. The only error is a level outside the codec's range.
    pub fn compress(
        &mut self,
        codec: Compression,
        level: Option<i32>,
        chunks: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), RecordsError> {
        codec.check_level(level)?;
        match codec {
            Compression::None => chunks.iter().for_each(|chunk| out.extend_from_slice(chunk)),
            Compression::Gzip => {
                self.gzip
                    .get_or_insert_with(GzipEncoder::new)
                    .compress(level, chunks, out);
            }
            Compression::Snappy => {
                self.snappy
                    .get_or_insert_with(SnappyEncoder::new)
                    .compress(chunks, out);
            }
            Compression::Lz4 => {
                self.lz4
                    .get_or_insert_with(Lz4Encoder::new)
                    .compress(level, chunks, out);
            }
            Compression::Zstd => {
                self.zstd
                    .get_or_insert_with(ZstdEncoder::new)
                    .compress(level, chunks, out);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// Returns the maximum compressed length of `input_len` bytes, to allocate an output buffer once.
pub fn compressed_len_max(codec: Compression, input_len: usize) -> usize {
    match codec {
        Compression::None => input_len,
        Compression::Gzip => gzip::compressed_len_max(input_len),
        Compression::Snappy => snappy::compressed_len_max(input_len),
        Compression::Lz4 => lz4::compressed_len_max(input_len),
        Compression::Zstd => zstd::compressed_len_max(input_len),
    }
}

/// Decompresses records sections within a limit. It keeps contexts and buffers, so use one for each
/// thread.
#[derive(Default)]
pub struct Decompressor {
    gzip: Option<GzipDecoder>,
    zstd: Option<ZstdDecoder>,
    spares: Spares,
}

impl Decompressor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the decompressed bytes, or `TooLarge` if there are more than `limit_bytes`.
    pub fn decompress(
        &mut self,
        codec: Compression,
        input: &[u8],
        limit_bytes: usize,
    ) -> Result<Bytes, CodecError> {
        self.decompress_with(codec, input, limit_bytes, HeaderChecksum::Verify)
    }

    pub(crate) fn decompress_with(
        &mut self,
        codec: Compression,
        input: &[u8],
        limit_bytes: usize,
        checksum: HeaderChecksum,
    ) -> Result<Bytes, CodecError> {
        let guess = match codec {
            Compression::Zstd => zstd::first_guess(input),
            _ => input.len().saturating_mul(FIRST_RATIO),
        };
        let mut out = self.spares.output(guess, limit_bytes);
        let result = match codec {
            Compression::None => out.extend(input),
            Compression::Gzip => self
                .gzip
                .get_or_insert_with(GzipDecoder::new)
                .decompress(input, &mut out),
            Compression::Snappy => snappy::decompress(input, &mut out),
            Compression::Lz4 => lz4::decompress(input, checksum, &mut out),
            Compression::Zstd => self
                .zstd
                .get_or_insert_with(ZstdDecoder::new)
                .decompress(input, &mut out),
        };
        self.spares.finish(out, result)
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}
