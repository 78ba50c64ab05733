//! Positions from committed offsets and from seeks.

use std::time::Duration;

use thalweg_consumer::{ConsumerError, FetchPosition, OffsetReset};

use crate::broker::Broker;
use crate::positions::{resets, ten, with_group, with_reset};
use crate::world::{World, tp};

#[test]
fn committed_offsets_come_before_the_policy() {
    let mut world = World::with_topic(with_group(OffsetReset::Latest), 2, ten);
    assert_eq!(world.consumer.awaiting_committed(), [tp(0), tp(1)]);
    let committed = FetchPosition {
        offset: 4,
        leader_epoch: -1,
    };
    world
        .consumer
        .set_committed(&[(tp(0), Some(committed)), (tp(1), None)]);
    world.run();
    assert_eq!((world.position(0), world.position(1)), (4, 0));
    assert_eq!(
        resets(&world.broker),
        [-1],
        "only the partition without a commit is reset"
    );
    assert!(world.consumer.awaiting_committed().is_empty());
}

/// Here only the notification of `set_committed` drives the client.
#[test]
fn without_a_commit_the_policy_applies_whenever_that_is_told() {
    for before_metadata in [true, false] {
        let mut broker = Broker::new(&[1]);
        broker.create("t", 1, 1);
        ten(&mut broker);
        let mut world = World::new(with_group(OffsetReset::Earliest), broker);
        world.consumer.assign(&[tp(0)]);
        if !before_metadata {
            world.run();
        }
        world.consumer.set_committed(&[(tp(0), None)]);
        world.run();
        assert_eq!(resets(&world.broker), [-2], "asked at once");
        assert_eq!(
            world.drain(100).expect("records").offsets(0).len(),
            10,
            "before metadata: {before_metadata}"
        );
    }
}

#[test]
fn a_committed_offset_with_an_epoch_is_validated_first() {
    let mut world = World::with_topic(with_group(OffsetReset::Earliest), 1, |broker| {
        ten(broker);
        broker.log("t", 0).epochs = vec![(0, 2), (1, 10)];
    });
    let committed = FetchPosition {
        offset: 4,
        leader_epoch: 0,
    };
    world.consumer.set_committed(&[(tp(0), Some(committed))]);
    world.run();
    assert_eq!(
        world.position(0),
        2,
        "epoch 0 ended at 2: what was read above was cut off"
    );
}

/// franz-go 1.21.4: committed offsets that arrived late undid a seek. Bug 11.
#[test]
fn a_late_committed_offset_does_not_undo_a_seek() {
    let mut world = World::with_topic(with_group(OffsetReset::Earliest), 1, ten);
    world.consumer.seek(&tp(0), 8, -1).expect("assigned");
    let committed = FetchPosition {
        offset: 1,
        leader_epoch: -1,
    };
    world.consumer.set_committed(&[(tp(0), Some(committed))]);
    world.run();
    assert_eq!(world.drain(100).expect("records").offsets(0), [8, 9]);
}

#[test]
fn no_commit_and_no_policy_names_the_partitions_and_asks_again_later() {
    let mut world = World::with_topic(with_group(OffsetReset::None), 3, ten);
    let known = FetchPosition {
        offset: 0,
        leader_epoch: -1,
    };
    world
        .consumer
        .set_committed(&[(tp(0), Some(known)), (tp(1), None), (tp(2), None)]);
    world.run();
    let error = world.drain(100).expect_err("two partitions have no offset");
    assert_eq!(
        error,
        ConsumerError::NoOffsetForPartition {
            partitions: vec![tp(1), tp(2)]
        }
    );
    assert_eq!(world.drain(100).expect("raised once").offsets(0).len(), 10);
    world.advance(Duration::from_secs(2));
    assert_eq!(
        world.consumer.awaiting_committed(),
        [tp(1), tp(2)],
        "somebody may have committed"
    );
    world.consumer.seek(&tp(1), 0, -1).expect("assigned");
    world.consumer.set_committed(&[(tp(2), None)]);
    world.run();
    let error = world.drain(100).expect_err("one is left");
    assert_eq!(
        error,
        ConsumerError::NoOffsetForPartition {
            partitions: vec![tp(2)]
        }
    );
}

/// A call that waits for a position must not wait for a decision that only the application can
/// make.
#[test]
fn a_position_that_nothing_leads_to_is_refused_with_the_reason() {
    let mut world = World::with_topic(with_group(OffsetReset::None), 2, ten);
    let known = FetchPosition {
        offset: 4,
        leader_epoch: -1,
    };
    assert_eq!(world.consumer.find_position(&tp(1)), Ok(None), "not asked");
    for _ in 0..2 {
        let found = [(tp(0), Some(known)), (tp(1), None)];
        world.consumer.set_committed(&found);
        world.run();
        assert_eq!(world.consumer.find_position(&tp(0)), Ok(Some(known)));
        let partitions = vec![tp(1)];
        assert_eq!(
            world.consumer.find_position(&tp(1)),
            Err(ConsumerError::NoOffsetForPartition { partitions })
        );
        assert_eq!(world.consumer.find_position(&tp(1)), Ok(None), "once a try");
        world.run();
        world.advance(Duration::from_secs(2));
        assert_eq!(
            world.consumer.awaiting_committed(),
            [tp(1)],
            "somebody may have committed"
        );
    }
    world.consumer.set_committed(&[(tp(1), None)]);
    world.run();
    let sought = world.consumer.seek_to(&[tp(1)], OffsetReset::Earliest);
    sought.expect("assigned");
    assert_eq!(world.consumer.find_position(&tp(1)), Ok(None), "stale");
}

#[test]
fn a_position_that_was_sought_is_not_refused_with_what_holds_of_another() {
    let mut world = World::with_topic(with_group(OffsetReset::None), 2, ten);
    world
        .consumer
        .set_committed(&[(tp(0), None), (tp(1), None)]);
    world.run();
    let sought = world.consumer.seek_to(&[tp(0)], OffsetReset::Earliest);
    sought.expect("assigned");
    assert_eq!(world.consumer.find_position(&tp(0)), Ok(None));
    let refused = world.consumer.find_position(&tp(1));
    assert!(
        matches!(refused, Err(ConsumerError::NoOffsetForPartition { .. })),
        "left to the caller that asks for it: {refused:?}"
    );
}

#[test]
fn an_error_that_a_seek_has_settled_is_not_raised() {
    let mut world = World::with_topic(with_group(OffsetReset::None), 1, ten);
    world.consumer.set_committed(&[(tp(0), None)]);
    world.run();
    world.consumer.seek(&tp(0), 5, -1).expect("assigned");
    world.run();
    assert_eq!(
        world.drain(100).expect("the error is stale").offsets(0),
        [5, 6, 7, 8, 9]
    );
}

#[test]
fn lazy_seeks_are_looked_up_and_the_last_one_counts() {
    let mut world = World::with_topic(with_reset(OffsetReset::None), 1, ten);
    world.hold_responses = true;
    world
        .consumer
        .seek_to(&[tp(0)], OffsetReset::Latest)
        .expect("assigned");
    world.run();
    world
        .consumer
        .seek_to(&[tp(0)], OffsetReset::Earliest)
        .expect("assigned");
    world.hold_responses = false;
    world.deliver();
    world.run();
    assert_eq!(resets(&world.broker), [-1, -2]);
    assert_eq!(
        world.position(0),
        0,
        "the response for latest came late and was ignored"
    );
}
