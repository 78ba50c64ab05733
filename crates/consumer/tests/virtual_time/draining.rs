//! The order in which polls drain the buffer: leftovers first, then rotation, with prefetching.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_consumer::{ConsumerConfig, Demand, OffsetReset};
use thalweg_protocol::ErrorCode;

use crate::batches::plain;
use crate::broker::{Broker, Seen};
use crate::world::{Collected, World, config, tp};

fn fill(broker: &mut Broker, partitions: i32, count: usize) {
    for partition in 0..partitions {
        broker.append("t", partition, count as i64, plain(0, count));
    }
}

fn fetched_partitions(broker: &Broker, from: usize) -> Vec<Vec<i32>> {
    broker.fetches()[from..]
        .iter()
        .map(|request| {
            request
                .topics
                .iter()
                .flat_map(|t| &t.partitions)
                .map(|p| p.partition)
                .collect()
        })
        .collect()
}

/// Returns the partitions in the broker's session: the result of all requests so far.
fn asked_of_the_broker(broker: &Broker) -> Vec<i32> {
    let mut covered = BTreeSet::new();
    for request in broker.fetches() {
        if request.session_epoch <= 0 {
            covered.clear();
        }
        for topic in &request.forgotten_topics_data {
            topic.partitions.iter().for_each(|p| {
                covered.remove(p);
            });
        }
        let asked = request.topics.iter().flat_map(|t| &t.partitions);
        covered.extend(asked.map(|p| p.partition));
    }
    covered.into_iter().collect()
}

/// Checks what each poll returns and fetches: 10 partitions of 1000 records, 100 per poll. Ten
/// polls empty a partition, and no request is sent before that.
#[test]
fn ten_partitions_are_drained_one_after_the_other_and_refetched_at_the_end_of_the_rotation() {
    let mut world = World::with_topic(config(), 10, |broker| fill(broker, 10, 1000));
    world.run();
    let mut rotation: Vec<i32> = (0..10).collect();
    for poll in 1..=30_i64 {
        let (drained, nth) = (((poll - 1) / 10) as i32, (poll - 1) % 10);
        assert_eq!(world.buffered(), rotation, "in front of poll {poll}");
        let asked = world.broker.fetches().len();
        let got = world.drain(100).expect("records");
        let expected: Vec<i64> = (nth * 100..nth * 100 + 100).collect();
        assert_eq!(got.offsets(drained), expected, "poll {poll}");
        assert_eq!(got.records.len(), 100, "poll {poll}: no other partition");
        assert_eq!(world.position(drained), nth * 100 + 100);
        if nth < 9 {
            world.run();
            assert_eq!(
                world.broker.fetches().len(),
                asked,
                "poll {poll}: nothing is fetched while all have undrained records"
            );
            continue;
        }
        // The partition is empty, and the broker has more records of all partitions. Only the
        // empty one is fetched.
        for partition in 0..10 {
            let end = world.broker.log("t", partition).end();
            world
                .broker
                .append("t", partition, end + 1000, plain(end, 1000));
        }
        world.run();
        assert_eq!(
            fetched_partitions(&world.broker, asked),
            [vec![drained]],
            "poll {poll}: one fetch, of the emptied partition"
        );
        assert_eq!(asked_of_the_broker(&world.broker), [drained]);
        rotation.rotate_left(1);
    }
    assert_eq!(rotation, [3, 4, 5, 6, 7, 8, 9, 0, 1, 2]);
    assert_eq!(world.buffered(), rotation, "those come last");
}

#[test]
fn leftovers_come_before_anything_newer() {
    let mut world = World::with_topic(config(), 1, |broker| fill(broker, 1, 10));
    world.run();
    world.broker.append("t", 0, 20, plain(10, 10));
    assert_eq!(
        world.drain(7).expect("records").offsets(0),
        (0..7).collect::<Vec<_>>()
    );
    world.run();
    assert_eq!(
        world.drain(7).expect("records").offsets(0),
        [7, 8, 9],
        "the rest of the first fetch"
    );
    world.run();
    assert_eq!(
        world.drain(100).expect("records").offsets(0),
        (10..20).collect::<Vec<_>>()
    );
}

