//! Batches that may be written: restarts, and leaders that change while responses are missing.

use std::time::Duration;

use thalweg_producer::Appended;
use thalweg_protocol::ErrorCode;

use crate::sending::idempotence::{epochs, warm};
use crate::world::broker::Reaction;
use crate::world::{TOPIC, World, config, error, offset, outcome};

#[test]
fn no_more_batches_go_out_than_a_broker_remembers() {
    // librdkafka #4953: duplicates when a leader moves. The oldest batch waits for a response from
    // the old leader. If more than five went to the new one meanwhile, its retry would not be
    // recognized as a duplicate.
    let mut world = World::ready(config(), 2, 1);
    let mut sent = vec![world.send_alone(0, "0")];
    world.script([Reaction::Hold]);
    sent.push(world.send_alone(0, "1"));
    world.brokers.release_without_response();
    world.brokers.move_leader(TOPIC, 0, 2);
    world.cluster.request_update();
    world.advance_ms(500);
    // The new leader does not respond to any of them yet.
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
    world.brokers.release_without_response();
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

/// Sends this many batches, writes the first few of them, loses all responses, and restarts the
/// broker.
fn written_and_restarted(sent: usize, written: usize) -> (World, Vec<Appended>) {
    let (mut world, mut all) = warm(config());
    world.script(vec![Reaction::Hold; sent]);
    for n in 1..=sent {
        all.push(world.send_alone(0, &n.to_string()));
    }
    for _ in 0..written {
        world.brokers.release_without_response();
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
        Reaction::LoseResponse,
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
    (0..4).for_each(|_| world.brokers.release_without_response());
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
    // The late response of the old leader changes nothing.
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
