//! Sequences, epochs, and how brokers that lost something react to them.

use std::time::Duration;

use thalweg_cluster::Role;
use thalweg_producer::{Appended, ProducerConfig, ProducerError};
use thalweg_protocol::ErrorCode;

use crate::world::broker::{Brokers, Reaction};
use crate::world::{TOPIC, World, config, error, is_pending, offset, outcome};

pub(crate) fn warm(config: ProducerConfig) -> (World, Vec<Appended>) {
    let mut world = World::ready(config, 1, 1);
    let first = world.send_alone(0, "0");
    assert_eq!(offset(&first), 0);
    (world, vec![first])
}

pub(crate) fn epochs(world: &mut World) -> Vec<(i16, i32)> {
    let headers = &world.brokers.log(TOPIC, 0).headers;
    headers
        .iter()
        .map(|header| (header.producer_epoch, header.base_sequence))
        .collect()
}

#[test]
fn batches_carry_one_producer_id_and_consecutive_sequences() {
    let linger = ProducerConfig {
        linger: Duration::from_millis(5),
        ..config()
    };
    let mut world = World::ready(linger, 1, 2);
    for batch in 0..3 {
        for record in 0..=batch {
            world.send(0, &record.to_string());
            world.send(1, "x");
        }
        world.advance_ms(6);
    }
    for partition in [0, 1] {
        let headers = &world.brokers.log(TOPIC, partition).headers;
        let sequences: Vec<_> = headers
            .iter()
            .map(|h| (h.base_sequence, h.last_sequence()))
            .collect();
        assert_eq!(sequences, [(0, 0), (1, 2), (3, 5)]);
        assert!(
            headers
                .iter()
                .all(|h| h.producer_id == 1001 && h.producer_epoch == 0)
        );
    }
    assert_eq!(world.brokers.producer_ids, 1);
}

#[test]
fn nothing_is_sent_before_the_producer_id_is_known() {
    let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
    brokers.producer_id_errors = vec![ErrorCode::COORDINATOR_LOAD_IN_PROGRESS; 3].into();
    let mut world = World::with(config(), brokers, None);
    world.know(TOPIC);
    let sent = world.send_alone(0, "a");
    assert!(is_pending(&sent) && world.brokers.requests.is_empty());
    world.advance_ms(2_000);
    assert_eq!(offset(&sent), 0);
}

/// A deadline in the past is not a deadline: the I/O thread would run without a pause.
#[test]
fn who_waits_for_a_producer_id_without_brokers_is_at_rest() {
    let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
    brokers.producer_id_errors = vec![ErrorCode::COORDINATOR_LOAD_IN_PROGRESS].into();
    let mut world = World::with(config(), brokers, None);
    world.know(TOPIC);
    world.brokers.unreachable.insert(1);
    world.brokers.disconnect(1);
    world.advance_ms(5_000);
    let next = world.sender.next_deadline(world.now);
    assert!(next.is_none_or(|at| at > world.now), "{next:?}");
    world.brokers.unreachable.clear();
    let sent = world.send(0, "a");
    world.advance_ms(5_000);
    assert_eq!(offset(&sent), 0);
}

#[test]
fn a_producer_that_may_not_have_an_id_fails_its_records_until_it_may() {
    let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
    brokers.producer_id_errors = vec![ErrorCode::CLUSTER_AUTHORIZATION_FAILED; 3].into();
    let mut world = World::with(config(), brokers, None);
    world.know(TOPIC);
    world.advance_ms(60_000);
    let left = world.brokers.producer_id_errors.len();
    assert_eq!(left, 2, "without records it does not ask again");
    for _ in 0..2 {
        let refused = world.send(0, "a");
        world.advance_ms(2_000);
        let text = error(&refused).to_string();
        assert!(text.contains("CLUSTER_AUTHORIZATION_FAILED"), "{text}");
        assert!(
            text.contains("User:ANONYMOUS needs WRITE on a topic"),
            "{text}"
        );
    }
    let sent = world.send(0, "b");
    world.advance_ms(2_000);
    assert_eq!(offset(&sent), 0, "somebody has granted the right");
}

