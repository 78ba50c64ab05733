//! Walks over the records of a batch. It checks all bounds, and neither allocates nor copies.
//!
//! A record's fields, headers included, must use exactly its declared length. So the contents of a
//! `RecordRef` need no more checks. The walk can stop anywhere and continue from a
//! `RecordPosition`, because a poll may take fewer records than a batch has.

use crate::attributes::TimestampType;
use crate::batch_header::BatchHeader;
use crate::error::{RecordError, RecordProblem};
use crate::headers::{RawHeaders, read_bytes};
use crate::varint::{read_varint, read_varlong};

/// One record, as slices of its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    pub offset: i64,
    /// Milliseconds since the Unix epoch. -1 if the record has none (magic 0).
    pub timestamp: i64,
    pub timestamp_type: TimestampType,
    pub key: Option<&'a [u8]>,
    /// `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    pub headers: RawHeaders<'a>,
}

/// A position in a batch: before the record with this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecordPosition {
    at: usize,
    index: i32,
}

impl RecordPosition {
    /// Returns the number of records before this position.
    pub fn index(&self) -> i32 {
        self.index
    }
}

/// What all records of a batch have in common.
#[derive(Debug, Clone, Copy)]
struct Shared {
    base_offset: i64,
    base_timestamp: i64,
    /// Set with `LogAppendTime`: the batch's maximum timestamp applies to every record.
    append_time: Option<i64>,
    timestamp_type: TimestampType,
}

/// Iterates over the records of a batch in order, and ends after an error.
#[derive(Debug, Clone)]
pub struct RecordIter<'a> {
    records: &'a [u8],
    at: usize,
    index: i32,
    count: i32,
    shared: Shared,
}

impl<'a> RecordIter<'a> {
    pub(crate) fn new(header: &BatchHeader, records: &'a [u8], from: RecordPosition) -> Self {
        let timestamp_type = if header.magic == 0 {
            TimestampType::None
        } else {
            header.attributes.timestamp_type()
        };
        let append_time =
            (timestamp_type == TimestampType::LogAppendTime).then_some(header.max_timestamp);
        let shared = Shared {
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            append_time,
            timestamp_type,
        };
        Self {
            records,
            at: from.at,
            index: from.index,
            count: header.records_count,
            shared,
        }
    }

    /// Returns the current position.
    pub fn position(&self) -> RecordPosition {
        RecordPosition {
            at: self.at,
            index: self.index,
        }
    }

    #[inline(always)]
    fn read(&mut self) -> Result<RecordRef<'a>, RecordProblem> {
        let mut start = self.at;
        let length =
            read_varint(self.records, &mut start).ok_or(if start < self.records.len() {
                RecordProblem::Varint
            } else {
                RecordProblem::Missing
            })?;
        if length < 0 {
            return Err(RecordProblem::Length);
        }
        let end = start + length as usize;
        let body = self.records.get(start..end).ok_or(RecordProblem::Length)?;
        let record = read_body(body, &self.shared)?;
        self.at = end;
        Ok(record)
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, problem: RecordProblem) -> RecordError {
        let error = RecordError {
            base_offset: self.shared.base_offset,
            index: self.index,
            problem,
        };
        self.index = self.count;
        self.at = self.records.len();
        error
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<RecordRef<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            if self.at < self.records.len() {
                return Some(Err(self.fail(RecordProblem::TrailingBytes)));
            }
            return None;
        }
        match self.read() {
            Ok(record) => {
                self.index += 1;
                Some(Ok(record))
            }
            Err(problem) => Some(Err(self.fail(problem))),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Not simply the declared count, which may be false.
        let at_most = (self.records.len() - self.at) / crate::record::RECORD_LEN_MIN + 1;
        (0, Some(at_most))
    }
}

#[inline(always)]
fn read_body<'a>(body: &'a [u8], shared: &Shared) -> Result<RecordRef<'a>, RecordProblem> {
    let mut at = 1; // attributes: none are assigned
    let timestamp_delta = read_varlong(body, &mut at).ok_or(RecordProblem::Varint)?;
    let offset_delta = read_varint(body, &mut at).ok_or(RecordProblem::Varint)?;
    let key = read_bytes(body, &mut at)?;
    let value = read_bytes(body, &mut at)?;
    let count = read_varint(body, &mut at).ok_or(RecordProblem::Varint)?;
    if offset_delta < 0 {
        return Err(RecordProblem::OffsetDelta);
    }
    let headers = read_headers(body, at, count)?;
    let timestamp = shared
        .append_time
        .unwrap_or_else(|| shared.base_timestamp.wrapping_add(timestamp_delta));
    Ok(RecordRef {
        offset: shared.base_offset.wrapping_add(i64::from(offset_delta)),
        timestamp,
        timestamp_type: shared.timestamp_type,
        key,
        value,
        headers,
    })
}

#[inline(always)]
fn read_headers(body: &[u8], at: usize, count: i32) -> Result<RawHeaders<'_>, RecordProblem> {
    if count == 0 {
        return if at == body.len() {
            Ok(RawHeaders::default())
        } else {
            Err(RecordProblem::Underrun)
        };
    }
    let count = u32::try_from(count).map_err(|_| RecordProblem::HeaderCount)?;
    RawHeaders::checked(count, &body[at..])
}
