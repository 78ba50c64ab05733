//! Makes batches, and feeds a sink as the consumer's drain does.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_columns::{ArrowSink, Layout, SlabPool, TableLimits};
use thalweg_consumer::{BatchInfo, Offer, RecordSink, TopicPartition};
use thalweg_records::{
    BatchBuilder, BatchHeader, DecodedBatch, Decompressor, HeaderRef, Headers, batches,
};

pub(crate) const UNLIMITED: TableLimits = TableLimits {
    rows_max: usize::MAX,
    bytes_max: usize::MAX,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

pub(crate) fn batch(base_offset: i64, rows: &[Row]) -> DecodedBatch {
    let mut builder = BatchBuilder::with_header(BatchHeader {
        base_offset,
        partition_leader_epoch: 7,
        ..BatchHeader::default()
    });
    for row in rows {
        let headers: Vec<_> = row
            .headers
            .iter()
            .map(|(key, value)| HeaderRef {
                key,
                value: value.as_deref(),
            })
            .collect();
        builder.append(
            row.timestamp,
            row.key.as_deref(),
            row.value.as_deref(),
            Headers::List(&headers),
        );
    }
    let raw = batches(Bytes::from(builder.finish()))
        .next()
        .expect("one batch")
        .expect("whole");
    raw.decode(&mut Decompressor::new(), usize::MAX)
        .expect("not compressed")
}

pub(crate) fn sink(layout: Layout, limits: TableLimits) -> ArrowSink {
    ArrowSink::new(layout, limits, SlabPool::new(1 << 24))
}

/// Offers a batch's records to the sink, and returns how many it accepted.
pub(crate) fn feed(
    sink: &mut ArrowSink,
    topic: &str,
    partition: i32,
    batch: &DecodedBatch,
) -> usize {
    let partition = TopicPartition::new(topic, partition);
    let info = BatchInfo {
        partition: &partition,
        leader_epoch: batch.header.partition_leader_epoch,
        timestamp_type: batch.timestamp_type(),
        records_max: batch.len(),
        bytes_max: batch.records.len(),
    };
    if sink.begin_batch(&info) == Offer::Refused {
        return 0;
    }
    let taken = batch
        .iter()
        .take_while(|record| sink.record(record.as_ref().expect("a good record")) == Offer::Taken)
        .count();
    sink.end_batch();
    taken
}

pub(crate) fn pool() -> Arc<SlabPool> {
    SlabPool::new(1 << 24)
}
