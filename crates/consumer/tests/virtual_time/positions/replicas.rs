//! Fetches from a closer replica, and from nodes that the cluster no longer lists.

use std::time::Duration;

use thalweg_consumer::{ConsumerConfig, OffsetReset};
use thalweg_protocol::ErrorCode;

use crate::batches::plain;
use crate::broker::{Broker, Seen};
use crate::positions::{resets, ten};
use crate::world::{World, config, tp};

/// Returns a world whose leader, node 1, names node 2 as the closer replica of ten records.
fn with_closer_replica() -> World {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 1, 1);
    ten(&mut broker);
    let log = broker.log("t", 0);
    (log.preferred_replica, log.follower) = (2, Some(2));
    World::new(
        ConsumerConfig {
            client_rack: "near".into(),
            ..config()
        },
        broker,
    )
}

/// KIP-392: a follower may not have the records yet that were read from the leader. That does not
/// justify a reset. Scenario 18.
#[test]
fn a_closer_replica_is_read_from_and_the_leader_asked_when_it_does_not_know() {
    let mut world = with_closer_replica();
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
    let mut world = with_closer_replica();
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

/// A paused partition has no fetch that could fail.
#[test]
fn a_paused_partition_leaves_a_closer_replica_that_is_no_longer_listed() {
    let mut world = with_closer_replica();
    world.assign_all(1);
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    world.run();
    world.consumer.pause(&[tp(0)]).expect("it is assigned");
    world.advance(Duration::from_secs(2));
    world.take_down(2);
    world.broker.nodes = vec![1];
    world.refresh_metadata();
    world.broker.append("t", 0, 11, plain(10, 1));
    world.broker.log("t", 0).preferred_replica = -1;
    world.consumer.resume(&[tp(0)]).expect("it is assigned");
    world.advance(Duration::from_secs(2));
    assert_eq!(world.drain(100).expect("a record").offsets(0), [10]);
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
