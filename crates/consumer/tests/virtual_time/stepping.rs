//! One record at a time, with the fetch in hand, outside of the buffer, between two steps.

use std::sync::Arc;
use std::time::Duration;

use thalweg_cluster::Role;
use thalweg_consumer::{
    BatchInfo, ConsumerConfig, ConsumerError, Demand, FetchPosition, Offer, OffsetReset, RecordSink,
};
use thalweg_protocol::ErrorCode;
use thalweg_records::RecordRef;

use crate::batches::{compacted, in_epoch, plain};
use crate::broker::Broker;
use crate::world::{World, config, tp};

fn of_two_batches(partitions: i32) -> World {
    World::with_topic(config(), partitions, |broker| {
        for partition in 0..partitions {
            broker.append("t", partition, 10, plain(0, 10));
            broker.append("t", partition, 20, plain(10, 10));
        }
    })
}

/// Takes this many steps, each with a record. Returns partition and offset of each.
fn steps(world: &mut World, count: usize) -> Vec<(i32, i64)> {
    let mut all = Vec::new();
    for _ in 0..count {
        let got = world.step().expect("a record").records;
        assert_eq!(got.len(), 1);
        all.push((got[0].partition, got[0].offset));
    }
    all
}

fn of(partition: i32, offsets: std::ops::Range<i64>) -> Vec<(i32, i64)> {
    offsets.map(|offset| (partition, offset)).collect()
}

/// Refuses the first record that it gets, as a sink without memory would.
#[derive(Default)]
struct RefusingOnce {
    offered: usize,
}

impl RecordSink for RefusingOnce {
    fn begin_batch(&mut self, _: &BatchInfo<'_>) -> Offer {
        Offer::Taken
    }

    fn record(&mut self, _: &RecordRef<'_>) -> Offer {
        self.offered += 1;
        if self.offered == 1 {
            Offer::Refused
        } else {
            Offer::Taken
        }
    }
}

/// Runs a function while a record is being built.
pub(crate) struct Meanwhile<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> RecordSink for Meanwhile<F> {
    fn begin_batch(&mut self, _: &BatchInfo<'_>) -> Offer {
        Offer::Taken
    }

    fn record(&mut self, _: &RecordRef<'_>) -> Offer {
        (self.0)();
        Offer::Taken
    }
}

/// Takes a step that returns a record, and calls `something` during it.
fn step_while(world: &mut World, mut something: impl FnMut(&mut World)) {
    let consumer = Arc::clone(&world.consumer);
    let mut sink = Meanwhile(|| something(world));
    let drained = consumer.drain(Demand::step(), &mut sink).expect("a record");
    assert_eq!(drained.records, 1);
}

#[test]
fn steps_give_each_record_once_and_the_memory_back() {
    let mut world = of_two_batches(2);
    let expected = [of(0, 0..20), of(1, 0..20)].concat();
    assert_eq!(steps(&mut world, 40), expected);
    assert!(world.step().expect("nothing").records.is_empty());
    assert_eq!(world.consumer.buffered_bytes().0, 0);
    assert_eq!(world.consumer.metrics().records_consumed_total.get(), 40);
}

#[test]
fn after_any_step_everybody_sees_where_it_has_come_to() {
    for count in 1..20_usize {
        let mut world = of_two_batches(1);
        steps(&mut world, count);
        let at = count as i64;
        let found = world.consumer.find_position(&tp(0)).expect("assigned");
        assert_eq!(found.map(|position| position.offset), Some(at));

        let mut world = of_two_batches(1);
        steps(&mut world, count);
        let committed = world.consumer.partitions().all_consumed();
        assert_eq!(committed[0].1.offset, at);

        let mut world = of_two_batches(1);
        steps(&mut world, count);
        assert!(world.consumer.has_drainable());
        assert_eq!(world.buffered(), [0], "its rest counts");
        assert_eq!(
            world.drain(100).expect("the rest").offsets(0),
            (at..20).collect::<Vec<_>>()
        );

        let mut world = of_two_batches(1);
        steps(&mut world, count);
        let _ = world.consumer.metrics_snapshot(world.now);
        let consumed = &world.consumer.metrics().records_consumed_total;
        assert_eq!(consumed.get(), count as u64);
    }
}

#[test]
fn a_seek_a_pause_and_a_revocation_between_two_steps_hold() {
    let mut world = of_two_batches(2);
    steps(&mut world, 4);
    world.consumer.seek(&tp(0), 1, -1).expect("assigned");
    world.run();
    // Records of the other partition that are buffered come first.
    assert_eq!(steps(&mut world, 20), of(1, 0..20));
    assert_eq!(steps(&mut world, 3), of(0, 1..4));
    world.consumer.pause(&[tp(0)]).expect("assigned");
    assert!(world.step().expect("nothing").records.is_empty());
    assert_eq!(world.position(0), 4);
    world.consumer.resume(&[tp(0)]).expect("assigned");
    assert_eq!(steps(&mut world, 2), of(0, 4..6));
    world.consumer.assign(&[tp(1)]);
    assert!(world.step().expect("nothing").records.is_empty());
    assert_eq!(world.consumer.buffered_bytes().0, 0, "its memory is back");
}

