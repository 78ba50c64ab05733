//! `update_fetch_positions`: committed offsets, resets, out of range, truncation, new leaders.

use std::time::Duration;

use thalweg_cluster::ConnectionError;
use thalweg_consumer::{
    ConsumerConfig, ConsumerError, FetchPosition, OffsetReset, OffsetSpec, TopicPartition,
};
use thalweg_protocol::{ErrorCode, Uuid};

use crate::batches::{in_epoch, plain};
use crate::broker::{Broker, Seen};
use crate::world::{NOW_MS, World, config, tp};

fn with_reset(reset: OffsetReset) -> ConsumerConfig {
    ConsumerConfig {
        auto_offset_reset: reset,
        ..config()
    }
}

fn with_group(reset: OffsetReset) -> ConsumerConfig {
    ConsumerConfig {
        group_id: Some("g".into()),
        ..with_reset(reset)
    }
}

fn ten(broker: &mut Broker) {
    broker.append("t", 0, 10, plain(0, 10));
}

fn resets(broker: &Broker) -> Vec<i64> {
    broker
        .seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::ListOffsets { request, .. } => Some(request.topics[0].partitions[0].timestamp),
            _ => None,
        })
        .collect()
}

fn validations(broker: &Broker) -> usize {
    broker
        .seen
        .iter()
        .filter(|s| matches!(s, Seen::OffsetForLeaderEpoch))
        .count()
}

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

#[test]
fn committed_offsets_come_before_the_policy() {
    let mut world = World::with_topic(with_group(OffsetReset::Latest), 2, ten);
    assert_eq!(world.consumer.awaiting_committed(), [tp(0), tp(1)]);
    let committed = FetchPosition {
        offset: 4,
        leader_epoch: -1,
    };
    world
        .consumer
        .set_committed(&[(tp(0), Some(committed)), (tp(1), None)]);
    world.run();
    assert_eq!((world.position(0), world.position(1)), (4, 0));
    assert_eq!(
        resets(&world.broker),
        [-1],
        "only the partition without a commit is reset"
    );
    assert!(world.consumer.awaiting_committed().is_empty());
}

/// Here only the notification of `set_committed` drives the client.
#[test]
fn without_a_commit_the_policy_applies_whenever_that_is_told() {
    for before_metadata in [true, false] {
        let mut broker = Broker::new(&[1]);
        broker.create("t", 1, 1);
        ten(&mut broker);
        let mut world = World::new(with_group(OffsetReset::Earliest), broker);
        world.consumer.assign(&[tp(0)]);
        if !before_metadata {
            world.run();
        }
        world.consumer.set_committed(&[(tp(0), None)]);
        world.run();
        assert_eq!(resets(&world.broker), [-2], "asked at once");
        assert_eq!(
            world.drain(100).expect("records").offsets(0).len(),
            10,
            "before metadata: {before_metadata}"
        );
    }
}

#[test]
fn a_committed_offset_with_an_epoch_is_validated_first() {
    let mut world = World::with_topic(with_group(OffsetReset::Earliest), 1, |broker| {
        ten(broker);
        broker.log("t", 0).epochs = vec![(0, 2), (1, 10)];
    });
    let committed = FetchPosition {
        offset: 4,
        leader_epoch: 0,
    };
    world.consumer.set_committed(&[(tp(0), Some(committed))]);
    world.run();
    assert_eq!(
        world.position(0),
        2,
        "epoch 0 ended at 2: what was read above was cut off"
    );
}

/// franz-go 1.21.4: committed offsets that arrived late undid a seek. Bug 11.
#[test]
fn a_late_committed_offset_does_not_undo_a_seek() {
    let mut world = World::with_topic(with_group(OffsetReset::Earliest), 1, ten);
    world.consumer.seek(&tp(0), 8, -1).expect("assigned");
    let committed = FetchPosition {
        offset: 1,
        leader_epoch: -1,
    };
    world.consumer.set_committed(&[(tp(0), Some(committed))]);
    world.run();
    assert_eq!(world.drain(100).expect("records").offsets(0), [8, 9]);
}

