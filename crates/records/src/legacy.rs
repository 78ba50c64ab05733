//! Message sets of magic 0 and 1, read only.

use bytes::Bytes;

use crate::attributes::Attributes;
use crate::batch_header::{BatchHeader, NO_TIMESTAMP};
use crate::batches::RawBatch;
use crate::compression::Decompressor;
use crate::crc::crc32;
use crate::decoded::DecodedBatch;
use crate::error::RecordsError;

/// crc 4, magic 1, attributes 1, key length 4, value length 4.
pub(crate) const MESSAGE_V0_LEN_MIN: i32 = 14;
/// The same and a timestamp of 8.
pub(crate) const MESSAGE_V1_LEN_MIN: i32 = 22;
const CRC_COVERS_FROM: usize = 16;

/// A header made up of what a message says of itself; `data` has at least the least length.
pub(crate) fn message_header(data: &Bytes) -> Result<BatchHeader, RecordsError> {
    let int = |at: usize| i32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]]);
    let long = |at: usize| i64::from(int(at)) << 32 | i64::from(int(at + 4).cast_unsigned());
    let magic = data[16].cast_signed();
    let timestamp = if magic == 1 { long(18) } else { NO_TIMESTAMP };
    Ok(BatchHeader {
        base_offset: long(0),
        batch_length: int(8),
        magic,
        crc: int(12).cast_unsigned(),
        attributes: Attributes(i16::from(data[17])),
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        records_count: 1,
        ..BatchHeader::default()
    })
}

/// The checksum that a message should carry.
pub(crate) fn message_crc(data: &Bytes) -> u32 {
    crc32(&data[CRC_COVERS_FROM..])
}

pub(crate) fn decode(
    batch: &RawBatch,
    _decompressor: &mut Decompressor,
    _limit_bytes: usize,
) -> Result<DecodedBatch, RecordsError> {
    let magic = batch.header.magic;
    Err(RecordsError::Magic {
        base_offset: batch.header.base_offset,
        magic,
    })
}
