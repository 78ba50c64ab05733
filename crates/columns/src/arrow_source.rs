//! [`ArrowSource`] reads any Arrow stream as records to send, whole columns at a time.
//!
//! ```text
//! __arrow_c_stream__ --> batches --> value, key, partition, timestamp, headers --> BulkAppend
//! ```
//! The source resolves types and checks rows once, when it is created, so reading a row cannot
//! fail. It accepts the table of `poll_arrow` unchanged, and ignores columns that a record to send
//! cannot have (topic, offset, ...). For any other problem, the error names the column.

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use arrow_schema::Schema;
use thalweg_producer::{Record, RecordSource};
use thalweg_records::varint::{VARINT_LEN_MAX, write_varint};
use thalweg_records::{Headers, RawHeaders};

use crate::byte_column::{ByteColumn, HeadersColumn, partitions, timestamps_ms};
use crate::error::ColumnsError;
use crate::ffi::ImportedStream;

const SENDABLE: [&str; 5] = ["value", "key", "partition", "timestamp", "headers"];
/// Columns that the broker sets.
const IGNORED: [&str; 5] = [
    "topic",
    "offset",
    "timestamp_type",
    "timestampType",
    "leader_epoch",
];

/// The columns of one record batch.
#[derive(Debug)]
struct Chunk {
    /// The row of the whole source that is row 0 here.
    first_row: usize,
    value: ByteColumn,
    key: ByteColumn,
    partition: Option<PrimitiveArray<Int32Type>>,
    timestamp: Option<PrimitiveArray<Int64Type>>,
    headers: Option<HeadersColumn>,
}

/// Rows of Arrow columns, read as records.
#[derive(Debug)]
pub struct ArrowSource {
    chunks: Vec<Chunk>,
    rows: usize,
    /// The partition of all rows, instead of their column.
    partition: Option<i32>,
    now_ms: i64,
    keyless: bool,
    /// The chunk of the last requested row. The next row is usually in the same chunk.
    current: usize,
    header_section: Vec<u8>,
}

impl ArrowSource {
    /// Reads a stream to its end. Rows without a timestamp get `now_ms`.
    pub fn read(reader: ImportedStream, now_ms: i64) -> Result<Self, ColumnsError> {
        let schema = reader.schema();
        check_names(&schema)?;
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        Self::new(&schema, &batches, now_ms)
    }

    pub fn new(
        schema: &Schema,
        batches: &[RecordBatch],
        now_ms: i64,
    ) -> Result<Self, ColumnsError> {
        check_names(schema)?;
        let mut source = Self {
            chunks: Vec::with_capacity(batches.len()),
            rows: 0,
            partition: None,
            now_ms,
            keyless: true,
            current: 0,
            header_section: Vec::new(),
        };
        for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
            let chunk = Chunk::new(batch, source.rows)?;
            source.keyless &= chunk.key.is_all_null()
                && chunk
                    .partition
                    .as_ref()
                    .is_none_or(|p| p.null_count() == p.len());
            source.rows += batch.num_rows();
            source.chunks.push(chunk);
        }
        Ok(source)
    }

    /// Sends all rows to one partition, and ignores the partition column.
    #[must_use]
    pub fn to_partition(self, partition: i32) -> Self {
        Self {
            partition: Some(partition),
            keyless: false,
            ..self
        }
    }

    fn find(&mut self, row: usize) -> usize {
        let holds = |chunk: &Chunk, next: Option<&Chunk>| {
            chunk.first_row <= row && next.is_none_or(|next| row < next.first_row)
        };
        let current = self.current;
        if !holds(&self.chunks[current], self.chunks.get(current + 1)) {
            self.current = self.chunks.partition_point(|chunk| chunk.first_row <= row) - 1;
        }
        self.current
    }
}

