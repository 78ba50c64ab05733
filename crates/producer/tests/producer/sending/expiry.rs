//! `delivery_timeout_ms` counts from the append, and includes linger, retries and flight.

use std::time::Duration;

use thalweg_producer::{Appended, ProducerConfig, ProducerError};
use thalweg_protocol::ErrorCode;

use crate::world::broker::{Reaction, copied};
use crate::world::{TOPIC, World, config, error, is_pending, offset, outcome};

fn short() -> ProducerConfig {
    ProducerConfig {
        delivery_timeout: Duration::from_secs(3),
        request_timeout: Duration::from_secs(2),
        ..config()
    }
}

/// Has room for four batches of one record. Each needs a chunk of the pool.
fn four_chunks() -> ProducerConfig {
    ProducerConfig {
        buffer_memory: 64 * 1024,
        batch_size: 16 * 1024,
        ..short()
    }
}

/// Returns a record that needs its own chunk.
fn large(letter: &str) -> String {
    letter.repeat(10_000)
}

/// Appends to partition 1 until the pool is empty. Returns how many records that took.
fn fill_up(world: &World) -> usize {
    let value = large("c");
    (0..10)
        .take_while(|_| world.try_send(1, &value).is_ok())
        .count()
}

fn possibly_written(appended: &Appended) -> bool {
    match error(appended) {
        error @ ProducerError::DeliveryTimeout { .. } => error.possibly_written(),
        other => panic!("{other:?}"),
    }
}

/// Scenario 23: the error names what could not be reached.
#[test]
fn a_record_that_was_never_sent_says_so_and_why() {
    let mut world = World::ready(short(), 1, 1);
    world.brokers.stop(1);
    let sent = world.send_alone(0, "a");
    world.advance(Duration::from_millis(2_990));
    assert!(is_pending(&sent));
    world.advance(Duration::from_millis(20));
    assert!(!possibly_written(&sent));
    let text = error(&sent).to_string();
    assert!(text.contains("connection refused"), "{text}");
    assert!(text.contains("n1:9092"), "{text}");
    let pool = world.accumulator.pool();
    assert_eq!(pool.available_bytes(), pool.total_bytes());
}

#[test]
fn the_linger_is_part_of_it() {
    let config = ProducerConfig {
        linger: Duration::from_secs(10),
        ..short()
    };
    let mut world = World::ready(config, 1, 1);
    let sent = world.send(0, "a");
    world.advance(Duration::from_millis(3_010));
    assert!(!possibly_written(&sent));
    assert!(world.brokers.requests.is_empty());
}

#[test]
fn retries_are_part_of_it() {
    let mut world = World::ready(short(), 1, 1);
    world.script(vec![Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS); 100]);
    let sent = world.send_alone(0, "a");
    world.advance(Duration::from_millis(3_010));
    assert!(!possibly_written(&sent), "each try was refused for certain");
    assert!(world.brokers.requests.len() > 3);
    let text = error(&sent).to_string();
    assert!(
        text.contains("3000 ms") && text.contains("Last error"),
        "{text}"
    );
}

#[test]
fn refusals_by_brokers_that_do_not_lead_are_certain_unless_they_name_an_offset() {
    for (reaction, possibly) in [
        (Reaction::Refuse(ErrorCode::NOT_LEADER_OR_FOLLOWER), false),
        (
            Reaction::RefuseAfterWriting(ErrorCode::NOT_LEADER_OR_FOLLOWER),
            true,
        ),
        (Reaction::Refuse(ErrorCode::KAFKA_STORAGE_ERROR), true),
    ] {
        let mut world = World::ready(short(), 1, 1);
        world.script(vec![reaction; 100]);
        let sent = world.send_alone(0, "a");
        world.advance(Duration::from_millis(3_010));
        assert_eq!(possibly_written(&sent), possibly);
    }
}