#[test]
fn one_drain_never_mixes_two_fetches_and_the_next_fetch_is_on_its_way_meanwhile() {
    let mut world = World::with_topic(config(), 2, |broker| fill(broker, 2, 10));
    world.run();
    world.broker.append("t", 0, 20, plain(10, 10));
    let first = world.drain(10).expect("records");
    assert_eq!(first.offsets(0), (0..10).collect::<Vec<_>>());
    // The application processes those records. The next fetch is sent without a further call.
    let asked = world.broker.fetches().len();
    world.run();
    assert!(
        world.broker.fetches().len() > asked,
        "the next fetch is in flight"
    );
    assert_eq!(world.buffered(), [1, 0]);
    let second = world.drain(usize::MAX).expect("records");
    assert_eq!(second.offsets(1).len(), 10);
    assert_eq!(second.offsets(0), (10..20).collect::<Vec<_>>());
}

#[test]
fn what_arrives_during_a_drain_waits_for_the_next_one() {
    struct Refetching<'a>(&'a mut Collected, &'a mut dyn FnMut());
    impl thalweg_consumer::RecordSink for Refetching<'_> {
        fn begin_batch(
            &mut self,
            batch: &thalweg_consumer::BatchInfo<'_>,
        ) -> thalweg_consumer::Offer {
            // While partition 1 is drained, the response for partition 0 arrives.
            if batch.partition.partition == 1 {
                (self.1)();
            }
            self.0.begin_batch(batch)
        }
        fn record(&mut self, record: &thalweg_records::RecordRef<'_>) -> thalweg_consumer::Offer {
            self.0.record(record)
        }
    }
    let mut world = World::with_topic(config(), 2, |broker| fill(broker, 2, 10));
    world.run();
    world.broker.append("t", 0, 20, plain(10, 10));
    let consumer = std::sync::Arc::clone(&world.consumer);
    let mut collected = Collected::default();
    let mut crank = || world.run();
    let drained = consumer.drain(
        Demand::up_to(usize::MAX),
        &mut Refetching(&mut collected, &mut crank),
    );
    assert_eq!(drained.expect("records").records, 20);
    assert_eq!(
        collected.offsets(0),
        (0..10).collect::<Vec<_>>(),
        "only what had arrived before"
    );
    assert_eq!(world.buffered(), [0], "the second result is in the buffer");
    assert_eq!(
        world.drain(usize::MAX).expect("records").offsets(0),
        (10..20).collect::<Vec<_>>()
    );
}

#[test]
fn a_refused_record_stays_with_the_position_in_front_of_it() {
    let mut world = World::with_topic(config(), 1, |broker| fill(broker, 1, 10));
    world.run();
    let mut sink = Collected {
        limit: Some(4),
        ..Collected::default()
    };
    let drained = world
        .consumer
        .drain(Demand::up_to(usize::MAX), &mut sink)
        .expect("records");
    assert!(drained.refused);
    assert_eq!((drained.records, world.position(0)), (4, 4));
    let again = world
        .consumer
        .drain(Demand::up_to(usize::MAX), &mut sink)
        .expect("nothing is wrong");
    assert_eq!(
        (again.records, world.position(0)),
        (0, 4),
        "refused again, nothing moved"
    );
    assert_eq!(
        world.drain(usize::MAX).expect("records").offsets(0),
        (4..10).collect::<Vec<_>>()
    );
}

#[test]
fn results_from_before_a_seek_are_thrown_away() {
    let mut world = World::with_topic(config(), 1, |broker| fill(broker, 1, 10));
    world.hold_responses = true;
    world.drain(5).expect("records of the first fetch");
    world.broker.append("t", 0, 20, plain(10, 10));
    world.drain(100).expect("the rest");
    world.run();
    assert_eq!(
        world.responses.len(),
        1,
        "a response for offset 10 is in flight"
    );
    world.consumer.seek(&tp(0), 3, -1).expect("assigned");
    world.hold_responses = false;
    world.deliver();
    world.run();
    assert_eq!(world.drain(100).expect("records").offsets(0)[0], 3);
    assert_eq!(world.consumer.metrics().stale_results_total.get(), 1);
}

