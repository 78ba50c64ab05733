//! Reads message sets of magic 0 and 1 (Kafka before 0.11), which old segments may still contain.
//!
//! ```text
//! offset 8 | size 4 | crc 4 | magic 1 | attributes 1 | [timestamp 8, magic 1]
//!   | key length 4, key | value length 4, value
//! ```
//! A compressed message is a wrapper: its value is a whole compressed message set. Its offset is
//! that of its last message. Inner offsets are absolute in magic 0 and relative in magic 1
//! (KIP-31), where only the distance to the last one counts. A wrapper with `LogAppendTime` gives
//! its timestamp to all messages (KIP-32). As in Java, each outer message is its own batch.
//!
//! Messages are rewritten as v2 records, so the rest of the code needs to know only one form.

use bytes::Bytes;

use crate::attributes::{Attributes, TimestampType};
use crate::batch_header::{BatchHeader, NO_TIMESTAMP};
use crate::batches::RawBatch;
use crate::compression::{Compression, Decompressor, HeaderChecksum};
use crate::crc::crc32;
use crate::decoded::DecodedBatch;
use crate::error::RecordsError;
use crate::record::{self, RecordFields};

/// crc 4, magic 1, attributes 1, key length 4, value length 4.
pub(crate) const MESSAGE_V0_LEN_MIN: i32 = 14;
/// The same fields and a timestamp of 8.
pub(crate) const MESSAGE_V1_LEN_MIN: i32 = 22;

/// Length of offset and size, which the size does not include.
const LOG_OVERHEAD: usize = 12;
const CRC_COVERS_FROM: usize = 16;
const MAGIC_AT: usize = 16;
const ATTRIBUTES_AT: usize = 17;
const TIMESTAMP_AT: usize = 18;
/// Codec and timestamp type. The other bits have no meaning before magic 2.
const ATTRIBUTES_MASK: u8 = 0x0f;
const CUT: &str = "a message is shorter than its fields";

/// Builds a header from a message's fields. `data` must have at least the minimum length.
pub(crate) fn message_header(data: &[u8]) -> BatchHeader {
    let magic = data[MAGIC_AT].cast_signed();
    let timestamp = if magic == 1 {
        long_at(data, TIMESTAMP_AT)
    } else {
        NO_TIMESTAMP
    };
    BatchHeader {
        base_offset: long_at(data, 0),
        batch_length: int_at(data, 8),
        magic,
        crc: int_at(data, LOG_OVERHEAD).cast_unsigned(),
        attributes: Attributes(i16::from(data[ATTRIBUTES_AT] & ATTRIBUTES_MASK)),
        base_timestamp: timestamp,
        max_timestamp: timestamp,
        records_count: 1,
        ..BatchHeader::default()
    }
}

/// Computes the checksum of a message.
pub(crate) fn message_crc(data: &[u8]) -> u32 {
    crc32(&data[CRC_COVERS_FROM..])
}

pub(crate) fn decode(
    batch: &RawBatch,
    decompressor: &mut Decompressor,
    limit_bytes: usize,
) -> Result<DecodedBatch, RecordsError> {
    let base_offset = batch.header.base_offset;
    let codec = batch.compression()?;
    let outer = Message::parse(&batch.data, base_offset)?;
    if codec == Compression::None {
        let mut records = Vec::new();
        append(&outer, 0, 0, &mut records);
        return DecodedBatch::new(batch.header, records.into());
    }
    let Some(compressed) = outer.value else {
        return Err(broken(base_offset, "a compressed message has no value"));
    };
    let checksum = if batch.header.magic == 0 {
        HeaderChecksum::Ignore
    } else {
        HeaderChecksum::Verify
    };
    let set = decompressor
        .decompress_with(codec, compressed, limit_bytes, checksum)
        .map_err(|error| error.at(base_offset, codec, limit_bytes))?;
    let messages = inner_messages(&set, &batch.header)?;
    rewrite(&batch.header, &messages)
}

/// Parses the messages of a wrapper. None may be missing, compressed again or of a different magic.
fn inner_messages<'a>(
    set: &'a Bytes,
    wrapper: &BatchHeader,
) -> Result<Vec<Message<'a>>, RecordsError> {
    let base_offset = wrapper.base_offset;
    let mut messages = Vec::new();
    let mut rest: &[u8] = set;
    while !rest.is_empty() {
        let length = rest.get(8..LOG_OVERHEAD).map(|length| int_at(length, 0));
        let length = length.and_then(|length| usize::try_from(length).ok());
        let entry = length.and_then(|length| rest.split_at_checked(LOG_OVERHEAD + length));
        let Some((entry, after)) = entry else {
            return Err(broken(base_offset, "an inner message is cut off"));
        };
        rest = after;
        let message = Message::parse(entry, base_offset)?;
        if message.magic != wrapper.magic {
            return Err(broken(
                base_offset,
                "an inner message has a different magic from its wrapper",
            ));
        }
        if message.attributes.compression_id() != Compression::None.id() {
            return Err(broken(base_offset, "an inner message is compressed again"));
        }
        messages.push(message);
    }
    if messages.is_empty() {
        return Err(broken(
            base_offset,
            "a compressed message contains no messages",
        ));
    }
    Ok(messages)
}

