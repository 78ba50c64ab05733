//! Leader changes during fetches, validations and drains (KIP-320). The epoch of a position is
//! that of the batch before it, even if that batch has no records.

use std::time::Duration;

use thalweg_consumer::{
    ConsumerConfig, ConsumerError, FetchPosition, IsolationLevel, OffsetReset, TopicPartition,
};
use thalweg_protocol::ErrorCode;
use thalweg_records::Compression;
use thalweg_records::batch_header::set_base_offset_and_epoch;

use crate::batches::{compacted, compressed, in_epoch, marker, plain, transactional};
use crate::broker::{Broker, Seen};
use crate::world::{World, config, tp};

/// Returns a configuration that raises errors, where a policy would hide them.
fn without_policy() -> ConsumerConfig {
    ConsumerConfig {
        auto_offset_reset: OffsetReset::None,
        isolation_level: IsolationLevel::ReadCommitted,
        ..config()
    }
}

/// Returns the batch as a leader of another epoch would have written it.
fn rewritten(mut batch: Vec<u8>, base: i64, epoch: i32) -> Vec<u8> {
    set_base_offset_and_epoch(&mut batch, base, epoch);
    batch
}

/// Returns batches that move a position without a record, starting at offset 10.
fn without_records() -> [(&'static str, Vec<u8>); 3] {
    [
        ("a marker", marker(10, 1, true)),
        ("an emptied batch", compacted(10, &[], 0)),
        (
            "an aborted record",
            transactional(10, 1, 7, Compression::None),
        ),
    ]
}

fn committable(world: &World) -> FetchPosition {
    let positions = world.consumer.partitions().all_consumed();
    assert_eq!(positions.len(), 1, "{positions:?}");
    positions[0].1
}

/// Returns a consumer without a reset policy that has read ten records of epoch 1.
fn at_ten(nodes: &[i32]) -> World {
    let mut broker = Broker::new(nodes);
    broker.create("t", 1, 1);
    broker.append("t", 0, 10, plain(0, 10));
    broker.log("t", 0).aborted = vec![(7, 10)];
    let mut world = World::new(without_policy(), broker);
    world.consumer.assign(&[tp(0)]);
    world.consumer.seek(&tp(0), 0, -1).expect("assigned");
    world.run();
    assert_eq!(world.drain(100).expect("records").records.len(), 10);
    world
}

/// KAFKA-19902, KAFKA-20507: if an offset is committed without its epoch, a later truncation below
/// it cannot be detected, and the reset policy decides where the group continues. Bug 18.
#[test]
fn positions_keep_an_epoch_behind_batches_without_records() {
    for (what, batch) in without_records() {
        let mut world = at_ten(&[1]);
        let before = committable(&world);
        assert_eq!((before.offset, before.leader_epoch), (10, 1), "{what}");
        world.broker.append("t", 0, 11, batch);
        world.advance(Duration::from_secs(1));
        assert!(world.drain(100).expect("nothing").records.is_empty());
        let after = committable(&world);
        assert_eq!((after.offset, after.leader_epoch), (11, 1), "{what}");
    }
}

/// KAFKA-19902: the position also keeps its epoch while the next batch is being decoded, and after
/// it proved to be corrupt. Bug 18.
#[test]
fn positions_keep_an_epoch_in_front_of_what_cannot_be_read_yet() {
    let mut world = at_ten(&[1]);
    world.hold_jobs = true;
    let mut batch = compressed(10, 5, 50, Compression::Gzip);
    let last = batch.len() - 2;
    batch[last] ^= 0x40;
    world.broker.append("t", 0, 15, batch);
    world.run();
    assert!(world.drain(100).expect("not decoded").records.is_empty());
    assert_eq!(committable(&world).leader_epoch, 1, "it is being decoded");
    world.run_jobs();
    let error = world.drain(100).expect_err("it is corrupt");
    assert!(matches!(
        error,
        ConsumerError::CorruptBatch { offset: 10, .. }
    ));
    assert_eq!(committable(&world).leader_epoch, 1, "it is corrupt");
}

/// KIP-951: the error response names the new leader and its address, long before metadata does.
#[test]
fn a_leader_that_a_refusal_names_is_read_from_although_metadata_does_not_know_it() {
    let mut world = at_ten(&[1]);
    world.broker.metadata_says = Some((1, 1));
    let log = world.broker.log("t", 0);
    (log.leader, log.leader_epoch, log.epochs) = (2, 2, vec![(1, 10)]);
    world.broker.append("t", 0, 15, in_epoch(10, 5, 2));
    world.advance(Duration::from_secs(1));
    let got = world.drain(100).expect("records of the new leader");
    assert_eq!(got.offsets(0), (10..15).collect::<Vec<_>>());
    let last = world.broker.seen.iter().rev().find_map(|seen| match seen {
        Seen::Fetch { node, .. } => Some(*node),
        _ => None,
    });
    assert_eq!(last, Some(2));
}

/// Brokers before 2.3 do not check the epochs that consumers send (KIP-320), so they get no
/// requests.
#[test]
fn a_broker_that_cannot_validate_positions_is_not_asked_to() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 1, 1);
    broker.append("t", 0, 10, plain(0, 10));
    let key = thalweg_protocol::ApiKey::OFFSET_FOR_LEADER_EPOCH;
    broker.max_versions.insert(key.0, 2);
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    assert_eq!(world.drain(100).expect("records").records.len(), 10);
    let log = world.broker.log("t", 0);
    (log.leader, log.leader_epoch) = (2, 2);
    world.broker.append("t", 0, 15, in_epoch(10, 5, 2));
    world.advance(Duration::from_secs(2));
    let got = world.drain(100).expect("records of the new leader");
    assert_eq!(got.offsets(0), (10..15).collect::<Vec<_>>());
    let mut seen = world.broker.seen.iter();
    assert!(!seen.any(|seen| matches!(seen, Seen::OffsetForLeaderEpoch)));
}

