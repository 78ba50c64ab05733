//! Lookups of offsets while a range is read.

use std::sync::Arc;
use std::time::Duration;

use thalweg_consumer::{
    ConsumerError, IsolationLevel, Range, RangeLimits, RangeReader, RangeStep, TopicPartition,
};

use crate::batches::plain;
use crate::ranges::{STRICT, TOLERANT, forty, lost, of, range, world};
use crate::world::{Collected, noop};

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
