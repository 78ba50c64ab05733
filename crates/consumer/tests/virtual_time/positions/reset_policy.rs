//! Positions from the reset policy: where it leads, and errors of lookups on the way.

use std::time::Duration;

use thalweg_consumer::{ConsumerConfig, ConsumerError, OffsetReset};
use thalweg_protocol::ErrorCode;

use crate::batches::{in_epoch, plain};
use crate::broker::Broker;
use crate::positions::{resets, ten, validations, with_reset};
use crate::world::{NOW_MS, World, config, tp};

#[test]
fn policies_ask_the_leader_for_their_offset() {
    for (reset, asked, position) in [
        (OffsetReset::Earliest, -2, 3),
        (OffsetReset::Latest, -1, 10),
        (
            OffsetReset::ByDuration(Duration::from_millis(500)),
            NOW_MS - 500,
            7,
        ),
    ] {
        let world = World::with_topic(with_reset(reset), 1, |broker| {
            ten(broker);
            let log = broker.log("t", 0);
            log.log_start = 3;
            log.timestamps = vec![(5, NOW_MS - 900), (7, NOW_MS - 400)];
        });
        assert_eq!(resets(&world.broker), [asked]);
        assert_eq!(world.position(0), position, "{reset:?}");
    }
}

#[test]
fn a_duration_younger_than_every_record_ends_at_latest() {
    let reset = OffsetReset::ByDuration(Duration::from_millis(500));
    let world = World::with_topic(with_reset(reset), 1, ten);
    assert_eq!(resets(&world.broker), [NOW_MS - 500, -1]);
    assert_eq!(world.position(0), 10);
}

/// Without a backoff it would ask thousands of times a second, and then read from the end.
#[test]
fn a_start_of_the_log_without_an_offset_is_asked_for_again() {
    let mut world = World::with_topic(with_reset(OffsetReset::Earliest), 1, |broker| {
        ten(broker);
        broker.log("t", 0).log_start = -1;
    });
    world.advance(Duration::from_secs(1));
    let asked = resets(&world.broker);
    assert!((2..30).contains(&asked.len()), "{asked:?}");
    assert!(asked.iter().all(|timestamp| *timestamp == -2), "{asked:?}");
    world.broker.log("t", 0).log_start = 3;
    world.refresh_metadata();
    world.advance(Duration::from_secs(2));
    assert_eq!(world.position(0), 3);
}

#[test]
fn latest_is_the_last_stable_offset_under_read_committed() {
    let committed = ConsumerConfig {
        isolation_level: thalweg_consumer::IsolationLevel::ReadCommitted,
        ..with_reset(OffsetReset::Latest)
    };
    let world = World::with_topic(committed, 1, |broker| {
        ten(broker);
        broker.log("t", 0).last_stable = 6;
    });
    assert_eq!(world.position(0), 6);
}

/// The offset was deleted by retention, or is above the log's end. Earliest, latest and a duration
/// (KIP-1106) each move to their offset. Scenario 18.
#[test]
fn out_of_range_follows_the_policy() {
    for (reset, position) in [
        (OffsetReset::Earliest, 6),
        (OffsetReset::Latest, 10),
        (OffsetReset::ByDuration(Duration::from_millis(500)), 8),
    ] {
        let mut world = World::with_topic(with_reset(reset), 1, |broker| {
            ten(broker);
            let log = broker.log("t", 0);
            log.log_start = 6;
            log.timestamps = vec![(8, NOW_MS)];
        });
        world.consumer.seek(&tp(0), 2, -1).expect("assigned");
        world.advance(Duration::from_secs(1));
        assert_eq!(world.position(0), position, "{reset:?}");
        world.consumer.seek(&tp(0), 200, -1).expect("assigned");
        world.advance(Duration::from_secs(1));
        assert_eq!(
            world.position(0),
            position,
            "above the end as well: {reset:?}"
        );
    }
}

