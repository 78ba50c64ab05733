//! Hastening: a batch that somebody waits for does not linger, and no other batch is affected.

use std::time::Duration;

use thalweg_producer::ProducerConfig;
use thalweg_records::Compression;

use crate::world::broker::Reaction;
use crate::world::{TOPIC, World, config, counting_waker, is_pending, offset};

const LINGER_MS: u64 = 100;

fn lingering() -> ProducerConfig {
    ProducerConfig {
        linger: Duration::from_millis(LINGER_MS),
        ..config()
    }
}

#[test]
fn a_batch_that_somebody_waits_for_is_sent_at_once() {
    let mut world = World::ready(lingering(), 1, 1);
    let sent = world.send(0, "a");
    world.run();
    assert!(is_pending(&sent), "nobody waits: it lingers");
    sent.completion.hasten();
    world.run();
    assert_eq!(offset(&sent), 0);
}

#[test]
fn only_the_batch_that_is_waited_for_is_hastened() {
    // Different nodes lead the two partitions, so no request takes the other batch along.
    let mut world = World::ready(lingering(), 2, 2);
    let (hastened, other) = (world.send(0, "a"), world.send(1, "b"));
    hastened.completion.hasten();
    world.run();
    assert!(!is_pending(&hastened));
    assert!(is_pending(&other));
    let next = world.send(0, "c");
    world.run();
    assert!(is_pending(&next), "the next batch lingers again");
    world.advance_ms(LINGER_MS);
    assert!(!is_pending(&next) && !is_pending(&other));
}

#[test]
fn a_wait_wakes_a_sleeping_sender_and_those_that_follow_wake_nobody() {
    let mut world = World::ready(lingering(), 1, 1);
    let sent: Vec<_> = (0..1_000).map(|_| world.send(0, "a")).collect();
    world.run();
    let (count, waker) = counting_waker();
    world.notifier.unpark();
    assert!(world.notifier.park(&waker));
    let (looks, requests) = (world.sender.looks(), world.brokers.requests.len());
    for one in &sent {
        one.completion.hasten();
    }
    assert_eq!(count.get(), 1);
    world.run();
    assert!(sent.iter().all(|one| !is_pending(one)));
    assert_eq!(world.brokers.requests.len() - requests, 1, "one batch");
    let looks = world.sender.looks() - looks;
    assert!(looks <= 4, "{looks} looks for a batch");
}

#[test]
fn a_hastened_batch_follows_the_response_that_it_had_to_wait_for() {
    let config = ProducerConfig {
        max_in_flight_requests_per_connection: 1,
        ..lingering()
    };
    let mut world = World::ready(config, 1, 1);
    world.script([Reaction::Hold]);
    let first = world.send(0, "a");
    first.completion.hasten();
    world.run();
    let waited_for = world.send(0, "b");
    waited_for.completion.hasten();
    world.run();
    // Only the first response holds it back, so what is appended meanwhile joins its batch.
    let joined = world.send(0, "c");
    assert_eq!(world.brokers.held(), 1);
    world.brokers.release();
    world.run();
    assert_eq!(offset(&waited_for), 1);
    assert_eq!(offset(&joined), 2);
    assert_eq!(world.brokers.log(TOPIC, 0).headers.len(), 2);
}

#[test]
fn a_hastened_batch_is_compressed_first() {
    let config = ProducerConfig {
        compression: Compression::Lz4,
        ..lingering()
    };
    let mut world = World::ready(config, 1, 1);
    let sent = world.send(0, &"x".repeat(1_000));
    sent.completion.hasten();
    world.run();
    assert_eq!(offset(&sent), 0);
    let attributes = world.brokers.log(TOPIC, 0).headers[0].attributes;
    assert_eq!(attributes.compression(), Some(Compression::Lz4));
}

#[test]
fn nothing_is_left_to_hasten_without_linger_nor_once_the_batch_is_on_its_way() {
    let mut world = World::ready(config(), 1, 1);
    assert!(!world.send(0, "a").completion.is_lingering());
    let mut world_with_linger = World::ready(lingering(), 1, 1);
    let sent = world_with_linger.send(0, "a");
    assert!(sent.completion.is_lingering());
    world_with_linger.advance_ms(LINGER_MS);
    assert!(!sent.completion.is_lingering());
    world.run();
}

#[test]
fn a_future_may_outlive_its_producer() {
    let world = World::ready(lingering(), 1, 1);
    let sent = world.send(0, "a");
    drop(world);
    sent.completion.hasten();
    assert!(is_pending(&sent));
}
