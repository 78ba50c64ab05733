//! A drain of one partition is served, whatever the other partitions hold.

use std::time::Duration;

use thalweg_consumer::ConsumerConfig;
use thalweg_records::Compression;

use crate::batches::{compressed, plain, sized};
use crate::memory::{BUDGET, budgeted, of_megabytes};
use crate::world::{World, config, tp};

/// A drain of only one partition gets its records, although those of others use the limit.
#[test]
fn a_drain_of_one_partition_is_served_behind_what_others_hold() {
    let mut world = of_megabytes(8);
    world.run();
    for partition in (0..8).rev() {
        let mut got = 0;
        for _ in 0..100 {
            got += world
                .drain_only(&[tp(partition)], usize::MAX)
                .expect("records")
                .records
                .len();
            world.run();
        }
        assert_eq!(got, 4_000, "partition {partition}");
    }
}

/// Reads a partition with drains that name only it. Returns the number of records.
fn read_only(world: &mut World, partition: i32) -> usize {
    let mut records = 0;
    for _ in 0..100 {
        let got = world.drain_only(&[tp(partition)], usize::MAX);
        records += got.expect("nothing is wrong here").records.len();
        world.advance(Duration::from_millis(10));
    }
    records
}

/// Twelve partitions of 80 KB, of which the memory holds only some. The 13th is empty.
fn crowded(sessionless: bool) -> World {
    let mut world = World::with_topic(budgeted(), 13, |broker| {
        broker.sessionless = sessionless;
        for partition in 0..12 {
            for batch in 0..4_i64 {
                let bytes = sized(batch * 10, 10, 2_000);
                broker.append("t", partition, (batch + 1) * 10, bytes);
            }
        }
    });
    world.run();
    assert!(world.buffered().len() < 12, "the budget is full");
    world
}

#[test]
fn a_drain_of_one_partition_is_served_though_others_hold_the_fetch_memory() {
    for sessionless in [false, true] {
        let mut world = crowded(sessionless);
        for partition in (0..12).rev() {
            assert_eq!(read_only(&mut world, partition), 40, "{partition}");
        }
        let peak = world.consumer.buffered_bytes().1;
        assert!(peak < BUDGET + 45_000, "{peak} bytes at the peak");
    }
}

/// Each drain allows one extra fetch, however many partitions it names.
#[test]
fn a_drain_that_is_not_repeated_takes_the_memory_of_one_fetch_more() {
    let mut world = crowded(false);
    let held = world.buffered();
    let asked: Vec<_> = (0..12).filter(|p| !held.contains(p)).map(tp).collect();
    assert!(asked.len() > 1);
    let got = world.drain_only(&asked, 1).expect("nothing yet");
    assert!(got.records.is_empty());
    world.advance(Duration::from_secs(2));
    assert_eq!(world.buffered().len(), held.len() + 1);
}

/// Tasks wait for several partitions, one of which has no records. The others are served, and this
/// one is served later without another drain.
#[test]
fn a_partition_without_records_that_is_asked_for_does_not_stop_the_others() {
    for sessionless in [false, true] {
        let mut world = crowded(sessionless);
        let last = (0..12).rfind(|p| !world.buffered().contains(p));
        let last = last.expect("the budget is full");
        let mut records = 0;
        for _ in 0..100 {
            for asked in [last, 12] {
                let got = world.drain_only(&[tp(asked)], usize::MAX);
                records += got.expect("nothing is wrong here").records.len();
                world.advance(Duration::from_millis(10));
            }
        }
        assert_eq!(records, 40);
        let before = world.broker.fetches().len();
        world.advance(Duration::from_secs(2));
        let asked = world.broker.fetches().len() - before;
        assert!(asked < 60, "{asked} fetches in two seconds");
        world.broker.append("t", 12, 5, plain(0, 5));
        world.advance(Duration::from_secs(1));
        let got = world.drain_only(&[tp(12)], usize::MAX).expect("records");
        assert_eq!(got.records.len(), 5);
    }
}

#[test]
fn a_drain_of_one_partition_is_served_though_others_hold_the_room_for_decoding() {
    const BUDGET_BYTES: usize = 1_000_000;
    let small = ConsumerConfig {
        fetch_buffer_memory_bytes: BUDGET_BYTES,
        ..config()
    };
    let mut world = World::with_topic(small, 4, |broker| {
        for partition in 0..4 {
            for batch in 0..5_i64 {
                let bytes = compressed(batch * 400, 400, 1_000, Compression::Zstd);
                broker.append("t", partition, (batch + 1) * 400, bytes);
            }
        }
    });
    world.run();
    for partition in (0..4).rev() {
        assert_eq!(read_only(&mut world, partition), 2_000, "{partition}");
    }
    let peak = world.consumer.buffered_bytes().1;
    assert!(peak < 2 * BUDGET_BYTES, "{peak} bytes at the peak");
}

/// Leftovers of a fetch that is no longer asked for must not keep their complete frame.
#[test]
fn leftovers_that_a_drain_of_one_partition_passes_over_do_not_pin_their_frames() {
    let limits = ConsumerConfig {
        fetch_buffer_memory_bytes: 300_000,
        max_partition_fetch_bytes: 100_000,
        ..config()
    };
    let mut world = World::with_topic(limits, 4, |broker| {
        for partition in 0..4 {
            for batch in 0..20_i64 {
                let bytes = sized(batch * 10, 10, 1_000);
                broker.append("t", partition, (batch + 1) * 10, bytes);
            }
        }
    });
    world.run();
    let held = world.buffered();
    for &partition in &held {
        let got = world.drain_only(&[tp(partition)], 85).expect("records");
        assert_eq!(got.records.len(), 85);
    }
    let before = world.consumer.buffered_bytes().0;
    let asked = (0..4)
        .find(|p| !held.contains(p))
        .expect("the budget is full");
    let got = world.drain_only(&[tp(asked)], 1).expect("not fetched yet");
    assert!(got.records.is_empty());
    world.run();
    let got = world.drain_only(&[tp(asked)], usize::MAX).expect("records");
    assert!(!got.records.is_empty());
    let after = world.consumer.buffered_bytes().0;
    assert!(after < before / 2, "{after} of {before} bytes are held");
    let left = world.drain_all().len() + got.records.len();
    assert_eq!(left, 4 * 200 - held.len() * 85, "nothing is lost");
}