/// A position after a marker of epoch 2 that still has epoch 1 is above the end of epoch 1. To the
/// next leader, the log would look truncated.
#[test]
fn batches_without_records_of_another_epoch_are_no_truncation() {
    for (what, batch) in without_records() {
        let mut world = at_ten(&[1, 2, 3]);
        let log = world.broker.log("t", 0);
        (log.leader, log.leader_epoch, log.epochs) = (2, 2, vec![(1, 10)]);
        world.advance(Duration::from_secs(2));
        world.broker.append("t", 0, 11, rewritten(batch, 10, 2));
        world.advance(Duration::from_secs(1));
        assert!(world.drain(100).expect("nothing").records.is_empty());
        let at = committable(&world);
        assert_eq!((at.offset, at.leader_epoch), (11, 2), "{what}");
        let log = world.broker.log("t", 0);
        (log.leader, log.leader_epoch, log.epochs) = (3, 3, vec![(1, 10), (2, 11)]);
        world.broker.append("t", 0, 12, in_epoch(11, 1, 3));
        world.advance(Duration::from_secs(2));
        let got = world.drain(100).expect("the log is the one that was read");
        assert_eq!(got.offsets(0), [11], "{what}");
    }
}

/// librdkafka #4261: a fetch response that arrived during a validation was returned, and its
/// records were returned again after the validation. Bug 13.
#[test]
fn a_fetch_that_is_answered_during_a_validation_is_thrown_away() {
    let mut world = at_ten(&[1, 2]);
    world.run();
    world.hold_responses = true;
    world.broker.append("t", 0, 20, plain(10, 10));
    world.run();
    assert_eq!(world.responses.len(), 1, "the records are on their way");
    let log = world.broker.log("t", 0);
    (log.leader, log.leader_epoch, log.epochs) = (2, 2, vec![(1, 20)]);
    world.hear_of_leader(0, 2, 2);
    world.run();
    let asked = |world: &World| {
        let validations = world.broker.seen.iter();
        validations
            .filter(|seen| matches!(seen, Seen::OffsetForLeaderEpoch))
            .count()
    };
    assert_eq!(asked(&world), 1);
    assert!(world.buffered().is_empty());
    world.hold_responses = false;
    let epochs = world.responses.pop_back().expect("of the new leader");
    world.run();
    assert!(world.buffered().is_empty(), "it came amid the validation");
    assert_eq!(world.consumer.metrics().stale_results_total.get(), 1);
    world.responses.push_back(epochs);
    world.run();
    let got: Vec<_> = world.drain_all().iter().map(|r| r.offset).collect();
    assert_eq!(got, (10..20).collect::<Vec<_>>(), "each record once");
}