#[test]
fn no_commit_and_no_policy_names_the_partitions_and_asks_again_later() {
    let mut world = World::with_topic(with_group(OffsetReset::None), 3, ten);
    let known = FetchPosition {
        offset: 0,
        leader_epoch: -1,
    };
    world
        .consumer
        .set_committed(&[(tp(0), Some(known)), (tp(1), None), (tp(2), None)]);
    world.run();
    let error = world.drain(100).expect_err("two partitions have no offset");
    assert_eq!(
        error,
        ConsumerError::NoOffsetForPartition {
            partitions: vec![tp(1), tp(2)]
        }
    );
    assert_eq!(world.drain(100).expect("raised once").offsets(0).len(), 10);
    world.advance(Duration::from_secs(2));
    assert_eq!(
        world.consumer.awaiting_committed(),
        [tp(1), tp(2)],
        "somebody may have committed"
    );
    world.consumer.seek(&tp(1), 0, -1).expect("assigned");
    world.consumer.set_committed(&[(tp(2), None)]);
    world.run();
    let error = world.drain(100).expect_err("one is left");
    assert_eq!(
        error,
        ConsumerError::NoOffsetForPartition {
            partitions: vec![tp(2)]
        }
    );
}

/// A call that waits for a position must not wait for a decision that only the application can
/// make.
#[test]
fn a_position_that_nothing_leads_to_is_refused_with_the_reason() {
    let mut world = World::with_topic(with_group(OffsetReset::None), 2, ten);
    let known = FetchPosition {
        offset: 4,
        leader_epoch: -1,
    };
    assert_eq!(world.consumer.find_position(&tp(1)), Ok(None), "not asked");
    for _ in 0..2 {
        let found = [(tp(0), Some(known)), (tp(1), None)];
        world.consumer.set_committed(&found);
        world.run();
        assert_eq!(world.consumer.find_position(&tp(0)), Ok(Some(known)));
        let partitions = vec![tp(1)];
        assert_eq!(
            world.consumer.find_position(&tp(1)),
            Err(ConsumerError::NoOffsetForPartition { partitions })
        );
        assert_eq!(world.consumer.find_position(&tp(1)), Ok(None), "once a try");
        world.run();
        world.advance(Duration::from_secs(2));
        assert_eq!(
            world.consumer.awaiting_committed(),
            [tp(1)],
            "somebody may have committed"
        );
    }
    world.consumer.set_committed(&[(tp(1), None)]);
    world.run();
    let sought = world.consumer.seek_to(&[tp(1)], OffsetReset::Earliest);
    sought.expect("assigned");
    assert_eq!(world.consumer.find_position(&tp(1)), Ok(None), "stale");
}

#[test]
fn a_position_that_was_sought_is_not_refused_with_what_holds_of_another() {
    let mut world = World::with_topic(with_group(OffsetReset::None), 2, ten);
    world
        .consumer
        .set_committed(&[(tp(0), None), (tp(1), None)]);
    world.run();
    let sought = world.consumer.seek_to(&[tp(0)], OffsetReset::Earliest);
    sought.expect("assigned");
    assert_eq!(world.consumer.find_position(&tp(0)), Ok(None));
    let refused = world.consumer.find_position(&tp(1));
    assert!(
        matches!(refused, Err(ConsumerError::NoOffsetForPartition { .. })),
        "left to the caller that asks for it: {refused:?}"
    );
}

