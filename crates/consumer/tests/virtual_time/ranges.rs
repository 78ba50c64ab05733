//! Bounded ranges end by offset, and distinguish a gap from a loss.

use std::sync::Arc;
use std::time::Duration;

use thalweg_consumer::{
    ConsumerConfig, ConsumerError, IsolationLevel, OffsetReset, RANGE_EARLIEST, RANGE_LATEST,
    Range, RangeReader, RangeStep,
};
use thalweg_protocol::ErrorCode;
use thalweg_records::Compression;

use crate::batches::{compacted, marker, plain, transactional};
use crate::broker::Broker;
use crate::world::{Collected, World, noop, tp};

fn world(isolation_level: IsolationLevel, fill: impl FnOnce(&mut Broker)) -> World {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    fill(&mut broker);
    let config = ConsumerConfig {
        isolation_level,
        auto_offset_reset: OffsetReset::None,
        ..ConsumerConfig::default()
    };
    World::new(config, broker)
}

fn range(start: i64, end: i64) -> Range {
    Range {
        partition: tp(0),
        start,
        end,
        fail_on_data_loss: true,
        timeout: Duration::from_secs(120),
    }
}

/// Reads to the end. Also returns how long that took in virtual time.
fn read(
    world: &mut World,
    range: Range,
) -> Result<(Vec<i64>, Duration, RangeReader), ConsumerError> {
    let begun = world.now;
    let mut reader = RangeReader::new(Arc::clone(&world.consumer), range, world.now);
    let mut offsets = Vec::new();
    loop {
        world.run();
        let mut sink = Collected {
            limit: Some(7),
            ..Collected::default()
        };
        let step = reader.poll(&mut sink, noop(), world.now)?;
        offsets.extend(sink.offsets(0));
        match step {
            RangeStep::Done => return Ok((offsets, world.now - begun, reader)),
            RangeStep::Pending => world.advance(Duration::from_millis(500)),
            RangeStep::Records(_) | RangeStep::SinkFull => {}
        }
    }
}

fn forty(broker: &mut Broker) {
    for batch in 0..4 {
        broker.append("t", 0, (batch + 1) * 10, plain(batch * 10, 10));
    }
}

#[test]
fn exactly_the_range_is_read_and_not_a_record_more() {
    for (start, end) in [
        (0, 40),
        (3, 27),
        (10, 20),
        (15, 16),
        (39, 40),
        (5, 5),
        (8, 3),
    ] {
        let mut world = world(IsolationLevel::ReadUncommitted, forty);
        let (offsets, took, _) = read(&mut world, range(start, end)).expect("all there");
        assert_eq!(offsets, (start..end).collect::<Vec<_>>());
        assert!(took < Duration::from_secs(1));
    }
}

#[test]
fn earliest_and_latest_are_resolved_once() {
    let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
        forty(broker);
        broker.log("t", 0).log_start = 10;
    });
    let (offsets, _, reader) =
        read(&mut world, range(RANGE_EARLIEST, RANGE_LATEST)).expect("all there");
    assert_eq!(offsets, (10..40).collect::<Vec<_>>());
    assert_eq!(reader.offsets(), (10, 40));
}

#[test]
fn a_range_of_nothing_but_markers_ends_at_once() {
    let mut world = world(IsolationLevel::ReadCommitted, |broker| {
        for offset in 0..6 {
            broker.append("t", 0, offset + 1, marker(offset, 1, true));
        }
    });
    let (offsets, took, _) = read(&mut world, range(0, 6)).expect("markers are no loss");
    assert!(offsets.is_empty());
    assert!(took < Duration::from_secs(1), "it took {took:?}");
}

#[test]
fn an_aborted_tail_and_compacted_holes_are_no_loss() {
    let mut world = world(IsolationLevel::ReadCommitted, |broker| {
        broker.append("t", 0, 20, compacted(0, &[2, 9], 19));
        broker.append("t", 0, 23, transactional(20, 3, 1, Compression::Lz4));
        broker.append("t", 0, 24, marker(23, 1, false));
        broker.log("t", 0).aborted = vec![(1, 20)];
    });
    let (offsets, took, reader) = read(&mut world, range(0, 24)).expect("no loss");
    assert_eq!(offsets, [2, 9]);
    assert!(took < Duration::from_secs(1) && reader.lost().is_empty());
}

#[test]
fn aged_out_records_are_an_error_or_are_skipped_and_counted() {
    let fill = |broker: &mut Broker| {
        forty(broker);
        let log = broker.log("t", 0);
        log.log_start = 25;
        log.batches.drain(..2);
    };
    let mut strict = world(IsolationLevel::ReadUncommitted, fill);
    let error = read(&mut strict, range(5, 30)).expect_err("5 to 25 are gone");
    assert!(
        matches!(
            error,
            ConsumerError::DataLoss {
                from: 5,
                to: 25,
                ..
            }
        ),
        "{error}"
    );

    let mut lenient = world(IsolationLevel::ReadUncommitted, fill);
    let tolerant = Range {
        fail_on_data_loss: false,
        ..range(5, 30)
    };
    let (offsets, _, reader) = read(&mut lenient, tolerant).expect("it continues");
    assert_eq!(offsets, (25..30).collect::<Vec<_>>());
    assert_eq!(reader.lost(), [(5, 25)]);

    let mut gone = world(IsolationLevel::ReadUncommitted, fill);
    let tolerant = Range {
        fail_on_data_loss: false,
        ..range(5, 20)
    };
    let (offsets, _, reader) = read(&mut gone, tolerant).expect("nothing is left of it");
    assert!(offsets.is_empty());
    assert_eq!(reader.lost(), [(5, 20)]);
}

