//! What Produce accepts, like Kafka's `ProduceRequest.validateRecords`, `UnifiedLog` and
//! `LogValidator`.
//!
//! ```text
//! records of one partition -> exactly one complete v2 batch -> size -> checksum -> header's counts
//!   -> every record decoded (well-formed, offsets, keys, timestamps) -> codec and timestamp type
//!   of the topic -> Accepted { header, data }
//! ```
//! The producer's bytes are kept, unless the topic needs another codec or `LogAppendTime`.

use bytes::Bytes;
use thalweg_protocol::ErrorCode;
use thalweg_records::batch_header::{NO_PRODUCER_ID, NO_TIMESTAMP, set_log_append_time};
use thalweg_records::{
    BatchHeader, Compression, Compressor, DecodedBatch, Decompressor, RawBatch, TimestampType,
    batches,
};

pub(crate) use super::refusal::Refusal;
use super::refusal::RefusedRecords;
use crate::options::TopicOptions;

/// The limit on a batch's decompressed size. A decompression bomb would end the process.
pub(crate) const DECODED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The batches of one request may together decompress to this many bytes for each byte of the
/// request, plus the limit of one batch.
const DECODED_BYTES_PER_FRAME_BYTE: usize = 100;

/// Returns the limit on decompressed bytes for the batches of a request of `frame_bytes`.
pub(crate) fn decoded_bytes_max(frame_bytes: usize) -> usize {
    DECODED_BYTES_MAX + frame_bytes.saturating_mul(DECODED_BYTES_PER_FRAME_BYTE)
}

/// The contexts of the codecs, reused for all batches.
#[derive(Default)]
pub(crate) struct Codecs {
    pub(crate) compressor: Compressor,
    pub(crate) decompressor: Decompressor,
}

/// A batch that may be appended.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) header: BatchHeader,
    pub(crate) data: Bytes,
    /// The broker's append time if the topic uses it for timestamps, otherwise -1.
    pub(crate) log_append_time_ms: i64,
}

/// Checks the records that a request contains for one partition.
pub(crate) fn validate(
    records: Option<Bytes>,
    topic: &TopicOptions,
    now_ms: i64,
    codecs: &mut Codecs,
    decoded_bytes_left: &mut usize,
) -> Result<Accepted, Refusal> {
    let raw = single_batch(records)?;
    check_size(raw.data.len(), topic)?;
    raw.validate_crc()
        .map_err(|error| Refusal::new(ErrorCode::CORRUPT_MESSAGE, error.to_string()))?;
    check_header(&raw.header)?;
    let codec = raw
        .compression()
        .map_err(|error| Refusal::invalid(error.to_string()))?;
    let bytes_max = DECODED_BYTES_MAX.min(*decoded_bytes_left);
    let decoded = raw.decode(&mut codecs.decompressor, bytes_max);
    // A refused batch costs as much.
    let decoded_bytes = decoded.as_ref().map_or(bytes_max, |d| d.records.len());
    *decoded_bytes_left -= decoded_bytes.min(*decoded_bytes_left);
    let decoded = decoded.map_err(|error| Refusal::invalid(error.to_string()))?;
    let max_timestamp = check_records(&decoded, topic, now_ms)?;
    let wanted = match topic.compression_type.as_str() {
        "producer" => codec,
        "uncompressed" => Compression::None,
        name => Compression::from_name(name).unwrap_or(codec),
    };
    let accepted = if wanted != codec {
        recompress(&decoded, wanted, max_timestamp, topic, codecs)?
    } else if max_timestamp != raw.header.max_timestamp {
        rewrite(raw.header, &raw.section(), max_timestamp)
    } else {
        Accepted {
            header: raw.header,
            data: raw.data,
            log_append_time_ms: -1,
        }
    };
    Ok(stamp(accepted, topic, now_ms))
}

