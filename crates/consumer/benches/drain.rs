//! Measures draining the fetch buffer: records per second on one core.
//!
//! The goal is 20 million records of 100 bytes per second into a sink that only reads them.
#![allow(
    dead_code,
    reason = "the harness is shared with the tests, which use more of it"
)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use thalweg_consumer::{
    BatchInfo, Consumer, ConsumerConfig, ConsumerError, Demand, Drained, Offer, RecordSink,
};
use thalweg_records::{Compression, RecordRef};

#[path = "../tests/virtual_time/batches.rs"]
mod batches;
#[path = "../tests/virtual_time/broker/mod.rs"]
mod broker;
#[path = "../tests/virtual_time/world.rs"]
mod world;

use world::World;

const RECORD_BYTES: usize = 100;
const RECORDS_PER_BATCH: usize = 1000;

#[derive(Default)]
struct Count {
    bytes: usize,
}

impl RecordSink for Count {
    fn begin_batch(&mut self, _: &BatchInfo<'_>) -> Offer {
        Offer::Taken
    }

    #[inline]
    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        self.bytes += record.value.map_or(0, <[u8]>::len);
        Offer::Taken
    }
}

/// Returns a consumer that has fetched everything and drained nothing.
fn fetched(partitions: i32, batches_each: usize, codec: Compression) -> World {
    let config = ConsumerConfig {
        fetch_buffer_memory_bytes: 1 << 30,
        max_partition_fetch_bytes: 1 << 24,
        fetch_max_bytes: 1 << 28,
        ..world::config()
    };
    let mut world = World::with_topic(config, partitions, |broker| {
        for partition in 0..partitions {
            for index in 0..batches_each {
                let base = (index * RECORDS_PER_BATCH) as i64;
                let bytes = batches::compressed(base, RECORDS_PER_BATCH, RECORD_BYTES, codec);
                broker.append("t", partition, base + RECORDS_PER_BATCH as i64, bytes);
            }
        }
    });
    world.run();
    world
}

fn drain_whole(c: &mut Criterion) {
    let mut group = c.benchmark_group("drain");
    group.sample_size(20);
    for (name, partitions, batches_each) in [
        ("1 partition", 1, 100),
        ("10 partitions", 10, 10),
        ("1000 partitions", 1000, 1),
    ] {
        let records = partitions as usize * batches_each * RECORDS_PER_BATCH;
        group.throughput(Throughput::Elements(records as u64));
        group.bench_function(name, |b| {
            b.iter_batched(
                || fetched(partitions, batches_each, Compression::None),
                |world| {
                    let mut sink = Count::default();
                    let drained = world.consumer.drain(Demand::up_to(usize::MAX), &mut sink);
                    assert_eq!(drained.expect("records").records, records);
                    world
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// Drains 500 at a time as `poll()` does, and one at a time as an iteration does.
fn drain_in_pieces(c: &mut Criterion) {
    let mut group = c.benchmark_group("drain in pieces");
    group.sample_size(20);
    let records = 100 * RECORDS_PER_BATCH;
    group.throughput(Throughput::Elements(records as u64));
    let drain = |consumer: &Consumer, sink: &mut Count| consumer.drain(Demand::up_to(500), sink);
    let step = |consumer: &Consumer, sink: &mut Count| consumer.drain(Demand::step(), sink);
    let ways: [(&str, Way<'_>); 2] = [("500 a poll", &drain), ("1 a step", &step)];
    for (name, way) in ways {
        group.bench_function(name, |b| {
            b.iter_batched(
                || fetched(1, 100, Compression::None),
                |world| {
                    let mut sink = Count::default();
                    let mut taken = 0;
                    while taken < records {
                        taken += way(&world.consumer, &mut sink).expect("records").records;
                    }
                    world
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

type Way<'a> = &'a dyn Fn(&Consumer, &mut Count) -> Result<Drained, ConsumerError>;

criterion_group!(benches, drain_whole, drain_in_pieces);
criterion_main!(benches);