#[test]
fn a_range_beyond_the_log_is_a_loss_not_an_endless_wait() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    let error = read(&mut world, range(50, 60)).expect_err("the log ends at 40");
    assert!(
        matches!(
            error,
            ConsumerError::DataLoss {
                from: 50,
                to: 60,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_log_that_ends_inside_of_the_range_is_waited_for_within_the_timeout() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    let error = read(&mut world, range(30, 45)).expect_err("40 to 45 never come");
    assert!(
        matches!(
            error,
            ConsumerError::DataLoss {
                from: 40,
                to: 45,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_short_timeout_distinguishes_the_logs_end_from_a_slow_broker() {
    // Shorter than a broker waits for records: no fetch response arrives within it.
    let short = Range {
        timeout: Duration::from_millis(300),
        ..range(30, 45)
    };
    let mut ended = world(IsolationLevel::ReadUncommitted, forty);
    let error = read(&mut ended, short.clone()).expect_err("40 to 45 never come");
    assert!(
        matches!(error, ConsumerError::DataLoss { from: 40, .. }),
        "{error}"
    );
    let tolerant = Range {
        fail_on_data_loss: false,
        ..short.clone()
    };
    let (offsets, _, reader) = read(&mut ended, tolerant).expect("the rest is passed over");
    assert_eq!(offsets, (30..40).collect::<Vec<_>>());
    assert_eq!(reader.lost(), [(40, 45)]);
    let mut slow = world(IsolationLevel::ReadUncommitted, forty);
    slow.run();
    let errors = &mut slow.broker.log("t", 0).errors;
    errors.extend(vec![ErrorCode::KAFKA_STORAGE_ERROR; 200]);
    let error = read(&mut slow, short).expect_err("its records cannot be fetched");
    assert!(matches!(error, ConsumerError::Timeout { .. }), "{error}");
}

#[test]
fn a_silent_broker_ends_in_a_timeout() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    world.run();
    world.broker.silent = true;
    let error = read(&mut world, range(0, 40)).expect_err("no answer");
    assert!(matches!(error, ConsumerError::Timeout { .. }), "{error}");
}

#[test]
fn a_tail_that_compaction_removed_ends_after_a_little_patience() {
    // The records 40 to 49 were the last ones, and are gone. No batch shows that.
    let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
        forty(broker);
        broker.log("t", 0).high_watermark = 50;
    });
    let (offsets, took, reader) = read(&mut world, range(35, 50)).expect("no loss");
    assert_eq!(offsets, (35..40).collect::<Vec<_>>());
    assert!(reader.lost().is_empty());
    assert!(took <= Duration::from_secs(6), "{took:?}");
}

#[test]
fn a_topic_that_is_deleted_meanwhile_is_a_loss_or_passed_over() {
    for fail_on_data_loss in [true, false] {
        let mut world = world(IsolationLevel::ReadUncommitted, forty);
        world.run();
        world.broker.delete("t");
        let range = Range {
            fail_on_data_loss,
            ..range(20, 60)
        };
        let begun = world.now;
        match read(&mut world, range) {
            Ok((_, took, reader)) => {
                assert!(!fail_on_data_loss);
                assert_eq!(reader.lost().last().map(|lost| lost.1), Some(60));
                assert!(took < Duration::from_secs(20), "{took:?}");
            }
            Err(ConsumerError::DataLoss { to: 60, .. }) => assert!(fail_on_data_loss),
            Err(error) => panic!("{error}"),
        }
        assert!(world.now - begun < Duration::from_secs(20));
    }
}

#[test]
fn a_short_timeout_distinguishes_a_deleted_topic_from_a_slow_broker() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    world.run();
    world.broker.delete("t");
    let short = Range {
        timeout: Duration::from_secs(1),
        fail_on_data_loss: false,
        ..range(20, 60)
    };
    let (_, took, reader) = read(&mut world, short).expect("the topic is passed over");
    assert_eq!(reader.lost().last().map(|lost| lost.1), Some(60));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_leader_that_refuses_for_a_while_does_not_end_a_range() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    let mut reader = RangeReader::new(Arc::clone(&world.consumer), range(0, 40), world.now);
    let mut offsets = Vec::new();
    let mut refused = false;
    loop {
        world.run();
        let mut sink = Collected {
            limit: Some(10),
            ..Collected::default()
        };
        let step = reader.poll(&mut sink, noop(), world.now).expect("no loss");
        offsets.extend(sink.offsets(0));
        if offsets.len() >= 10 && !refused {
            refused = true;
            let errors = &mut world.broker.log("t", 0).errors;
            errors.extend(vec![ErrorCode::KAFKA_STORAGE_ERROR; 40]);
            world.consumer.seek(&tp(0), 10, -1).expect("it is assigned");
        }
        match step {
            RangeStep::Done => break,
            RangeStep::Pending => world.advance(Duration::from_millis(500)),
            RangeStep::Records(_) | RangeStep::SinkFull => {}
        }
    }
    assert_eq!(offsets.last(), Some(&39));
    assert!((10..40).all(|offset| offsets.contains(&offset)));
}
