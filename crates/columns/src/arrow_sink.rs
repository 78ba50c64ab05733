//! [`ArrowSink`] turns drained records into columns, without Python and without the GIL.
//!
//! ```text
//! Consumer::drain --record--> key, value, offset, timestamp, headers   (one push each)
//!                 --end_batch--> topic, partition, timestamp type, leader epoch (once a run)
//! take() --> RecordBatch, with buffers from the pool
//! ```
//! The sink refuses a record when the table is full, in rows or in bytes. It always accepts the
//! first record, however large. It knows nothing of Kafka except a record's fields.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
    TimestampMillisecondArray,
};
use thalweg_consumer::{BatchInfo, Offer, RecordSink, TopicPartition};
use thalweg_records::{RecordRef, TimestampType};

use crate::column_builders::{BinaryBuilder, HeadersBuilder, NumberBuilder};
use crate::error::ColumnsError;
use crate::layout::{Column, Layout, TimestampUnit};
use crate::slab::SlabPool;

/// Arrow's offsets have 32 bits. Every table stays far enough below that limit, whatever limits are
/// requested, even if each byte of every header key is invalid and becomes a replacement character
/// of three bytes.
pub const TABLE_BYTES_MAX: usize = 1 << 29;
/// With the longest topic name (249 bytes), a topic column of this many rows stays below 2 GiB.
pub const TABLE_ROWS_MAX: usize = 8_000_000;

const US_PER_MS: i64 = 1000;

/// How much a table may hold.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    pub rows_max: usize,
    /// Limit of the columns' own bytes. A single record may exceed it.
    pub bytes_max: usize,
}

/// The columns of the table that is being filled. Absent columns are `None`.
#[derive(Debug)]
struct Columns {
    key: Option<BinaryBuilder>,
    value: Option<BinaryBuilder>,
    headers: Option<HeadersBuilder>,
    offset: Option<NumberBuilder<i64>>,
    timestamp: Option<NumberBuilder<i64>>,
    topic: Option<BinaryBuilder>,
    partition: Option<NumberBuilder<i32>>,
    timestamp_type: Option<NumberBuilder<i32>>,
    leader_epoch: Option<NumberBuilder<i32>>,
}

/// The run of records in progress.
#[derive(Debug)]
struct Run {
    partition: TopicPartition,
    leader_epoch: i32,
    timestamp_type: TimestampType,
    rows_before: usize,
}

#[derive(Debug)]
pub struct ArrowSink {
    layout: Layout,
    pool: Arc<SlabPool>,
    rows_max: usize,
    bytes_max: usize,
    columns: Columns,
    run: Option<Run>,
    rows: usize,
    bytes: usize,
    /// Bytes of a row besides key, value and headers.
    row_bytes: usize,
    failure: Option<ColumnsError>,
}

