//! Unused topics are freed, but the sequences of their partitions are kept.

use std::sync::{Arc, Weak};
use std::time::Duration;

use thalweg_cluster::ClusterConfig;
use thalweg_producer::{ProducerConfig, TopicEntry};

use crate::world::broker::{Brokers, Reaction};
use crate::world::{TOPIC, World, config, error, is_pending, offset};

const OTHER: &str = "other";

fn world() -> World {
    let brokers = Brokers::new(1, &[(TOPIC, 2), (OTHER, 1)]);
    let mut world = World::with(config(), brokers, None);
    world.know(TOPIC);
    world.know(OTHER);
    world
}

/// Waits long enough for a topic to be freed if nothing is sent to it.
fn rest(world: &mut World) {
    for _ in 0..3 {
        world.advance(ClusterConfig::default().metadata_max_idle + Duration::from_secs(1));
        // The refresh of the metadata wakes a real client.
        world.cluster.request_update();
        world.run();
    }
    // Wait for the backoff after that refresh.
    world.advance_ms(2_000);
}

fn entry(world: &World) -> Weak<TopicEntry> {
    Arc::downgrade(&world.topic())
}

#[test]
fn an_idle_topic_is_freed_and_its_sequences_go_on_when_it_is_used_again() {
    let mut world = world();
    for partition in [0, 1] {
        world.send_alone(partition, "a");
        world.send_alone(partition, "b");
    }
    for round in 0..3 {
        let before = entry(&world);
        rest(&mut world);
        assert!(before.upgrade().is_none(), "round {round}");
        world.know(TOPIC);
        let sent = world.send_alone(1, "c");
        assert_eq!(offset(&sent), 2 + round);
    }
    let headers = &world.brokers.log(TOPIC, 1).headers;
    let numbers: Vec<_> = headers
        .iter()
        .map(|header| (header.producer_epoch, header.base_sequence))
        .collect();
    assert_eq!(numbers, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]);
    // The index of a freed partition is reused, under the right name.
    let sent = world.send_alone(0, "d");
    assert_eq!(offset(&sent), 2);
    assert_eq!(world.values(0), ["a", "b", "d"]);
    assert_eq!(world.values(1), ["a", "b", "c", "c", "c"]);
}

#[test]
fn a_topic_that_somebody_holds_stays() {
    let mut world = world();
    world.send_alone(0, "a");
    let held = world.topic();
    rest(&mut world);
    assert!(Arc::ptr_eq(&held, &world.topic()));
    let watch = entry(&world);
    drop(held);
    rest(&mut world);
    assert!(watch.upgrade().is_none());
}

#[test]
fn a_topic_in_use_stays() {
    let mut world = world();
    let watch = entry(&world);
    for n in 0..20 {
        world.send_alone(0, &n.to_string());
        world.advance(ClusterConfig::default().metadata_max_idle / 2);
    }
    assert!(watch.upgrade().is_some());
    assert_eq!(world.brokers.log(TOPIC, 0).values().len(), 20);
}

/// Without idempotence there are no sequences that a lost batch could leave unresolved.
#[test]
fn a_topic_whose_batch_expired_in_flight_is_freed() {
    let plain = ProducerConfig {
        enable_idempotence: false,
        delivery_timeout: Duration::from_secs(2),
        ..config()
    };
    let brokers = Brokers::new(1, &[(TOPIC, 1)]);
    let mut world = World::with(plain, brokers, None);
    world.know(TOPIC);
    world.script([Reaction::Hold]);
    let sent = world.send_alone(0, "a");
    world.advance_ms(3_000);
    assert!(error(&sent).possibly_written());
    world.brokers.release();
    world.run();
    let watch = entry(&world);
    rest(&mut world);
    assert!(watch.upgrade().is_none());
}

#[test]
fn a_topic_with_records_that_wait_stays() {
    let long = ProducerConfig {
        delivery_timeout: Duration::from_secs(24 * 3600),
        request_timeout: Duration::from_secs(12 * 3600),
        ..config()
    };
    let brokers = Brokers::new(1, &[(TOPIC, 1)]);
    let mut world = World::with(long, brokers, None);
    world.know(TOPIC);
    world.script([Reaction::Hold]);
    let sent = world.send_alone(0, "a");
    rest(&mut world);
    assert!(is_pending(&sent));
    world.brokers.release();
    world.run();
    assert_eq!(offset(&sent), 0);
}