fn single_batch(records: Option<Bytes>) -> Result<RawBatch, Refusal> {
    let data = records.unwrap_or_default();
    let mut batches = batches(data);
    let first = match batches.next() {
        None => {
            return Err(Refusal::invalid(
                "Produce requests must have at least one record batch per partition",
            ));
        }
        Some(Err(error)) => {
            return Err(Refusal::new(ErrorCode::CORRUPT_MESSAGE, error.to_string()));
        }
        Some(Ok(first)) => first,
    };
    if first.header.magic != 2 {
        return Err(Refusal::invalid(format!(
            "Produce requests may only contain record batches with magic version 2, not {}",
            first.header.magic
        )));
    }
    match batches.next() {
        None if batches.remaining() == 0 => Ok(first),
        Some(Ok(_)) => Err(Refusal::invalid(
            "Produce requests must contain exactly one record batch per partition",
        )),
        None | Some(Err(_)) => Err(Refusal::new(
            ErrorCode::CORRUPT_MESSAGE,
            "The record batch is followed by bytes that are not a record batch",
        )),
    }
}

fn check_size(bytes: usize, topic: &TopicOptions) -> Result<(), Refusal> {
    if bytes > topic.max_message_bytes as usize {
        return Err(Refusal::new(
            ErrorCode::MESSAGE_TOO_LARGE,
            format!(
                "The record batch size in the append is {bytes} bytes which exceeds the maximum configured value of {}.",
                topic.max_message_bytes
            ),
        ));
    }
    if bytes as i64 > topic.segment_bytes {
        return Err(Refusal::new(
            ErrorCode::RECORD_LIST_TOO_LARGE,
            format!(
                "Message batch size is {bytes} bytes in append which exceeds the maximum configured segment size of {}.",
                topic.segment_bytes
            ),
        ));
    }
    Ok(())
}

fn check_header(header: &BatchHeader) -> Result<(), Refusal> {
    if header.base_offset != 0 {
        return Err(Refusal::invalid(format!(
            "The baseOffset of the record batch should be 0, but it is {}",
            header.base_offset
        )));
    }
    if header.attributes.is_control() {
        return Err(Refusal::invalid(
            "Clients are not allowed to write control records.",
        ));
    }
    if header.producer_id != NO_PRODUCER_ID && header.base_sequence < 0 {
        return Err(Refusal::invalid(format!(
            "Invalid sequence number {} in record batch with producerId {}",
            header.base_sequence, header.producer_id
        )));
    }
    let by_offsets = i64::from(header.last_offset_delta) + 1;
    if header.records_count <= 0 || by_offsets != i64::from(header.records_count) {
        return Err(Refusal::invalid(format!(
            "Inconsistent batch offset range: {by_offsets} offsets for {} records",
            header.records_count
        )));
    }
    Ok(())
}

/// Checks all records and returns their highest timestamp.
fn check_records(
    decoded: &DecodedBatch,
    topic: &TopicOptions,
    now_ms: i64,
) -> Result<i64, Refusal> {
    let times = AllowedTimes::new(topic, now_ms);
    let is_stamped = decoded.header.attributes.timestamp_type() == TimestampType::LogAppendTime;
    let is_broker_time = topic.message_timestamp_type == TimestampType::LogAppendTime;
    let needs_key = topic.cleanup_policy.compact;
    let mut keyless = RefusedRecords::default();
    let mut untimely = RefusedRecords::default();
    let mut max_timestamp = i64::MIN;
    for (index, record) in (0..).zip(decoded) {
        let record = record.map_err(|error| Refusal::invalid(error.to_string()))?;
        if record.offset != i64::from(index) {
            return Err(Refusal::invalid(format!(
                "Record {index} of the batch has offset delta {}: offsets must be incremental",
                record.offset
            )));
        }
        if needs_key && record.key.is_none() {
            keyless.add(index, || {
                "Compacted topic cannot accept message without key.".to_owned()
            });
        }
        if !times.contains(record.timestamp) {
            untimely.add(index, || times.complaint(record.timestamp));
        } else if is_stamped && (is_broker_time || record.timestamp == NO_TIMESTAMP) {
            untimely.add(index, || {
                "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime.".to_owned()
            });
        }
        max_timestamp = max_timestamp.max(record.timestamp);
    }
    keyless.refuse(ErrorCode::INVALID_RECORD)?;
    untimely.refuse(ErrorCode::INVALID_TIMESTAMP)?;
    Ok(max_timestamp)
}

/// The times that a record with `CreateTime` may have (KIP-937, KIP-1030).
struct AllowedTimes {
    from: i64,
    to: i64,
}