/// Scenario 18.
#[test]
fn out_of_range_without_a_policy_raises_with_partition_and_offset_and_others_flow() {
    let mut world = World::with_topic(with_reset(OffsetReset::None), 2, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
        broker.append("t", 1, 10, plain(0, 10));
        broker.log("t", 0).log_start = 6;
    });
    let error = world.drain(1).expect_err("there is no offset yet");
    assert!(matches!(error, ConsumerError::NoOffsetForPartition { .. }));
    world.consumer.seek(&tp(0), 2, -1).expect("assigned");
    world.consumer.seek(&tp(1), 0, -1).expect("assigned");
    world.run();
    let error = world.drain(100).expect_err("offset 2 is gone");
    let expected = ConsumerError::OffsetOutOfRange {
        partition: tp(0),
        offset: 2,
        log_start_offset: Some(6),
    };
    assert_eq!(error, expected);
    assert_eq!(world.position(0), 2, "the position has not moved");
    assert_eq!(world.drain(100).expect("records").offsets(1).len(), 10);
    // The error is raised once per attempt, not once per poll.
    assert!(world.drain(100).expect("nothing").records.is_empty());
    world.advance(Duration::from_secs(2));
    assert_eq!(world.drain(100).expect_err("tried again"), expected);
    world.consumer.seek(&tp(0), 6, -1).expect("assigned");
    world.advance(Duration::from_secs(1));
    assert_eq!(world.drain(100).expect("records").offsets(0), [6, 7, 8, 9]);
}

#[test]
fn a_reset_response_for_a_revoked_partition_is_ignored() {
    let mut world = World::with_topic(with_reset(OffsetReset::None), 1, ten);
    world.hold_responses = true;
    world
        .consumer
        .seek_to(&[tp(0)], OffsetReset::Latest)
        .expect("assigned");
    world.run();
    world.consumer.assign(&[]);
    world.consumer.assign(&[tp(0)]);
    world.hold_responses = false;
    world.deliver();
    assert_eq!(world.consumer.partitions().position(&tp(0)), Ok(None));
}

/// KIP-580: a leader that fails for a long time gets requests less and less often.
#[test]
fn waits_between_resets_grow() {
    let mut world = World::with_topic(with_reset(OffsetReset::Earliest), 1, |broker| {
        let unavailable = std::iter::repeat_n(ErrorCode::LEADER_NOT_AVAILABLE, 200);
        broker.list_errors = unavailable.collect();
    });
    world.advance(Duration::from_secs(20));
    let asked = resets(&world.broker).len();
    // 0.1, 0.2, 0.4, 0.8 s, then every second: about 23 within the jitter. Without growth it would
    // be 200.
    assert!((18..30).contains(&asked), "{asked}");
}

#[test]
fn retriable_list_offsets_errors_are_retried_after_a_wait() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    broker.list_errors.extend([
        ErrorCode::LEADER_NOT_AVAILABLE,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ]);
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    assert_eq!(resets(&world.broker).len(), 1);
    assert_eq!(world.consumer.partitions().position(&tp(0)), Ok(None));
    world.advance(Duration::from_secs(3));
    assert_eq!(resets(&world.broker).len(), 3);
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
}

#[test]
fn a_moved_leader_is_followed_without_an_error() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    assert_eq!(world.drain(4).expect("records").offsets(0).len(), 4);
    let log = world.broker.log("t", 0);
    (log.leader, log.leader_epoch) = (2, 2);
    log.epochs = vec![(1, 10)];
    world.broker.append("t", 0, 12, in_epoch(10, 2, 2));
    world.drain(6).expect("the rest");
    world.advance(Duration::from_secs(2));
    let got = world.drain(100).expect("records of the new leader");
    assert_eq!(got.offsets(0), [10, 11]);
    assert_eq!(got.records[0].leader_epoch, 2);
    assert_eq!(
        validations(&world.broker),
        1,
        "the new leader confirmed the position once"
    );
}
