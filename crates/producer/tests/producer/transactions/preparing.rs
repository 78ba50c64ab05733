//! Transactions that are prepared, and ended by this or another client.

use std::time::Duration;

use thalweg_cluster::Role;
use thalweg_producer::{ProducerError, ProducerIdAndEpoch};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::transactions::{
    LEVELS, Ticket, abort, begin, commit, count, group, is_abortable, offsets, ready, refusal,
    seen, told, wait,
};
use crate::world::broker::Reaction;
use crate::world::{TOPIC, World, is_pending, offset};

fn prepare(world: &mut World) -> Result<Option<ProducerIdAndEpoch>, ProducerError> {
    let ticket = world.sender.prepare_transaction();
    wait(world, ticket.clone()).map(|()| ticket.expect("the call is legal").prepared())
}

/// Closes the producer, and waits for its end.
fn close(world: &mut World) {
    let deadline = world.now + Duration::from_secs(10);
    world.sender.close(deadline, &mut world.cluster, world.now);
    world.advance_ms(1_000);
    assert!(world.sender.is_closed());
}

#[test]
fn it_waits_for_all_records_and_offsets_and_ends_nothing() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.script([Reaction::Hold]);
        let sent = world.send_alone(0, "a");
        let to_group = world
            .sender
            .send_offsets_to_transaction(group("g"), offsets(0, 7));
        let ticket = world.sender.prepare_transaction();
        world.advance_ms(1_000);
        assert_eq!(told(&to_group), Some(Ok(())));
        assert!(is_pending(&sent) && told(&ticket).is_none());
        world.brokers.release();
        assert_eq!(wait(&mut world, ticket.clone()), Ok(()));
        assert_eq!(offset(&sent), 0);
        let prepared = ticket.expect("it was legal").prepared();
        let header = world.brokers.log(TOPIC, 0).headers[0];
        let expected = ProducerIdAndEpoch {
            id: header.producer_id,
            epoch: header.producer_epoch,
        };
        assert_eq!(prepared, Some(expected));
        close(&mut world);
        assert_eq!(count(&world, ApiKey::END_TXN), 0, "another client ends it");
        assert!(seen(&world, 0).is_empty());
    }
}

#[test]
fn the_producer_may_end_it_itself_and_begin_the_next() {
    for level in LEVELS {
        let mut world = ready(level);
        for (n, committed) in [true, false, true].into_iter().enumerate() {
            begin(&mut world);
            world.send_alone(0, &format!("{n}"));
            assert!(prepare(&mut world).expect("no error").is_some());
            let ended = if committed {
                commit(&mut world)
            } else {
                abort(&mut world)
            };
            assert_eq!(ended, Ok(()), "version {level}");
        }
        assert_eq!(seen(&world, 0), ["0", "2"]);
    }
}

#[test]
fn without_records_there_is_nothing_to_end() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        assert_eq!(prepare(&mut world), Ok(None));
        assert_eq!(commit(&mut world), Ok(()));
        begin(&mut world);
        world.send_alone(0, "a");
        assert!(prepare(&mut world).expect("no error").is_some());
    }
}

#[test]
fn a_prepared_transaction_takes_no_more_records() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "a");
        prepare(&mut world).expect("no error");
        let refused = refusal(&world);
        assert!(
            refused.to_string().contains("PREPARED_TRANSACTION"),
            "{refused}"
        );
        let again: Ticket = world.sender.prepare_transaction();
        assert!(matches!(again, Err(ProducerError::IllegalState(_))));
        assert!(matches!(
            world.sender.begin_transaction(),
            Err(ProducerError::IllegalState(_))
        ));
    }
}

#[test]
fn a_failed_record_makes_it_impossible_and_an_abort_possible() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.script([Reaction::Refuse(ErrorCode::MESSAGE_TOO_LARGE)]);
        world.send_alone(0, "a");
        let error = prepare(&mut world).expect_err("the record is not in the log");
        assert!(is_abortable(&error), "{error}");
        assert_eq!(abort(&mut world), Ok(()));
    }
}

#[test]
fn a_producer_that_closes_while_it_prepares_ends_nothing() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.script([Reaction::Hold]);
        world.send_alone(0, "a");
        let ticket = world.sender.prepare_transaction();
        world.run();
        let deadline = world.now + Duration::from_secs(10);
        world.sender.close(deadline, &mut world.cluster, world.now);
        world.brokers.release();
        world.advance_ms(1_000);
        assert_eq!(told(&ticket), Some(Ok(())));
        assert!(world.sender.is_closed());
        assert_eq!(count(&world, ApiKey::END_TXN), 0);
    }
}