/// KAFKA-19902: an offset was committed with its epoch before the log was truncated and grew
/// again. The consumer continues where the logs diverge. Without the epoch this cannot be
/// detected. Scenario 19, bug 18.
#[test]
fn a_committed_offset_above_a_cut_is_found_out_by_its_epoch() {
    for (leader_epoch, position) in [(1, 6), (-1, 10)] {
        let mut broker = Broker::new(&[1]);
        broker.create("t", 1, 1);
        broker.append("t", 0, 6, plain(0, 6));
        broker.append("t", 0, 14, in_epoch(6, 8, 2));
        let log = broker.log("t", 0);
        (log.leader_epoch, log.epochs) = (2, vec![(1, 6), (2, 14)]);
        let with_group = ConsumerConfig {
            group_id: Some("g".into()),
            ..config()
        };
        let mut world = World::new(with_group, broker);
        world.assign_all(1);
        let committed = FetchPosition {
            offset: 10,
            leader_epoch,
        };
        world.consumer.set_committed(&[(tp(0), Some(committed))]);
        world.run();
        assert_eq!(world.position(0), position, "epoch {leader_epoch}");
    }
}

/// A topic that is deleted and created again has another ID, and its epochs begin at 0. Fetches
/// with the old ID are refused, and repeating them would never end. Scenario 20.
#[test]
fn an_unknown_topic_id_is_not_asked_for_over_and_over() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
    });
    assert_eq!(world.drain(100).expect("records").records.len(), 10);
    let unknown = std::iter::repeat_n(ErrorCode::UNKNOWN_TOPIC_ID, 10_000);
    world.broker.log("t", 0).errors.extend(unknown);
    world.advance(Duration::from_secs(1));
    let asked = world.broker.fetches().len();
    world.advance(Duration::from_secs(60));
    let asked = world.broker.fetches().len() - asked;
    assert!((30..300).contains(&asked), "{asked} fetches in a minute");
}

/// A metadata response causes checks only of the topics that it changed.
#[test]
fn only_topics_that_new_metadata_has_changed_are_looked_at() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 600, 1);
    broker.create("u", 3, 1);
    let mut world = World::new(config(), broker);
    let mut all: Vec<_> = (0..600).map(tp).collect();
    all.extend((0..3).map(|at| TopicPartition::new("u", at)));
    world.consumer.assign(&all);
    world.run();
    let refresh = |world: &mut World| {
        let before = (world.cluster.metadata().version, world.fetcher.looks());
        world.cluster.request_update();
        world.advance(Duration::from_secs(1));
        let responses = world.cluster.metadata().version - before.0;
        assert!(responses > 0, "a response came");
        (responses, world.fetcher.looks() - before.1)
    };
    assert_eq!(refresh(&mut world), (1, 0), "nothing is new");
    world.broker.log("u", 1).leader_epoch = 2;
    assert_eq!(refresh(&mut world), (1, 3), "a new epoch");
    // A partition that does not exist is checked at each response.
    all.push(TopicPartition::new("u", 3));
    world.consumer.assign(&all);
    world.run();
    let (responses, looks) = refresh(&mut world);
    assert_eq!(looks, 4 * responses);
}
