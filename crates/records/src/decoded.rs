//! A batch whose records can be read: uncompressed as received, or decompressed.

use bytes::Bytes;

use crate::attributes::TimestampType;
use crate::batch_header::BatchHeader;
use crate::control::ControlRecord;
use crate::error::{RecordError, RecordsError};
use crate::reader::{RecordIter, RecordPosition, RecordRef};
use crate::record::RECORD_LEN_MIN;

/// A batch ready to be read. Batches of v0 and v1 have the same form, as their messages were
/// rewritten as v2 records.
#[derive(Debug, Clone)]
pub struct DecodedBatch {
    pub header: BatchHeader,
    /// The records section: a slice of the frame, or the output of the codec.
    pub records: Bytes,
}

/// Sums over a whole batch, to allocate memory once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub records: usize,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub headers: usize,
    pub header_bytes: usize,
}

impl DecodedBatch {
    /// Creates the batch. Refuses a record count that the section cannot hold, so that the count is
    /// safe to use for an allocation.
    pub(crate) fn new(header: BatchHeader, records: Bytes) -> Result<Self, RecordsError> {
        let count = usize::try_from(header.records_count).unwrap_or(usize::MAX);
        if count > records.len() / RECORD_LEN_MIN {
            return Err(RecordsError::RecordsCount {
                base_offset: header.base_offset,
                count: header.records_count,
                section_bytes: records.len(),
            });
        }
        Ok(Self { header, records })
    }

    /// Returns the offset of the batch's first record, whether it still exists or not.
    pub fn base_offset(&self) -> i64 {
        self.header.base_offset
    }

    /// Returns the offset of the batch's last record, whether it still exists or not.
    pub fn last_offset(&self) -> i64 {
        self.header.last_offset()
    }

    /// Returns the offset at which reading continues, even after gaps and empty batches.
    pub fn next_offset(&self) -> i64 {
        self.header.next_offset()
    }

    /// Returns the declared number of records, which is never more than the section can hold.
    pub fn len(&self) -> usize {
        self.header.records_count as usize
    }

    /// Returns whether the batch has no records. Compaction keeps such batches for their offsets
    /// and sequences.
    pub fn is_empty(&self) -> bool {
        self.header.records_count == 0
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

    pub fn iter(&self) -> RecordIter<'_> {
        self.iter_at(RecordPosition::default())
    }

    /// Continues an earlier iteration of this batch at its position.
    pub fn iter_at(&self, position: RecordPosition) -> RecordIter<'_> {
        RecordIter::new(&self.header, &self.records, position)
    }

    /// Calls `f` with each record, and stops at the first malformed one.
    #[inline]
    pub fn for_each<'a>(&'a self, mut f: impl FnMut(RecordRef<'a>)) -> Result<(), RecordError> {
        for record in self {
            f(record?);
        }
        Ok(())
    }

    /// Walks the whole batch once. If it succeeds, no record of the batch can fail later.
    pub fn validate(&self) -> Result<Totals, RecordError> {
        let mut totals = Totals::default();
        self.for_each(|record| {
            totals.records += 1;
            totals.key_bytes += record.key.map_or(0, <[u8]>::len);
            totals.value_bytes += record.value.map_or(0, <[u8]>::len);
            totals.headers += record.headers.len();
            totals.header_bytes += record.headers.as_bytes().len();
        })?;
        Ok(totals)
    }

    /// Returns the control record of a control batch. Returns `None` for other batches, for empty
    /// ones, and for a key that is not a control record's.
    pub fn control_record(&self) -> Option<ControlRecord> {
        if !self.is_control() {
            return None;
        }
        let record = self.iter().next()?.ok()?;
        ControlRecord::parse(record.key?, record.value)
    }
}

impl<'a> IntoIterator for &'a DecodedBatch {
    type Item = Result<RecordRef<'a>, RecordError>;
    type IntoIter = RecordIter<'a>;

    fn into_iter(self) -> RecordIter<'a> {
        self.iter()
    }
}
