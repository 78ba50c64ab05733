//! The end of a producer with an open transaction.

use std::time::Duration;

use thalweg_cluster::Role;
use thalweg_producer::{ProducerConfig, ProducerError};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::transactions::{
    LEVELS, begin, count, group, init, is_abortable, new_world, offsets, ready, seen, told,
    transactional,
};
use crate::world::broker::Reaction;
use crate::world::coordinator::Reply;
use crate::world::error;

#[test]
fn closing_aborts_what_is_open() {
    for level in LEVELS {
        let lingering = ProducerConfig {
            linger: Duration::from_secs(1),
            ..transactional()
        };
        let mut world = new_world(level, lingering, 1, 1);
        init(&mut world);
        begin(&mut world);
        world.send(0, "a");
        world.advance_ms(1_100);
        let dropped = world.send(0, "b");
        let deadline = world.now + Duration::from_secs(10);
        world.sender.close(deadline, &mut world.cluster, world.now);
        world.run();
        assert!(world.sender.is_closed());
        assert!(matches!(
            error(&dropped),
            ProducerError::TransactionAborted { .. }
        ));
        assert_eq!(world.brokers.coordinator.aborts, 1);
        assert!(seen(&world, 0).is_empty());
    }
}

#[test]
fn closing_waits_no_longer_than_the_coordinator_lets_a_transaction_live() {
    let config = ProducerConfig {
        transaction_timeout: Duration::from_secs(7),
        ..transactional()
    };
    let mut world = new_world(2, config, 1, 1);
    init(&mut world);
    begin(&mut world);
    world.send_alone(0, "a");
    let never = [Reply::LoseRequest; 1_000];
    world.brokers.coordinator.on(ApiKey::END_TXN, never);
    let deadline = world.now + Duration::from_secs(10_000);
    world.sender.close(deadline, &mut world.cluster, world.now);
    world.advance_ms(6_900);
    assert!(!world.sender.is_closed());
    world.advance_ms(200);
    assert!(world.sender.is_closed());
}

#[test]
fn whoever_waits_hears_that_the_client_has_ended() {
    let mut world = ready(2);
    begin(&mut world);
    world.send_alone(0, "a");
    world
        .brokers
        .coordinator
        .on(ApiKey::END_TXN, [Reply::Silence]);
    let ticket = world.sender.commit_transaction();
    world.run();
    world.sender.close(world.now, &mut world.cluster, world.now);
    assert!(!world.sender.is_closed(), "the outcome is still to come");
    world.sender.abort(world.now);
    assert_eq!(told(&ticket), Some(Err(ProducerError::Closed)));
}

#[test]
fn a_transaction_that_fails_while_the_producer_closes_is_aborted_at_once() {
    for level in LEVELS {
        for prepares in [false, true] {
            let mut world = ready(level);
            begin(&mut world);
            world.script([Reaction::Hold]);
            let sent = world.send_alone(0, "a");
            let ticket = if prepares {
                world.sender.prepare_transaction()
            } else {
                world.sender.commit_transaction()
            };
            world.run();
            let deadline = world.now + Duration::from_secs(10_000);
            world.sender.close(deadline, &mut world.cluster, world.now);
            world.run();
            assert!(told(&ticket).is_none(), "the record has no outcome yet");
            let refused = Reaction::Refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
            world.brokers.release_with(&refused);
            world.run();
            assert!(!error(&sent).possibly_written());
            assert!(is_abortable(
                &told(&ticket).expect("done").expect_err("failed")
            ));
            world.advance_ms(1_000);
            assert!(world.sender.is_closed(), "version {level}, {prepares}");
            assert_eq!(world.brokers.coordinator.aborts, 1);
            assert_eq!(
                count(&world, ApiKey::INIT_PRODUCER_ID),
                1,
                "a producer that closes needs no new epoch"
            );
            let abort = world.sender.abort_transaction();
            assert_eq!(
                told(&abort),
                Some(Ok(())),
                "it has the result of this abort"
            );
        }
    }
}

#[test]
fn offsets_that_cannot_be_sent_while_the_producer_closes_abort_at_once() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "a");
        let later = Reply::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        world
            .brokers
            .coordinator
            .on(ApiKey::TXN_OFFSET_COMMIT, [later]);
        let sender = &mut world.sender;
        let sent = sender.send_offsets_to_transaction(group("g"), offsets(0, 7));
        let long = group(&"g".repeat(40_000));
        let not_sent = sender.send_offsets_to_transaction(long, offsets(0, 7));
        let ticket = sender.commit_transaction();
        world.run();
        assert!(told(&sent).is_none());
        let deadline = world.now + Duration::from_secs(10_000);
        world.sender.close(deadline, &mut world.cluster, world.now);
        world.advance_ms(1_000);
        assert_eq!(told(&sent), Some(Ok(())));
        for failed in [&not_sent, &ticket] {
            assert!(is_abortable(
                &told(failed).expect("done").expect_err("failed")
            ));
        }
        assert!(world.sender.is_closed(), "version {level}");
        assert_eq!(world.brokers.coordinator.aborts, 1);
    }
}
