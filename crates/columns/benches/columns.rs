//! Measures records per second into columns and out of them, on one core.
//!
//! The goals are 40 million records of 100 bytes a second into columns, and 15 million out of them.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg_columns::{ArrowSink, ArrowSource, Layout, SlabPool, TableLimits};
use thalweg_consumer::{BatchInfo, Offer, RecordSink, TopicPartition};
use thalweg_producer::RecordSource;
use thalweg_records::{
    BatchBuilder, DecodedBatch, Decompressor, HeaderRef, RecordFields, batches, record,
};

const RECORDS_PER_BATCH: usize = 8_000;
const BATCHES: usize = 8;

fn batch(record_bytes: usize, keyed: bool, with_headers: bool) -> DecodedBatch {
    let mut builder = BatchBuilder::new(0);
    let value = vec![b'v'; record_bytes];
    let headers = [HeaderRef {
        key: b"trace",
        value: Some(b"0123456789abcdef"),
    }];
    for index in 0..RECORDS_PER_BATCH {
        let key = (index as u64).to_be_bytes();
        let headers: &[HeaderRef<'_>] = if with_headers { &headers } else { &[] };
        builder.append(
            1_700_000_000_000 + index as i64,
            keyed.then_some(key.as_slice()),
            Some(&value),
            headers,
        );
    }
    let raw = batches(Bytes::from(builder.finish()))
        .next()
        .expect("one batch")
        .expect("whole");
    raw.decode(&mut Decompressor::new(), usize::MAX)
        .expect("not compressed")
}

fn feed(sink: &mut ArrowSink, partition: &TopicPartition, batch: &DecodedBatch) {
    let info = BatchInfo {
        partition,
        leader_epoch: 1,
        timestamp_type: batch.timestamp_type(),
        records_max: batch.len(),
        bytes_max: batch.records.len(),
    };
    assert_eq!(sink.begin_batch(&info), Offer::Taken);
    for record in batch {
        let record = record.expect("a good record");
        assert_eq!(sink.record(&record), Offer::Taken);
    }
    sink.end_batch();
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode to columns");
    let partition = TopicPartition::new("benchmark", 3);
    let cases = [
        ("100 B, poll_arrow", 100, false, false, Layout::poll()),
        ("100 B, spark", 100, false, false, Layout::spark(false)),
        ("100 B keyed, poll_arrow", 100, true, false, Layout::poll()),
        (
            "100 B with a header, poll_arrow",
            100,
            true,
            true,
            Layout::poll(),
        ),
        ("1 KB, poll_arrow", 1000, false, false, Layout::poll()),
    ];
    for (name, record_bytes, keyed, with_headers, layout) in cases {
        let batch = batch(record_bytes, keyed, with_headers);
        let pool = SlabPool::new(256 << 20);
        let limits = TableLimits {
            rows_max: usize::MAX,
            bytes_max: usize::MAX,
        };
        let mut sink = ArrowSink::new(layout, limits, pool);
        group.throughput(Throughput::Elements((RECORDS_PER_BATCH * BATCHES) as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                for _ in 0..BATCHES {
                    feed(&mut sink, &partition, &batch);
                }
                sink.take().expect("a valid table")
            });
        });
    }
    group.finish();
}

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode from columns");
    let partition = TopicPartition::new("benchmark", 3);
    for (name, keyed, with_headers) in [
        ("100 B", false, false),
        ("100 B keyed", true, false),
        ("100 B with a header", true, true),
    ] {
        let limits = TableLimits {
            rows_max: usize::MAX,
            bytes_max: usize::MAX,
        };
        let mut sink = ArrowSink::new(Layout::poll(), limits, SlabPool::new(0));
        for _ in 0..BATCHES {
            feed(&mut sink, &partition, &batch(100, keyed, with_headers));
        }
        let table = sink.take().expect("a valid table");
        let mut out: Vec<u8> = Vec::with_capacity(64 << 20);
        group.throughput(Throughput::Elements((RECORDS_PER_BATCH * BATCHES) as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
                let tables = std::slice::from_ref(&table);
                let mut source =
                    ArrowSource::new(&table.schema(), tables, 0).expect("columns that can be sent");
                out.clear();
                for row in 0..source.rows() {
                    let row = source.record(row);
                    let fields = RecordFields {
                        offset_delta: 1,
                        timestamp_delta: row.timestamp_ms - 1_700_000_000_000,
                        key: row.key,
                        value: row.value,
                        headers: row.headers,
                    };
                    record::encode(&fields, &mut out);
                }
                black_box(out.len())
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
