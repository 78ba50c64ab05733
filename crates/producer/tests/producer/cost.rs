//! The cost depends on the partitions with data. It is counted in looks at partitions, not in time.

use std::time::Duration;

use thalweg_producer::ProducerConfig;

use crate::world::{World, config};

fn lingering() -> ProducerConfig {
    ProducerConfig {
        linger: Duration::from_millis(5),
        batch_size: 2048,
        ..config()
    }
}

/// Sends to four partitions. Returns how many looks that took, and how many batches.
fn traffic_on_four(known: i32) -> (u64, usize) {
    let mut world = World::ready(lingering(), 3, known);
    let before = world.sender.looks();
    for round in 0..200 {
        for n in 0..40 {
            world.send(
                (n % 4) * (known / 4),
                &format!("{round} {n} {}", "x".repeat(80)),
            );
        }
        world.advance_ms(2);
    }
    world.advance_ms(100);
    assert_eq!(world.accumulator.incomplete_batches(), 0);
    let batches = world
        .brokers
        .logs
        .values()
        .map(|log| log.headers.len())
        .sum();
    (world.sender.looks() - before, batches)
}

#[test]
fn fifty_thousand_known_partitions_cost_nothing() {
    let (few, few_batches) = traffic_on_four(4);
    let (many, many_batches) = traffic_on_four(50_000);
    assert_eq!(few_batches, many_batches);
    assert!(
        many <= few + few / 10,
        "{few} looks with 4 partitions, {many} with 50,000"
    );
    // A batch is looked at when it begins, when it is full or due, when it is sent, and when it is
    // answered.
    assert!(
        few <= 8 * few_batches as u64,
        "{few} looks for {few_batches} batches"
    );
}

#[test]
fn an_idle_producer_looks_at_nothing() {
    let mut world = World::ready(lingering(), 3, 50_000);
    world.send(7, "a");
    world.advance_ms(1_000);
    let (looks, turns) = (world.sender.looks(), world.turns);
    world.advance(Duration::from_secs(60));
    assert_eq!(world.sender.looks(), looks);
    assert!(world.turns - turns < 10, "{} turns", world.turns - turns);
}

#[test]
fn ten_thousand_active_partitions_cost_a_few_looks_for_each_batch() {
    let config = ProducerConfig {
        buffer_memory: 64 << 20,
        ..lingering()
    };
    let mut world = World::ready(config, 3, 10_000);
    let before = world.sender.looks();
    for round in 0..3 {
        for partition in 0..10_000 {
            world.send(partition, "value");
            if partition % 500 == 0 {
                world.run();
            }
        }
        world.advance_ms(10 + round);
    }
    world.advance_ms(100);
    let batches: usize = world
        .brokers
        .logs
        .values()
        .map(|log| log.headers.len())
        .sum();
    let looks = world.sender.looks() - before;
    assert!(
        looks <= 8 * batches as u64,
        "{looks} looks for {batches} batches"
    );
}

#[test]
fn a_partition_with_one_small_record_holds_little_memory() {
    let world = World::ready(lingering(), 1, 1_000);
    for partition in 0..1_000 {
        world.send(partition, "a");
    }
    let pool = world.accumulator.pool();
    let held = pool.total_bytes() - pool.available_bytes();
    assert_eq!(held, 1_000 * 1024, "not a whole batch each");
}
