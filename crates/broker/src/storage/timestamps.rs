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

#[derive(Debug)]
pub(crate) enum LookupError {
    /// A stored batch cannot be read.
    Records,
    /// Earlier lookups decompressed all that they may together.
    BytesUsedUp,
}

impl From<RecordsError> for LookupError {
    fn from(_: RecordsError) -> Self {
        Self::Records
    }
}

/// Opens batches as long as what comes out is not too much.
pub(crate) struct Opener<'a> {
    pub(crate) decompressor: &'a mut Decompressor,
    pub(crate) bytes_left: &'a mut usize,
}

/// The first record that is not older than `timestamp`.
pub(crate) fn first_since(
    log: &Log,
    timestamp: i64,
    opener: &mut Opener<'_>,
) -> Result<Option<Found>, LookupError> {
    find(log, timestamp, opener, |at| at >= timestamp)
}

/// The first record with the greatest timestamp of all (KIP-734).
pub(crate) fn with_max_timestamp(
    log: &Log,
    opener: &mut Opener<'_>,
) -> Result<Option<Found>, LookupError> {
    let greatest = log.max_timestamp();
    if greatest < 0 {
        return Ok(None);
    }
    find(log, greatest, opener, |at| at == greatest)
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
            .expect("a stored batch is whole")?;
        let decoded = raw.decode(self.decompressor, DECODED_BYTES_MAX)?;
        *self.bytes_left = self.bytes_left.saturating_sub(decoded.records.len());
        Ok(decoded)
    }
}
