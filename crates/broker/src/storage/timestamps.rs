//! Looks up offsets by time (`ListOffsets`). Within a batch the records must be decoded.

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

#[derive(Debug)]
pub(crate) enum LookupError {
    /// A stored batch cannot be decoded.
    Records,
    /// Earlier lookups used up the limit on decompressed bytes.
    BytesUsedUp,
}

impl From<RecordsError> for LookupError {
    fn from(_: RecordsError) -> Self {
        Self::Records
    }
}

/// Decodes batches up to a limit on decompressed bytes.
pub(crate) struct Opener<'a> {
    pub(crate) decompressor: &'a mut Decompressor,
    pub(crate) bytes_left: &'a mut usize,
}

/// Finds the first record that is not older than `timestamp`.
pub(crate) fn first_since(
    log: &Log,
    timestamp: i64,
    opener: &mut Opener<'_>,
) -> Result<Option<Found>, LookupError> {
    find(log, timestamp, opener, |at| at >= timestamp)
}

/// Finds the first record with the highest timestamp of all (KIP-734).
pub(crate) fn with_max_timestamp(
    log: &Log,
    opener: &mut Opener<'_>,
) -> Result<Option<Found>, LookupError> {
    let greatest = log.max_timestamp();
    let found = first_at(log, greatest, opener)?;
    if found.is_some() || greatest < 0 {
        return Ok(found);
    }
    // DeleteRecords has removed that record, but keeps the rest of its segment.
    let greatest = greatest_kept(log, opener)?;
    first_at(log, greatest, opener)
}

fn first_at(
    log: &Log,
    timestamp: i64,
    opener: &mut Opener<'_>,
) -> Result<Option<Found>, LookupError> {
    if timestamp < 0 {
        return Ok(None);
    }
    find(log, timestamp, opener, |at| at == timestamp)
}

/// Returns the highest timestamp of the records from the log's start offset on, or -1 if there are
/// none.
fn greatest_kept(log: &Log, opener: &mut Opener<'_>) -> Result<i64, LookupError> {
    let start = log.start_offset();
    let mut greatest = -1;
    for batch in log.batches_since(0) {
        if batch.base_offset >= start {
            greatest = greatest.max(batch.max_timestamp);
        } else if batch.last_offset() >= start {
            for record in &opener.open(batch)? {
                let record = record.map_err(RecordsError::from)?;
                if record.offset >= start {
                    greatest = greatest.max(record.timestamp);
                }
            }
        }
    }
    Ok(greatest)
}

fn find(
    log: &Log,
    since: i64,
    opener: &mut Opener<'_>,
    wanted: impl Fn(i64) -> bool,
) -> Result<Option<Found>, LookupError> {
    for batch in log.batches_since(since) {
        let decoded = opener.open(batch)?;
        for record in &decoded {
            let record = record.map_err(RecordsError::from)?;
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

impl Opener<'_> {
    fn open(&mut self, batch: &StoredBatch) -> Result<DecodedBatch, LookupError> {
        if *self.bytes_left == 0 {
            return Err(LookupError::BytesUsedUp);
        }
        let raw = batches(batch.to_bytes())
            .next()
            .expect("a stored batch is complete")?;
        let decoded = raw.decode(self.decompressor, DECODED_BYTES_MAX)?;
        *self.bytes_left = self.bytes_left.saturating_sub(decoded.records.len());
        Ok(decoded)
    }
}