#[test]
fn what_changes_during_a_step_holds_for_the_next_one() {
    let mut world = of_two_batches(1);
    steps(&mut world, 3);
    step_while(&mut world, |world| {
        world.consumer.seek(&tp(0), 12, -1).expect("assigned");
        world.run();
    });
    assert_eq!(steps(&mut world, 3), of(0, 12..15));
    step_while(&mut world, |world| {
        world.consumer.pause(&[tp(0)]).expect("assigned");
    });
    assert!(world.step().expect("nothing").records.is_empty());
    world.consumer.resume(&[tp(0)]).expect("assigned");
    step_while(&mut world, |world| world.consumer.assign(&[]));
    assert!(world.step().expect("nothing").records.is_empty());
    assert_eq!(world.consumer.buffered_bytes().0, 0);
}

/// The error is about another partition. This partition is in hand, and nothing about it has
/// changed.
#[test]
fn an_error_is_raised_by_the_next_step() {
    let mut world = World::with_topic(config(), 2, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
    });
    steps(&mut world, 4);
    let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    world.broker.log("t", 1).errors.push_back(refused);
    world.advance(Duration::from_secs(1));
    let error = world.step().expect_err("raised amid the batch");
    let expected = "not authorized to access topics: t. User:ANONYMOUS needs READ on topic 't'";
    assert_eq!(error.to_string(), expected);
    assert_eq!(world.position(0), 4, "and nothing is lost");
    assert_eq!(steps(&mut world, 2), of(0, 4..6));
}

#[test]
fn a_record_that_is_refused_is_offered_once_a_step() {
    for taken in 1..9 {
        let mut world = of_two_batches(2);
        steps(&mut world, taken);
        let mut sink = RefusingOnce::default();
        let drained = world
            .consumer
            .drain(Demand::step(), &mut sink)
            .expect("refused");
        assert_eq!((drained.records, drained.refused), (0, true));
        assert_eq!(sink.offered, 1);
        let rest = of(0, taken as i64..20);
        let expected = [of(1, 0..20), rest].concat();
        assert_eq!(steps(&mut world, 40 - taken), expected, "others pass it");
    }
}

/// No broker writes such a batch, but it must not block the records after it.
#[test]
fn a_batch_whose_offsets_do_not_grow_ends_early() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 10, compacted(0, &[0, 5, 1, 2, 3], 9));
        broker.append("t", 0, 20, plain(10, 10));
        broker.append("t", 0, 30, compacted(20, &[0, 5, 9, 2, 3], 9));
    });
    let expected = [
        vec![(0, 0), (0, 5)],
        of(0, 10..20),
        vec![(0, 20), (0, 25), (0, 29)],
    ];
    assert_eq!(steps(&mut world, 15), expected.concat());
    assert!(world.step().expect("nothing").records.is_empty());
    assert_eq!(world.consumer.buffered_bytes().0, 0);
    assert_eq!(world.position(0), 30);
    world.broker.append("t", 0, 40, plain(30, 10));
    world.advance(Duration::from_secs(1));
    assert_eq!(steps(&mut world, 10), of(0, 30..40));
}

/// Returns a consumer without a policy that takes eight of ten steps. During the last one, the log
/// is truncated at 6 and `during` is called.
fn cut_after_eight(mut during: impl FnMut(&mut World)) -> World {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 1, 1);
    broker.append("t", 0, 10, plain(0, 10));
    let without_policy = ConsumerConfig {
        auto_offset_reset: OffsetReset::None,
        ..config()
    };
    let mut world = World::new(without_policy, broker);
    world.assign_all(1);
    world.consumer.seek(&tp(0), 0, -1).expect("assigned");
    world.run();
    assert_eq!(steps(&mut world, 7), of(0, 0..7));
    step_while(&mut world, |world| {
        let log = world.broker.log("t", 0);
        log.batches.clear();
        (log.leader, log.leader_epoch, log.epochs) = (2, 2, vec![(1, 6)]);
        world.broker.append("t", 0, 6, plain(0, 6));
        world.broker.append("t", 0, 14, in_epoch(6, 8, 2));
        during(world);
    });
    world
}

fn expect_cut(world: &mut World) {
    let expected = ConsumerError::LogTruncation {
        partition: tp(0),
        offset: 8,
        leader_epoch: 1,
        diverging: Some(FetchPosition {
            offset: 6,
            leader_epoch: 1,
        }),
    };
    assert_eq!(world.step().expect_err("cut off below 8"), expected);
}

/// The new leader must confirm the record that was returned last, not the first one of the batch.
/// Otherwise a truncation between the two would not be detected (KIP-320).
#[test]
fn a_cut_amid_the_steps_is_found_out() {
    let mut world = cut_after_eight(|_| {});
    world.hear_of_leader(0, 2, 2);
    world.advance(Duration::from_secs(2));
    expect_cut(&mut world);
}

/// The I/O thread learns of the leader while a step runs and nothing can be settled.
#[test]
fn a_cut_that_is_told_of_during_a_step_is_found_out() {
    let mut world = cut_after_eight(|world| {
        world.hold_responses = true;
        world.hear_of_leader(0, 2, 2);
        world.run();
    });
    world.hold_responses = false;
    world.advance(Duration::from_secs(2));
    expect_cut(&mut world);
}

#[test]
fn what_is_in_hand_goes_when_the_consumer_is_closed() {
    let mut world = of_two_batches(1);
    steps(&mut world, 4);
    world.fetcher.abort(world.now);
    assert_eq!(world.consumer.buffered_bytes().0, 0);
}