#[test]
fn buffered_records_of_an_old_position_or_assignment_are_never_handed_out() {
    let mut world = World::with_topic(config(), 3, |broker| fill(broker, 3, 10));
    world.run();
    world.drain(4).expect("four of partition 0");
    world.consumer.seek(&tp(0), 8, -1).expect("assigned");
    world.consumer.assign(&[tp(0), tp(2)]);
    assert_eq!(world.buffered(), [2], "the old ones are dropped at once");
    world.run();
    let got = world.drain(100).expect("records");
    assert_eq!(got.offsets(0), [8, 9]);
    assert!(got.offsets(1).is_empty());
    assert_eq!(
        got.offsets(2).len(),
        10,
        "what stays assigned keeps its buffer"
    );
}

#[test]
fn a_partition_assigned_again_does_not_get_the_old_responses() {
    let mut world = World::with_topic(config(), 1, |broker| fill(broker, 1, 10));
    world.hold_responses = true;
    world.drain(100).expect("records");
    world.broker.append("t", 0, 20, plain(10, 10));
    world.run();
    world.consumer.assign(&[]);
    world.consumer.assign(&[tp(0)]);
    world.hold_responses = false;
    world.deliver();
    world.run();
    assert_eq!(
        world.drain(100).expect("records").offsets(0)[0],
        0,
        "it begins again, at earliest"
    );
}

#[test]
fn pause_keeps_what_is_buffered_and_fetches_nothing() {
    let mut world = World::with_topic(config(), 2, |broker| fill(broker, 2, 10));
    world.run();
    world.drain(3).expect("three of partition 0");
    world.consumer.pause(&[tp(0)]).expect("assigned");
    let got = world.drain(100).expect("records");
    assert_eq!((got.offsets(0).len(), got.offsets(1).len()), (0, 10));
    let asked = world.broker.fetches().len();
    world.advance(Duration::from_secs(3));
    for request in &world.broker.fetches()[asked..] {
        let partitions = request.topics.iter().flat_map(|t| &t.partitions);
        assert!(
            partitions.clone().all(|p| p.partition != 0),
            "paused and buffered"
        );
    }
    world.consumer.resume(&[tp(0)]).expect("assigned");
    assert_eq!(
        world.drain(100).expect("records").offsets(0),
        (3..10).collect::<Vec<_>>()
    );
}

#[test]
fn a_result_for_a_partition_paused_meanwhile_is_thrown_away_and_fetched_again_later() {
    let mut world = World::with_topic(config(), 1, |broker| fill(broker, 1, 10));
    world.hold_responses = true;
    world.drain(100).expect("records");
    world.broker.append("t", 0, 20, plain(10, 10));
    world.run();
    world.consumer.pause(&[tp(0)]).expect("assigned");
    world.hold_responses = false;
    world.deliver();
    world.run();
    assert!(world.buffered().is_empty());
    world.consumer.resume(&[tp(0)]).expect("assigned");
    world.run();
    assert_eq!(
        world.drain(100).expect("records").offsets(0),
        (10..20).collect::<Vec<_>>()
    );
}

/// librdkafka #4637: resuming a partition that was not paused moved it back to an old offset. Bug
/// 13.
#[test]
fn resuming_what_is_not_paused_changes_nothing() {
    let mut world = World::with_topic(config(), 2, |broker| fill(broker, 2, 10));
    world.run();
    world.consumer.pause(&[tp(0)]).expect("assigned");
    world.consumer.resume(&[tp(0)]).expect("assigned");
    assert_eq!(world.drain(15).expect("records").records.len(), 15);
    world.hold_responses = true;
    world.broker.append("t", 0, 20, plain(10, 10));
    world.run();
    assert_eq!(world.responses.len(), 1, "a response is in flight");
    world.consumer.resume(&[tp(0), tp(1)]).expect("assigned");
    world.hold_responses = false;
    world.run();
    assert_eq!(world.consumer.metrics().stale_results_total.get(), 0);
    let got = world.drain(100).expect("records");
    assert_eq!(got.offsets(1), (5..10).collect::<Vec<_>>());
    assert_eq!(got.offsets(0), (10..20).collect::<Vec<_>>());
    assert!(world.drain_all().is_empty(), "each record once");
}