/// Writes the wrapper's messages as the records of one v2 batch.
fn rewrite(wrapper: &BatchHeader, messages: &[Message<'_>]) -> Result<DecodedBatch, RecordsError> {
    let (Some(first), Some(last)) = (messages.first(), messages.last()) else {
        return Err(broken(
            wrapper.base_offset,
            "a compressed message contains no messages",
        ));
    };
    // In magic 1 offsets are relative, so shift them to end at the wrapper's offset. In magic 0
    // they are absolute already. As in Java, a wrapper whose offset no broker has set shifts
    // nothing.
    let shift = match wrapper.magic {
        0 => 0,
        _ => wrapper.base_offset.wrapping_sub(last.offset).max(0),
    };
    let append_time = wrapper.attributes.timestamp_type() == TimestampType::LogAppendTime;
    let base_timestamp = if append_time {
        wrapper.max_timestamp
    } else {
        first.timestamp
    };
    let mut records = Vec::new();
    let mut previous = -1;
    for message in messages {
        let delta = i32::try_from(message.offset.wrapping_sub(first.offset))
            .ok()
            .filter(|delta| *delta > previous)
            .ok_or(broken(wrapper.base_offset, "inner offsets do not ascend"))?;
        previous = delta;
        let timestamp_delta = if append_time {
            0
        } else {
            message.timestamp.wrapping_sub(base_timestamp)
        };
        append(message, delta, timestamp_delta, &mut records);
    }
    let header = BatchHeader {
        base_offset: first.offset.wrapping_add(shift),
        last_offset_delta: previous,
        base_timestamp,
        records_count: messages.len() as i32,
        ..*wrapper
    };
    DecodedBatch::new(header, records.into())
}

fn append(message: &Message<'_>, offset_delta: i32, timestamp_delta: i64, out: &mut Vec<u8>) {
    let fields = RecordFields {
        offset_delta,
        timestamp_delta,
        key: message.key,
        value: message.value,
        ..RecordFields::default()
    };
    record::encode(&fields, out);
}

/// The fields of a message.
struct Message<'a> {
    offset: i64,
    magic: i8,
    attributes: Attributes,
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Parses an entry of a message set. The fields must use all bytes of the entry.
    fn parse(entry: &'a [u8], base_offset: i64) -> Result<Self, RecordsError> {
        let length_min = match entry.get(MAGIC_AT) {
            Some(0) => MESSAGE_V0_LEN_MIN,
            Some(1) => MESSAGE_V1_LEN_MIN,
            Some(&magic) => {
                return Err(RecordsError::Magic {
                    base_offset,
                    magic: magic.cast_signed(),
                });
            }
            None => return Err(broken(base_offset, CUT)),
        } as usize;
        if entry.len() < LOG_OVERHEAD + length_min {
            return Err(broken(base_offset, CUT));
        }
        let header = message_header(entry);
        // The minimum length ends with the two length fields of key and value.
        let mut rest = &entry[LOG_OVERHEAD + length_min - 8..];
        let key = take_nullable(&mut rest).map_err(|reason| broken(base_offset, reason))?;
        let value = take_nullable(&mut rest).map_err(|reason| broken(base_offset, reason))?;
        if !rest.is_empty() {
            return Err(broken(
                base_offset,
                "a message has bytes left after its fields",
            ));
        }
        Ok(Self {
            offset: header.base_offset,
            magic: header.magic,
            attributes: header.attributes,
            timestamp: header.base_timestamp,
            key,
            value,
        })
    }
}

/// Reads a length of 4 bytes (negative: null) and that many bytes.
fn take_nullable<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, &'static str> {
    let (length, after) = rest.split_first_chunk::<4>().ok_or(CUT)?;
    *rest = after;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
        return Ok(None);
    };
    let (bytes, after) = after.split_at_checked(length).ok_or(CUT)?;
    *rest = after;
    Ok(Some(bytes))
}

fn broken(base_offset: i64, reason: &'static str) -> RecordsError {
    RecordsError::MessageSet {
        base_offset,
        reason,
    }
}

fn int_at(data: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

fn long_at(data: &[u8], at: usize) -> i64 {
    i64::from(int_at(data, at)) << 32 | i64::from(int_at(data, at + 4).cast_unsigned())
}
