//! The calls that a transaction allows in each of its states.

use thalweg_producer::ProducerError;

use crate::transactions::{
    begin, group, init, new_world, offsets, ready, refusal, transactional, wait,
};
use crate::world::{World, config};

#[test]
fn a_call_that_is_not_for_the_state_names_it() {
    type Call = fn(&mut World) -> Result<(), ProducerError>;
    type Row<'a> = (&'a str, &'a [&'a str], fn() -> World);
    let calls: [(&str, Call); 5] = [
        ("init_transactions", |w| {
            w.sender.init_transactions().map(drop)
        }),
        ("begin_transaction", |w| w.sender.begin_transaction()),
        ("send_offsets_to_transaction", |w| {
            w.sender
                .send_offsets_to_transaction(group("g"), offsets(0, 1))
                .map(drop)
        }),
        ("commit_transaction", |w| {
            w.sender.commit_transaction().map(drop)
        }),
        ("abort_transaction", |w| {
            w.sender.abort_transaction().map(drop)
        }),
    ];
    let states: [Row<'_>; 3] = [
        ("UNINITIALIZED", &["init_transactions"], || {
            new_world(2, transactional(), 1, 1)
        }),
        ("READY", &["begin_transaction"], || ready(2)),
        (
            "IN_TRANSACTION",
            &[
                "send_offsets_to_transaction",
                "commit_transaction",
                "abort_transaction",
            ],
            || {
                let mut world = ready(2);
                begin(&mut world);
                world
            },
        ),
    ];
    for (state, legal, reach) in states {
        for (name, call) in calls {
            let outcome = call(&mut reach());
            match outcome {
                Ok(()) => assert!(legal.contains(&name), "{name} in {state}"),
                Err(ProducerError::IllegalState(text)) => {
                    assert!(!legal.contains(&name), "{name} in {state}: {text}");
                    assert!(text.contains(name) && text.contains(state), "{text}");
                }
                Err(other) => panic!("{name} in {state}: {other:?}"),
            }
        }
    }
}

#[test]
fn records_are_taken_within_a_transaction_only() {
    let mut world = new_world(2, transactional(), 1, 1);
    let refused = |world: &World, state: &str| {
        let error = refusal(world);
        assert!(matches!(error, ProducerError::IllegalState(_)), "{error:?}");
        assert!(error.to_string().contains(state), "{error}");
    };
    refused(&world, "UNINITIALIZED. Call init_transactions first");
    init(&mut world);
    refused(&world, "READY. Call begin_transaction first");
    begin(&mut world);
    world.send(0, "a");
    let ticket = world.sender.commit_transaction();
    refused(&world, "COMMITTING_TRANSACTION");
    assert_eq!(wait(&mut world, ticket), Ok(()));
    refused(&world, "READY");
    assert_eq!(world.values(0), ["a"]);
}

#[test]
fn a_refused_call_tells_what_to_call() {
    let mut world = new_world(2, transactional(), 1, 1);
    let refused = |outcome: Result<(), ProducerError>, hint: &str| {
        let text = outcome.expect_err("refused").to_string();
        assert!(text.ends_with(hint), "{text}");
    };
    let begun = world.sender.begin_transaction();
    refused(begun, ". Call init_transactions first");
    init(&mut world);
    let again = world.sender.init_transactions().map(drop);
    refused(
        again,
        ". Call init_transactions only once, before the first transaction",
    );
    let ended = world.sender.commit_transaction().map(drop);
    refused(ended, ". Call begin_transaction first");
    begin(&mut world);
    let begun = world.sender.begin_transaction();
    refused(begun, ". First commit or abort the open transaction");
}

#[test]
fn without_a_transactional_id_every_call_is_refused() {
    let mut world = World::ready(config(), 1, 1);
    let error = world.sender.begin_transaction().expect_err("refused");
    assert!(error.to_string().contains("transactional_id"), "{error}");
    assert!(world.sender.init_transactions().is_err());
    assert!(world.sender.commit_transaction().is_err());
}
