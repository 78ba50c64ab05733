//! Lookups of offsets while a range is read.

use std::sync::Arc;
use std::time::Duration;

use thalweg_consumer::{
    ConsumerConfig, ConsumerError, IsolationLevel, Range, RangeLimits, RangeReader, RangeStep,
    TopicPartition,
};
use thalweg_protocol::ApiKey;
use thalweg_records::Compression;

use crate::batches::{compressed, plain};
use crate::broker::Broker;
use crate::ranges::{STRICT, TOLERANT, config, forty, lost, of, range, world};
use crate::world::{Collected, World, noop};

#[test]
fn a_lookup_without_a_response_is_no_busy_loop() {
    let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
        forty(broker);
        broker.log("t", 0).log_start = 25;
    });
    let begun = world.now;
    let consumer = Arc::clone(&world.consumer);
    let mut reader =
        RangeReader::new(consumer, vec![range(5, 30)], STRICT, begun).expect("a range");
    let mut polls = 0;
    let error = loop {
        world.run();
        polls += 1;
        match reader.poll(&mut Collected::default(), noop(), world.now) {
            Ok(step) => assert_eq!(step, RangeStep::Pending),
            Err(error) => break error,
        }
        // The fetch was out of range, so this is the lookup.
        world.broker.silent = true;
        let wait = reader.deadline().saturating_duration_since(world.now);
        world.advance(wait.max(Duration::from_millis(1)));
    };
    assert!(
        matches!(
            error,
            ConsumerError::Timeout {
                what: "list_offsets",
                ..
            }
        ),
        "{error}"
    );
    let took = world.now - begun;
    assert!(took + Duration::from_secs(1) >= STRICT.timeout, "{took:?}");
    assert!(polls < 40, "{polls} polls");
}

/// A topic may be created again, shorter, and be deleted again: first the offset is out of range,
/// then no broker has the partition.
#[test]
fn a_partition_that_is_deleted_during_a_lookup_is_lost() {
    for (limits, timeout_s) in [(STRICT, 120), (TOLERANT, 120), (STRICT, 1), (TOLERANT, 1)] {
        let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
            forty(broker);
            broker.log("t", 0).log_start = 25;
        });
        let begun = world.now;
        let limits = RangeLimits {
            timeout: Duration::from_secs(timeout_s),
            ..limits
        };
        let consumer = Arc::clone(&world.consumer);
        let mut reader =
            RangeReader::new(consumer, vec![range(5, 30)], limits, begun).expect("a range");
        world.run();
        // The fetch was out of range, so this starts the lookup.
        let step = reader.poll(&mut Collected::default(), noop(), world.now);
        assert_eq!(step, Ok(RangeStep::Pending));
        world.broker.delete("t");
        let result = loop {
            world.advance(Duration::from_millis(100));
            match reader.poll(&mut Collected::default(), noop(), world.now) {
                Ok(RangeStep::Pending) => {}
                Ok(step) => break Ok(step),
                Err(error) => break Err(error),
            }
        };
        match result {
            Err(ConsumerError::DataLoss { from, to, .. }) if limits.fail_on_data_loss => {
                assert_eq!((from, to), (5, 30));
            }
            Ok(RangeStep::Done) if !limits.fail_on_data_loss => {
                assert_eq!(reader.lost(), [lost(5, 30)]);
            }
            other => panic!("{other:?}"),
        }
        let took = world.now - begun;
        assert!(took < Duration::from_secs(10), "{took:?}");
    }
}

/// Both ranges are out of range, and both partitions are deleted during the first lookup.
#[test]
fn two_partitions_that_are_deleted_during_a_lookup_are_both_lost() {
    let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
        broker.create("t", 2, 1);
        for partition in 0..2 {
            broker.append("t", partition, 10, plain(0, 10));
            broker.log("t", partition).log_start = 8;
        }
    });
    let begun = world.now;
    let ranges = (0..2).map(|partition| of(partition, 5, 9)).collect();
    let consumer = Arc::clone(&world.consumer);
    let mut reader = RangeReader::new(consumer, ranges, TOLERANT, begun).expect("two ranges");
    world.run();
    let step = reader.poll(&mut Collected::default(), noop(), world.now);
    assert_eq!(step, Ok(RangeStep::Pending));
    world.broker.delete("t");
    loop {
        world.advance(Duration::from_millis(100));
        match reader.poll(&mut Collected::default(), noop(), world.now) {
            Ok(RangeStep::Done) => break,
            step => assert_eq!(step, Ok(RangeStep::Pending)),
        }
    }
    let mut lost: Vec<_> = reader
        .lost()
        .iter()
        .map(|lost| (lost.partition.partition, lost.from, lost.to))
        .collect();
    lost.sort_unstable();
    assert_eq!(lost, [(0, 5, 9), (1, 5, 9)]);
    let took = world.now - begun;
    assert!(took < Duration::from_secs(7), "{took:?}");
}

