//! Partitions that a broker refuses are read again once it stops refusing, whatever else happened
//! in the meantime, and however many equal errors there were.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use thalweg_consumer::{ConsumerConfig, ConsumerError, IsolationLevel, OffsetReset};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::batches::in_epoch;
use crate::broker::Broker;
use crate::world::{World, config, tp};

const PARTITIONS: i32 = 3;
const DENIED: ErrorCode = ErrorCode::TOPIC_AUTHORIZATION_FAILED;

/// Raises queued errors, then reads. Returns the partitions that records came from.
fn read_after_errors(world: &mut World) -> (Vec<ConsumerError>, BTreeSet<i32>) {
    let (mut errors, mut read) = (Vec::new(), BTreeSet::new());
    for _ in 0..20 {
        match world.drain(usize::MAX) {
            Ok(got) => read.extend(got.records.iter().map(|record| record.partition)),
            Err(error) => errors.push(error),
        }
        world.advance(Duration::from_millis(700));
    }
    (errors, read)
}

fn one_record_each(broker: &mut Broker) {
    for partition in 0..PARTITIONS {
        broker.append("t", partition, 1, in_epoch(0, 1, 1));
    }
}

#[test]
fn all_partitions_that_one_fetch_response_refuses_are_tried_again() {
    let mut world = World::with_topic(config(), PARTITIONS, |broker| {
        one_record_each(broker);
        for partition in 0..2 {
            broker.log("t", partition).errors.push_back(DENIED);
        }
    });
    let (errors, read) = read_after_errors(&mut world);
    assert_eq!(errors.len(), 1, "one error tells of both: {errors:?}");
    assert_eq!(read, (0..PARTITIONS).collect());
}

/// Each poll raises the error. After an upgrade of the broker, the consumer reads the records.
#[test]
fn a_broker_with_too_old_versions_causes_an_error_and_not_silence() {
    for (api, newest, isolation_level) in [
        (ApiKey::FETCH, 3, IsolationLevel::ReadUncommitted),
        (ApiKey::LIST_OFFSETS, 0, IsolationLevel::ReadUncommitted),
        // Version 1 of ListOffsets has no isolation level.
        (ApiKey::LIST_OFFSETS, 1, IsolationLevel::ReadCommitted),
    ] {
        let config = ConsumerConfig {
            isolation_level,
            ..config()
        };
        let mut world = World::with_topic(config, PARTITIONS, |broker| {
            one_record_each(broker);
            broker.max_versions.insert(api.0, newest);
        });
        for _ in 0..3 {
            world.advance(Duration::from_secs(2));
            let error = world.drain(100).expect_err("nothing can be read");
            let text = error.to_string();
            assert!(
                matches!(error, ConsumerError::UnsupportedVersion(_)),
                "{text}"
            );
            assert!(text.contains(&api.to_string()), "{text}");
        }
        world.broker.max_versions.clear();
        world.disconnect();
        let (_, read) = read_after_errors(&mut world);
        assert_eq!(read, (0..PARTITIONS).collect(), "{api}");
    }
}

#[test]
fn all_partitions_that_one_list_offsets_response_refuses_are_tried_again() {
    let mut world = World::with_topic(config(), PARTITIONS, |broker| {
        one_record_each(broker);
        broker.list_errors.extend([DENIED; 2]);
    });
    let (errors, read) = read_after_errors(&mut world);
    assert_eq!(errors.len(), 1, "one error tells of both: {errors:?}");
    assert_eq!(read, (0..PARTITIONS).collect());
}

#[test]
fn all_partitions_that_one_validation_refuses_are_tried_again() {
    let mut world = World::with_topic(config(), PARTITIONS, one_record_each);
    world.broker.epoch_errors.extend([DENIED; 2]);
    for partition in 0..PARTITIONS {
        world.consumer.seek(&tp(partition), 0, 1).expect("assigned");
    }
    world.run();
    let (errors, read) = read_after_errors(&mut world);
    assert_eq!(errors.len(), 1, "one error tells of both: {errors:?}");
    assert_eq!(read, (0..PARTITIONS).collect());
}

/// The first error is about an old position. An equal one arrives before it was raised.
#[test]
fn a_partition_refused_before_and_after_a_seek_is_tried_again() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 1, in_epoch(0, 1, 1));
        broker.log("t", 0).errors.extend([DENIED; 2]);
    });
    world.consumer.seek(&tp(0), 0, -1).expect("assigned");
    world.run();
    let (errors, read) = read_after_errors(&mut world);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(read, BTreeSet::from([0]));
}

#[derive(Clone, Debug)]
enum Step {
    Refuse {
        partition: i32,
        code: ErrorCode,
    },
    RefuseList(ErrorCode),
    RefuseValidation(ErrorCode),
    Seek {
        partition: i32,
        offset: i64,
        epoch: i32,
    },
    SeekToStart(i32),
    Assign(Vec<i32>),
    Pause(i32, bool),
    MoveLeader(i32),
    Drain,
    Position(i32),
    Advance(u16),
}

