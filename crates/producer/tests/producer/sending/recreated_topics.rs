//! Batches for topics that are deleted, or created again under the same name.

use std::time::Duration;

use thalweg_producer::{Appended, ProducerConfig, ProducerError};
use thalweg_protocol::{ApiKey, ErrorCode, Uuid};

use crate::sending::idempotence::{epochs, warm};
use crate::world::broker::{Brokers, Reaction};
use crate::world::{TOPIC, World, config, error, offset, outcome};

/// Returns a world with one record. Produce names its topics, as with brokers before 4.1.
fn warm_by_name(config: ProducerConfig) -> (World, Appended) {
    let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
    brokers.caps.insert(ApiKey::PRODUCE, 12);
    let mut world = World::with(config, brokers, None);
    world.know(TOPIC);
    let first = world.send_alone(0, "0");
    assert_eq!(offset(&first), 0);
    (world, first)
}

/// Options with a pause before the next attempt, in which metadata arrives.
fn slow() -> ProducerConfig {
    ProducerConfig {
        retry_backoff: Duration::from_secs(2),
        retry_backoff_max: Duration::from_secs(2),
        ..config()
    }
}

/// Scenario 20.
#[test]
fn a_topic_made_again_starts_its_numbering_again() {
    let (mut world, _) = warm(config());
    world.script([Reaction::LoseRequest]);
    let sent = world.send_alone(0, "1");
    world.brokers.recreate_topic(TOPIC);
    world.brokers.wants_known_producers = true;
    world.advance_ms(10_000);
    assert_eq!(offset(&sent), 0, "the first record of the new topic");
    assert_eq!(world.values(0), ["1"]);
    assert_eq!(epochs(&mut world), [(1, 0)]);
}

/// Scenario 20.
#[test]
fn a_batch_sent_by_name_to_a_topic_made_again_is_written_once() {
    // Produce 12 names the topic, so the batch may be in the new log before its id is known.
    for reaction in [Reaction::LoseResponse, Reaction::LoseRequest] {
        let (mut world, _) = warm_by_name(slow());
        let is_written = matches!(reaction, Reaction::LoseResponse);
        world.script([reaction]);
        world.brokers.recreate_topic(TOPIC);
        let lost = world.send_alone(0, "1");
        world.advance_ms(10_000);
        let error = error(&lost);
        assert!(
            matches!(error, ProducerError::SequenceGap { .. }) && error.possibly_written(),
            "{error}"
        );
        let next = world.send_alone(0, "2");
        world.advance_ms(1_000);
        assert!(matches!(outcome(&next), Some(Ok(_))));
        let there: &[&str] = if is_written { &["1", "2"] } else { &["2"] };
        assert_eq!(world.values(0), there);
    }
}

/// Scenario 20. A broker that lags behind names the ID that the topic had before it was created
/// again, and the next response names the new ID again.
#[test]
fn a_batch_in_doubt_fails_if_an_old_topic_id_comes_back() {
    for reaction in [Reaction::LoseResponse, Reaction::LoseRequest] {
        let (mut world, _) = warm(slow());
        let is_written = matches!(reaction, Reaction::LoseResponse);
        world.script([reaction]);
        let lost = world.send_alone(0, "1");
        let id = world.brokers.topics[TOPIC].id;
        for id in [Uuid([7; 16]), id] {
            world.brokers.topics.get_mut(TOPIC).expect("it exists").id = id;
            world.cluster.request_update();
            world.advance_ms(500);
        }
        world.advance_ms(10_000);
        let error = error(&lost);
        assert!(
            matches!(error, ProducerError::SequenceGap { .. }) && error.possibly_written(),
            "{error}"
        );
        let next = world.send_alone(0, "2");
        world.advance_ms(1_000);
        assert!(matches!(outcome(&next), Some(Ok(_))));
        let there: &[&str] = if is_written {
            &["0", "1", "2"]
        } else {
            &["0", "2"]
        };
        assert_eq!(world.values(0), there);
    }
}

/// Scenario 20.
#[test]
fn a_batch_refused_by_name_is_sent_again_to_a_topic_made_again() {
    let (mut world, _) = warm_by_name(config());
    world.script([Reaction::Refuse(ErrorCode::NOT_LEADER_OR_FOLLOWER)]);
    world.brokers.recreate_topic(TOPIC);
    let sent = world.send_alone(0, "1");
    world.advance_ms(10_000);
    assert_eq!(offset(&sent), 0);
    assert_eq!(world.values(0), ["1"]);
}

/// Scenario 20.
#[test]
fn without_idempotence_a_topic_made_again_hides_no_doubt() {
    let plain = ProducerConfig {
        enable_idempotence: false,
        delivery_timeout: Duration::from_secs(3),
        ..config()
    };
    let (mut world, _) = warm(plain);
    world.brokers.recreate_topic(TOPIC);
    let sent = world.send_alone(0, "1");
    world.advance_ms(10_000);
    assert_eq!(offset(&sent), 0);
    world.script(vec![Reaction::LoseResponse; 100]);
    let lost = world.send_alone(0, "2");
    world.advance_ms(10_000);
    assert!(error(&lost).possibly_written());
    assert!(!world.values(0).is_empty());
}

/// Scenario 20.
#[test]
fn records_for_a_deleted_topic_do_not_loop_for_ever() {
    let mut world = World::ready(config(), 1, 1);
    world.brokers.topics.clear();
    let sent = world.send_alone(0, "a");
    world.advance(Duration::from_secs(121));
    let error = error(&sent);
    assert!(
        matches!(error, ProducerError::DeliveryTimeout { .. }),
        "{error}"
    );
    assert!(
        world.brokers.requests.len() < 400,
        "{}",
        world.brokers.requests.len()
    );
}
