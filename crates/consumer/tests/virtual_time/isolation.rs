//! `read_committed`, control batches, compaction: data that moves the position and is never
//! returned.

use std::time::Duration;

use thalweg_consumer::{ConsumerConfig, IsolationLevel};
use thalweg_records::Compression;

use crate::batches::{compacted, marker, plain, transactional};
use crate::broker::Broker;
use crate::world::{Taken, World, config};

fn committed() -> ConsumerConfig {
    ConsumerConfig {
        isolation_level: IsolationLevel::ReadCommitted,
        ..config()
    }
}

fn offsets(records: &[Taken]) -> Vec<i64> {
    records.iter().map(|r| r.offset).collect()
}

/// Two interleaved producers: producer 1 aborts 0..4 and 10..12 and commits 20..22, producer 2
/// commits 5..9.
fn interleaved(codec: Compression) -> impl FnOnce(&mut Broker) {
    move |broker| {
        broker.append("t", 0, 5, transactional(0, 5, 1, codec));
        broker.append("t", 0, 8, transactional(5, 3, 2, codec));
        broker.append("t", 0, 9, marker(8, 1, false));
        broker.append("t", 0, 12, transactional(9, 3, 1, codec));
        broker.append("t", 0, 13, marker(12, 2, true));
        broker.append("t", 0, 14, marker(13, 1, false));
        broker.append("t", 0, 16, plain(14, 2));
        broker.append("t", 0, 18, transactional(16, 2, 1, codec));
        broker.append("t", 0, 19, marker(18, 1, true));
        broker.log("t", 0).aborted = vec![(1, 0), (1, 9)];
    }
}

/// librdkafka #3020: records of aborted transactions were returned if they were compressed.
/// Scenario 39, bug 10.
#[test]
fn aborted_data_is_never_delivered_whatever_the_codec() {
    for codec in Compression::ALL {
        let mut world = World::with_topic(committed(), 1, interleaved(codec));
        let got = world.drain_all();
        assert_eq!(offsets(&got), [5, 6, 7, 14, 15, 16, 17], "{codec}");
        assert_eq!(
            world.position(0),
            19,
            "{codec}: the position passed the last marker"
        );
    }
}

/// franz-go 1.21.4: if the list of aborted transactions was not sorted (as Redpanda's), some of
/// their records were returned. Scenario 39, bug 11.
#[test]
fn an_unsorted_aborted_list_leaks_nothing() {
    let mut world = World::with_topic(committed(), 1, |broker| {
        interleaved(Compression::None)(broker);
        broker.unsorted_aborted = true;
    });
    assert_eq!(offsets(&world.drain_all()), [5, 6, 7, 14, 15, 16, 17]);
}

#[test]
fn read_uncommitted_sees_all_data_and_no_markers() {
    let mut world = World::with_topic(config(), 1, interleaved(Compression::None));
    let got = offsets(&world.drain_all());
    assert_eq!(got, [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 14, 15, 16, 17]);
}

/// librdkafka 1.7.0: the abort marker of a transaction without data hid the next committed records
/// of its producer. Scenario 39, bug 10.
#[test]
fn an_abort_marker_without_data_hides_no_committed_records() {
    let mut world = World::with_topic(committed(), 1, |broker| {
        broker.append("t", 0, 1, marker(0, 1, false));
        broker.append("t", 0, 4, transactional(1, 3, 1, Compression::None));
        broker.append("t", 0, 5, marker(4, 1, true));
    });
    assert_eq!(offsets(&world.drain_all()), [1, 2, 3]);
}

#[test]
fn nothing_above_the_last_stable_offset_is_read() {
    let mut world = World::with_topic(committed(), 1, |broker| {
        broker.append("t", 0, 2, plain(0, 2));
        broker.append("t", 0, 5, transactional(2, 3, 1, Compression::None));
        broker.log("t", 0).last_stable = 2;
    });
    assert_eq!(offsets(&world.drain_all()), [0, 1]);
    world.broker.append("t", 0, 6, marker(5, 1, true));
    world.advance(Duration::from_secs(1));
    assert_eq!(offsets(&world.drain_all()), [2, 3, 4]);
}

/// Scenario 39.
#[test]
fn only_markers_move_the_position_without_records() {
    let mut world = World::with_topic(config(), 1, |broker| {
        for offset in 0..5 {
            broker.append("t", 0, offset + 1, marker(offset, 1, true));
        }
    });
    assert!(world.drain(100).expect("nothing to see").records.is_empty());
    assert_eq!(world.position(0), 5);
    world.broker.append("t", 0, 7, plain(5, 2));
    world.run();
    assert_eq!(world.drain(100).expect("records").offsets(0), [5, 6]);
}

/// kafka-python #1571, kafkajs #562, kafka-go #813, brod #263: consumers stopped at batches that
/// compaction had emptied, or requested them again and again. Scenario 38, bug 9.
#[test]
fn the_position_follows_the_batch_over_compacted_tails_and_empty_batches() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 100, compacted(0, &[3, 40], 99));
        broker.append("t", 0, 200, compacted(100, &[], 99));
        broker.append("t", 0, 300, compacted(200, &[0, 98], 99));
        broker.append("t", 0, 400, compacted(300, &[], 99));
    });
    let got = world.drain(1).expect("one record");
    assert_eq!((got.offsets(0), world.position(0)), (vec![3], 4));
    let got = world.drain(1).expect("one record");
    assert_eq!(got.offsets(0), [40]);
    assert_eq!(
        world.position(0),
        200,
        "behind the compacted tail and the empty batch"
    );
    assert_eq!(world.drain(100).expect("records").offsets(0), [200, 298]);
    assert_eq!(world.position(0), 400);
    let asked = world.broker.fetches().len();
    world.advance(Duration::from_secs(2));
    assert!(
        world.broker.fetches().len() - asked <= 5,
        "no loop at the end of a compacted log"
    );
}

#[test]
fn records_before_the_fetch_offset_in_its_batch_are_not_seen_again() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
    });
    world
        .consumer
        .seek(&crate::world::tp(0), 6, -1)
        .expect("assigned");
    world.run();
    assert_eq!(world.drain(100).expect("records").offsets(0), [6, 7, 8, 9]);
}

/// ruby-kafka #591: only the first batch of a fetch was decoded. Bug 17.
#[test]
fn every_batch_of_a_fetch_is_decoded() {
    let mut world = World::with_topic(config(), 1, |broker| {
        for batch in 0..50 {
            broker.append("t", 0, (batch + 1) * 3, plain(batch * 3, 3));
        }
    });
    assert_eq!(
        world.drain(usize::MAX).expect("records").offsets(0),
        (0..150).collect::<Vec<_>>()
    );
}
