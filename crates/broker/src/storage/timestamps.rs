//! Looking up offsets by time (ListOffsets): inside a batch the records must be opened.

use thalweg_records::{DecodedBatch, Decompressor, RecordsError, batches};

use super::batch::StoredBatch;
use super::log::Log;
use super::validate::DECODED_BYTES_MAX;

/// An offset with the timestamp of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
}

/// The first record that is not older than `timestamp`.
pub(crate) fn first_since(
    log: &Log,
    timestamp: i64,
    decompressor: &mut Decompressor,
) -> Result<Option<Found>, RecordsError> {
    find(log, timestamp, decompressor, |at| at >= timestamp)
}

/// The first record with the greatest timestamp of all (KIP-734).
pub(crate) fn with_max_timestamp(
    log: &Log,
    decompressor: &mut Decompressor,
) -> Result<Option<Found>, RecordsError> {
    let greatest = log.max_timestamp();
    if greatest < 0 {
        return Ok(None);
    }
    find(log, greatest, decompressor, |at| at == greatest)
}

fn find(
    log: &Log,
    since: i64,
    decompressor: &mut Decompressor,
    wanted: impl Fn(i64) -> bool,
) -> Result<Option<Found>, RecordsError> {
    for batch in log.batches_since(since) {
        let decoded = open(batch, decompressor)?;
        for record in &decoded {
            let record = record?;
            if record.offset >= log.start_offset() && wanted(record.timestamp) {
                return Ok(Some(Found {
                    offset: record.offset,
                    timestamp: record.timestamp,
                }));
            }
        }
    }
    Ok(None)
}

fn open(
    batch: &StoredBatch,
    decompressor: &mut Decompressor,
) -> Result<DecodedBatch, RecordsError> {
    let raw = batches(batch.to_bytes())
        .next()
        .expect("a stored batch is whole")?;
    raw.decode(decompressor, DECODED_BYTES_MAX)
}