impl ArrowSink {
    pub fn new(layout: Layout, limits: TableLimits, pool: Arc<SlabPool>) -> Self {
        let columns = Columns::new(&layout);
        Self {
            layout,
            columns,
            rows_max: limits.rows_max.min(TABLE_ROWS_MAX),
            bytes_max: limits.bytes_max.min(TABLE_BYTES_MAX),
            pool,
            run: None,
            rows: 0,
            bytes: 0,
            row_bytes: 0,
            failure: None,
        }
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the number of bytes in the columns so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_full(&self) -> bool {
        self.rows >= self.rows_max || self.bytes >= self.bytes_max
    }

    /// Takes the error because of which the sink refused a record, unless it was full. The rows
    /// before that record are valid.
    pub fn take_failure(&mut self) -> Option<ColumnsError> {
        self.failure.take()
    }

    /// Returns the table so far and empties the sink.
    pub fn take(&mut self) -> Result<RecordBatch, ColumnsError> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let mut arrays = Vec::with_capacity(self.layout.columns().len());
        for (index, &column) in self.layout.columns().iter().enumerate() {
            let data_type = self.layout.schema().field(index).data_type();
            let array =
                self.columns
                    .finish(column, data_type, self.layout.timestamp_unit, &self.pool)?;
            arrays.push(array);
        }
        // The row count is explicit, so that a table without columns has one too.
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(self.layout.schema());
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// Converts a timestamp to the layout's unit. Returns `None` if it is out of range.
    #[inline]
    fn timestamp(&self, ms: i64) -> Option<i64> {
        match self.layout.timestamp_unit {
            TimestampUnit::Millisecond => Some(ms),
            TimestampUnit::Microsecond => ms.checked_mul(US_PER_MS),
        }
    }

    #[cold]
    fn refuse_timestamp(&mut self, record: &RecordRef<'_>) -> Offer {
        let partition = self.run.as_ref().map(|run| run.partition.clone());
        self.failure = Some(ColumnsError::MalformedTimestamp {
            partition: partition.expect("a run begins before its first record"),
            offset: record.offset,
            timestamp_ms: record.timestamp,
        });
        Offer::Refused
    }
}

impl RecordSink for ArrowSink {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        if self.is_full() || self.failure.is_some() {
            return Offer::Refused;
        }
        let topic_bytes = if self.columns.topic.is_some() {
            batch.partition.topic.len()
        } else {
            0
        };
        self.row_bytes = topic_bytes + self.columns.fixed_row_bytes();
        let rows = batch.records_max.min(self.rows_max - self.rows);
        self.columns.reserve(rows, &self.pool);
        self.run = Some(Run {
            partition: batch.partition.clone(),
            leader_epoch: batch.leader_epoch,
            timestamp_type: batch.timestamp_type,
            rows_before: self.rows,
        });
        Offer::Taken
    }

    #[inline]
    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        let bytes = self.row_bytes + self.columns.payload_bytes(record);
        if self.rows >= self.rows_max || (self.rows > 0 && self.bytes + bytes > self.bytes_max) {
            return Offer::Refused;
        }
        let timestamp = match self.columns.timestamp {
            None => 0,
            Some(_) => match self.timestamp(record.timestamp) {
                Some(timestamp) => timestamp,
                None => return self.refuse_timestamp(record),
            },
        };
        let columns = &mut self.columns;
        if let Some(key) = &mut columns.key {
            key.push(record.key);
        }
        if let Some(value) = &mut columns.value {
            value.push(record.value);
        }
        if let Some(headers) = &mut columns.headers {
            headers.push(record.headers);
        }
        if let Some(offset) = &mut columns.offset {
            offset.push(record.offset);
        }
        if let Some(timestamps) = &mut columns.timestamp {
            timestamps.push(timestamp);
        }
        self.rows += 1;
        self.bytes += bytes;
        Offer::Taken
    }

    fn end_batch(&mut self) {
        let Some(run) = self.run.take() else { return };
        let rows = self.rows - run.rows_before;
        let columns = &mut self.columns;
        if let Some(topic) = &mut columns.topic {
            topic.push_run(run.partition.topic.as_bytes(), rows, &self.pool);
        }
        if let Some(partition) = &mut columns.partition {
            partition.reserve(rows, &self.pool);
            partition.fill(self.rows, run.partition.partition);
        }
        if let Some(leader_epoch) = &mut columns.leader_epoch {
            leader_epoch.reserve(rows, &self.pool);
            leader_epoch.fill(self.rows, run.leader_epoch);
        }
        if let Some(timestamp_type) = &mut columns.timestamp_type {
            timestamp_type.reserve(rows, &self.pool);
            timestamp_type.fill(self.rows, i32::from(run.timestamp_type.id()));
        }
    }
}

