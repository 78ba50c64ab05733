//! Splits the record bytes of a Fetch response (or of a log) into batches.
//!
//! ```text
//! Bytes -> BatchIter -> RawBatch (header parsed, bytes shared with the frame)
//!                          |- validate_crc()
//!                          '- decode(&mut Decompressor, limit) -> DecodedBatch
//! ```
//! A broker cuts its response at a byte limit, so the last batch may be incomplete. The iteration
//! then ends without an error, and the consumer fetches that batch again.

use bytes::Bytes;

use crate::attributes::TimestampType;
use crate::batch_header::{BATCH_HEADER_LEN, BATCH_LOG_OVERHEAD, BatchHeader, CRC_COVERS_FROM};
use crate::compression::{CodecError, Compression, Decompressor};
use crate::crc::crc32c;
use crate::decoded::DecodedBatch;
use crate::error::RecordsError;
use crate::legacy;

/// Position of the magic byte. All versions have the same fields up to it: offset, length, CRC or
/// epoch.
const MAGIC_AT: usize = 16;

/// Limit of the decompressed size of a control batch. A marker takes some 20 bytes, and no broker
/// compresses it. Clients decode control batches without a codec thread, so they must stay cheap.
pub const CONTROL_BATCH_BYTES_MAX: usize = 16 << 10;

/// Iterates over the batches of `data`.
pub fn batches(data: Bytes) -> BatchIter {
    BatchIter { data }
}

/// The batches of a Fetch response, in order. The iteration ends after an error.
#[derive(Debug, Clone)]
pub struct BatchIter {
    data: Bytes,
}

impl BatchIter {
    /// Returns the number of bytes not returned yet. At the end: those of an incomplete last batch.
    pub fn remaining(&self) -> usize {
        self.data.len()
    }

    fn read(&mut self) -> Result<Option<RawBatch>, RecordsError> {
        let Some(start) = self.data.first_chunk::<{ MAGIC_AT + 1 }>() else {
            return Ok(None);
        };
        let magic = start[MAGIC_AT].cast_signed();
        let (offset, length) = start.split_at(8);
        let base_offset = i64::from_be_bytes(*offset.first_chunk().expect("split at 8"));
        let length = i32::from_be_bytes(*length.first_chunk().expect("17 - 8 bytes are left"));
        let length_min = match magic {
            0 => legacy::MESSAGE_V0_LEN_MIN,
            1 => legacy::MESSAGE_V1_LEN_MIN,
            2 => (BATCH_HEADER_LEN - BATCH_LOG_OVERHEAD) as i32,
            _ => return Err(RecordsError::Magic { base_offset, magic }),
        };
        if length < length_min {
            return Err(RecordsError::BatchLength {
                base_offset,
                length,
                length_min,
            });
        }
        let total = BATCH_LOG_OVERHEAD + length as usize;
        if self.data.len() < total {
            return Ok(None);
        }
        let data = self.data.split_to(total);
        let header = if magic == 2 {
            BatchHeader::parse(&data)?
        } else {
            legacy::message_header(&data)
        };
        Ok(Some(RawBatch { header, data }))
    }
}

impl Iterator for BatchIter {
    type Item = Result<RawBatch, RecordsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.read();
        if batch.is_err() {
            self.data.clear();
        }
        batch.transpose()
    }
}

/// A batch as received: the header is parsed, the records are not. For v0 and v1 it is one message
/// of a message set (a compressed message contains many).
#[derive(Debug, Clone)]
pub struct RawBatch {
    /// The base offset of a compressed v0/v1 message is known only after decoding. Until then it is
    /// the last offset, `last_offset_delta` is 0 and `records_count` is 1.
    pub header: BatchHeader,
    /// The whole batch, including the header.
    pub data: Bytes,
}

impl RawBatch {
    pub fn base_offset(&self) -> i64 {
        self.header.base_offset
    }

    pub fn last_offset(&self) -> i64 {
        self.header.last_offset()
    }

    /// Returns the offset at which reading continues after this batch, even if records are missing.
    pub fn next_offset(&self) -> i64 {
        self.header.next_offset()
    }

    pub fn is_control(&self) -> bool {
        self.header.attributes.is_control()
    }

    pub fn is_transactional(&self) -> bool {
        self.header.attributes.is_transactional()
    }

    pub fn timestamp_type(&self) -> TimestampType {
        if self.header.magic == 0 {
            TimestampType::None
        } else {
            self.header.attributes.timestamp_type()
        }
    }

    /// Returns the codec of the records section.
    pub fn compression(&self) -> Result<Compression, RecordsError> {
        self.header
            .attributes
            .compression()
            .ok_or(RecordsError::CompressionId {
                base_offset: self.header.base_offset,
                id: self.header.attributes.compression_id(),
                magic: self.header.magic,
            })
    }

    /// Returns the records section of a v2 batch as it is on the wire.
    pub fn section(&self) -> Bytes {
        self.data.slice(BATCH_HEADER_LEN.min(self.data.len())..)
    }

    /// Compares the stored checksum with that of the bytes.
    pub fn validate_crc(&self) -> Result<(), RecordsError> {
        let computed = if self.header.magic == 2 {
            crc32c([&self.data[CRC_COVERS_FROM..]])
        } else {
            legacy::message_crc(&self.data)
        };
        if computed == self.header.crc {
            return Ok(());
        }
        let stored = self.header.crc;
        Err(RecordsError::Crc {
            base_offset: self.header.base_offset,
            stored,
            computed,
        })
    }

    /// Decodes the records, without checking the checksum.
    ///
    /// Uncompressed records stay slices of the frame. Compressed records may decompress to at most
    /// `limit_bytes`, and in a control batch to at most [`CONTROL_BATCH_BYTES_MAX`].
    pub fn decode(
        &self,
        decompressor: &mut Decompressor,
        limit_bytes: usize,
    ) -> Result<DecodedBatch, RecordsError> {
        let limit_bytes = if self.is_control() {
            limit_bytes.min(CONTROL_BATCH_BYTES_MAX)
        } else {
            limit_bytes
        };
        if self.header.magic < 2 {
            return legacy::decode(self, decompressor, limit_bytes);
        }
        let codec = self.compression()?;
        let records = match codec {
            Compression::None => self.section(),
            // A batch without records may have no section, so there is nothing to decompress.
            _ if self.data.len() == BATCH_HEADER_LEN => Bytes::new(),
            codec => decompressor
                .decompress(codec, &self.data[BATCH_HEADER_LEN..], limit_bytes)
                .map_err(|error| match error {
                    CodecError::TooLarge if self.is_control() => RecordsError::ControlTooLarge {
                        base_offset: self.header.base_offset,
                        codec,
                    },
                    error => error.at(self.header.base_offset, codec, limit_bytes),
                })?,
        };
        DecodedBatch::new(self.header, records)
    }
}
