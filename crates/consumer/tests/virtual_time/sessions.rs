//! Fetch sessions on the wire: incremental, reopened once, and still correct afterwards.

use std::time::Duration;

use thalweg_consumer::ConsumerConfig;
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::batches::plain;
use crate::broker::Seen;
use crate::world::{World, config};

fn epochs(world: &World) -> Vec<i32> {
    world
        .broker
        .fetches()
        .iter()
        .map(|request| request.session_epoch)
        .collect()
}

#[test]
fn a_thousand_idle_partitions_cost_one_full_request_and_then_only_changes() {
    let mut world = World::with_topic(config(), 1000, |_| {});
    world.run();
    assert_eq!(epochs(&world), [0]);
    assert_eq!(world.broker.fetches()[0].topics[0].partitions.len(), 1000);
    for round in 0..5 {
        world.broker.append("t", 7, round + 1, plain(round, 1));
        world.run();
        assert_eq!(world.drain(100).expect("one record").offsets(7), [round]);
        world.run();
    }
    world.advance(Duration::from_millis(600));
    let fetches = world.broker.fetches();
    assert!(fetches.len() > 5);
    for request in &fetches[1..] {
        let sent: usize = request.topics.iter().map(|t| t.partitions.len()).sum();
        let forgotten: usize = request
            .forgotten_topics_data
            .iter()
            .map(|t| t.partitions.len())
            .sum();
        assert!(
            request.session_epoch > 0 && sent <= 1 && forgotten <= 1,
            "{sent} {forgotten}"
        );
    }
}

#[test]
fn a_lost_session_is_opened_again_once_and_nothing_is_lost() {
    for (break_it, error) in [
        (
            (|world: &mut World| world.broker.forget_sessions()) as fn(&mut World),
            "id not found",
        ),
        (
            |world: &mut World| world.broker.session_epoch_skewed(),
            "epoch skewed",
        ),
    ] {
        let mut world = World::with_topic(config(), 2, |broker| {
            broker.append("t", 0, 5, plain(0, 5));
        });
        world.drain(100).expect("records");
        world.advance(Duration::from_millis(600));
        break_it(&mut world);
        let before = epochs(&world).len();
        world.advance(Duration::from_millis(600));
        world.broker.append("t", 1, 3, plain(0, 3));
        world.run();
        assert_eq!(
            world.drain(100).expect("records").offsets(1),
            [0, 1, 2],
            "{error}"
        );
        let full = epochs(&world)[before..]
            .iter()
            .filter(|epoch| **epoch == 0)
            .count();
        assert_eq!(full, 1, "{error}: opened again once");
        assert_eq!(
            world.consumer.metrics().fetch_session_reopened_total.get(),
            1
        );
    }
}

#[test]
fn a_broken_connection_opens_another_session() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 5, plain(0, 5));
    });
    world.drain(100).expect("records");
    world.run();
    world.disconnect();
    world.advance(Duration::from_secs(2));
    world.broker.append("t", 0, 8, plain(5, 3));
    world.run();
    assert_eq!(world.drain(100).expect("records").offsets(0), [5, 6, 7]);
    assert!(epochs(&world).iter().filter(|epoch| **epoch == 0).count() >= 2);
}

#[test]
fn a_broker_without_room_for_sessions_gets_full_requests() {
    let mut world = World::with_topic(config(), 2, |broker| {
        broker.sessionless = true;
        broker.append("t", 0, 5, plain(0, 5));
        broker.append("t", 1, 5, plain(0, 5));
    });
    assert_eq!(world.drain_all().len(), 10);
    assert!(epochs(&world).iter().all(|epoch| *epoch == 0));
}

#[test]
fn sessions_can_be_switched_off() {
    let off = ConsumerConfig {
        enable_incremental_fetch_sessions: false,
        ..config()
    };
    let mut world = World::with_topic(off, 1, |broker| {
        broker.append("t", 0, 5, plain(0, 5));
    });
    assert_eq!(world.drain_all().len(), 5);
    assert!(epochs(&world).iter().all(|epoch| *epoch == -1));
}

#[test]
fn topics_are_named_by_id_where_both_sides_can_and_by_name_else() {
    for (max, by_id) in [(17, true), (12, false), (4, false)] {
        let mut world = World::with_topic(config(), 2, |broker| {
            broker.max_versions.insert(ApiKey::FETCH.0, max);
            broker.append("t", 0, 5, plain(0, 5));
            broker.append("t", 1, 5, plain(0, 5));
        });
        assert_eq!(world.drain_all().len(), 10, "version {max}");
        for seen in &world.broker.seen {
            if let Seen::Fetch {
                version, request, ..
            } = seen
            {
                assert_eq!(*version, max);
                assert!(request.topics.iter().all(|t| t.topic.is_empty() == by_id));
            }
        }
    }
}

#[test]
fn partition_errors_are_retried_after_a_wait_and_nothing_is_lost() {
    for code in [
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::FENCED_LEADER_EPOCH,
        ErrorCode::UNKNOWN_LEADER_EPOCH,
        ErrorCode::UNKNOWN_TOPIC_ID,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode::KAFKA_STORAGE_ERROR,
        ErrorCode::OFFSET_NOT_AVAILABLE,
        ErrorCode::UNKNOWN_SERVER_ERROR,
    ] {
        let mut world = World::with_topic(config(), 2, |broker| {
            broker.append("t", 0, 5, plain(0, 5));
            broker.append("t", 1, 5, plain(0, 5));
            broker.log("t", 0).errors.extend([code; 3]);
        });
        let asked = world.broker.fetches().len();
        world.run();
        assert_eq!(world.broker.fetches().len(), asked, "{code:?}: no hot loop");
        assert_eq!(
            world.drain(100).expect("records").offsets(1).len(),
            5,
            "others flow"
        );
        world.advance(Duration::from_secs(4));
        assert_eq!(
            world.drain(100).expect("records").offsets(0),
            [0, 1, 2, 3, 4],
            "{code:?}"
        );
    }
}
