//! From the record bytes of a Fetch answer (or a log) to batches.
//!
//! ```text
//! Bytes -> BatchIter -> RawBatch (header parsed, bytes shared with the frame)
//!                          |- validate_crc()
//!                          '- decode(&mut Decompressor, limit) -> DecodedBatch
//! ```
//! A broker cuts its answer at a byte limit, so the last batch may be incomplete: the iteration
//! then ends silently, and that batch is fetched again.

use bytes::Bytes;

use crate::attributes::TimestampType;
use crate::batch_header::{BATCH_HEADER_LEN, BATCH_LOG_OVERHEAD, BatchHeader, CRC_COVERS_FROM};
use crate::compression::{CodecError, Compression, Decompressor};
use crate::crc::crc32c;
use crate::decoded::DecodedBatch;
use crate::error::RecordsError;
use crate::legacy;

/// Offset, length, crc or epoch, magic: what is at the same place in every version.
const MAGIC_AT: usize = 16;

/// What a control batch may decompress to. A marker takes some 20 bytes, and no broker compresses it,
/// but a client opens control batches in place: they must not cost more than that.
pub const CONTROL_BATCH_BYTES_MAX: usize = 16 << 10;

/// Walks the batches of `data`.
pub fn batches(data: Bytes) -> BatchIter {
    BatchIter { data }
}

/// The batches of a Fetch answer, in order. After an error it ends.
#[derive(Debug, Clone)]
pub struct BatchIter {
    data: Bytes,
}

impl BatchIter {
    /// Bytes that are not handed out yet; after the end, those of an incomplete last batch.
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

/// A batch as it came: its header read, its records not looked at. For v0 and v1, each message
/// of a message set (a compressed one holds many).
#[derive(Debug, Clone)]
pub struct RawBatch {
    /// For a compressed v0/v1 message the base offset is known only after decoding: here it is
    /// the last offset, and `last_offset_delta` and `records_count` say 0 and 1.
    pub header: BatchHeader,
    /// The whole batch, header included.
    pub data: Bytes,
}

impl RawBatch {
    pub fn base_offset(&self) -> i64 {
        self.header.base_offset
    }

    pub fn last_offset(&self) -> i64 {
        self.header.last_offset()
    }

    /// The offset to read on from after this batch, whatever is left of it.
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

    /// The codec of the records section.
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

    /// The records section of a v2 batch as it lies on the wire.
    pub fn section(&self) -> Bytes {
        self.data.slice(BATCH_HEADER_LEN.min(self.data.len())..)
    }

    /// Compares the stored checksum with the bytes.
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

    /// Opens the records. Uncompressed ones stay slices of the frame; compressed ones come out
    /// of the codec, at most `limit_bytes` of them, and of a control batch's at most
    /// [`CONTROL_BATCH_BYTES_MAX`]. The checksum is not looked at.
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
            // A batch without records may have lost its section: nothing to decompress then.
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
