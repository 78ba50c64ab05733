//! Assigned partitions that do not exist: the client warns once, and waits for them.

use std::time::Duration;

use thalweg_cluster::Role as _;
use thalweg_consumer::{ConsumerError, TopicPartition};
use thalweg_protocol::ErrorCode;

use crate::batches::plain;
use crate::broker::Broker;
use crate::world::{World, config, tp};

fn warnings(world: &mut World) -> Vec<String> {
    std::iter::from_fn(|| world.fetcher.poll_warning()).collect()
}

/// Topic "t" has partitions 0 to 2.
fn reading(partition: &TopicPartition) -> World {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 3, 1);
    let mut world = World::new(config(), broker);
    world.consumer.assign(std::slice::from_ref(partition));
    world.advance(Duration::from_secs(30));
    world
}

fn timeout(world: &World, partition: &TopicPartition) -> String {
    let metadata = world.cluster.metadata();
    let error = world.consumer.position_timeout(partition, metadata);
    assert!(error.is_retriable());
    error.to_string()
}

#[test]
fn a_partition_beyond_the_topics_last_is_told_once() {
    let mut world = reading(&tp(7));
    let told = warnings(&mut world);
    assert_eq!(told.len(), 1, "{told:?}");
    let why = "topic t has 3 partitions (0 to 2) and no partition 7";
    assert!(told[0].starts_with(why), "{told:?}");
    assert_eq!(
        timeout(&world, &tp(7)),
        format!("could not find the position of t-7 in time: {why}")
    );
}

#[test]
fn a_topic_that_does_not_exist_is_told_once() {
    let nowhere = TopicPartition::new("nowhere", 0);
    let mut world = reading(&nowhere);
    let told = warnings(&mut world);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("there is no topic nowhere"), "{told:?}");
    assert!(timeout(&world, &nowhere).ends_with("there is no topic nowhere"));
}

#[test]
fn a_thousand_absent_partitions_are_told_in_a_few_lines() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 3, 1);
    let mut world = World::new(config(), broker);
    let all: Vec<_> = (3..1003).map(tp).collect();
    world.consumer.assign(&all);
    world.advance(Duration::from_secs(10));
    let told = warnings(&mut world);
    assert_eq!(told.len(), 11, "{told:?}");
    assert!(told[10].starts_with("990 more"), "{told:?}");
}

/// The client finds the partition without a trigger: no response or lost connection makes it
/// check.
#[test]
fn a_partition_that_comes_is_found_within_seconds() {
    let mut world = reading(&tp(7));
    assert_eq!(world.consumer.partitions().position(&tp(7)), Ok(None));
    world.broker.create("t", 8, 1);
    world.advance(Duration::from_secs(3));
    assert_eq!(world.position(7), 0);
}

#[test]
fn a_topic_that_comes_is_found_within_seconds_and_is_nothing_to_warn_of() {
    let late = TopicPartition::new("late", 0);
    let mut world = World::new(config(), Broker::new(&[1]));
    world.consumer.assign(std::slice::from_ref(&late));
    // The first response may be the one that creates the topic, which takes the cluster a moment.
    world.run();
    world.advance(Duration::from_millis(800));
    world.broker.create("late", 1, 1);
    world.advance(Duration::from_secs(3));
    let position = world.consumer.partitions().position(&late);
    assert_eq!(position.map(|at| at.map(|at| at.offset)), Ok(Some(0)));
    assert_eq!(warnings(&mut world), [""; 0]);
}

#[test]
fn an_election_of_half_a_minute_is_waited_for() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    broker.log("t", 0).leader = -1;
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    world.advance(Duration::from_secs(30));
    assert!(timeout(&world, &tp(0)).ends_with("the partition has no known leader"));
    assert_eq!(warnings(&mut world), [""; 0]);
    world.broker.log("t", 0).leader = 1;
    world.advance(Duration::from_secs(3));
    assert_eq!(world.position(0), 0);
}

#[test]
fn who_reads_nothing_is_told_so() {
    let world = World::new(config(), Broker::new(&[1]));
    let consumer = &world.consumer;
    assert_eq!(
        consumer.check_subscribed(),
        Err(ConsumerError::NotSubscribed)
    );
    consumer.set_subscribed(true);
    assert_eq!(consumer.check_subscribed(), Ok(()));
    consumer.set_subscribed(false);
    consumer.assign(&[tp(0)]);
    assert_eq!(consumer.check_subscribed(), Ok(()));
    consumer.assign(&[]);
    assert_eq!(
        consumer.check_subscribed(),
        Err(ConsumerError::NotSubscribed)
    );
}

/// Access may be granted again, or the refusal was a short failure of one broker.
#[test]
fn a_topic_that_was_refused_for_a_while_is_read_within_seconds() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    broker.append("t", 0, 10, plain(0, 10));
    let refusal = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    broker.topic_errors.insert("t".to_owned(), refusal);
    let mut world = World::new(config(), broker);
    world.consumer.assign(&[tp(0)]);
    let mut refused = 0;
    for _ in 0..50 {
        world.advance(Duration::from_millis(100));
        refused += usize::from(world.drain(100).is_err());
    }
    assert!(
        refused > 2,
        "the application hears of it while it lasts: {refused}"
    );
    world.broker.topic_errors.clear();
    world.advance(Duration::from_secs(2));
    // An error that was queued before access was granted comes first.
    let found = world.drain(100).or_else(|_| world.drain(100));
    assert_eq!(found.expect("records").offsets(0).len(), 10);
}
