//! Bounded ranges end by offset, and distinguish a gap from a loss.

use std::sync::Arc;
use std::time::Duration;

use thalweg_consumer::{
    ConsumerConfig, ConsumerError, IsolationLevel, LostRange, OffsetReset, Range, RangeLimits,
    RangeReader, RangeStep,
};
use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::fetch::FetchRequest;
use thalweg_records::Compression;

use crate::batches::{compacted, marker, plain, transactional};
use crate::broker::Broker;
use crate::world::{Collected, World, noop, tp};

pub(crate) fn config(isolation_level: IsolationLevel) -> ConsumerConfig {
    ConsumerConfig {
        isolation_level,
        auto_offset_reset: OffsetReset::None,
        ..ConsumerConfig::default()
    }
}

pub(crate) fn world(isolation_level: IsolationLevel, fill: impl FnOnce(&mut Broker)) -> World {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    fill(&mut broker);
    World::new(config(isolation_level), broker)
}

pub(crate) fn range(start: i64, end: i64) -> Range {
    of(0, start, end)
}

pub(crate) fn of(partition: i32, start: i64, end: i64) -> Range {
    Range {
        partition: tp(partition),
        start,
        end,
    }
}

pub(crate) fn lost(from: i64, to: i64) -> LostRange {
    LostRange {
        partition: tp(0),
        from,
        to,
    }
}

pub(crate) const STRICT: RangeLimits = RangeLimits {
    fail_on_data_loss: true,
    timeout: Duration::from_secs(120),
};
pub(crate) const TOLERANT: RangeLimits = RangeLimits {
    fail_on_data_loss: false,
    ..STRICT
};

/// What a reader returned.
#[derive(Debug)]
struct Read {
    /// By partition.
    offsets: Vec<(i32, i64)>,
    /// In virtual time.
    took: Duration,
    lost: Vec<LostRange>,
}

impl Read {
    /// Returns the offsets of partition 0.
    fn first(&self) -> Vec<i64> {
        self.of(0)
    }

    fn of(&self, partition: i32) -> Vec<i64> {
        let all = self.offsets.iter();
        all.filter(|each| each.0 == partition)
            .map(|each| each.1)
            .collect()
    }
}

/// Reads one range to its end.
fn read(world: &mut World, range: Range, limits: RangeLimits) -> Result<Read, ConsumerError> {
    read_all(world, vec![range], limits)
}

/// Reads ranges to their ends.
fn read_all(
    world: &mut World,
    ranges: Vec<Range>,
    limits: RangeLimits,
) -> Result<Read, ConsumerError> {
    let begun = world.now;
    let consumer = Arc::clone(&world.consumer);
    let mut offsets = Vec::new();
    let Some(mut reader) = RangeReader::new(consumer, ranges, limits, world.now) else {
        let (took, lost) = (Duration::ZERO, Vec::new());
        return Ok(Read {
            offsets,
            took,
            lost,
        });
    };
    loop {
        world.run();
        let mut sink = Collected {
            limit: Some(7),
            ..Collected::default()
        };
        let step = reader.poll(&mut sink, noop(), world.now)?;
        let taken = sink.records.iter();
        offsets.extend(taken.map(|taken| (taken.partition, taken.offset)));
        match step {
            RangeStep::Done => {
                let (took, lost) = (world.now - begun, reader.lost().to_vec());
                return Ok(Read {
                    offsets,
                    took,
                    lost,
                });
            }
            RangeStep::Pending => world.advance(Duration::from_millis(500)),
            RangeStep::Records(_) | RangeStep::SinkFull => {}
        }
    }
}

pub(crate) fn forty(broker: &mut Broker) {
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
        let read = read(&mut world, range(start, end), STRICT).expect("all there");
        assert_eq!(read.first(), (start..end).collect::<Vec<_>>());
        assert!(read.took < Duration::from_secs(1));
    }
}

#[test]
fn a_range_of_nothing_but_markers_ends_at_once() {
    let mut world = world(IsolationLevel::ReadCommitted, |broker| {
        for offset in 0..6 {
            broker.append("t", 0, offset + 1, marker(offset, 1, true));
        }
    });
    let read = read(&mut world, range(0, 6), STRICT).expect("markers are no loss");
    assert!(read.offsets.is_empty());
    assert!(
        read.took < Duration::from_secs(1),
        "it took {:?}",
        read.took
    );
}

