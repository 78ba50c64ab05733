//! What is sent again, when, and what the user learns of it.

use std::time::Duration;

use thalweg_producer::{Acks, ProducerConfig, ProducerError};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::world::broker::{Brokers, Reaction};
use crate::world::{TOPIC, World, config, error, is_pending, offset, outcome};

fn not_idempotent() -> ProducerConfig {
    ProducerConfig {
        enable_idempotence: false,
        ..config()
    }
}

/// Scenario 40, and 6: a batch that was corrupted in transit is sent again.
#[test]
fn retriable_errors_are_no_news_to_the_user() {
    for code in [
        ErrorCode::CORRUPT_MESSAGE,
        ErrorCode::NOT_ENOUGH_REPLICAS,
        ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode::KAFKA_STORAGE_ERROR,
    ] {
        assert!(code.is_retriable(), "{code}");
    }
    for code in ErrorCode::all().filter(|code| code.is_retriable()) {
        for config in [config(), not_idempotent()] {
            let mut world = World::ready(config, 1, 1);
            world.script([Reaction::Refuse(code)]);
            let sent = world.send_alone(0, "a");
            assert!(is_pending(&sent), "{code}");
            world.advance_ms(2_000);
            assert_eq!(offset(&sent), 0, "{code}");
            assert!(
                (world.metric("record-retry-total") - 1.0).abs() < 0.5,
                "{code}"
            );
        }
    }
}

#[test]
fn other_errors_fail_at_once_and_name_partition_and_code() {
    for code in [
        ErrorCode::TOPIC_AUTHORIZATION_FAILED,
        ErrorCode::INVALID_TOPIC_EXCEPTION,
        ErrorCode::UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode::INVALID_TIMESTAMP,
        ErrorCode::UNKNOWN_SERVER_ERROR,
    ] {
        let mut world = World::ready(config(), 1, 1);
        world.script([Reaction::Refuse(code)]);
        let sent = world.send_alone(0, "a");
        let error = error(&sent);
        assert_eq!(error.code(), Some(code));
        assert!(error.to_string().starts_with("t-0: "), "{error}");
        assert_eq!(
            error.possibly_written(),
            code == ErrorCode::UNKNOWN_SERVER_ERROR
        );
        // The next record succeeds: its sequences start again under the next epoch.
        let next = world.send_alone(0, "b");
        assert_eq!(offset(&next), 0);
        assert_eq!(world.values(0), ["b"]);
    }
}

#[test]
fn backoff_doubles_up_to_its_limit() {
    let mut world = World::ready(config(), 1, 1);
    world.script(vec![Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS); 8]);
    let sent = world.send_alone(0, "a");
    let mut waits = Vec::new();
    while is_pending(&sent) {
        let (tries, start) = (world.brokers.requests.len(), world.now);
        while world.brokers.requests.len() == tries {
            world.advance(Duration::from_millis(1));
        }
        waits.push((world.now - start).as_millis());
        assert!(waits.len() < 20);
    }
    let expected = [100, 200, 400, 800, 1000, 1000, 1000, 1000];
    for (wait, base) in waits.iter().zip(expected) {
        assert!(
            (base * 79 / 100..=base * 121 / 100 + 1).contains(wait),
            "{waits:?}"
        );
    }
    assert_eq!(waits.len(), 8);
}

/// Scenario 3.
#[test]
fn a_leader_named_in_the_response_is_used_without_backoff_or_metadata() {
    // KIP-951.
    let mut world = World::ready(config(), 2, 1);
    world.brokers.move_leader(TOPIC, 0, 2);
    world.script([Reaction::Moved(2, 1)]);
    let asked = world.brokers.metadata_requests;
    let sent = world.send_alone(0, "a");
    assert_eq!(offset(&sent), 0);
    let nodes: Vec<_> = world
        .brokers
        .requests
        .iter()
        .map(|(node, _)| *node)
        .collect();
    assert_eq!(nodes, [1, 2]);
    assert_eq!(world.brokers.metadata_requests, asked);
}