#[test]
fn a_node_with_undrained_records_is_not_made_to_wait() {
    let mut world = World::with_topic(config(), 2, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
    });
    world.run();
    world.drain(5).expect("five of partition 0");
    world.run();
    let Some(Seen::Fetch { request, .. }) = world.broker.seen.last() else {
        panic!("a fetch")
    };
    assert_eq!(
        request.max_wait_ms, 0,
        "partition 1 is looked at without waiting"
    );
    assert!(world.broker.held.is_empty());
    world.drain(5).expect("the rest");
    world.run();
    assert_eq!(
        world.broker.held.len(),
        1,
        "with nothing buffered the broker may hold the fetch"
    );
}

#[test]
fn partitions_rotate_under_a_small_fetch_limit() {
    let limits = ConsumerConfig {
        fetch_max_bytes: 600,
        max_partition_fetch_bytes: 600,
        ..config()
    };
    let mut world = World::with_topic(limits, 5, |broker| {
        for partition in 0..5 {
            for batch in 0..20_i64 {
                broker.append("t", partition, (batch + 1) * 10, plain(batch * 10, 10));
            }
        }
    });
    let mut served = Vec::new();
    while served.len() < 50 {
        world.run();
        let got = world.drain(10).expect("records");
        assert!(!got.records.is_empty(), "there is more");
        served.push(got.records[0].partition);
    }
    for partition in 0..5 {
        let times = served.iter().filter(|p| **p == partition).count();
        assert!(
            (8..=12).contains(&times),
            "partition {partition} was served {times} of 50 times"
        );
    }
}

#[test]
fn nothing_is_fetched_before_a_position_is_known() {
    let mut world = World::with_topic(
        ConsumerConfig {
            group_id: Some("g".into()),
            auto_offset_reset: OffsetReset::Earliest,
            ..config()
        },
        1,
        |broker| fill(broker, 1, 10),
    );
    world.advance(Duration::from_secs(1));
    assert!(world.broker.seen.is_empty());
    assert_eq!(world.consumer.awaiting_committed(), [tp(0)]);
}

/// This includes a seek to the offset where the drain began, which is still the position.
#[test]
fn a_seek_within_a_drain_is_the_last_word() {
    for to in [0, 3, 50] {
        let mut world = World::with_topic(config(), 1, |broker| fill(broker, 1, 100));
        let got = world
            .drain_seeking(20, 0, |consumer| {
                consumer.seek(&tp(0), to, -1).expect("assigned");
            })
            .expect("nothing is wrong here");
        assert_eq!(got.offsets(0), (0..20).collect::<Vec<_>>());
        assert_eq!(world.position(0), to);
        assert_eq!(world.drain_all()[0].offset, to);
    }
}

#[test]
fn a_seek_to_the_beginning_within_a_drain_is_looked_up() {
    let mut world = World::with_topic(config(), 1, |broker| fill(broker, 1, 100));
    let got = world.drain_seeking(20, 0, |consumer| {
        let earliest = OffsetReset::Earliest;
        consumer.seek_to(&[tp(0)], earliest).expect("assigned");
    });
    assert_eq!(got.expect("nothing is wrong here").records.len(), 20);
    world.run();
    assert_eq!(world.position(0), 0);
}

/// The records of a drain did not reach the application, so the next drain returns the same ones.
#[test]
fn a_drain_that_is_taken_back_is_handed_out_again() {
    let mut world = World::with_topic(config(), 3, |broker| fill(broker, 3, 100));
    world.run();
    let before = world.drain(30).expect("nothing is wrong here");
    let lost = world.drain(200).expect("nothing is wrong here");
    world.consumer.take_back();
    world.consumer.take_back();
    let mut all = before.records;
    all.extend(world.drain_all());
    assert_eq!(lost.records.len(), 200);
    for partition in 0..3 {
        let of = all.iter().filter(|record| record.partition == partition);
        let offsets: Vec<_> = of.map(|record| record.offset).collect();
        assert_eq!(offsets, (0..100).collect::<Vec<_>>(), "of {partition}");
    }
}

/// Its error must not undo the drain before, whose records did reach the application.
#[test]
fn a_drain_that_raises_an_error_has_nothing_to_take_back() {
    let mut world = World::with_topic(config(), 2, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
    });
    world.run();
    world.drain(10).expect("ten of partition 0");
    let denied = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    world.broker.log("t", 1).errors.push_back(denied);
    world.advance(Duration::from_secs(1));
    world.drain(10).expect_err("partition 1 is refused");
    world.consumer.take_back();
    assert_eq!(world.position(0), 10);
}