/// Scenario 2.
#[test]
fn a_duplicate_that_the_broker_no_longer_remembers_is_a_success_without_offset() {
    let (mut world, _) = warm(config());
    world.script([Reaction::Refuse(ErrorCode::DUPLICATE_SEQUENCE_NUMBER)]);
    let sent = world.send_alone(0, "1");
    assert_eq!(offset(&sent), -1);
}

/// Scenario 2.
#[test]
fn a_lost_acknowledgement_is_no_duplicate() {
    let (mut world, _) = warm(config());
    world.script([Reaction::LoseResponse]);
    let sent = world.send_alone(0, "1");
    world.advance_ms(5_000);
    assert_eq!(offset(&sent), 1, "the offset that it got the first time");
    assert_eq!(world.values(0), ["0", "1"]);
}

/// Scenario 13.
#[test]
fn a_broker_that_lost_acknowledged_records_starts_a_new_epoch() {
    // This is an unclean election: the log lacks acknowledged records. Batches that were certainly
    // not written are sent again under the next epoch, in order and once.
    let (mut world, mut sent) = warm(config());
    world.brokers.recreate_log_with_gap(TOPIC, 0);
    world.script(vec![Reaction::Hold; 3]);
    for n in 1..4 {
        sent.push(world.send_alone(0, &n.to_string()));
    }
    for _ in 0..3 {
        world.brokers.release();
    }
    world.advance_ms(5_000);
    assert_eq!(world.values(0), ["1", "2", "3"]);
    assert_eq!(epochs(&mut world), [(1, 0), (1, 1), (1, 2)]);
    assert!(sent.iter().all(|one| matches!(outcome(one), Some(Ok(_)))));
}

/// Scenario 13.
#[test]
fn a_batch_that_may_be_written_never_gets_another_number() {
    // Its response is lost, and then the broker forgets the producer. Nobody can tell any more
    // whether the broker has the batch.
    let (mut world, _) = warm(config());
    world.script([Reaction::LoseResponse]);
    let lost = world.send(0, "1");
    world.turn();
    world.brokers.wants_known_producers = true;
    world.brokers.log(TOPIC, 0).forget_producers();
    world.advance_ms(5_000);
    let error = error(&lost);
    assert!(
        matches!(error, ProducerError::SequenceGap { .. }),
        "{error}"
    );
    assert!(error.possibly_written());
    let next = world.send_alone(0, "2");
    world.advance_ms(1_000);
    assert!(matches!(outcome(&next), Some(Ok(_))));
    assert_eq!(
        world.values(0),
        ["0", "1", "2"],
        "it was there, and it is there once"
    );
}

#[test]
fn a_batch_that_was_lost_on_the_way_is_sent_under_a_new_number_if_the_broker_lacks_it() {
    // The request is lost. Then the broker turns out to lack earlier batches, but it knows the
    // producer: if it had the batch, it would say so.
    let (mut world, _) = warm(config());
    world.script([Reaction::LoseRequest]);
    let lost = world.send_alone(0, "1");
    world.brokers.recreate_log_with_gap(TOPIC, 0);
    world.advance_ms(5_000);
    assert!(matches!(outcome(&lost), Some(Ok(_))));
    assert_eq!(world.values(0), ["1"]);
    assert_eq!(epochs(&mut world), [(1, 0)]);
}

