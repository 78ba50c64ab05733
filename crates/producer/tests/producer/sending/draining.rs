//! Draining: what goes into a request, and in which order partitions have their turn.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_producer::ProducerConfig;

use crate::world::{TOPIC, World, config, is_pending, offset};

#[test]
fn lingering_batches_are_taken_along_by_a_request_that_goes_anyway() {
    let config = ProducerConfig {
        batch_size: 512,
        linger: Duration::from_secs(1),
        ..config()
    };
    let mut world = World::ready(config, 1, 3);
    let along = [world.send(1, "a"), world.send(2, "a")];
    let filler: Vec<_> = (0..5).map(|_| world.send(0, &"x".repeat(100))).collect();
    world.run();
    assert_eq!(world.brokers.requests.len(), 1);
    assert!(along.iter().all(|one| offset(one) == 0));
    assert_eq!(offset(&filler[0]), 0);
}

#[test]
fn requests_stay_within_max_request_size() {
    let config = ProducerConfig {
        batch_size: 1_000,
        max_request_size: 4_000,
        linger: Duration::ZERO,
        ..config()
    };
    let mut world = World::ready(config, 1, 10);
    let value = "x".repeat(800);
    let mut sent = Vec::new();
    for _ in 0..6 {
        for partition in 0..10 {
            sent.push(world.send(partition, &value));
        }
        world.turn();
        world.turn();
    }
    world.run();
    assert!(sent.iter().all(|one| !is_pending(one)));
    assert!(
        world
            .brokers
            .request_bytes
            .iter()
            .all(|&bytes| bytes <= 4_000)
    );
}

/// The drain index rotates: it begins where the last request ended, not at the first partition.
#[test]
fn as_many_requests_as_hold_all_ready_partitions_serve_each_of_them() {
    const BATCHES: usize = 3;
    for (partitions, fit) in [(10_usize, 4_usize), (9, 3), (7, 2), (5, 1)] {
        for in_flight in [1, 5] {
            let config = ProducerConfig {
                batch_size: 1_000,
                // A batch of one such record has 870 bytes.
                max_request_size: fit * 1_000,
                max_in_flight_requests_per_connection: in_flight,
                ..config()
            };
            let mut world = World::ready(config, 1, partitions as i32);
            let value = "x".repeat(800);
            for _ in 0..BATCHES {
                for partition in 0..partitions {
                    world.send(partition as i32, &value);
                }
            }
            world.run();
            let requests: Vec<BTreeSet<i32>> = world
                .brokers
                .requests
                .iter()
                .map(|(_, parts)| parts.iter().map(|part| part.1).collect())
                .collect();
            let case = format!("{partitions} partitions, {in_flight} in flight: {requests:?}");
            let drained: usize = requests.iter().map(BTreeSet::len).sum();
            assert_eq!(drained, partitions * BATCHES, "{case}");
            let enough = partitions.div_ceil(fit);
            let served = |requests: &[BTreeSet<i32>]| {
                let all: BTreeSet<i32> = requests.iter().flatten().copied().collect();
                all.len()
            };
            assert_eq!(served(&requests[..enough]), partitions, "{case}");
            // The batches of a request are sorted, and their partitions enter the ring again in
            // that order.
            for later in requests.windows(enough + 1) {
                assert_eq!(served(later), partitions, "{case}");
            }
        }
    }
}

#[test]
fn a_batch_larger_than_a_request_goes_alone() {
    let config = ProducerConfig {
        batch_size: 20_000,
        max_request_size: 4_000,
        ..config()
    };
    let mut world = World::ready(config, 1, 2);
    for _ in 0..10 {
        world.send(0, &"x".repeat(900));
    }
    let other = world.send(1, "a");
    world.run();
    assert_eq!(offset(&other), 0);
    assert_eq!(world.brokers.log(TOPIC, 0).headers.len(), 1);
    assert!(
        world
            .brokers
            .request_bytes
            .iter()
            .any(|&bytes| bytes > 4_000)
    );
}