#[test]
fn an_aborted_tail_and_compacted_holes_are_no_loss() {
    let mut world = world(IsolationLevel::ReadCommitted, |broker| {
        broker.append("t", 0, 20, compacted(0, &[2, 9], 19));
        broker.append("t", 0, 23, transactional(20, 3, 1, Compression::Lz4));
        broker.append("t", 0, 24, marker(23, 1, false));
        broker.log("t", 0).aborted = vec![(1, 20)];
    });
    let read = read(&mut world, range(0, 24), STRICT).expect("no loss");
    assert_eq!(read.first(), [2, 9]);
    assert!(read.took < Duration::from_secs(1) && read.lost.is_empty());
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
    let error = read(&mut strict, range(5, 30), STRICT).expect_err("5 to 25 are gone");
    assert!(is_loss(&error, 5, 25), "{error}");

    let mut lenient = world(IsolationLevel::ReadUncommitted, fill);
    let rest = read(&mut lenient, range(5, 30), TOLERANT).expect("it continues");
    assert_eq!(rest.first(), (25..30).collect::<Vec<_>>());
    assert_eq!(rest.lost, [lost(5, 25)]);

    let mut gone = world(IsolationLevel::ReadUncommitted, fill);
    let nothing = read(&mut gone, range(5, 20), TOLERANT).expect("nothing is left of it");
    assert!(nothing.offsets.is_empty());
    assert_eq!(nothing.lost, [lost(5, 20)]);
}

#[test]
fn a_range_beyond_the_log_is_a_loss_not_an_endless_wait() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    let error = read(&mut world, range(50, 60), STRICT).expect_err("the log ends at 40");
    assert!(is_loss(&error, 50, 60), "{error}");
}

#[test]
fn a_log_that_ends_inside_of_the_range_is_waited_for_within_the_timeout() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    let error = read(&mut world, range(30, 45), STRICT).expect_err("40 to 45 never come");
    assert!(is_loss(&error, 40, 45), "{error}");
}

#[test]
fn a_short_timeout_distinguishes_the_logs_end_from_a_slow_broker() {
    // Shorter than a broker waits for records: no fetch response arrives within it.
    let short = |limits| RangeLimits {
        timeout: Duration::from_millis(300),
        ..limits
    };
    let mut ended = world(IsolationLevel::ReadUncommitted, forty);
    let error = read(&mut ended, range(30, 45), short(STRICT)).expect_err("40 to 45 never come");
    assert!(is_loss(&error, 40, 45), "{error}");
    let rest = read(&mut ended, range(30, 45), short(TOLERANT)).expect("the rest is passed over");
    assert_eq!(rest.first(), (30..40).collect::<Vec<_>>());
    assert_eq!(rest.lost, [lost(40, 45)]);
    let mut slow = world(IsolationLevel::ReadUncommitted, forty);
    slow.run();
    let errors = &mut slow.broker.log("t", 0).errors;
    errors.extend(vec![ErrorCode::KAFKA_STORAGE_ERROR; 200]);
    let error = read(&mut slow, range(30, 45), short(STRICT)).expect_err("it cannot be fetched");
    assert!(matches!(error, ConsumerError::RangeTimeout { .. }));
}

#[test]
fn a_silent_broker_ends_in_a_timeout() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    world.run();
    world.broker.silent = true;
    let error = read(&mut world, range(0, 40), STRICT).expect_err("no response");
    assert!(matches!(error, ConsumerError::RangeTimeout { .. }));
}

#[test]
fn a_tail_that_compaction_removed_ends_after_a_little_patience() {
    // The records 40 to 49 were the last ones, and are gone. No batch shows that.
    let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
        forty(broker);
        broker.log("t", 0).high_watermark = 50;
    });
    let read = read(&mut world, range(35, 50), STRICT).expect("no loss");
    assert_eq!(read.first(), (35..40).collect::<Vec<_>>());
    assert!(read.lost.is_empty());
    assert!(read.took <= Duration::from_secs(6), "{:?}", read.took);
}

