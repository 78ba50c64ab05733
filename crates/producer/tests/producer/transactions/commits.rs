//! What a commit and an abort wait for, send and leave to readers.

use std::time::Duration;

use thalweg_producer::{ProducerConfig, ProducerError};
use thalweg_protocol::ApiKey;

use crate::transactions::{
    LEVELS, abort, asked, begin, commit, count, group, init, is_abortable, new_world, numbers,
    offsets, ready, seen, told, transactional, wait,
};
use crate::world::broker::Reaction;
use crate::world::{error, is_pending, offset};

#[test]
fn version_1_adds_partitions_and_numbers_on() {
    let mut world = ready(1);
    for n in 0..2 {
        begin(&mut world);
        let sent = [
            world.send(0, &format!("a{n}")),
            world.send(1, &format!("b{n}")),
        ];
        assert_eq!(commit(&mut world), Ok(()));
        for sent in &sent {
            assert_eq!(offset(sent), n);
        }
    }
    assert_eq!(
        asked(&world),
        [
            ApiKey::FIND_COORDINATOR,
            ApiKey::INIT_PRODUCER_ID,
            ApiKey::ADD_PARTITIONS_TO_TXN,
            ApiKey::END_TXN,
            ApiKey::ADD_PARTITIONS_TO_TXN,
            ApiKey::END_TXN
        ]
    );
    assert_eq!(numbers(&mut world, 0), [(0, 0), (0, 1)]);
    assert!(world.brokers.versions.iter().all(|&version| version == 11));
    assert_eq!(seen(&world, 1), ["b0", "b1"]);
}

#[test]
fn version_2_adds_nothing_and_starts_each_transaction_from_0() {
    let mut world = ready(2);
    for n in 0..3 {
        begin(&mut world);
        world.send_alone(0, &format!("a{n}"));
        world.send_alone(0, &format!("b{n}"));
        assert_eq!(commit(&mut world), Ok(()));
    }
    assert_eq!(count(&world, ApiKey::ADD_PARTITIONS_TO_TXN), 0);
    assert_eq!(count(&world, ApiKey::INIT_PRODUCER_ID), 1);
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
    assert_eq!(numbers(&mut world, 0), expected);
    assert!(world.brokers.versions.iter().all(|&version| version >= 12));
    assert_eq!(seen(&world, 0).len(), 6);
}

#[test]
fn what_is_aborted_is_never_seen() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "aborted");
        assert_eq!(abort(&mut world), Ok(()));
        begin(&mut world);
        world.send_alone(0, "committed");
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(seen(&world, 0), ["committed"], "version {level}");
        assert_eq!(world.values(0), ["aborted", "committed"]);
    }
}

#[test]
fn a_transaction_without_anything_in_it_asks_nobody() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        assert_eq!(commit(&mut world), Ok(()));
        begin(&mut world);
        assert_eq!(abort(&mut world), Ok(()));
        assert_eq!(count(&world, ApiKey::END_TXN), 0);
    }
}

#[test]
fn the_end_waits_for_every_batch_and_for_the_offsets() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.script([Reaction::Hold]);
        let sent = world.send_alone(0, "a");
        let to_group = world
            .sender
            .send_offsets_to_transaction(group("g"), offsets(0, 7));
        let ticket = world.sender.commit_transaction();
        world.advance_ms(1_000);
        assert_eq!(told(&to_group), Some(Ok(())));
        assert!(is_pending(&sent) && told(&ticket).is_none());
        assert_eq!(count(&world, ApiKey::END_TXN), 0);
        assert!(world.brokers.coordinator.offsets.is_empty());
        world.brokers.release();
        assert_eq!(wait(&mut world, ticket), Ok(()));
        assert_eq!(world.brokers.coordinator.offsets.len(), 1);
        assert_eq!(asked(&world).last(), Some(&ApiKey::END_TXN));
    }
}

#[test]
fn a_commit_lets_nothing_linger() {
    let lingering = ProducerConfig {
        linger: Duration::from_secs(10),
        ..transactional()
    };
    for level in LEVELS {
        let mut world = new_world(level, lingering.clone(), 1, 2);
        init(&mut world);
        begin(&mut world);
        let start = world.now;
        let sent = world.send(0, "a");
        assert_eq!(commit(&mut world), Ok(()));
        assert!(world.now - start < Duration::from_millis(100));
        assert_eq!(offset(&sent), 0);
    }
}

#[test]
fn an_abort_drops_what_was_not_sent_and_waits_for_what_was() {
    for level in LEVELS {
        let lingering = ProducerConfig {
            linger: Duration::from_millis(50),
            ..transactional()
        };
        let mut world = new_world(level, lingering, 1, 2);
        init(&mut world);
        begin(&mut world);
        world.script([Reaction::Hold]);
        let sent = world.send(0, "sent");
        world.advance_ms(60);
        let waiting = [world.send(0, "dropped"), world.send(1, "dropped")];
        let ticket = world.sender.abort_transaction();
        world.run();
        for dropped in &waiting {
            let error = error(dropped);
            assert!(
                matches!(error, ProducerError::TransactionAborted { .. }),
                "{error:?}"
            );
        }
        assert!(told(&ticket).is_none() && count(&world, ApiKey::END_TXN) == 0);
        world.brokers.release();
        assert_eq!(wait(&mut world, ticket), Ok(()));
        assert_eq!(offset(&sent), 0);
        assert_eq!(world.values(0), ["sent"]);
        assert!(seen(&world, 0).is_empty());
    }
}

#[test]
fn offsets_are_committed_with_the_transaction_or_not_at_all() {
    for level in LEVELS {
        let mut world = ready(level);
        for (at, committing) in [(5, true), (9, false)] {
            begin(&mut world);
            let ticket = world
                .sender
                .send_offsets_to_transaction(group("g"), offsets(0, at));
            assert_eq!(wait(&mut world, ticket), Ok(()));
            let ended = if committing {
                commit(&mut world)
            } else {
                abort(&mut world)
            };
            assert_eq!(ended, Ok(()));
        }
        let kept: Vec<i64> = world
            .brokers
            .coordinator
            .offsets
            .values()
            .copied()
            .collect();
        assert_eq!(kept, [5]);
        let added = count(&world, ApiKey::ADD_OFFSETS_TO_TXN);
        assert_eq!(added, if level == 1 { 2 } else { 0 });
    }
}

#[test]
fn a_record_that_only_its_future_knows_of_is_not_left_out_of_a_commit() {
    let mut world = ready(2);
    begin(&mut world);
    world.send(0, "a");
    world
        .accumulator
        .note_refused("topic x: TOPIC_AUTHORIZATION_FAILED");
    let failed = world
        .sender
        .commit_transaction()
        .expect_err("a record is missing");
    assert!(
        is_abortable(&failed) && failed.to_string().contains("topic x"),
        "{failed}"
    );
    assert_eq!(abort(&mut world), Ok(()));
    begin(&mut world);
    assert_eq!(commit(&mut world), Ok(()));
}