fn check_names(schema: &Schema) -> Result<(), ColumnsError> {
    for (index, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        // pandas adds the index of a filtered or sorted frame as a column.
        let is_index = name.starts_with("__index_level_");
        if !SENDABLE.contains(&name.as_str()) && !IGNORED.contains(&name.as_str()) && !is_index {
            let valid = SENDABLE
                .iter()
                .chain(&IGNORED)
                .map(|name| (*name).to_owned())
                .collect();
            return Err(ColumnsError::UnknownColumn {
                name: name.clone(),
                valid,
            });
        }
        if schema.fields()[..index]
            .iter()
            .any(|before| before.name() == name)
        {
            return Err(ColumnsError::DuplicateColumn { name: name.clone() });
        }
    }
    if schema.index_of("value").is_err() {
        return Err(ColumnsError::NoValueColumn);
    }
    Ok(())
}

impl Chunk {
    fn new(batch: &RecordBatch, first_row: usize) -> Result<Self, ColumnsError> {
        let bytes = |name: &str| match batch.column_by_name(name) {
            Some(array) => ByteColumn::new(name, array),
            None => Ok(ByteColumn::Null),
        };
        let chunk = Self {
            first_row,
            value: bytes("value")?,
            key: bytes("key")?,
            partition: batch
                .column_by_name("partition")
                .map(partitions)
                .transpose()?,
            timestamp: batch
                .column_by_name("timestamp")
                .map(timestamps_ms)
                .transpose()?,
            headers: batch
                .column_by_name("headers")
                .map(HeadersColumn::new)
                .transpose()?,
        };
        chunk.check()?;
        Ok(chunk)
    }

    fn check(&self) -> Result<(), ColumnsError> {
        let refuse = |row: usize, name, reason: String| {
            Err(ColumnsError::Row {
                row: self.first_row + row,
                name,
                reason,
            })
        };
        if let Some(partition) = &self.partition
            && let Some(row) = partition.iter().position(|p| p.is_some_and(|p| p < 0))
        {
            return refuse(
                row,
                "partition",
                format!("{} is negative", partition.value(row)),
            );
        }
        if let Some(timestamp) = &self.timestamp
            && let Some(row) = timestamp.iter().position(|t| t.is_some_and(|t| t < 0))
        {
            return refuse(
                row,
                "timestamp",
                format!("{} is negative", timestamp.value(row)),
            );
        }
        match self.headers.as_ref().map_or(Ok(()), HeadersColumn::check) {
            Err(ColumnsError::Row { row, name, reason }) => refuse(row, name, reason),
            other => other,
        }
    }
}

impl RecordSource for ArrowSource {
    fn rows(&self) -> usize {
        self.rows
    }

    fn record(&mut self, row: usize) -> Record<'_> {
        let index = self.find(row);
        let chunk = &self.chunks[index];
        let row = row - chunk.first_row;
        let headers = match &chunk.headers {
            None => Headers::NONE,
            Some(column) => encode_headers(column, row, &mut self.header_section),
        };
        let valid = |array: &dyn Array| array.is_valid(row);
        Record {
            partition: self.partition.or_else(|| {
                let column = chunk.partition.as_ref().filter(|p| valid(*p));
                column.map(|p| p.value(row))
            }),
            timestamp_ms: chunk
                .timestamp
                .as_ref()
                .filter(|t| valid(*t))
                .map_or(self.now_ms, |t| t.value(row)),
            key: chunk.key.get(row),
            value: chunk.value.get(row),
            headers,
        }
    }

    fn is_keyless(&self) -> bool {
        self.keyless
    }
}

/// Encodes a row's headers in wire form, so that they are copied into the batch as one piece.
fn encode_headers<'a>(column: &HeadersColumn, row: usize, section: &'a mut Vec<u8>) -> Headers<'a> {
    let headers = column.get(row);
    let count = headers.len();
    if count == 0 {
        return Headers::NONE;
    }
    section.clear();
    let mut length = [0; VARINT_LEN_MAX];
    for (key, value) in headers {
        for part in [Some(key), value] {
            let end = write_varint(&mut length, part.map_or(-1, |bytes| bytes.len() as i32));
            section.extend_from_slice(&length[..end]);
            section.extend_from_slice(part.unwrap_or_default());
        }
    }
    // A record with 2^32 headers would be too large to send.
    Headers::Raw(RawHeaders::new(count as u32, section))
}
