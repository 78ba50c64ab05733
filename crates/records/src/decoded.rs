//! A batch whose records lie open: uncompressed as they came, or decompressed.

use bytes::Bytes;

use crate::attributes::TimestampType;
use crate::batch_header::BatchHeader;
use crate::control::ControlRecord;
use crate::error::{RecordError, RecordsError};
use crate::reader::{RecordIter, RecordPosition, RecordRef};
use crate::record::RECORD_LEN_MIN;

/// A batch ready to be read. Batches of v0 and v1 have the same form: their messages were
/// rewritten as v2 records.
#[derive(Debug, Clone)]
pub struct DecodedBatch {
    pub header: BatchHeader,
    /// The records section: a slice of the frame, or what came out of the codec.
    pub records: Bytes,
}

/// Sums over a whole batch, for room to be made once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub records: usize,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub headers: usize,
    pub header_bytes: usize,
}

impl DecodedBatch {
    /// Refuses a count of records that the section cannot hold, so that the count may be
    /// trusted for an allocation.
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

    /// Offset of the batch's first record, present or not.
    pub fn base_offset(&self) -> i64 {
        self.header.base_offset
    }

    /// Offset of the batch's last record, present or not.
    pub fn last_offset(&self) -> i64 {
        self.header.last_offset()
    }

    /// The offset to read on from, also after holes and empty batches.
    pub fn next_offset(&self) -> i64 {
        self.header.next_offset()
    }

    /// Records declared; never more than the section can hold.
    pub fn len(&self) -> usize {
        self.header.records_count as usize
    }

    /// No records: compaction keeps such batches for their offsets and sequences.
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

    /// Goes on where an earlier iteration of this batch stood.
    pub fn iter_at(&self, position: RecordPosition) -> RecordIter<'_> {
        RecordIter::new(&self.header, &self.records, position)
    }

    /// Calls `f` with each record; the first malformed one ends it.
    #[inline]
    pub fn for_each<'a>(&'a self, mut f: impl FnMut(RecordRef<'a>)) -> Result<(), RecordError> {
        for record in self {
            f(record?);
        }
        Ok(())
    }

    /// Walks the whole batch once: afterwards no record of it can fail.
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

    /// The control record of a control batch; `None` for other batches, empty ones and those
    /// whose key is not a control record's.
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