/// The reader waits a while before it believes that a topic is gone. One wait for each of many
/// partitions would take minutes. The ranges of two topics alternate.
#[test]
fn ranges_of_topics_that_are_deleted_are_all_lost_after_one_wait_each() {
    let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
        for topic in ["t", "u"] {
            broker.create(topic, 25, 1);
            for partition in 0..25 {
                broker.append(topic, partition, 10, plain(0, 10));
            }
        }
    });
    let begun = world.now;
    let ranges = (0..50).map(|number| Range {
        partition: TopicPartition::new(["t", "u"][number as usize % 2], number / 2),
        start: 5,
        end: 20,
    });
    let ranges = ranges.collect();
    let consumer = Arc::clone(&world.consumer);
    let mut reader = RangeReader::new(consumer, ranges, TOLERANT, begun).expect("ranges");
    world.run();
    world.broker.delete("t");
    world.broker.delete("u");
    let mut sink = Collected::default();
    loop {
        match reader.poll(&mut sink, noop(), world.now) {
            Ok(RangeStep::Done) => break,
            Ok(RangeStep::Pending) => world.advance(Duration::from_millis(100)),
            step => assert!(matches!(step, Ok(RangeStep::Records(_))), "{step:?}"),
        }
    }
    let lost: usize = reader
        .lost()
        .iter()
        .map(|lost| (lost.to - lost.from) as usize)
        .sum();
    assert_eq!(sink.records.len() + lost, 50 * 15, "{lost} lost");
    let took = world.now - begun;
    assert!(took < Duration::from_secs(13), "{took:?}");
}

/// A fetch session leaves out partitions for which others left no room. On a slow link this lasts
/// longer than the reader's patience, and must not look as if compaction had removed the records.
#[test]
fn a_range_that_waits_for_its_turn_is_read_to_its_end() {
    for fetch_max_bytes in [200, 400, 1_000, 3_000] {
        for delay_ms in [1_000, 1_500, 2_300, 3_300, 6_000] {
            let mut broker = Broker::new(&[1]);
            broker.create("t", 12, 1);
            for partition in 0..12 {
                for batch in 0..6 {
                    let next_offset = (batch + 1) * 10;
                    broker.append("t", partition, next_offset, plain(batch * 10, 10));
                }
            }
            let config = ConsumerConfig {
                fetch_max_bytes,
                max_partition_fetch_bytes: fetch_max_bytes / 2,
                fetch_buffer_memory_bytes: 4 * fetch_max_bytes as usize,
                ..config(IsolationLevel::ReadUncommitted)
            };
            let mut world = World::new(config, broker);
            let ranges = (0..12).map(|partition| of(partition, 0, 60)).collect();
            let consumer = Arc::clone(&world.consumer);
            let mut reader = RangeReader::new(consumer, ranges, STRICT, world.now).expect("ranges");
            let mut sink = Collected::default();
            loop {
                match reader.poll(&mut sink, noop(), world.now).expect("no loss") {
                    RangeStep::Done => break,
                    RangeStep::Pending => {
                        world.advance(Duration::from_millis(delay_ms));
                        world.deliver_held();
                    }
                    step => assert!(matches!(step, RangeStep::Records(_)), "{step:?}"),
                }
            }
            let read = sink.records.len();
            assert_eq!(read, 12 * 60, "{fetch_max_bytes} bytes, {delay_ms} ms");
        }
    }
}