#[test]
fn a_record_in_flight_was_possibly_written_and_holds_its_memory_until_the_request_is_over() {
    let config = ProducerConfig {
        request_timeout: Duration::from_secs(5),
        ..short()
    };
    let mut world = World::ready(config, 1, 1);
    world.script([Reaction::Hold]);
    let sent = world.send_alone(0, "a");
    world.advance(Duration::from_millis(3_010));
    assert!(possibly_written(&sent));
    let pool = std::sync::Arc::clone(world.accumulator.pool());
    // KAFKA-19012: a buffer must not be reused while a request may still be read from it.
    assert!(pool.available_bytes() < pool.total_bytes());
    world.brokers.release();
    world.advance_ms(100);
    assert_eq!(pool.available_bytes(), pool.total_bytes());
    assert!(possibly_written(&sent), "its outcome was reported once");
}

/// KAFKA-19012: the bytes of another topic's records appeared in a request in flight. A held
/// request is read when it is released, from the memory that it shares with the producer.
#[test]
fn bug_1_no_buffer_is_reused_under_a_request_that_expired_in_flight() {
    let config = ProducerConfig {
        request_timeout: Duration::from_secs(20),
        ..four_chunks()
    };
    let mut world = World::ready(config, 2, 2);
    world.script([Reaction::Hold]);
    let sent = world.send_alone(0, &large("a"));
    world.advance(Duration::from_millis(3_010));
    assert!(possibly_written(&sent));
    for _ in 0..20 {
        world.send_alone(1, &large("b"));
    }
    assert_eq!(fill_up(&world), 3, "the fourth chunk is still being sent");
    world.brokers.release();
    world.run();
    assert_eq!(world.values(0), [large("a")]);
    let mut others = vec![large("b"); 20];
    others.extend(vec![large("c"); 3]);
    assert_eq!(world.values(1), others);
    let pool = world.accumulator.pool();
    assert_eq!(pool.available_bytes(), pool.total_bytes());
}

/// Scenario 14.
#[test]
fn what_follows_an_expired_batch_leaves_no_gap() {
    // Batch 2 of 4 expires in flight. Whether it was written or not, no other batch is lost or
    // doubled.
    for written in [true, false] {
        let config = ProducerConfig {
            request_timeout: Duration::from_secs(30),
            ..short()
        };
        let mut world = World::ready(config, 1, 1);
        let first = world.send_alone(0, "1");
        world.script([Reaction::Hold]);
        let second = world.send_alone(0, "2");
        world.advance_ms(2_000);
        world.script(vec![Reaction::Hold; 1]);
        let third = world.send_alone(0, "3");
        world.advance_ms(1_100);
        assert!(possibly_written(&second));
        assert!(is_pending(&third));
        let fourth = world.send_alone(0, "4");
        assert!(
            is_pending(&fourth),
            "no new batch is sent after one whose outcome is unknown"
        );
        if written {
            world.brokers.release();
            world.brokers.release();
        } else {
            world
                .brokers
                .release_with(&Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS));
            world.brokers.release();
        }
        world.advance_ms(1_500);
        assert_eq!(offset(&first), 0);
        assert!(
            matches!(outcome(&third), Some(Ok(_))),
            "{written}: {:?}",
            outcome(&third)
        );
        assert!(
            matches!(outcome(&fourth), Some(Ok(_))),
            "{written}: {:?}",
            outcome(&fourth)
        );
        let expected: &[&str] = if written {
            &["1", "2", "3", "4"]
        } else {
            &["1", "3", "4"]
        };
        assert_eq!(world.values(0), expected);
    }
}

#[test]
fn bug_4_a_timed_out_batch_leaves_no_gap() {
    // confluent-kafka-dotnet #704: a message that timed out left a fatal sequence gap.
    let mut world = World::ready(short(), 1, 1);
    world.send_alone(0, "0");
    world.script([Reaction::LoseRequest]);
    let lost = world.send_alone(0, "1");
    world.brokers.stop(1);
    world.advance_ms(2_500);
    let later = world.send_alone(0, "2");
    world.advance_ms(600);
    assert!(possibly_written(&lost));
    world.brokers.start(1);
    world.advance_ms(2_300);
    assert!(
        matches!(outcome(&later), Some(Ok(_))),
        "{:?}",
        outcome(&later)
    );
    assert_eq!(world.values(0), ["0", "2"]);
    let headers = &world.brokers.log(TOPIC, 0).headers;
    let numbers: Vec<_> = headers
        .iter()
        .map(|header| (header.producer_epoch, header.base_sequence))
        .collect();
    assert_eq!(numbers, [(0, 0), (1, 0)], "a new epoch without a gap");
}

