//! The text form of batches in the golden files. `tests/conformance/records/README.md` describes
//! it.

use std::fmt::Write as _;

use bytes::Bytes;
use thalweg_records::{ControlRecord, DecodedBatch, Decompressor, TimestampType, batches, crc32c};

/// Far above the size of any golden batch.
const LIMIT_BYTES: usize = 8 << 20;
/// Longer byte strings are shown by length and checksum.
const HEX_BYTES_MAX: usize = 64;

/// Decodes all batches of `wire` and returns their content as text.
pub(crate) fn dump(wire: &[u8]) -> String {
    let mut out = String::new();
    let mut decompressor = Decompressor::new();
    let mut iter = batches(Bytes::copy_from_slice(wire));
    for raw in iter.by_ref() {
        let raw = raw.expect("a sound batch");
        raw.validate_crc().expect("the checksum holds");
        let batch = raw.decode(&mut decompressor, LIMIT_BYTES).expect("decodes");
        dump_batch(&batch, &mut out);
    }
    assert_eq!(iter.remaining(), 0, "bytes are left after the last batch");
    out
}

fn dump_batch(batch: &DecodedBatch, out: &mut String) {
    let header = &batch.header;
    let timestamps = match batch.timestamp_type() {
        TimestampType::None => "NoTimestampType",
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    };
    writeln!(
        out,
        "batch magic={} base={} last={} codec={} timestamps={timestamps} producer={}/{}/{} \
         transactional={} control={} leader_epoch={} max_timestamp={}",
        header.magic,
        batch.base_offset(),
        batch.last_offset(),
        header.attributes.compression().expect("a known codec"),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        u8::from(batch.is_transactional()),
        u8::from(batch.is_control()),
        header.partition_leader_epoch,
        header.max_timestamp,
    )
    .expect("a String takes everything");
    for record in batch {
        let record = record.expect("a sound record");
        let (key, value) = (text(record.key), text(record.value));
        write!(
            out,
            "record {} {} {key} {value}",
            record.offset, record.timestamp
        )
        .expect("String");
        for header in record.headers {
            write!(out, " {}:{}", text(Some(header.key)), text(header.value)).expect("String");
        }
        out.push('\n');
        if batch.is_control() {
            let key = record.key.expect("a control record has a key");
            let control = ControlRecord::parse(key, record.value).expect("a control record");
            let epoch = match control {
                ControlRecord::Abort { coordinator_epoch }
                | ControlRecord::Commit { coordinator_epoch } => coordinator_epoch,
                _ => -1,
            };
            writeln!(out, "marker {} {epoch}", control.type_id()).expect("String");
        }
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some(bytes) if bytes.len() <= HEX_BYTES_MAX => {
            bytes.iter().fold("=".to_owned(), |mut out, byte| {
                write!(out, "{byte:02x}").expect("String");
                out
            })
        }
        Some(bytes) => format!("#{}/{:08x}", bytes.len(), crc32c([bytes])),
    }
}