fn code() -> impl Strategy<Value = ErrorCode> {
    prop_oneof![
        4 => Just(DENIED),
        1 => Just(ErrorCode::INVALID_REQUEST),
        1 => Just(ErrorCode::NOT_LEADER_OR_FOLLOWER),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..PARTITIONS;
    prop_oneof![
        6 => (partition.clone(), code()).prop_map(|(partition, code)| Step::Refuse { partition, code }),
        2 => code().prop_map(Step::RefuseList),
        2 => code().prop_map(Step::RefuseValidation),
        3 => (partition.clone(), 0..4_i64, -1..3_i32)
            .prop_map(|(partition, offset, epoch)| Step::Seek { partition, offset, epoch }),
        2 => partition.clone().prop_map(Step::SeekToStart),
        2 => prop::collection::vec(partition.clone(), 0..4).prop_map(Step::Assign),
        1 => (partition.clone(), any::<bool>()).prop_map(|(at, paused)| Step::Pause(at, paused)),
        1 => partition.clone().prop_map(Step::MoveLeader),
        3 => Just(Step::Drain),
        1 => partition.prop_map(Step::Position),
        6 => (1..700_u16).prop_map(Step::Advance),
    ]
}

/// The application must handle the errors that its calls raise. Here it ignores them.
fn take(world: &mut World, step: &Step) {
    match step {
        Step::Refuse { partition, code } => {
            let errors = &mut world.broker.log("t", *partition).errors;
            errors.push_back(*code);
        }
        Step::RefuseList(code) => world.broker.list_errors.push_back(*code),
        Step::RefuseValidation(code) => world.broker.epoch_errors.push_back(*code),
        Step::Seek {
            partition,
            offset,
            epoch,
        } => drop(world.consumer.seek(&tp(*partition), *offset, *epoch)),
        Step::SeekToStart(partition) => {
            drop(
                world
                    .consumer
                    .seek_to(&[tp(*partition)], OffsetReset::Earliest),
            );
        }
        Step::Assign(wanted) => {
            let wanted: Vec<_> = wanted.iter().copied().map(tp).collect();
            world.consumer.assign(&wanted);
        }
        Step::Pause(partition, true) => drop(world.consumer.pause(&[tp(*partition)])),
        Step::Pause(partition, false) => drop(world.consumer.resume(&[tp(*partition)])),
        Step::MoveLeader(partition) => {
            let log = world.broker.log("t", *partition);
            let end = log.end();
            log.epochs.push((log.leader_epoch, end));
            log.leader = 3 - log.leader;
            log.leader_epoch += 1;
        }
        Step::Drain => drop(world.drain(1)),
        Step::Position(partition) => drop(world.consumer.find_position(&tp(*partition))),
        Step::Advance(ms) => world.advance(Duration::from_millis(u64::from(*ms))),
    }
}

/// Refusals stop, and each partition gets more records than any seek skips. The application seeks
/// if an error that names the partition requires it.
fn finish(world: &mut World) -> BTreeSet<i32> {
    let all: Vec<_> = (0..PARTITIONS).map(tp).collect();
    world.consumer.assign(&all);
    world.consumer.resume(&all).expect("assigned");
    world.broker.list_errors.clear();
    world.broker.epoch_errors.clear();
    for partition in 0..PARTITIONS {
        let log = world.broker.log("t", partition);
        log.errors.clear();
        let (end, epoch) = (log.end(), log.leader_epoch);
        let last = in_epoch(end, 5, epoch);
        world.broker.append("t", partition, end + 5, last);
    }
    let mut read = BTreeSet::new();
    for _ in 0..60 {
        match world.drain(usize::MAX) {
            Ok(got) => read.extend(got.records.iter().map(|record| record.partition)),
            Err(
                ConsumerError::OffsetOutOfRange { partition, .. }
                | ConsumerError::LogTruncation { partition, .. },
            ) => world.consumer.seek(&partition, 0, -1).expect("assigned"),
            Err(ConsumerError::NoOffsetForPartition { partitions }) => {
                let start = OffsetReset::Earliest;
                world
                    .consumer
                    .seek_to(&partitions, start)
                    .expect("assigned");
            }
            Err(_) => {}
        }
        if read.len() == PARTITIONS as usize {
            break;
        }
        world.advance(Duration::from_millis(700));
    }
    read
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_partition_stays_silent(
        steps in prop::collection::vec(step(), 1..50),
        has_policy in any::<bool>(),
    ) {
        let reset = if has_policy { OffsetReset::Earliest } else { OffsetReset::None };
        let config = ConsumerConfig { auto_offset_reset: reset, ..config() };
        let mut broker = Broker::new(&[1, 2]);
        broker.create("t", PARTITIONS, 1);
        one_record_each(&mut broker);
        let mut world = World::new(config, broker);
        world.assign_all(PARTITIONS);
        for step in &steps {
            take(&mut world, step);
        }
        prop_assert_eq!(finish(&mut world), (0..PARTITIONS).collect());
    }
}