impl AllowedTimes {
    fn new(topic: &TopicOptions, now_ms: i64) -> Self {
        if topic.message_timestamp_type == TimestampType::LogAppendTime {
            return Self {
                from: i64::MIN,
                to: i64::MAX,
            };
        }
        Self {
            from: now_ms.saturating_sub(topic.message_timestamp_before_max_ms),
            to: now_ms.saturating_add(topic.message_timestamp_after_max_ms),
        }
    }

    fn contains(&self, timestamp: i64) -> bool {
        timestamp == NO_TIMESTAMP || (self.from..=self.to).contains(&timestamp)
    }

    fn complaint(&self, timestamp: i64) -> String {
        format!(
            "Timestamp {timestamp} of message is out of range. The timestamp should be within [{}, {}]",
            self.from, self.to
        )
    }
}

fn rewrite(mut header: BatchHeader, section: &[u8], max_timestamp: i64) -> Accepted {
    header.max_timestamp = max_timestamp;
    let mut data = Vec::with_capacity(header.total_len());
    data.extend_from_slice(&header.finish([section]));
    data.extend_from_slice(section);
    Accepted {
        header,
        data: data.into(),
        log_append_time_ms: -1,
    }
}

fn recompress(
    decoded: &DecodedBatch,
    codec: Compression,
    max_timestamp: i64,
    topic: &TopicOptions,
    codecs: &mut Codecs,
) -> Result<Accepted, Refusal> {
    let level = match codec {
        Compression::Gzip => Some(topic.compression_gzip_level),
        Compression::Zstd => Some(topic.compression_zstd_level),
        _ => None,
    };
    let mut section = Vec::new();
    if codec == Compression::None {
        section.extend_from_slice(&decoded.records);
    } else {
        codecs
            .compressor
            .compress(codec, level, &[&decoded.records], &mut section)
            .map_err(|error| Refusal::new(ErrorCode::UNKNOWN_SERVER_ERROR, error.to_string()))?;
    }
    let mut header = decoded.header;
    header.attributes = header.attributes.with_compression(codec);
    Ok(rewrite(header, &section, max_timestamp))
}

/// Sets the append time, if the topic uses it for timestamps.
fn stamp(accepted: Accepted, topic: &TopicOptions, now_ms: i64) -> Accepted {
    if topic.message_timestamp_type != TimestampType::LogAppendTime {
        return accepted;
    }
    let mut data = accepted.data.to_vec();
    set_log_append_time(&mut data, now_ms);
    let header = BatchHeader::parse(&data)
        .expect("the batch was parsed before, and only attributes and timestamps have changed");
    Accepted {
        header,
        data: data.into(),
        log_append_time_ms: now_ms,
    }
}

#[cfg(test)]
mod tests {
    use thalweg_records::{BatchBuilder, Headers};

    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn builder(timestamps: &[i64], key: Option<&[u8]>) -> BatchBuilder {
        let mut builder = BatchBuilder::new(0);
        for timestamp in timestamps {
            builder.append(*timestamp, key, Some(b"value"), Headers::NONE);
        }
        builder
    }

    fn check(data: Vec<u8>, topic: &TopicOptions) -> Result<Accepted, Refusal> {
        let mut left = decoded_bytes_max(data.len());
        validate(
            Some(data.into()),
            topic,
            NOW,
            &mut Codecs::default(),
            &mut left,
        )
    }

    fn code(data: Vec<u8>, topic: &TopicOptions) -> ErrorCode {
        check(data, topic).unwrap_err().code
    }

    #[test]
    fn a_good_batch_keeps_its_bytes() {
        let data = Bytes::from(builder(&[NOW, NOW - 5], None).finish());
        let accepted = validate(
            Some(data.clone()),
            &TopicOptions::default(),
            NOW,
            &mut Codecs::default(),
            &mut decoded_bytes_max(0),
        )
        .unwrap();
        assert_eq!(accepted.data.as_ptr(), data.as_ptr());
        assert_eq!(accepted.header.max_timestamp, NOW);
        assert_eq!(accepted.log_append_time_ms, -1);
    }

    #[test]
    fn a_flipped_bit_is_a_corrupt_message() {
        let mut data = builder(&[NOW], None).finish();
        *data.last_mut().unwrap() ^= 1;
        assert_eq!(
            code(data, &TopicOptions::default()),
            ErrorCode::CORRUPT_MESSAGE
        );
    }