#[test]
fn what_is_older_than_a_gap_keeps_its_number() {
    // Batch 1 is lost in transit and batch 2 is refused for good. Batch 1 may be written, so it
    // keeps its sequence, and only the later ones start a new epoch.
    let (mut world, _) = warm(config());
    world.script(vec![Reaction::Hold; 3]);
    let sent = ["1", "2", "3"].map(|value| world.send_alone(0, value));
    world
        .brokers
        .release_with(&Reaction::RefuseAfterWriting(ErrorCode::REQUEST_TIMED_OUT));
    world
        .brokers
        .release_with(&Reaction::Refuse(ErrorCode::INVALID_TIMESTAMP));
    world
        .brokers
        .release_with(&Reaction::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    world.advance_ms(2_000);
    assert_eq!(offset(&sent[0]), 1);
    assert_eq!(error(&sent[1]).code(), Some(ErrorCode::INVALID_TIMESTAMP));
    assert_eq!(offset(&sent[2]), 2);
    assert_eq!(world.values(0), ["0", "1", "3"]);
    assert_eq!(epochs(&mut world), [(0, 0), (0, 1), (1, 0)]);
}

#[test]
fn a_broker_that_forgot_the_producer_is_told_a_new_epoch() {
    let (mut world, _) = warm(config());
    world.brokers.wants_known_producers = true;
    world.brokers.log(TOPIC, 0).forget_producers();
    let sent = world.send_alone(0, "1");
    world.advance_ms(1_000);
    assert_eq!(offset(&sent), 1);
    assert_eq!(world.values(0), ["0", "1"]);
    assert_eq!(epochs(&mut world), [(0, 0), (1, 0)]);
}

#[test]
fn a_gap_in_one_partition_concerns_no_other() {
    let mut world = World::ready(config(), 1, 2);
    world.send_alone(0, "0");
    world.send_alone(1, "0");
    world.script([Reaction::Refuse(ErrorCode::INVALID_TIMESTAMP)]);
    world.send_alone(0, "bad");
    world.send_alone(0, "1");
    world.send_alone(1, "1");
    let headers = |world: &mut World, partition| {
        let headers = &world.brokers.log(TOPIC, partition).headers;
        headers
            .iter()
            .map(|h| (h.producer_epoch, h.base_sequence))
            .collect::<Vec<_>>()
    };
    assert_eq!(headers(&mut world, 0), [(0, 0), (1, 0)]);
    assert_eq!(headers(&mut world, 1), [(0, 0), (0, 1)]);
    assert_eq!(world.brokers.producer_ids, 1);
}

#[test]
fn a_failed_batch_leaves_no_gap_for_those_behind_it() {
    let (mut world, _) = warm(config());
    world.script(vec![Reaction::Hold; 3]);
    let bad = world.send_alone(0, "bad");
    let good = ["1", "2"].map(|value| world.send_alone(0, value));
    world
        .brokers
        .release_with(&Reaction::Refuse(ErrorCode::INVALID_TIMESTAMP));
    world.brokers.release();
    world.brokers.release();
    world.advance_ms(2_000);
    assert_eq!(error(&bad).code(), Some(ErrorCode::INVALID_TIMESTAMP));
    assert!(good.iter().all(|one| matches!(outcome(one), Some(Ok(_)))));
    assert_eq!(world.values(0), ["0", "1", "2"]);
}

#[test]
fn the_last_epoch_is_followed_by_a_new_producer_id() {
    let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
    brokers.first_epoch = i16::MAX;
    let mut world = World::with(config(), brokers, None);
    world.know(TOPIC);
    world.send_alone(0, "0");
    world.script([Reaction::Refuse(ErrorCode::INVALID_TIMESTAMP)]);
    world.brokers.first_epoch = 0;
    world.send_alone(0, "bad");
    let sent = world.send_alone(0, "1");
    world.advance_ms(1_000);
    assert_eq!(offset(&sent), 1);
    let headers = &world.brokers.log(TOPIC, 0).headers;
    assert_eq!(headers[1].producer_id, 1002);
    assert_eq!(
        (headers[1].producer_epoch, headers[1].base_sequence),
        (0, 0)
    );
}

#[test]
fn bug_2_a_topic_that_vanishes_from_the_metadata_keeps_its_numbering() {
    // librdkafka 1.9.0 started again at 0, and the broker took new records for old ones.
    let (mut world, _) = warm(config());
    let topic = world.brokers.topics.remove(TOPIC).expect("it exists");
    world.cluster.request_update();
    world.advance_ms(5_000);
    let sent = world.send_alone(0, "1");
    world.brokers.topics.insert(TOPIC.to_owned(), topic);
    world.advance_ms(10_000);
    assert_eq!(offset(&sent), 1);
    assert_eq!(epochs(&mut world), [(0, 0), (0, 1)]);
}

#[test]
fn a_producer_that_closes_needs_no_id() {
    let mut world = World::new(config(), 1, 1);
    world.sender.close(world.now, &mut world.cluster, world.now);
    world.run();
    assert!(world.sender.is_closed());
    assert_eq!(world.brokers.producer_ids, 0);
}