/// A broker returns nothing while it waits for its tiered storage (KIP-405).
#[test]
fn a_range_in_slow_tiered_storage_is_not_given_up() {
    for list_offsets_version in [11, 7] {
        let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
            forty(broker);
            broker.log("t", 0).local_start = 30;
            let api = ApiKey::LIST_OFFSETS.0;
            broker.max_versions.insert(api, list_offsets_version);
        });
        let consumer = Arc::clone(&world.consumer);
        let ranges = vec![range(5, 35)];
        let mut reader = RangeReader::new(consumer, ranges, STRICT, world.now).expect("a range");
        let begun = world.now;
        let mut sink = Collected::default();
        let result = loop {
            if world.now - begun > Duration::from_secs(60) {
                world.broker.log("t", 0).local_start = 0;
            }
            match reader.poll(&mut sink, noop(), world.now) {
                Ok(RangeStep::Pending) => world.advance(Duration::from_millis(200)),
                Ok(RangeStep::Records(_)) => {}
                other => break other,
            }
        };
        assert_eq!(result, Ok(RangeStep::Done));
        // Brokers of this version have no tiered storage, so this one has nothing at the position.
        let expected = if list_offsets_version < 8 { 0 } else { 30 };
        assert_eq!(sink.records.len(), expected);
    }
}

/// The leader found nothing twice, because its high watermark was behind. Then the records arrive,
/// and are still being decompressed when the reader looks at the ends of the log.
#[test]
fn records_that_are_still_being_decoded_do_not_count_as_removed() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    let consumer = Arc::clone(&world.consumer);
    let mut reader =
        RangeReader::new(consumer, vec![range(30, 50)], STRICT, world.now).expect("a range");
    let mut sink = Collected::default();
    let mut begun = world.now;
    while world.now - begun < Duration::from_millis(4_800) {
        world.advance(Duration::from_millis(100));
        let step = reader.poll(&mut sink, noop(), world.now);
        if let Ok(RangeStep::Records(_)) = step {
            begun = world.now;
        } else {
            assert_eq!(step, Ok(RangeStep::Pending));
        }
    }
    assert_eq!(sink.records.len(), 10);
    world.hold_jobs = true;
    let bytes = compressed(40, 10, 100, Compression::Zstd);
    world.broker.append("t", 0, 50, bytes);
    for _ in 0..10 {
        world.advance(Duration::from_millis(100));
        let step = reader.poll(&mut sink, noop(), world.now);
        assert_eq!(step, Ok(RangeStep::Pending));
    }
    assert_eq!(world.jobs.len(), 1, "a codec thread has not begun yet");
    world.hold_jobs = false;
    world.run_jobs();
    loop {
        match reader.poll(&mut sink, noop(), world.now) {
            Ok(RangeStep::Done) => break,
            Ok(RangeStep::Pending) => world.advance(Duration::from_millis(100)),
            step => assert!(matches!(step, Ok(RangeStep::Records(_))), "{step:?}"),
        }
    }
    let offsets: Vec<_> = sink.records.iter().map(|record| record.offset).collect();
    assert_eq!(offsets, (30..50).collect::<Vec<_>>());
}

/// The follower no longer copies the partition, but still serves what it has.
#[test]
fn the_end_of_a_closer_replica_that_is_behind_is_not_the_end_of_the_log() {
    for limits in [STRICT, TOLERANT] {
        let mut broker = Broker::new(&[1, 2]);
        broker.create("t", 1, 1);
        forty(&mut broker);
        let log = broker.log("t", 0);
        (log.preferred_replica, log.follower) = (2, Some(2));
        log.follower_end = Some(20);
        let near = ConsumerConfig {
            client_rack: "near".into(),
            ..config(IsolationLevel::ReadUncommitted)
        };
        let mut world = World::new(near, broker);
        let consumer = Arc::clone(&world.consumer);
        let ranges = vec![range(0, 40)];
        let mut reader = RangeReader::new(consumer, ranges, limits, world.now).expect("a range");
        let mut sink = Collected::default();
        let error = loop {
            match reader.poll(&mut sink, noop(), world.now) {
                Ok(RangeStep::Pending) => world.advance(Duration::from_secs(1)),
                Ok(step) => assert!(matches!(step, RangeStep::Records(_)), "{step:?}"),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, ConsumerError::RangeTimeout { .. }),
            "{error}"
        );
        assert_eq!(sink.records.len(), 20);
    }
}
