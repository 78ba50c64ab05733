//! Positions that no longer fit: truncated logs, topics made again, leaders that refuse.

use std::time::Duration;

use thalweg_cluster::ConnectionError;
use thalweg_consumer::{ConsumerConfig, ConsumerError, FetchPosition, OffsetReset};
use thalweg_protocol::{ErrorCode, Uuid};

use crate::batches::{in_epoch, plain};
use crate::broker::Broker;
use crate::positions::{resets, ten, validations, with_reset};
use crate::world::{World, config, tp};

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

/// The metadata names a leader of epoch 6 that was replaced and does not know it. Another member of
/// the group has read under epoch 7.
#[test]
fn a_leader_with_older_epochs_than_the_position_does_not_truncate_it() {
    for policy in [OffsetReset::Earliest, OffsetReset::None] {
        let mut broker = Broker::new(&[1, 2]);
        broker.create("t", 1, 1);
        ten(&mut broker);
        broker.metadata_says = Some((1, 6));
        let log = broker.log("t", 0);
        (log.leader_epoch, log.epochs) = (6, vec![(6, 5)]);
        let mut world = World::new(with_reset(policy), broker);
        world.assign_all(1);
        world.consumer.seek(&tp(0), 8, 7).expect("assigned");
        let resets_before = resets(&world.broker).len();
        world.advance(Duration::from_secs(1));
        assert!(validations(&world.broker) > 1);
        world.broker.metadata_says = None;
        let log = world.broker.log("t", 0);
        (log.leader, log.leader_epoch) = (2, 7);
        log.epochs = vec![(6, 5), (7, 10)];
        world.advance(Duration::from_secs(2));
        assert_eq!(world.drain(100).expect("records").offsets(0), [8, 9]);
        assert_eq!(resets(&world.broker).len(), resets_before);
    }
}

/// The topic was created again, so no leader will ever know that epoch.
#[test]
fn a_position_of_an_epoch_that_no_leader_knows_is_reset_after_a_while() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let log = broker.log("t", 0);
    (log.leader_epoch, log.epochs) = (0, vec![(0, 10)]);
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    world.consumer.seek(&tp(0), 8, 7).expect("assigned");
    world.advance(Duration::from_secs(6));
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    assert!(validations(&world.broker) < 10);
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

/// Groups keep offsets by the topic's name. If the old position were committed, a member that gets the
/// partition in a rebalance would start there, in the middle of the new log or at its end.
#[test]
fn a_position_in_a_recreated_topic_is_not_committed() {
    let mut world = World::with_topic(config(), 1, ten);
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    let committed = |world: &World| {
        let consumed = world.consumer.partitions().all_consumed();
        consumed.first().map(|(_, at)| at.offset)
    };
    assert_eq!(committed(&world), Some(10));
    world.broker.create("t", 1, 1);
    world.broker.topic_ids.insert("t".into(), Uuid([99; 16]));
    // The leader is not ready for a fetch with the new ID yet.
    let refusals = &mut world.broker.log("t", 0).errors;
    refusals.extend([ErrorCode::KAFKA_STORAGE_ERROR; 50]);
    world.broker.held.clear();
    world.disconnect();
    world.refresh_metadata();
    assert_eq!(committed(&world), None);
    assert_eq!(world.position(0), 10);
    world.broker.log("t", 0).errors.clear();
    world.broker.append("t", 0, 20, plain(0, 20));
    world.advance(Duration::from_secs(5));
    assert_eq!(world.drain(5).expect("records").offsets(0).len(), 5);
    assert_eq!(committed(&world), Some(5));
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

/// Reads the ten records of the topic, whatever the policy.
fn ten_read(policy: OffsetReset, broker: Broker) -> World {
    let mut world = World::new(with_reset(policy), broker);
    world.assign_all(1);
    let _ = world.drain(1);
    world.consumer.seek(&tp(0), 0, -1).expect("assigned");
    world.advance(Duration::from_secs(1));
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    world
}

/// The records were read under an earlier leader epoch, so the leader of the new topic is asked where
/// that epoch ends (KIP-320). Its log has this epoch, too, and is shorter.
#[test]
fn a_truncation_does_not_hide_that_the_topic_was_created_again() {
    for policy in [OffsetReset::Earliest, OffsetReset::None] {
        let mut broker = Broker::new(&[1]);
        broker.create("t", 1, 1);
        ten(&mut broker);
        let mut world = ten_read(policy, broker);
        world.broker.create("t", 1, 1);
        world.broker.append("t", 0, 5, plain(0, 5));
        let log = world.broker.log("t", 0);
        (log.leader_epoch, log.epochs) = (3, vec![(1, 5)]);
        world.broker.held.clear();
        world.disconnect();
        world.advance(Duration::from_secs(5));
        match (policy, world.drain(100)) {
            (OffsetReset::None, got) => {
                assert!(
                    matches!(got, Err(ConsumerError::LogTruncation { .. })),
                    "{got:?}"
                );
            }
            (_, got) => assert_eq!(got.expect("records").offsets(0), [0, 1, 2, 3, 4]),
        }
    }
}

/// A broker that lags behind still reports the ID of a topic that was deleted earlier. No leader
/// knows it, so the position is not reset.
#[test]
fn a_stale_topic_id_does_not_move_the_position() {
    for policy in [
        OffsetReset::Earliest,
        OffsetReset::Latest,
        OffsetReset::None,
    ] {
        let mut broker = Broker::new(&[1]);
        broker.create("t", 1, 1);
        let first_id = broker.topic_ids["t"];
        broker.create("t", 1, 1);
        ten(&mut broker);
        let mut world = ten_read(policy, broker);
        world.broker.append("t", 0, 20, plain(10, 10));
        world.broker.held.clear();
        world.broker.stale_id = Some(first_id);
        world.disconnect();
        world.advance(Duration::from_secs(5));
        assert_eq!(
            world.broker.stale_id, None,
            "a fetch has named the stale ID"
        );
        let got = world.drain(100).expect("the rest of the topic");
        assert_eq!(got.offsets(0), (10..20).collect::<Vec<_>>(), "{policy:?}");
    }
}

/// The topic is created again before the client knows. A position that the application sets then is
/// meant for the new topic, also if the metadata still has the old one.
#[test]
fn a_seek_that_is_newer_than_the_metadata_is_kept() {
    for policy in [
        OffsetReset::Earliest,
        OffsetReset::Latest,
        OffsetReset::None,
    ] {
        for assigned_again in [false, true] {
            let mut broker = Broker::new(&[1]);
            broker.create("t", 1, 1);
            ten(&mut broker);
            let mut world = ten_read(policy, broker);
            if assigned_again {
                world.consumer.assign(&[]);
                world.run();
            }
            world.broker.create("t", 1, 1);
            world.broker.append("t", 0, 20, plain(0, 20));
            world.broker.held.clear();
            if assigned_again {
                world.consumer.assign(&[tp(0)]);
            }
            world.consumer.seek(&tp(0), 15, -1).expect("assigned");
            world.disconnect();
            world.advance(Duration::from_secs(5));
            let got = world.drain(100).expect("records of the new topic");
            assert_eq!(got.offsets(0), (15..20).collect::<Vec<_>>(), "{policy:?}");
        }
    }
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
