//! Sequences, epochs, and how brokers that lost something react to them.

use std::time::Duration;

use thalweg_cluster::Role;
use thalweg_producer::{Appended, ProducerConfig, ProducerError};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::world::broker::{Brokers, Reaction};
use crate::world::{TOPIC, World, config, error, is_pending, offset, outcome};

fn warm(config: ProducerConfig) -> (World, Vec<Appended>) {
    let mut world = World::ready(config, 1, 1);
    let first = world.send_alone(0, "0");
    assert_eq!(offset(&first), 0);
    (world, vec![first])
}

/// The same where Produce names its topics, as with brokers before 4.1.
fn warm_by_name(config: ProducerConfig) -> (World, Appended) {
    let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
    brokers.caps.insert(ApiKey::PRODUCE, 12);
    let mut world = World::with(config, brokers, None);
    world.know(TOPIC);
    let first = world.send_alone(0, "0");
    assert_eq!(offset(&first), 0);
    (world, first)
}

fn epochs(world: &mut World) -> Vec<(i16, i32)> {
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
fn a_producer_that_may_not_have_an_id_fails_for_good() {
    let mut brokers = Brokers::new(1, &[(TOPIC, 1)]);
    brokers.producer_id_errors = vec![ErrorCode::CLUSTER_AUTHORIZATION_FAILED].into();
    let mut world = World::with(config(), brokers, None);
    world
        .cluster
        .shared_metadata()
        .request_topic(TOPIC)
        .expect("a valid name");
    // The metadata arrives together with the answer about the producer id. Append before both.
    world.turn();
    world.run();
    let refused = world.try_send(0, "a");
    match refused {
        Err(thalweg_producer::AppendRefusal::Closed(error)) => {
            assert!(
                error.to_string().contains("CLUSTER_AUTHORIZATION_FAILED"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
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
    world.script([Reaction::LoseAnswer]);
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
    // Its answer is lost, and then the broker forgets the producer. Nobody can tell any more
    // whether the broker has the batch.
    let (mut world, _) = warm(config());
    world.script([Reaction::LoseAnswer]);
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
    for reaction in [Reaction::LoseAnswer, Reaction::LoseRequest] {
        let slow = ProducerConfig {
            // The id comes before the next try.
            retry_backoff: Duration::from_secs(2),
            retry_backoff_max: Duration::from_secs(2),
            ..config()
        };
        let (mut world, _) = warm_by_name(slow);
        let is_written = matches!(reaction, Reaction::LoseAnswer);
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
    world.script(vec![Reaction::LoseAnswer; 100]);
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

#[test]
fn a_producer_that_closes_needs_no_id() {
    let mut world = World::new(config(), 1, 1);
    world.sender.close(world.now, &mut world.cluster, world.now);
    world.run();
    assert!(world.sender.is_closed());
    assert_eq!(world.brokers.producer_ids, 0);
}

#[test]
fn no_more_batches_go_out_than_a_broker_remembers() {
    // librdkafka #4953: duplicates when a leader moves. The oldest batch waits for an answer from
    // the old leader. If more than five went to the new one meanwhile, its retry would not be
    // recognized as a duplicate.
    let mut world = World::ready(config(), 2, 1);
    let mut sent = vec![world.send_alone(0, "0")];
    world.script([Reaction::Hold]);
    sent.push(world.send_alone(0, "1"));
    world.brokers.release_without_answer();
    world.brokers.move_leader(TOPIC, 0, 2);
    world.cluster.request_update();
    world.advance_ms(500);
    // The new leader does not answer any of them yet.
    world.script(vec![Reaction::Hold; 4]);
    for n in 2..9 {
        sent.push(world.send_alone(0, &n.to_string()));
    }
    assert_eq!(world.brokers.held(), 4, "with the oldest these are five");
    // The old leader's connection breaks: the retry is a duplicate that the new leader recognizes.
    world.brokers.disconnect(1);
    for _ in 0..4 {
        world.brokers.release();
    }
    world.advance_ms(2_000);
    assert_eq!(
        sent.iter().map(offset).collect::<Vec<_>>(),
        (0..9).collect::<Vec<_>>()
    );
    assert_eq!(world.values(0).len(), 9);
}

#[test]
fn a_silent_old_leader_does_not_keep_the_partition_waiting() {
    // The batch is offered to the new leader, which recognizes it.
    let mut world = World::ready(config(), 2, 1);
    world.send_alone(0, "0");
    world.script([Reaction::Hold]);
    let silent = world.send_alone(0, "1");
    world.brokers.release_without_answer();
    world.brokers.move_leader(TOPIC, 0, 2);
    world.cluster.request_update();
    world.advance_ms(500);
    let behind: Vec<_> = (2..12)
        .map(|n| world.send_alone(0, &n.to_string()))
        .collect();
    assert_eq!(
        behind.iter().map(offset).collect::<Vec<_>>(),
        (2..12).collect::<Vec<_>>()
    );
    assert_eq!(offset(&silent), 1);
    world.advance(Duration::from_secs(60));
    assert_eq!(world.values(0).len(), 12);
}

/// Sends this many batches, writes the first few of them, loses all answers, and restarts the
/// broker.
fn written_and_restarted(sent: usize, written: usize) -> (World, Vec<Appended>) {
    let (mut world, mut all) = warm(config());
    world.script(vec![Reaction::Hold; sent]);
    for n in 1..=sent {
        all.push(world.send_alone(0, &n.to_string()));
    }
    for _ in 0..written {
        world.brokers.release_without_answer();
    }
    world.brokers.restart();
    (world, all)
}

/// Scenario 13.
#[test]
fn batches_that_a_restarted_broker_no_longer_remembers_are_not_doubled() {
    for written in 0..=5 {
        let (mut world, all) = written_and_restarted(5, written);
        world.advance_ms(5_000);
        assert_eq!(
            world.values(0),
            ["0", "1", "2", "3", "4", "5"],
            "{written} were written"
        );
        // Nobody knows the offset of the batches that the broker no longer remembers.
        for (n, one) in all.iter().enumerate() {
            let forgotten = written > 1 && (1..=written.min(4)).contains(&n);
            assert_eq!(offset(one), if forgotten { -1 } else { n as i64 });
        }
        assert!(epochs(&mut world).iter().all(|&(epoch, _)| epoch == 0));
        let next = world.send_alone(0, "6");
        assert_eq!(offset(&next), 6);
    }
}

/// Scenario 13.
#[test]
fn a_broker_without_any_of_the_unanswered_batches_gets_them_in_a_new_epoch() {
    let (mut world, all) = written_and_restarted(5, 0);
    world.brokers.recreate_log_with_gap(TOPIC, 0);
    world.advance_ms(5_000);
    assert_eq!(world.values(0), ["1", "2", "3", "4", "5"]);
    assert!(epochs(&mut world).iter().all(|&(epoch, _)| epoch == 1));
    assert!(all.iter().all(|one| matches!(outcome(one), Some(Ok(_)))));
}

#[test]
fn a_search_that_is_broken_off_starts_again() {
    // At any point of the search the connection breaks, or the broker returns another error.
    let reactions = [
        Reaction::LoseRequest,
        Reaction::LoseAnswer,
        Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS),
        Reaction::Forget,
    ];
    for reaction in reactions {
        for usual in 0..6 {
            let (mut world, all) = written_and_restarted(5, 3);
            world.script(vec![Reaction::Usual; usual]);
            world.script([reaction.clone()]);
            world.advance_ms(10_000);
            assert_eq!(
                world.values(0),
                ["0", "1", "2", "3", "4", "5"],
                "{reaction:?} after {usual}"
            );
            assert!(all.iter().all(|one| matches!(outcome(one), Some(Ok(_)))));
        }
    }
}

#[test]
fn a_leader_that_changes_during_a_search_is_asked_from_the_start() {
    let mut world = World::ready(config(), 2, 1);
    let mut all = vec![world.send_alone(0, "0")];
    world.script(vec![Reaction::Hold; 5]);
    all.extend((1..=5).map(|n| world.send_alone(0, &n.to_string())));
    (0..4).for_each(|_| world.brokers.release_without_answer());
    world.brokers.restart();
    // The oldest and the latest are refused, then the next one is not answered.
    world.script([Reaction::Usual, Reaction::Usual, Reaction::Silence]);
    world.advance_ms(1_000);
    world.brokers.move_leader(TOPIC, 0, 2);
    world.cluster.request_update();
    world.advance_ms(5_000);
    assert_eq!(world.values(0), ["0", "1", "2", "3", "4", "5"]);
    assert!(all.iter().all(|one| matches!(outcome(one), Some(Ok(_)))));
}

#[test]
fn a_batch_that_was_given_up_leaves_those_before_it_in_doubt() {
    // The third and last batch is written and fails for good. The restarted broker remembers only
    // that one, so it refuses the others, although it has them.
    let (mut world, _) = warm(config());
    world.script(vec![Reaction::Hold; 3]);
    let sent = ["1", "2", "3"].map(|value| world.send_alone(0, value));
    for code in [
        ErrorCode::REQUEST_TIMED_OUT,
        ErrorCode::REQUEST_TIMED_OUT,
        ErrorCode::INVALID_REQUEST,
    ] {
        world
            .brokers
            .release_with(&Reaction::RefuseAfterWriting(code));
    }
    world.brokers.restart();
    world.advance_ms(5_000);
    for one in &sent {
        assert!(error(one).possibly_written());
    }
    let next = world.send_alone(0, "4");
    assert!(matches!(outcome(&next), Some(Ok(_))));
    assert_eq!(world.values(0), ["0", "1", "2", "3", "4"]);
}

#[test]
fn a_batch_in_doubt_before_a_known_gap_is_not_sent_without_end() {
    // The first two batches are written. The second fails for good, so the first cannot be searched
    // for, and the restarted broker refuses it. The third is certainly not written: a gap.
    let (mut world, _) = warm(config());
    world.script(vec![Reaction::Hold; 3]);
    let sent = ["1", "2", "3"].map(|value| world.send_alone(0, value));
    for reaction in [
        Reaction::RefuseAfterWriting(ErrorCode::REQUEST_TIMED_OUT),
        Reaction::RefuseAfterWriting(ErrorCode::INVALID_REQUEST),
        Reaction::Refuse(ErrorCode::INVALID_RECORD),
    ] {
        world.brokers.release_with(&reaction);
    }
    world.brokers.restart();
    world.advance_ms(5_000);
    let in_doubt = sent.each_ref().map(|one| error(one).possibly_written());
    assert_eq!(in_doubt, [true, true, false]);
    let next = world.send_alone(0, "4");
    assert!(matches!(outcome(&next), Some(Ok(_))));
    assert_eq!(world.values(0), ["0", "1", "2", "4"]);
}

#[test]
fn a_batch_behind_which_others_are_acknowledged_is_written() {
    // The first batch is written and refused with a timeout. The broker forgets it in a restart.
    let (mut world, _) = warm(config());
    world.script(vec![Reaction::Hold; 3]);
    let sent = ["1", "2", "3"].map(|value| world.send_alone(0, value));
    world
        .brokers
        .release_with(&Reaction::RefuseAfterWriting(ErrorCode::REQUEST_TIMED_OUT));
    world.brokers.release();
    world.brokers.release();
    world.brokers.restart();
    world.advance_ms(5_000);
    assert_eq!(offset(&sent[0]), -1);
    assert_eq!((offset(&sent[1]), offset(&sent[2])), (2, 3));
    assert_eq!(world.values(0), ["0", "1", "2", "3"]);
}

#[test]
fn a_leader_that_has_lost_the_producer_gets_what_the_old_one_left_unanswered_first() {
    // An unclean election: the new leader accepts any sequence from a producer that it does not
    // know. So if it accepts a later batch, that proves nothing about one that only the old leader
    // got.
    let mut world = World::ready(config(), 2, 1);
    world.send_alone(0, "0");
    world.script([Reaction::Hold]);
    let silent = world.send_alone(0, "1");
    world.brokers.move_leader(TOPIC, 0, 2);
    world.brokers.log(TOPIC, 0).forget_producers();
    world.cluster.request_update();
    world.advance_ms(500);
    let behind: Vec<_> = (2..5)
        .map(|n| world.send_alone(0, &n.to_string()))
        .collect();
    assert_eq!(offset(&silent), 1);
    assert_eq!(behind.iter().map(offset).collect::<Vec<_>>(), [2, 3, 4]);
    // What the old leader answers afterwards changes nothing.
    world.brokers.release();
    world.advance(Duration::from_secs(60));
    assert_eq!(world.values(0), ["0", "1", "2", "3", "4"]);
}

#[test]
fn the_first_batch_to_another_leader_goes_alone() {
    // A leader that does not know the producer would accept the second batch as the first.
    let mut world = World::ready(config(), 2, 1);
    world.send_alone(0, "0");
    world.brokers.move_leader(TOPIC, 0, 2);
    world.brokers.log(TOPIC, 0).forget_producers();
    world.cluster.request_update();
    world.advance_ms(500);
    world.script([Reaction::Hold]);
    let sent = ["1", "2"].map(|value| world.send_alone(0, value));
    assert_eq!(world.brokers.held(), 1);
    world
        .brokers
        .release_with(&Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS));
    world.advance_ms(2_000);
    assert_eq!(sent.each_ref().map(offset), [1, 2]);
    assert_eq!(world.values(0), ["0", "1", "2"]);
}