/// Scenario 3.
#[test]
fn a_deposed_leader_makes_the_producer_ask_for_metadata() {
    let mut world = World::ready(config(), 2, 1);
    world.brokers.move_leader(TOPIC, 0, 2);
    let asked = world.brokers.metadata_requests;
    let sent = world.send_alone(0, "a");
    world.advance_ms(1_000);
    assert_eq!(offset(&sent), 0);
    assert!(world.brokers.metadata_requests > asked);
}

#[test]
fn a_partition_without_a_leader_waits_for_one() {
    let mut world = World::ready(config(), 2, 1);
    world.brokers.move_leader(TOPIC, 0, -1);
    world.cluster.request_update();
    world.advance_ms(500);
    let sent = world.send_alone(0, "a");
    world.advance_ms(2_000);
    assert!(is_pending(&sent));
    assert!(world.brokers.requests.is_empty(), "nobody to send to");
    world.brokers.move_leader(TOPIC, 0, 2);
    world.advance_ms(2_000);
    assert_eq!(offset(&sent), 0);
}

#[test]
fn retries_have_a_number_too() {
    let two = ProducerConfig {
        retries: 2,
        ..not_idempotent()
    };
    let mut world = World::ready(two, 1, 1);
    world.script(vec![Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS); 5]);
    let sent = world.send_alone(0, "a");
    world.advance_ms(5_000);
    assert_eq!(error(&sent).code(), Some(ErrorCode::NOT_ENOUGH_REPLICAS));
    assert_eq!(world.brokers.requests.len(), 3);
}

#[test]
fn without_retries_a_lost_connection_is_an_error_that_says_possibly_written() {
    let none = ProducerConfig {
        retries: 0,
        ..not_idempotent()
    };
    let mut world = World::ready(none, 1, 1);
    world.script([Reaction::LoseResponse]);
    let sent = world.send_alone(0, "a");
    let error = error(&sent);
    assert!(matches!(error, ProducerError::Network { .. }), "{error}");
    assert!(error.possibly_written());
    assert!(error.to_string().contains("possibly written"), "{error}");
}

/// Scenario 11.
#[test]
fn a_broker_that_is_silent_is_given_up_after_the_request_timeout() {
    let mut world = World::ready(config(), 1, 1);
    world.script([Reaction::Silence, Reaction::Silence]);
    let sent = [world.send_alone(0, "a"), world.send_alone(0, "b")];
    world.advance(Duration::from_secs(29));
    assert!(sent.iter().all(is_pending));
    world.advance(Duration::from_secs(35));
    assert_eq!(sent.each_ref().map(offset), [0, 1]);
    assert_eq!(world.values(0), ["a", "b"]);
}

#[test]
fn a_response_that_lacks_the_partition_or_is_unreadable_counts_as_lost() {
    for reaction in [Reaction::Forget, Reaction::Garbage] {
        let mut world = World::ready(config(), 1, 1);
        world.script([reaction]);
        let sent = world.send_alone(0, "a");
        world.advance_ms(5_000);
        assert_eq!(offset(&sent), 0);
        assert_eq!(world.values(0), ["a"]);
    }
}

#[test]
fn acks_0_is_done_when_the_request_is_written() {
    let config = ProducerConfig {
        acks: Acks::None,
        ..config()
    };
    let mut world = World::ready(config, 1, 1);
    let sent = world.send_alone(0, "a");
    assert_eq!(offset(&sent), -1);
    assert_eq!(world.values(0), ["a"]);
    assert_eq!(world.brokers.producer_ids, 0, "acks=0 cannot be idempotent");
}

#[test]
fn acks_1_gives_offsets() {
    let config = ProducerConfig {
        acks: Acks::Leader,
        enable_idempotence: false,
        ..config()
    };
    let mut world = World::ready(config, 1, 1);
    let sent = [world.send_alone(0, "a"), world.send_alone(0, "b")];
    assert_eq!(sent.each_ref().map(offset), [0, 1]);
    assert!(
        world
            .brokers
            .log(TOPIC, 0)
            .headers
            .iter()
            .all(|h| h.producer_id == -1)
    );
}

