//! Producers that are fenced, and epochs that end or change.

use thalweg_producer::FailureKind;
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::transactions::{
    FATAL, LEVELS, abort, begin, commit, count, init, is_abortable, kind, new_world, numbers,
    ready, refusal, seen, transactional,
};
use crate::world::broker::Reaction;
use crate::world::coordinator::Reply;
use crate::world::{TOPIC, error};

#[test]
fn the_last_epoch_is_followed_by_another_producer_id() {
    for level in LEVELS {
        let mut world = new_world(level, transactional(), 1, 1);
        world.brokers.coordinator.first_epoch = i16::MAX - 2;
        init(&mut world);
        for n in 0..4 {
            begin(&mut world);
            world.send_alone(0, &n.to_string());
            // Version 1 starts a new epoch only after a failure.
            if level == 1 {
                world.script([Reaction::Refuse(ErrorCode::INVALID_RECORD)]);
                world.send_alone(0, "x");
                assert_eq!(abort(&mut world), Ok(()));
            } else {
                assert_eq!(commit(&mut world), Ok(()));
            }
        }
        let headers = &world.brokers.log(TOPIC, 0).headers;
        let found: Vec<_> = headers
            .iter()
            .map(|h| (h.producer_id, h.producer_epoch))
            .collect();
        let (last, max) = (501, i16::MAX);
        assert_eq!(
            found,
            [(last, max - 2), (last, max - 1), (502, 0), (502, 1)]
        );
    }
}

#[test]
fn scenario_15_an_older_producer_is_fenced_for_good() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "a");
        let values = world.brokers.all_values();
        world.brokers.coordinator.take_over(&values);
        world.send_alone(0, "b");
        let failed = match commit(&mut world) {
            Err(error) if is_abortable(&error) => abort(&mut world).expect_err("fenced"),
            other => other.expect_err("fenced"),
        };
        assert_eq!(
            kind(&failed),
            (true, FailureKind::Fenced),
            "version {level}"
        );
        assert_eq!(refusal(&world), failed);
        assert_eq!(world.sender.begin_transaction(), Err(failed));
        assert!(seen(&world, 0).is_empty());
    }
}

#[test]
fn scenario_16_a_transaction_that_ran_out_of_time_can_be_aborted_under_version_2() {
    let mut world = ready(2);
    begin(&mut world);
    world.send_alone(0, "a");
    let values = world.brokers.all_values();
    world.brokers.coordinator.time_out(&values);
    let late = world.send_alone(0, "b");
    assert_eq!(error(&late).code(), Some(ErrorCode::INVALID_PRODUCER_EPOCH));
    let failed = commit(&mut world).expect_err("the broker has aborted it");
    assert!(is_abortable(&failed), "{failed:?}");
    assert_eq!(abort(&mut world), Ok(()));
    begin(&mut world);
    world.send_alone(0, "c");
    assert_eq!(commit(&mut world), Ok(()));
    assert_eq!(seen(&world, 0), ["c"]);
}

/// The `InitProducerId` of a newer producer found no transaction to abort. So the coordinator
/// reports an invalid state for the abort, and not an old epoch.
#[test]
fn an_old_epoch_without_a_transaction_to_abort_was_fenced() {
    let mut world = ready(2);
    begin(&mut world);
    world.send_alone(0, "a");
    let values = world.brokers.all_values();
    world.brokers.coordinator.time_out(&values);
    let late = world.send_alone(0, "b");
    assert_eq!(error(&late).code(), Some(ErrorCode::INVALID_PRODUCER_EPOCH));
    let refused = [Reply::Error(ErrorCode::INVALID_TXN_STATE)];
    world.brokers.coordinator.on(ApiKey::END_TXN, refused);
    let failed = abort(&mut world).expect_err("there is nothing to abort");
    assert_eq!(kind(&failed), (FATAL, FailureKind::Fenced), "{failed}");
    assert_eq!(world.sender.begin_transaction(), Err(failed));
}

#[test]
fn brokers_that_learn_version_2_are_met_with_another_epoch() {
    let mut world = ready(1);
    begin(&mut world);
    world.send_alone(0, "a");
    // A new connection reports the new level, but the open transaction keeps the old one.
    world.brokers.disconnect(1);
    world.brokers.coordinator.level_told = Some(2);
    world.advance_ms(2_000);
    world.send_alone(0, "b");
    world.advance_ms(2_000);
    world.brokers.coordinator.learn_when_ended = true;
    assert_eq!(commit(&mut world), Ok(()));
    assert_eq!(world.brokers.coordinator.inits, [(-1, -1), (501, 0)]);
    begin(&mut world);
    world.send_alone(0, "c");
    assert_eq!(commit(&mut world), Ok(()));
    assert_eq!(count(&world, ApiKey::ADD_PARTITIONS_TO_TXN), 1);
    assert_eq!(numbers(&mut world, 0), [(0, 0), (0, 1), (1, 0)]);
    assert_eq!(seen(&world, 0), ["a", "b", "c"]);
}