#[test]
fn an_error_that_a_seek_has_settled_is_not_raised() {
    let mut world = World::with_topic(with_group(OffsetReset::None), 1, ten);
    world.consumer.set_committed(&[(tp(0), None)]);
    world.run();
    world.consumer.seek(&tp(0), 5, -1).expect("assigned");
    world.run();
    assert_eq!(
        world.drain(100).expect("the error is stale").offsets(0),
        [5, 6, 7, 8, 9]
    );
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
fn lazy_seeks_are_looked_up_and_the_last_one_counts() {
    let mut world = World::with_topic(with_reset(OffsetReset::None), 1, ten);
    world.hold_answers = true;
    world
        .consumer
        .seek_to(&[tp(0)], OffsetReset::Latest)
        .expect("assigned");
    world.run();
    world
        .consumer
        .seek_to(&[tp(0)], OffsetReset::Earliest)
        .expect("assigned");
    world.hold_answers = false;
    world.deliver();
    world.run();
    assert_eq!(resets(&world.broker), [-1, -2]);
    assert_eq!(
        world.position(0),
        0,
        "the answer for latest came late and was ignored"
    );
}

#[test]
fn a_reset_answer_for_a_revoked_partition_is_ignored() {
    let mut world = World::with_topic(with_reset(OffsetReset::None), 1, ten);
    world.hold_answers = true;
    world
        .consumer
        .seek_to(&[tp(0)], OffsetReset::Latest)
        .expect("assigned");
    world.run();
    world.consumer.assign(&[]);
    world.consumer.assign(&[tp(0)]);
    world.hold_answers = false;
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

/// An unclean election truncated the log below the position, and other records replaced those that
/// were read (KIP-320). Scenario 19.
#[test]
fn a_truncated_log_moves_to_where_the_logs_part_or_raises() {
    for policy in [OffsetReset::Earliest, OffsetReset::None] {
        let mut broker = Broker::new(&[1, 2]);
        broker.create("t", 1, 1);
        ten(&mut broker);
        let mut world = World::new(with_reset(policy), broker);
        world.assign_all(1);
        let _ = world.drain(1);
        world.consumer.seek(&tp(0), 0, -1).expect("assigned");
        world.run();
        assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
        // An unclean election: the new leader has six of the ten records, and wrote others after
        // them.
        let log = world.broker.log("t", 0);
        log.batches.clear();
        (log.leader, log.leader_epoch, log.epochs) = (2, 2, vec![(1, 6)]);
        world.broker.append("t", 0, 6, plain(0, 6));
        world.broker.append("t", 0, 14, in_epoch(6, 8, 2));
        world.advance(Duration::from_secs(2));
        if let OffsetReset::None = policy {
            let error = world.drain(100).expect_err("never passed over in silence");
            let expected = ConsumerError::LogTruncation {
                partition: tp(0),
                offset: 10,
                leader_epoch: 1,
                diverging: Some(FetchPosition {
                    offset: 6,
                    leader_epoch: 1,
                }),
            };
            assert_eq!(error, expected);
            assert_eq!(world.consumer.metrics().truncations_total.get(), 1);
        } else {
            let got = world.drain(100).expect("records");
            assert_eq!(
                got.offsets(0),
                (6..14).collect::<Vec<_>>(),
                "read on where the logs part"
            );
        }
    }
}

/// Nothing was ever fetched, so no response will arrive that makes the fetcher check again.
#[test]
fn an_error_that_was_told_is_told_again_though_nothing_is_on_its_way() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let log = broker.log("t", 0);
    (log.leader_epoch, log.epochs) = (2, vec![(1, 6)]);
    let mut world = World::new(with_reset(OffsetReset::None), broker);
    world.assign_all(1);
    world.consumer.seek(&tp(0), 8, 1).expect("assigned");
    for _ in 0..3 {
        world.advance(Duration::from_secs(1));
        let error = world
            .drain(100)
            .expect_err("the position is above the end of its epoch");
        assert!(
            matches!(error, ConsumerError::LogTruncation { offset: 8, .. }),
            "{error}"
        );
    }
}

/// librdkafka #4447: a validation that failed because of a connection error (there, DNS) reset the
/// offset. Bug 14.
#[test]
fn a_failing_validation_is_tried_again_and_never_becomes_a_reset() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    broker.epoch_errors.extend([
        ErrorCode::UNKNOWN_LEADER_EPOCH,
        ErrorCode::FENCED_LEADER_EPOCH,
    ]);
    let mut world = World::new(with_reset(OffsetReset::Latest), broker);
    world.assign_all(1);
    world.consumer.seek(&tp(0), 4, 1).expect("assigned");
    let resets_before = resets(&world.broker).len();
    world.run();
    world.disconnect();
    world.advance(Duration::from_secs(5));
    assert_eq!(world.position(0), 4);
    assert!(validations(&world.broker) >= 3);
    assert_eq!(resets(&world.broker).len(), resets_before);
    assert_eq!(
        world.drain(100).expect("records").offsets(0),
        (4..10).collect::<Vec<_>>()
    );
}

