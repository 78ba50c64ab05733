//! Builds a whole batch in one buffer, for code without a pool of chunks: the embedded broker's
//! markers, tools and tests. The producer writes into its own chunks instead.

use crate::attributes::Attributes;
use crate::batch_header::{BATCH_HEADER_LEN, BatchHeader};
use crate::compression::{Compression, Compressor};
use crate::error::RecordsError;
use crate::headers::Headers;
use crate::record::{self, RecordFields};

/// Collects records and closes them into a batch.
#[derive(Debug)]
pub struct BatchBuilder {
    header: BatchHeader,
    records: Vec<u8>,
}

impl BatchBuilder {
    /// Creates a batch without a producer id, whose first record has `base_offset`.
    pub fn new(base_offset: i64) -> Self {
        Self::with_header(BatchHeader {
            base_offset,
            ..BatchHeader::default()
        })
    }

    /// Creates a batch with the header's producer, attributes, epochs and timestamps. Counts,
    /// length and checksum follow from the records.
    pub fn with_header(header: BatchHeader) -> Self {
        let header = BatchHeader {
            records_count: 0,
            last_offset_delta: 0,
            ..header
        };
        Self {
            header,
            records: Vec::new(),
        }
    }

    /// Appends a record at the next offset. The first record's timestamp becomes the base.
    pub fn append<'a>(
        &mut self,
        timestamp: i64,
        key: Option<&'a [u8]>,
        value: Option<&'a [u8]>,
        headers: impl Into<Headers<'a>>,
    ) {
        if self.header.records_count == 0 {
            self.header.base_timestamp = timestamp;
            self.header.max_timestamp = timestamp;
        }
        self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
        self.append_fields(&RecordFields {
            offset_delta: self.header.records_count,
            timestamp_delta: timestamp.wrapping_sub(self.header.base_timestamp),
            key,
            value,
            headers: headers.into(),
        });
    }

    /// Appends a record with the caller's deltas, for example with gaps as compaction leaves them.
    pub fn append_fields(&mut self, fields: &RecordFields<'_>) {
        record::encode(fields, &mut self.records);
        self.header.records_count += 1;
        self.header.last_offset_delta = self.header.last_offset_delta.max(fields.offset_delta);
    }

    /// Returns the number of records so far.
    pub fn records_count(&self) -> i32 {
        self.header.records_count
    }

    /// Returns the header. `finish` keeps what is set here.
    pub fn header_mut(&mut self) -> &mut BatchHeader {
        &mut self.header
    }

    /// Returns the batch in wire form, uncompressed.
    pub fn finish(mut self) -> Vec<u8> {
        self.set_codec(Compression::None);
        close(&mut self.header, &self.records)
    }

    /// Returns the batch in wire form, compressed.
    pub fn finish_compressed(
        mut self,
        compressor: &mut Compressor,
        codec: Compression,
        level: Option<i32>,
    ) -> Result<Vec<u8>, RecordsError> {
        self.set_codec(codec);
        let mut section = Vec::new();
        compressor.compress(codec, level, &[&self.records], &mut section)?;
        Ok(close(&mut self.header, &section))
    }

    fn set_codec(&mut self, codec: Compression) {
        let attributes: Attributes = self.header.attributes.with_compression(codec);
        self.header.attributes = attributes;
    }
}

fn close(header: &mut BatchHeader, section: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(BATCH_HEADER_LEN + section.len());
    out.extend_from_slice(&header.finish([section]));
    out.extend_from_slice(section);
    out
}