    #[test]
    fn nothing_two_batches_old_magic_and_control_batches_are_invalid() {
        let topic = TopicOptions::default();
        assert_eq!(code(Vec::new(), &topic), ErrorCode::INVALID_RECORD);
        let one = builder(&[NOW], None).finish();
        assert_eq!(
            code([one.clone(), one.clone()].concat(), &topic),
            ErrorCode::INVALID_RECORD
        );
        assert_eq!(
            code([one.clone(), vec![0; 9]].concat(), &topic),
            ErrorCode::CORRUPT_MESSAGE
        );
        let mut old = one;
        old[16] = 1;
        assert_eq!(code(old, &topic), ErrorCode::INVALID_RECORD);
        let mut control = builder(&[NOW], None);
        let attributes = control.header_mut().attributes.with_control(true);
        control.header_mut().attributes = attributes;
        assert_eq!(code(control.finish(), &topic), ErrorCode::INVALID_RECORD);
    }

    #[test]
    fn a_batch_above_max_message_bytes_is_too_large() {
        let data = builder(&[NOW], None).finish();
        let max_message_bytes = data.len() as i32;
        let topic = TopicOptions {
            max_message_bytes,
            ..Default::default()
        };
        check(data.clone(), &topic).unwrap();
        let topic = TopicOptions {
            max_message_bytes: max_message_bytes - 1,
            ..topic
        };
        assert_eq!(code(data, &topic), ErrorCode::MESSAGE_TOO_LARGE);
    }

    #[test]
    fn more_than_an_hour_ahead_is_an_invalid_timestamp_with_the_records_named() {
        let topic = TopicOptions::default();
        check(builder(&[NOW + 3_600_000, 1], None).finish(), &topic).unwrap();
        let refusal = check(builder(&[NOW, NOW + 3_600_001], None).finish(), &topic).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::INVALID_TIMESTAMP);
        assert_eq!(refusal.records.len(), 1);
        assert_eq!(refusal.records[0].0, 1);
    }

    #[test]
    fn a_compacted_topic_needs_keys() {
        let policy = crate::options::CleanupPolicy {
            delete: false,
            compact: true,
        };
        let topic = TopicOptions {
            cleanup_policy: policy,
            ..Default::default()
        };
        check(builder(&[NOW], Some(b"k")).finish(), &topic).unwrap();
        let refusal = check(builder(&[NOW], None).finish(), &topic).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.records.len()),
            (ErrorCode::INVALID_RECORD, 1)
        );
    }

    #[test]
    fn append_time_and_the_topics_codec_are_written_into_the_batch() {
        let topic = TopicOptions {
            message_timestamp_type: TimestampType::LogAppendTime,
            compression_type: "gzip".to_owned(),
            ..Default::default()
        };
        let accepted = check(builder(&[NOW + 9_999_999_999], None).finish(), &topic).unwrap();
        assert_eq!(accepted.log_append_time_ms, NOW);
        let raw = batches(accepted.data).next().unwrap().unwrap();
        raw.validate_crc().unwrap();
        assert_eq!(raw.compression().unwrap(), Compression::Gzip);
        let decoded = raw.decode(&mut Decompressor::default(), 1 << 20).unwrap();
        let record = decoded.iter().next().unwrap().unwrap();
        assert_eq!((record.timestamp, record.value), (NOW, Some(&b"value"[..])));
    }

    #[test]
    fn a_wrong_max_timestamp_in_the_header_is_put_right() {
        let mut wrong = builder(&[NOW, NOW - 7], None);
        wrong.header_mut().max_timestamp = 5;
        let accepted = check(wrong.finish(), &TopicOptions::default()).unwrap();
        assert_eq!(accepted.header.max_timestamp, NOW);
        batches(accepted.data)
            .next()
            .unwrap()
            .unwrap()
            .validate_crc()
            .unwrap();
    }

    #[test]
    fn counts_that_do_not_match_are_invalid() {
        let topic = TopicOptions::default();
        let mut builder = builder(&[NOW], None);
        builder.append_fields(&thalweg_records::RecordFields {
            offset_delta: 5,
            timestamp_delta: 0,
            key: None,
            value: None,
            headers: Headers::default(),
        });
        assert_eq!(code(builder.finish(), &topic), ErrorCode::INVALID_RECORD);
    }
}