/// librdkafka #4433: a leader that changed again during a validation got endless requests. Bug 14.
#[test]
fn quick_leader_changes_end_in_one_valid_position() {
    let mut broker = Broker::new(&[1, 2, 3]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    for change in 0..6 {
        let log = world.broker.log("t", 0);
        log.leader = 1 + (change + 1) % 3;
        log.leader_epoch += 1;
        log.epochs = vec![(1, 10)];
        world.advance(Duration::from_millis(40));
    }
    world.broker.append("t", 0, 13, in_epoch(10, 3, 7));
    world.advance(Duration::from_secs(3));
    assert_eq!(world.drain(100).expect("records").offsets(0), [10, 11, 12]);
    let asked = validations(&world.broker);
    assert!(
        (1..=7).contains(&asked),
        "one question for each leader at most, not {asked}"
    );
}

/// A topic that is deleted and created again has another ID and lower epochs (KIP-516). The lower
/// epochs are not ignored as stale, and the old offset has no meaning. Scenario 20.
#[test]
fn a_recreated_topic_is_not_read_from_the_old_position() {
    let mut world = World::with_topic(config(), 1, ten);
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    world.broker.create("t", 1, 1);
    world.broker.topic_ids.insert("t".into(), Uuid([99; 16]));
    world.broker.log("t", 0).leader_epoch = 0;
    world.broker.append("t", 0, 20, plain(0, 20));
    world.broker.held.clear();
    world.disconnect();
    world.advance(Duration::from_secs(5));
    let got = world.drain(100).expect("records of the new topic");
    assert_eq!(
        got.offsets(0),
        (0..20).collect::<Vec<_>>(),
        "the policy decided, not offset 10"
    );
}

/// Without a policy, only the application knows where to start in the new log. Nothing is read
/// before it seeks, however long the log is. Scenario 20.
#[test]
fn a_recreated_topic_without_policy_is_told_of_until_the_application_seeks() {
    let none = ConsumerConfig {
        auto_offset_reset: OffsetReset::None,
        ..config()
    };
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let mut world = World::new(none, broker);
    world.assign_all(1);
    world.consumer.seek(&tp(0), 0, -1).expect("assigned");
    world.run();
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    world.broker.create("t", 1, 1);
    world.broker.topic_ids.insert("t".into(), Uuid([99; 16]));
    world.broker.append("t", 0, 20, plain(0, 20));
    world.broker.held.clear();
    world.disconnect();
    for epoch in 1..4 {
        world.advance(Duration::from_secs(5));
        // Another leader does not make the old position valid.
        world.hear_of_leader(0, 1, epoch);
        let told = world.drain(100);
        assert!(
            matches!(told, Err(ConsumerError::LogTruncation { offset: 10, .. })),
            "{told:?}"
        );
    }
    world.consumer.seek(&tp(0), 15, -1).expect("assigned");
    world.advance(Duration::from_secs(1));
    let got = world.drain(100).expect("records of the new topic");
    assert_eq!(got.offsets(0), (15..20).collect::<Vec<_>>());
}

#[test]
fn a_leader_that_refuses_this_client_is_told_of_and_the_others_are_read() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 2, 1);
    broker.log("t", 1).leader = 2;
    ten(&mut broker);
    let refused = ConnectionError::Authentication {
        address: "node 2".into(),
        code: Some(ErrorCode::SASL_AUTHENTICATION_FAILED),
        message: "expired".into(),
    };
    broker.down.insert(2, refused);
    let mut world = World::new(config(), broker);
    world.assign_all(2);
    let (mut read, mut told) = (0, 0);
    for _ in 0..10 {
        world.advance(Duration::from_millis(100));
        match world.drain(100) {
            Ok(got) => read += got.offsets(0).len(),
            Err(error) => {
                assert!(
                    matches!(&error, ConsumerError::Connection { node: 2, cause }
                        if cause.to_string().contains("expired")),
                    "{error:?}"
                );
                told += 1;
            }
        }
    }
    assert_eq!(read, 10);
    assert!((1..8).contains(&told), "{told}");
}

