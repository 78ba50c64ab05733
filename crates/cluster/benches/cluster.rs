//! Measures how long the I/O thread needs for new leaders that a response names (KIP-951).
//!
//! The goal is 50 ms when one response moves 3,300 of 10,000 partitions.
#![allow(
    dead_code,
    reason = "the harness is shared with the tests, which use more of it"
)]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use thalweg_cluster::metadata::LeaderHint;
use thalweg_protocol::Str;

#[path = "../tests/cluster/support.rs"]
mod support;

use support::{Bench, brokers, topic};

const MOVED: i32 = 3_300;
const PARTITIONS: i32 = 10_000;

/// A client that knows 10,000 partitions on three nodes, spread over some topics.
fn knowing(topics: i32) -> Bench {
    let mut bench = Bench::bootstrapped(3);
    let partitions: Vec<_> = (0..PARTITIONS / topics).map(|at| (1 + at % 3, 5)).collect();
    let told: Vec<_> = (0..topics)
        .map(|id| topic(&format!("topic-{id}"), id as u8, &partitions))
        .collect();
    bench.cluster.set_all_topics(true);
    bench.turn();
    while bench.writes.is_empty() {
        bench.accept_next();
    }
    bench.respond_with_metadata(&brokers(3, &told));
    bench
}

fn hints(topics: i32) -> Vec<LeaderHint> {
    let hint = |at: i32| LeaderHint {
        topic: Str::from(format!("topic-{}", at % topics)),
        partition: at / topics,
        leader: 2,
        leader_epoch: 6,
    };
    (0..MOVED).map(hint).collect()
}

fn leader_hints(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("leader_hints_3300_of_10000");
    group.sample_size(10);
    for topics in [1, 100] {
        let hints = hints(topics);
        group.bench_function(format!("topics_{topics}"), |bencher| {
            bencher.iter_batched_ref(
                || knowing(topics),
                |bench| assert_eq!(bench.cluster.update_leaders(&hints, &[]), hints.len()),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, leader_hints);
criterion_main!(benches);