/// Scenario 41.
#[test]
fn a_throttled_producer_holds_its_requests_back() {
    // KIP-219.
    let mut world = World::ready(config(), 1, 1);
    world.script([Reaction::Throttle(700)]);
    let first = world.send_alone(0, "a");
    assert_eq!(offset(&first), 0);
    let second = world.send_alone(0, "b");
    world.advance_ms(690);
    assert!(is_pending(&second));
    world.advance_ms(20);
    assert_eq!(offset(&second), 1);
    assert!((world.metric("produce-throttle-time-max") - 700.0).abs() < 0.5);
}

#[test]
fn errors_of_single_records_reach_the_right_futures() {
    // KIP-467.
    let config = ProducerConfig {
        linger: Duration::from_millis(10),
        ..config()
    };
    let mut world = World::ready(config, 1, 1);
    world.script([Reaction::InvalidRecords(vec![(1, "no key"), (2, "bad")])]);
    let sent = ["a", "b", "c", "d"].map(|value| world.send(0, value));
    world.advance_ms(20);
    let errors = sent.each_ref().map(error);
    assert!(
        matches!(errors[0], ProducerError::OtherRecordsInvalid { .. }),
        "{:?}",
        errors[0]
    );
    match &errors[1] {
        ProducerError::InvalidRecord {
            index: 1, message, ..
        } => assert_eq!(&**message, "no key"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        errors[2],
        ProducerError::InvalidRecord { index: 2, .. }
    ));
    assert!(matches!(
        errors[3],
        ProducerError::OtherRecordsInvalid { .. }
    ));
}

#[test]
fn bug_19_a_request_goes_by_names_where_topic_ids_are_not_known() {
    // A proxy may limit Metadata to a version without topic ids. It must not get zero ids in
    // Produce 13.
    let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
    brokers.caps.insert(ApiKey::METADATA, 9);
    let mut world = World::with(config(), brokers, None);
    world.know(TOPIC);
    let sent = world.send_alone(0, "a");
    assert_eq!(offset(&sent), 0);
    assert_eq!(world.brokers.versions, [12]);
    let mut world = World::ready(config(), 1, 1);
    world.send_alone(0, "a");
    assert_eq!(world.brokers.versions, [13]);
}

#[test]
fn bug_15_every_version_of_produce_brings_records_and_compression() {
    // The bug: an equality test instead of a range test of the version disabled compression.
    for version in 3..=13 {
        let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
        brokers.caps.insert(ApiKey::PRODUCE, version);
        let lz4 = ProducerConfig {
            compression: thalweg_records::Compression::Lz4,
            ..config()
        };
        let mut world = World::with(lz4, brokers, None);
        world.know(TOPIC);
        let value = "abcdefgh".repeat(50);
        let sent = world.send_alone(0, &value);
        assert!(
            !is_pending(&sent),
            "version {version}: {:?}",
            world.brokers.versions
        );
        assert_eq!(world.brokers.versions, [version]);
        let header = world.brokers.log(TOPIC, 0).headers[0];
        assert_eq!(
            header.attributes.compression(),
            Some(thalweg_records::Compression::Lz4)
        );
        assert_eq!(world.values(0), [value]);
    }
}

#[test]
fn one_partition_refused_leaves_the_others_of_the_request_alone() {
    let linger = ProducerConfig {
        linger: Duration::from_millis(5),
        ..config()
    };
    let mut world = World::ready(linger, 1, 3);
    world.script([Reaction::RefusePartition(1, ErrorCode::NOT_ENOUGH_REPLICAS)]);
    let sent = [0, 1, 2].map(|partition| world.send(partition, "a"));
    world.advance_ms(6);
    assert_eq!(world.brokers.requests.len(), 1);
    assert!(outcome(&sent[0]).is_some() && outcome(&sent[2]).is_some());
    assert!(is_pending(&sent[1]));
    world.advance_ms(1_000);
    assert_eq!(offset(&sent[1]), 0);
}