/// KIP-392: a follower may not have the records yet that were read from the leader. That does not
/// justify a reset. Scenario 18.
#[test]
fn a_closer_replica_is_read_from_and_the_leader_asked_when_it_does_not_know() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let log = broker.log("t", 0);
    (log.preferred_replica, log.follower) = (2, Some(2));
    let mut world = World::new(
        ConsumerConfig {
            client_rack: "near".into(),
            ..config()
        },
        broker,
    );
    world.assign_all(1);
    world.run();
    let nodes: Vec<i32> = world
        .broker
        .seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::Fetch { node, request, .. } => {
                assert_eq!(request.rack_id, "near");
                Some(*node)
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        nodes,
        [1, 2],
        "the leader names the follower, the follower serves"
    );
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    // The follower is behind. Its out of range error causes no reset, because the leader decides.
    world
        .broker
        .log("t", 0)
        .errors
        .push_back(ErrorCode::OFFSET_OUT_OF_RANGE);
    world.broker.log("t", 0).preferred_replica = -1;
    world.advance(Duration::from_secs(2));
    world.broker.append("t", 0, 12, plain(10, 2));
    world.advance(Duration::from_secs(2));
    assert!(world.broker.log("t", 0).errors.is_empty(), "it was refused");
    let last = world.broker.seen.iter().rev().find_map(|seen| match seen {
        Seen::Fetch { node, .. } => Some(*node),
        _ => None,
    });
    assert_eq!(last, Some(1), "the leader was asked");
    assert_eq!(world.drain(100).expect("records").offsets(0), [10, 11]);
    assert_eq!(resets(&world.broker), [-2], "no second reset");
}

#[test]
fn a_node_that_led_before_an_election_resets_no_position() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let mut world = World::new(
        ConsumerConfig {
            auto_offset_reset: OffsetReset::Latest,
            ..config()
        },
        broker,
    );
    world.assign_all(1);
    world.consumer.seek(&tp(0), 5, -1).expect("it is assigned");
    world.advance(Duration::from_secs(1));
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 5);
    world.run();
    let resets_before = resets(&world.broker).len();
    // Its response arrives after the news that there is no leader.
    let epoch = world.broker.log("t", 0).leader_epoch;
    world.broker.metadata_says = Some((-1, epoch + 1));
    world.refresh_metadata();
    assert!(world.cluster.metadata().leader("t", 0).is_none());
    assert_eq!(world.broker.held.len(), 1, "the fetch waits for records");
    let log = world.broker.log("t", 0);
    log.errors.push_back(ErrorCode::OFFSET_OUT_OF_RANGE);
    world.run();
    assert!(world.broker.log("t", 0).errors.is_empty(), "it is refused");
    world.broker.metadata_says = None;
    world.broker.append("t", 0, 12, plain(10, 2));
    let log = world.broker.log("t", 0);
    (log.leader, log.leader_epoch) = (2, epoch + 2);
    world.advance(Duration::from_secs(3));
    assert_eq!(world.drain(100).expect("records").offsets(0), [10, 11]);
    assert_eq!(resets(&world.broker).len(), resets_before);
}

/// The leader keeps naming it until the cluster notices.
#[test]
fn a_closer_replica_that_dies_is_given_up_at_once_and_taken_up_when_it_is_back() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let log = broker.log("t", 0);
    (log.preferred_replica, log.follower) = (2, Some(2));
    let mut world = World::new(
        ConsumerConfig {
            client_rack: "near".into(),
            ..config()
        },
        broker,
    );
    let closer = |world: &World| {
        let groups = world.consumer.metrics_snapshot(world.now);
        let of_partition = groups.last().expect("the partition's");
        let found = of_partition.values.iter();
        let found = found.filter(|(name, _)| *name == "preferred-read-replica");
        found.map(|(_, node)| *node as i32).collect::<Vec<_>>()
    };
    world.assign_all(1);
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    world.run();
    assert_eq!(closer(&world), [2]);
    world.take_down(2);
    world.broker.append("t", 0, 11, plain(10, 1));
    world.advance(Duration::from_secs(1));
    assert_eq!(world.drain(100).expect("records").offsets(0), [10]);
    assert_eq!(closer(&world), [-1]);
    let asked = world.broker.seen.len();
    world.advance(Duration::from_secs(5));
    assert!(world.broker.seen.len() - asked < 20, "no busy loop");
    world.broker.down.clear();
    world.advance(Duration::from_secs(5));
    world.broker.append("t", 0, 12, plain(11, 1));
    world.advance(Duration::from_secs(1));
    assert_eq!(world.drain(100).expect("records").offsets(0), [11]);
    world.run();
    assert_eq!(closer(&world), [2]);
}