/// Scenario 11.
#[test]
fn a_late_response_on_a_closed_connection_is_ignored() {
    let mut world = World::ready(config(), 1, 1);
    world.script([Reaction::Hold]);
    let sent = world.send_alone(0, "a");
    // The broker wrote it, but the client closed the connection before the response came.
    let late = world.brokers.release_late();
    world.advance(Duration::from_secs(29));
    assert!(is_pending(&sent));
    world.script([Reaction::Hold]);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.brokers.held(), 1, "it was sent again");
    world.brokers.arrive(late);
    world.run();
    assert!(is_pending(&sent), "the late response has no effect");
    world.brokers.release();
    world.run();
    assert_eq!(offset(&sent), 0);
    assert_eq!(world.values(0), ["a"]);
    assert_eq!(world.brokers.log(TOPIC, 0).headers.len(), 1);
}

#[test]
fn expiry_in_virtual_time_does_not_depend_on_the_wall_clock() {
    // The cores know no clock except `now`: a day later every deadline has passed, and none before.
    let mut world = World::ready(short(), 1, 1);
    world.brokers.stop(1);
    let sent = world.send_alone(0, "a");
    world.advance(Duration::from_secs(24 * 3600));
    assert!(!possibly_written(&sent));
    world.brokers.start(1);
    world.advance_ms(5_000);
    // Meanwhile the topic was unused for so long that it was freed.
    world.know(TOPIC);
    let next = world.send_alone(0, "b");
    world.advance_ms(2_000);
    assert_eq!(offset(&next), 0);
}

#[test]
fn scenario_27_a_wall_clock_that_jumps_expires_nothing_and_keeps_nothing_alive() {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let mut world = World::ready(short(), 1, 1);
    world.script([Reaction::Hold]);
    let sent = world.send_alone(0, "a");
    for jump in [DAY_MS, -DAY_MS, i64::MAX, i64::MIN, 0] {
        world.wall_ms = jump;
        world.advance_ms(100);
        assert!(is_pending(&sent));
    }
    world.brokers.release();
    world.advance_ms(100);
    assert_eq!(offset(&sent), 0);
    world.brokers.stop(1);
    world.run();
    world.wall_ms = -DAY_MS;
    let late = world.send_alone(0, "b");
    world.advance(Duration::from_millis(3_010));
    assert!(!possibly_written(&late), "a clock set back buys no time");
}

/// KAFKA-17862: the socket may still be reading the bytes of a request that failed.
#[test]
fn bug_1_no_buffer_is_reused_under_a_connection_that_broke() {
    let mut world = World::ready(four_chunks(), 2, 2);
    world.script([Reaction::Hold]);
    let first = world.send_alone(0, &large("a"));
    // Like the writer of a connection that learns of its end a moment later.
    let being_written = world.brokers.held_frame();
    let bytes = copied(&being_written);
    world.brokers.disconnect(1);
    for _ in 0..20 {
        world.send_alone(1, &large("b"));
    }
    world.advance_ms(2_000);
    assert_eq!(offset(&first), 0);
    assert_eq!(world.values(0), [large("a")]);
    assert_eq!(world.values(1), vec![large("b"); 20]);
    assert_eq!(
        fill_up(&world),
        3,
        "the fourth chunk is still being written"
    );
    assert_eq!(copied(&being_written), bytes);
    drop(being_written);
    world.run();
    let pool = world.accumulator.pool();
    assert_eq!(pool.available_bytes(), pool.total_bytes());
}