impl Columns {
    fn new(layout: &Layout) -> Self {
        let binary = |column| layout.has(column).then(BinaryBuilder::new);
        let longs = |column| layout.has(column).then(NumberBuilder::new);
        let ints = |column| layout.has(column).then(NumberBuilder::new);
        Self {
            key: binary(Column::Key),
            value: binary(Column::Value),
            headers: layout.has(Column::Headers).then(HeadersBuilder::new),
            offset: longs(Column::Offset),
            timestamp: longs(Column::Timestamp),
            topic: binary(Column::Topic),
            partition: ints(Column::Partition),
            timestamp_type: ints(Column::TimestampType),
            leader_epoch: ints(Column::LeaderEpoch),
        }
    }

    /// Makes room in the columns that get a value with each record.
    fn reserve(&mut self, rows: usize, pool: &SlabPool) {
        for column in [&mut self.key, &mut self.value].into_iter().flatten() {
            column.reserve(rows, pool);
        }
        if let Some(headers) = &mut self.headers {
            headers.reserve(rows, pool);
        }
        for column in [&mut self.offset, &mut self.timestamp]
            .into_iter()
            .flatten()
        {
            column.reserve(rows, pool);
        }
    }

    /// Returns the bytes of one row's offsets and numbers, in the columns that exist.
    fn fixed_row_bytes(&self) -> usize {
        let ints = [
            self.key.is_some(),
            self.value.is_some(),
            self.headers.is_some(),
            self.topic.is_some(),
            self.partition.is_some(),
            self.timestamp_type.is_some(),
            self.leader_epoch.is_some(),
        ];
        let longs = [self.offset.is_some(), self.timestamp.is_some()];
        size_of::<i32>() * ints.into_iter().filter(|exists| *exists).count()
            + size_of::<i64>() * longs.into_iter().filter(|exists| *exists).count()
    }

    #[inline]
    fn payload_bytes(&self, record: &RecordRef<'_>) -> usize {
        let mut bytes = 0;
        if self.key.is_some() {
            bytes += record.key.map_or(0, <[u8]>::len);
        }
        if self.value.is_some() {
            bytes += record.value.map_or(0, <[u8]>::len);
        }
        if self.headers.is_some() {
            // Counts the offsets of each header's key and value, and their section on the wire.
            bytes += record.headers.as_bytes().len() + 2 * size_of::<i32>() * record.headers.len();
        }
        bytes
    }

    fn finish(
        &mut self,
        column: Column,
        data_type: &arrow_schema::DataType,
        unit: TimestampUnit,
        pool: &Arc<SlabPool>,
    ) -> Result<ArrayRef, ColumnsError> {
        match column {
            Column::Key => made(&mut self.key).finish_binary(pool),
            Column::Value => made(&mut self.value).finish_binary(pool),
            Column::Topic => made(&mut self.topic).finish_string(pool),
            Column::Headers => made(&mut self.headers).finish(data_type, pool),
            Column::Partition => Ok(ints(&mut self.partition, pool)),
            Column::TimestampType => Ok(ints(&mut self.timestamp_type, pool)),
            Column::LeaderEpoch => Ok(ints(&mut self.leader_epoch, pool)),
            Column::Offset => Ok(Arc::new(Int64Array::new(
                made(&mut self.offset).finish(pool),
                None,
            ))),
            Column::Timestamp => {
                let values = made(&mut self.timestamp).finish(pool);
                Ok(match unit {
                    TimestampUnit::Millisecond => {
                        Arc::new(TimestampMillisecondArray::new(values, None).with_timezone("UTC"))
                    }
                    TimestampUnit::Microsecond => {
                        Arc::new(TimestampMicrosecondArray::new(values, None).with_timezone("UTC"))
                    }
                })
            }
        }
    }
}

fn made<T>(column: &mut Option<T>) -> &mut T {
    column
        .as_mut()
        .expect("the sink has created all columns of its layout")
}

fn ints(column: &mut Option<NumberBuilder<i32>>, pool: &Arc<SlabPool>) -> ArrayRef {
    Arc::new(Int32Array::new(made(column).finish(pool), None))
}