/// A leader may know a broker before the metadata does, or be faulty.
#[test]
fn a_closer_replica_that_the_cluster_does_not_list_is_not_kept() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let mut world = World::new(
        ConsumerConfig {
            client_rack: "near".into(),
            ..config()
        },
        broker,
    );
    world.assign_all(1);
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    for named in 0..3 {
        world.broker.log("t", 0).preferred_replica = 100 + named;
        let at = 10 + i64::from(named);
        world.broker.append("t", 0, at + 1, plain(at, 1));
        world.advance(Duration::from_secs(60));
        assert_eq!(world.drain(100).expect("a record").offsets(0), [at]);
    }
    let sent = world.broker.fetches();
    let with_rack = sent.iter().filter(|fetch| fetch.rack_id == "near");
    assert!(with_rack.count() > 2, "it is named the rack again");
    assert_eq!(world.fetcher.nodes_known(), 1);
}

#[test]
fn nodes_that_the_cluster_no_longer_lists_are_not_kept() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    for node in 2..20 {
        world.broker.nodes = vec![1, node];
        world.broker.log("t", 0).leader = node;
        world.broker.log("t", 0).leader_epoch += 1;
        let at = 8 + i64::from(node);
        world.broker.append("t", 0, at + 1, plain(at, 1));
        world.refresh_metadata();
        world.advance(Duration::from_secs(2));
        assert_eq!(world.drain(100).expect("a record").offsets(0), [at]);
        assert!(world.fetcher.nodes_known() <= 3);
    }
}

#[test]
fn lookups_answer_in_the_order_asked_and_over_several_leaders() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 2, 1);
    broker.log("t", 1).leader = 2;
    ten(&mut broker);
    broker.log("t", 0).timestamps = vec![(3, 500), (6, 900)];
    let mut world = World::new(config(), broker);
    world.run();
    let asked = vec![
        (tp(1), OffsetSpec::Latest),
        (tp(0), OffsetSpec::Timestamp(600)),
        (tp(0), OffsetSpec::MaxTimestamp),
        (tp(0), OffsetSpec::Timestamp(1000)),
    ];
    let pending = world
        .consumer
        .list_offsets(asked, world.now + Duration::from_secs(5));
    world.advance(Duration::from_secs(1));
    let found = pending.try_take().expect("answered").expect("no error");
    let found: Vec<_> = found
        .iter()
        .map(|f| (f.partition.partition, f.offset, f.timestamp))
        .collect();
    assert_eq!(found, [(1, 0, -1), (0, 6, 900), (0, 6, 900), (0, -1, -1)]);
}

#[test]
fn a_lookup_of_an_unknown_topic_times_out_and_says_what_was_wrong() {
    let mut world = World::new(config(), Broker::new(&[1]));
    let target = vec![(TopicPartition::new("nowhere", 0), OffsetSpec::Latest)];
    let pending = world
        .consumer
        .list_offsets(target, world.now + Duration::from_secs(2));
    world.advance(Duration::from_secs(3));
    let error = pending
        .try_take()
        .expect("in time")
        .expect_err("no such topic");
    assert!(error.to_string().contains("leader of nowhere-0"), "{error}");
}

#[test]
fn a_topic_that_may_not_be_read_raises() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    broker
        .topic_errors
        .insert("t".into(), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    let error = world.drain(1).expect_err("refused");
    assert_eq!(
        error,
        ConsumerError::TopicAuthorizationFailed {
            topics: vec!["t".into()]
        }
    );
}

#[test]
fn watermarks_and_lag_follow_the_fetches() {
    let mut world = World::with_topic(config(), 1, ten);
    world.drain(4).expect("records");
    let partitions = world.consumer.partitions();
    assert_eq!(partitions.high_watermark(&tp(0)), Ok(Some(10)));
    assert_eq!(partitions.log_start_offset(&tp(0)), Ok(Some(0)));
    let lag = partitions.lag(&tp(0), thalweg_consumer::IsolationLevel::ReadUncommitted);
    assert_eq!(lag, Ok(Some(6)));
    assert_eq!(
        partitions.all_consumed(),
        [(
            tp(0),
            FetchPosition {
                offset: 4,
                leader_epoch: 1
            }
        )]
    );
    let other = TopicPartition::new("t", 7);
    assert_eq!(
        world.consumer.seek(&other, 0, -1),
        Err(ConsumerError::NotAssigned { partition: other })
    );
}