#[test]
fn a_topic_that_is_deleted_meanwhile_is_a_loss_or_passed_over() {
    for limits in [STRICT, TOLERANT] {
        let mut world = world(IsolationLevel::ReadUncommitted, forty);
        world.run();
        world.broker.delete("t");
        let begun = world.now;
        match read(&mut world, range(20, 60), limits) {
            Ok(read) => {
                assert!(!limits.fail_on_data_loss);
                assert_eq!(read.lost.last().map(|lost| lost.to), Some(60));
                assert!(read.took < Duration::from_secs(20), "{:?}", read.took);
            }
            Err(ConsumerError::DataLoss { to: 60, .. }) => assert!(limits.fail_on_data_loss),
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
    let short = RangeLimits {
        timeout: Duration::from_secs(1),
        ..TOLERANT
    };
    let read = read(&mut world, range(20, 60), short).expect("the topic is passed over");
    assert_eq!(read.lost.last().map(|lost| lost.to), Some(60));
    assert!(read.took < Duration::from_secs(5), "{:?}", read.took);
}

#[test]
fn a_leader_that_refuses_for_a_while_does_not_end_a_range() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    let consumer = Arc::clone(&world.consumer);
    let mut reader =
        RangeReader::new(consumer, vec![range(0, 40)], STRICT, world.now).expect("not empty");
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

/// Three partitions on two nodes, with forty records each.
fn three_partitions(isolation: IsolationLevel, change: impl FnOnce(&mut Broker)) -> World {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 3, 1);
    for partition in 0..3 {
        for batch in 0..4 {
            broker.append("t", partition, (batch + 1) * 10, plain(batch * 10, 10));
        }
    }
    broker.log("t", 1).leader = 2;
    change(&mut broker);
    World::new(config(isolation), broker)
}

#[test]
fn several_ranges_are_read_one_after_the_other_and_fetched_together() {
    let mut world = three_partitions(IsolationLevel::ReadUncommitted, |_| {});
    let ranges = vec![of(2, 5, 25), of(0, 0, 0), of(1, 30, 40), of(0, 12, 31)];
    let ranges: Vec<_> = ranges.into_iter().filter(|r| r.start < r.end).collect();
    let read = read_all(&mut world, ranges, STRICT).expect("all there");
    let wanted = (5..25).map(|offset| (2, offset));
    let wanted = wanted.chain((30..40).map(|offset| (1, offset)));
    let wanted = wanted.chain((12..31).map(|offset| (0, offset)));
    assert_eq!(read.offsets, wanted.collect::<Vec<_>>());
    assert!(read.took < Duration::from_secs(1), "{:?}", read.took);
    let first = world.broker.fetches()[0];
    let asked: usize = first
        .topics
        .iter()
        .map(|topic| topic.partitions.len())
        .sum();
    assert!(
        asked == 2 || asked == 1,
        "a node is asked for all its ranges at once: {asked}"
    );
    assert!(
        world.broker.fetches().len() <= 6,
        "{:?}",
        world.broker.fetches()
    );
}

#[test]
fn no_ranges_and_empty_ranges_have_no_reader() {
    let world = three_partitions(IsolationLevel::ReadUncommitted, |_| {});
    for ranges in [vec![], vec![of(0, 7, 7), of(1, 9, 3)]] {
        let consumer = Arc::clone(&world.consumer);
        assert!(RangeReader::new(consumer, ranges, STRICT, world.now).is_none());
    }
    assert!(world.consumer.partitions().assignment().is_empty());
}

#[test]
fn a_loss_in_a_later_range_costs_the_others_nothing() {
    let mut world = three_partitions(IsolationLevel::ReadUncommitted, |broker| {
        let log = broker.log("t", 2);
        log.log_start = 20;
        log.batches.drain(..2);
    });
    let ranges = vec![of(0, 0, 40), of(1, 0, 40), of(2, 5, 40)];
    let read = read_all(&mut world, ranges, TOLERANT).expect("the rest is there");
    assert_eq!(read.of(0), (0..40).collect::<Vec<_>>());
    assert_eq!(read.of(1), (0..40).collect::<Vec<_>>());
    assert_eq!(read.of(2), (20..40).collect::<Vec<_>>());
    assert_eq!(read.lost.len(), 1);
    assert_eq!((read.lost[0].from, read.lost[0].to), (5, 20));
    assert_eq!(read.lost[0].partition, tp(2));
}

#[test]
fn responses_of_another_node_do_not_end_a_range() {
    // Node 2 does not respond for a while. Node 1 does, and the end of the log on node 2 is known
    // from before: that must not look as if compaction had removed the records.
    let mut world = three_partitions(IsolationLevel::ReadUncommitted, |_| {});
    let consumer = Arc::clone(&world.consumer);
    let ranges = vec![of(1, 0, 40), of(0, 40, 60)];
    let mut reader = RangeReader::new(consumer, ranges, STRICT, world.now).expect("not empty");
    let mut offsets = Vec::new();
    let mut silent_until = None;
    for _ in 0..200 {
        world.run();
        let mut sink = Collected {
            limit: Some(10),
            ..Collected::default()
        };
        let step = reader.poll(&mut sink, noop(), world.now).expect("no loss");
        offsets.extend(sink.offsets(1));
        if silent_until.is_none() && offsets.len() == 10 {
            // The fetched records are dropped, and fetched again later.
            silent_until = Some(world.now + Duration::from_secs(20));
            world.broker.silent_node = Some(2);
            world.consumer.seek(&tp(1), 10, -1).expect("it is assigned");
        }
        if silent_until.is_some_and(|until| world.now >= until) {
            world.broker.silent_node = None;
        }
        if step == RangeStep::Pending {
            world.advance(Duration::from_millis(500));
        }
        if offsets.len() == 40 {
            break;
        }
    }
    assert_eq!(offsets, (0..40).collect::<Vec<_>>());
}

#[test]
fn the_next_fetch_is_in_flight_before_the_last_is_drained() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    for batch in 0..40 {
        broker.append("t", 0, (batch + 1) * 10, plain(batch * 10, 10));
    }
    let small_fetches = ConsumerConfig {
        max_partition_fetch_bytes: 1_000,
        ..config(IsolationLevel::ReadUncommitted)
    };
    let mut world = World::new(small_fetches, broker);
    let consumer = Arc::clone(&world.consumer);
    let ranges = vec![range(0, 400)];
    let mut reader = RangeReader::new(consumer, ranges, STRICT, world.now).expect("not empty");
    world.run();
    assert_eq!(world.broker.fetches().len(), 1);
    let mut sink = Collected {
        limit: Some(1),
        ..Collected::default()
    };
    let step = reader.poll(&mut sink, noop(), world.now).expect("no loss");
    assert_eq!(step, RangeStep::Records(1));
    world.run();
    let fetches = world.broker.fetches();
    let [first, second] = fetches[..] else {
        panic!("two fetches were expected: {fetches:?}");
    };
    let at = |fetch: &FetchRequest| fetch.topics[0].partitions[0].fetch_offset;
    assert_eq!(at(first), 0);
    assert!(
        at(second) > 1,
        "beyond the records that are fetched: {}",
        at(second)
    );
}

#[test]
fn a_small_range_of_a_long_log_fetches_little() {
    let mut world = world(IsolationLevel::ReadUncommitted, forty);
    world.run();
    read(&mut world, range(0, 3), STRICT).expect("all there");
    let fetches = world.broker.fetches();
    let asked = fetches[0].topics[0].partitions[0].partition_max_bytes;
    assert_eq!(asked, 64 * 1024);
    assert_eq!(fetches.len(), 1, "nothing after the range is fetched");
}

#[test]
fn one_consumer_reads_one_set_of_ranges_after_the_other() {
    let mut world = three_partitions(IsolationLevel::ReadUncommitted, |_| {});
    for (from, to) in [(0, 11), (11, 25), (3, 7), (25, 40)] {
        let ranges = vec![of(0, from, to), of(1, from, to)];
        let read = read_all(&mut world, ranges, STRICT).expect("all there");
        assert_eq!(read.of(0), (from..to).collect::<Vec<_>>());
        assert_eq!(read.of(1), (from..to).collect::<Vec<_>>());
    }
}

fn is_loss(error: &ConsumerError, from: i64, to: i64) -> bool {
    matches!(error, ConsumerError::DataLoss { from: f, to: t, .. } if (*f, *t) == (from, to))
}
