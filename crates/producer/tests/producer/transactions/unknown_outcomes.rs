//! Requests whose outcome is unknown or comes too late.

use std::time::Duration;

use thalweg_producer::{ProducerConfig, ProducerError};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::transactions::{
    LEVELS, begin, commit, init, is_abortable, new_world, ready, refusal, seen, told,
    transactional, wait,
};
use crate::world::broker::Reaction;
use crate::world::coordinator::Reply;
use crate::world::error;

#[test]
fn a_delivery_timeout_makes_it_abortable_and_the_abort_waits_for_the_request() {
    for level in LEVELS {
        let config = ProducerConfig {
            request_timeout: Duration::from_secs(15),
            ..transactional()
        };
        let mut world = new_world(level, config, 1, 2);
        init(&mut world);
        begin(&mut world);
        world.script([Reaction::Silence, Reaction::Silence]);
        let sent = world.send_alone(0, "a");
        world.advance_ms(20_100);
        let expired = error(&sent);
        assert!(
            matches!(expired, ProducerError::DeliveryTimeout { .. }),
            "{expired:?}"
        );
        assert!(expired.possibly_written());
        assert!(is_abortable(&refusal(&world)));
        let ticket = world.sender.abort_transaction();
        world.advance_ms(5_000);
        assert!(
            told(&ticket).is_none(),
            "a request that may still write is in flight"
        );
        assert_eq!(wait(&mut world, ticket), Ok(()));
        begin(&mut world);
        world.send_alone(0, "b");
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(seen(&world, 0), ["b"]);
    }
}

/// franz-go 1.21.4: after `UNKNOWN_SERVER_ERROR` a transaction was reported as committed.
#[test]
fn bug_11_an_unknown_outcome_of_the_end_is_asked_for_again_and_never_guessed() {
    let unknown = Reply::ErrorAfter(ErrorCode::UNKNOWN_SERVER_ERROR);
    let replies = [
        Reply::LoseResponse,
        Reply::LoseRequest,
        Reply::Silence,
        unknown,
    ];
    for level in LEVELS {
        for reply in replies {
            for committing in [true, false] {
                let mut world = ready(level);
                begin(&mut world);
                world.send_alone(0, "a");
                world
                    .brokers
                    .coordinator
                    .on(ApiKey::END_TXN, [reply, reply]);
                let ticket = if committing {
                    world.sender.commit_transaction()
                } else {
                    world.sender.abort_transaction()
                };
                world.run();
                assert!(told(&ticket).is_none(), "{reply:?}");
                assert_eq!(wait(&mut world, ticket), Ok(()), "{reply:?}");
                let coordinator = &world.brokers.coordinator;
                let ended = (coordinator.commits, coordinator.aborts);
                assert_eq!(ended, (usize::from(committing), usize::from(!committing)));
                assert!(coordinator.ends.iter().all(|&end| end == committing));
                begin(&mut world);
                world.send_alone(0, "b");
                assert_eq!(commit(&mut world), Ok(()));
                let expected: &[&str] = if committing { &["a", "b"] } else { &["b"] };
                assert_eq!(seen(&world, 0), expected, "version {level} {reply:?}");
            }
        }
    }
}

#[test]
fn scenario_17_a_call_made_again_takes_up_the_one_that_nobody_saw_the_end_of() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "a");
        world
            .brokers
            .coordinator
            .on(ApiKey::END_TXN, [Reply::Silence]);
        let first = world.sender.commit_transaction();
        world.advance_ms(1_000);
        assert!(told(&first).is_none(), "the caller gives up here");
        let others = [
            world.sender.abort_transaction().map(drop),
            world.sender.begin_transaction(),
            world.sender.init_transactions().map(drop),
        ];
        for other in others {
            let text = other
                .expect_err("not before the outcome is known")
                .to_string();
            assert!(
                text.contains("commit_transaction was called before"),
                "{text}"
            );
        }
        let second = world.sender.commit_transaction();
        world.advance_ms(10_000);
        assert_eq!(world.brokers.coordinator.commits, 1);
        // It has ended meanwhile, but nobody has seen its outcome.
        assert!(world.sender.begin_transaction().is_err());
        assert_eq!(told(&second), Some(Ok(())));
        begin(&mut world);
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(seen(&world, 0), ["a"]);
    }
}
