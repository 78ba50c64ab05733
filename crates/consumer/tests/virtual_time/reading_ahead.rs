//! While an iteration reads one fetch, the records after it are fetched.

use std::time::Duration;

use thalweg_consumer::{ConsumerConfig, ConsumerError, Demand, IsolationLevel};
use thalweg_protocol::ErrorCode;
use thalweg_records::Compression;

use crate::batches::{compressed, plain};
use crate::broker::Broker;
use crate::world::{Collected, World, config, tp};

/// Returns a configuration with which each response has one batch of a partition.
fn one_batch_each() -> ConsumerConfig {
    ConsumerConfig {
        max_partition_fetch_bytes: 1,
        ..config()
    }
}

fn fill(broker: &mut Broker, partition: i32, batches: i64) {
    for batch in 0..batches {
        broker.append("t", partition, (batch + 1) * 10, plain(batch * 10, 10));
    }
}

fn of_batches(batches: i64) -> World {
    World::with_topic(one_batch_each(), 1, |broker| fill(broker, 0, batches))
}

/// Takes this many steps, with the I/O thread running in between. Returns the offsets.
fn steps(world: &mut World, count: usize) -> Vec<i64> {
    let mut all = Vec::new();
    for _ in 0..count {
        let got = world.step().expect("a record").records;
        assert_eq!(got.len(), 1);
        all.push(got[0].offset);
        world.run();
    }
    all
}

/// Returns the offset of partition 0 in the last request.
fn asked(world: &World) -> i64 {
    let fetches = world.broker.fetches();
    let mut offsets = fetches.iter().flat_map(|request| &request.topics);
    let last = offsets.next_back().expect("a fetch");
    last.partitions[0].fetch_offset
}

#[test]
fn what_follows_the_record_set_that_is_served_next_is_fetched_and_no_more() {
    let mut world = of_batches(4);
    assert_eq!(asked(&world), 0);
    for (taken, expected) in [(1, 10), (8, 10), (1, 20), (9, 20), (1, 30), (9, 30)] {
        let from = world.position(0);
        let offsets: Vec<_> = (from..from + taken as i64).collect();
        assert_eq!(steps(&mut world, taken), offsets);
        assert_eq!(asked(&world), expected, "after {}", world.position(0));
    }
    assert_eq!(world.broker.fetches().len(), 4);
}

/// The broker would hold such a request, which is not needed yet.
#[test]
fn nothing_is_fetched_ahead_where_the_log_is_not_known_to_go_on() {
    let mut world = of_batches(1);
    let sent = world.broker.fetches().len();
    steps(&mut world, 9);
    assert_eq!(world.broker.fetches().len(), sent);
    steps(&mut world, 1);
    assert_eq!(world.broker.fetches().len(), sent + 1);
    assert_eq!(asked(&world), 10);

    // With `read_committed`, nothing is fetched after the last stable offset either.
    let committed = ConsumerConfig {
        isolation_level: IsolationLevel::ReadCommitted,
        ..one_batch_each()
    };
    let mut world = World::with_topic(committed, 1, |broker| {
        fill(broker, 0, 2);
        broker.log("t", 0).last_stable = 10;
    });
    let sent = world.broker.fetches().len();
    steps(&mut world, 9);
    assert_eq!(world.broker.fetches().len(), sent);
}

/// A poll returns leftovers before records fetched ahead, also if the position was read in
/// between.
#[test]
fn a_poll_amid_an_iteration_goes_on_in_order() {
    for taken in 1..20 {
        let mut world = of_batches(4);
        steps(&mut world, taken);
        let mut offsets = Vec::new();
        for count in [3, 1, 2, 100, 100, 100] {
            assert_eq!(world.position(0), (taken + offsets.len()) as i64);
            offsets.extend(world.drain(count).expect("records").offsets(0));
            world.run();
        }
        assert_eq!(offsets, (taken as i64..40).collect::<Vec<_>>());
        assert_eq!(world.consumer.buffered_bytes().0, 0);
    }
}

#[test]
fn a_seek_throws_away_what_was_fetched_ahead() {
    let mut world = of_batches(4);
    steps(&mut world, 3);
    world.consumer.seek(&tp(0), 25, -1).expect("assigned");
    world.run();
    assert_eq!(asked(&world), 25);
    assert_eq!(steps(&mut world, 15), (25..40).collect::<Vec<_>>());
    assert_eq!(world.consumer.buffered_bytes().0, 0);
}

#[test]
fn a_response_that_comes_after_a_seek_is_not_taken() {
    let mut world = of_batches(4);
    world.hold_responses = true;
    steps(&mut world, 3);
    assert_eq!(asked(&world), 10, "in flight");
    world.consumer.seek(&tp(0), 5, -1).expect("assigned");
    world.hold_responses = false;
    world.run();
    assert_eq!(steps(&mut world, 35), (5..40).collect::<Vec<_>>());
}

#[test]
fn a_paused_partition_keeps_both_record_sets() {
    let mut world = of_batches(4);
    steps(&mut world, 3);
    world.consumer.pause(&[tp(0)]).expect("assigned");
    world.advance(Duration::from_secs(1));
    assert!(world.step().expect("nothing").records.is_empty());
    assert!(world.drain(100).expect("nothing").records.is_empty());
    let sent = world.broker.fetches().len();
    world.consumer.resume(&[tp(0)]).expect("assigned");
    assert_eq!(
        world.drain(17).expect("both").offsets(0),
        (3..20).collect::<Vec<_>>()
    );
    assert_eq!(world.broker.fetches().len(), sent);
}

/// The broker's error is raised when the position gets there, and only once.
#[test]
fn an_error_of_what_lies_ahead_waits_for_the_position() {
    for (code, errors) in [
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, 1),
        (ErrorCode::NOT_LEADER_OR_FOLLOWER, 0),
        (ErrorCode::OFFSET_OUT_OF_RANGE, 0),
    ] {
        let mut world = of_batches(2);
        world.broker.log("t", 0).errors.push_back(code);
        assert_eq!(steps(&mut world, 9), (0..9).collect::<Vec<_>>());
        assert_eq!(asked(&world), 10);
        let sent = world.broker.fetches().len();
        assert_eq!(steps(&mut world, 1), [9]);
        assert!(world.broker.log("t", 0).errors.is_empty());
        assert!(
            world.broker.fetches().len() > sent,
            "asked once more, from there"
        );
        assert_eq!(asked(&world), 10);
        // The broker serves the partition again.
        assert_eq!(
            steps(&mut world, 10),
            (10..20).collect::<Vec<_>>(),
            "{code}"
        );

        let mut world = of_batches(2);
        for _ in 0..2 {
            world.broker.log("t", 0).errors.push_back(code);
        }
        assert_eq!(steps(&mut world, 10), (0..10).collect::<Vec<_>>());
        let mut told = 0;
        let mut offsets = Vec::new();
        for _ in 0..40 {
            match world.step() {
                Ok(got) => offsets.extend(got.offsets(0)),
                Err(error) => {
                    told += 1;
                    let refused = matches!(error, ConsumerError::TopicAuthorizationFailed { .. });
                    assert!(refused, "{error}");
                }
            }
            world.advance(Duration::from_millis(100));
        }
        let expected = if code == ErrorCode::OFFSET_OUT_OF_RANGE {
            (0..20).collect::<Vec<_>>() // reset to the earliest one
        } else {
            (10..20).collect()
        };
        assert_eq!((told, offsets), (errors, expected), "{code}");
    }
}

/// Returns a world in which each response has two batches.
fn of_pairs(batches: &[Vec<u8>]) -> World {
    let size = batches.iter().map(Vec::len).max().unwrap_or(0);
    let limits = ConsumerConfig {
        max_partition_fetch_bytes: i32::try_from(2 * size).expect("small"),
        ..config()
    };
    World::with_topic(limits, 1, |broker| {
        for (end, batch) in (10..).step_by(10).zip(batches) {
            broker.append("t", 0, end, batch.clone());
        }
    })
}

#[test]
fn what_the_broker_has_refused_is_not_asked_for_at_each_batch() {
    let batches = [0, 10, 20, 30].map(|base| plain(base, 10));
    let mut world = of_pairs(&batches);
    let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    world.broker.log("t", 0).errors.push_back(refused);
    steps(&mut world, 1);
    let sent = world.broker.fetches().len();
    assert_eq!(asked(&world), 20);
    steps(&mut world, 18);
    assert_eq!(world.broker.fetches().len(), sent);
    assert_eq!(steps(&mut world, 21), (19..40).collect::<Vec<_>>());
}

/// The rest is fetched again, starting at the first unreadable record, and so are the records that
/// were fetched ahead.
#[test]
fn damage_found_before_what_was_fetched_ahead_is_fetched_again() {
    let whole = compressed(10, 10, 50, Compression::Lz4);
    let mut damaged = whole.clone();
    let at = damaged.len() - 2;
    damaged[at] ^= 0x40;
    let behind = compressed(20, 10, 50, Compression::Lz4);
    let mut world = of_pairs(&[plain(0, 10), damaged, behind]);
    world.hold_jobs = true;
    assert_eq!(steps(&mut world, 10), (0..10).collect::<Vec<_>>());
    assert_eq!(asked(&world), 20, "behind the damage");
    world.broker.log("t", 0).batches[1].bytes = whole.into();
    let error = world.step().expect_err("damaged");
    assert!(
        matches!(error, ConsumerError::CorruptBatch { offset: 10, .. }),
        "{error}"
    );
    assert!(world.step().expect("nothing").records.is_empty());
    assert!(
        world.buffered().is_empty(),
        "it does not wait for its codec"
    );
    world.hold_jobs = false;
    world.advance(Duration::from_secs(1));
    assert_eq!(asked(&world), 10);
    assert_eq!(steps(&mut world, 20), (10..30).collect::<Vec<_>>());
    assert!(world.step().expect("nothing").records.is_empty());
    assert_eq!(world.consumer.buffered_bytes().0, 0);
}

/// Both wait for a codec thread under one stamp.
#[test]
fn two_record_sets_of_a_partition_are_decoded_each_in_its_place() {
    let bases = [0, 10, 20, 30, 40, 50];
    let batches = bases.map(|base| match base {
        0 | 20 => plain(base, 10),
        _ => compressed(base, 10, 50, Compression::Zstd),
    });
    let mut world = of_pairs(&batches);
    // 10 to 19 are decoded, because the very first batches are decoded alone. Later ones are not.
    world.hold_jobs = true;
    assert_eq!(steps(&mut world, 30), (0..30).collect::<Vec<_>>());
    assert_eq!(asked(&world), 40);
    assert!(world.step().expect("none yet").records.is_empty());
    assert_eq!(world.buffered(), [0, 0], "both wait");
    world.run_jobs();
    world.hold_jobs = false;
    world.run();
    assert_eq!(steps(&mut world, 30), (30..60).collect::<Vec<_>>());
    assert!(world.step().expect("nothing").records.is_empty());
    assert_eq!(world.consumer.buffered_bytes().0, 0);
}

#[test]
fn what_is_on_its_way_is_not_asked_for_again_when_the_position_comes_there() {
    let mut world = of_batches(4);
    world.hold_responses = true;
    assert_eq!(steps(&mut world, 10), (0..10).collect::<Vec<_>>());
    assert!(world.step().expect("none yet").records.is_empty());
    world.run();
    assert_eq!((asked(&world), world.broker.fetches().len()), (10, 2));
    world.hold_responses = false;
    world.run();
    assert_eq!(steps(&mut world, 30), (10..40).collect::<Vec<_>>());
    assert_eq!(world.consumer.buffered_bytes().0, 0);
}

/// Deserializers are foreign code. With them, the iteration takes records out of the buffer one by
/// one.
#[test]
fn an_iteration_that_leaves_nothing_in_hand_reads_ahead_as_well() {
    let mut world = of_batches(3);
    let mut offsets = Vec::new();
    for taken in 0..30 {
        let mut sink = Collected::default();
        world
            .consumer
            .drain(Demand::one(), &mut sink)
            .expect("a record");
        offsets.extend(sink.offsets(0));
        world.run();
        let ahead = (taken / 10 + 1).min(2) * 10;
        assert!(asked(&world) >= ahead, "after {taken}: {}", asked(&world));
    }
    assert_eq!(offsets, (0..30).collect::<Vec<_>>());
    assert_eq!(world.broker.fetches().len(), 4);
}

/// The partitions take turns, and a step lets more than its own partition be fetched.
#[test]
fn several_partitions_take_turns_and_none_holds_more_than_two_record_sets() {
    let mut world = World::with_topic(one_batch_each(), 3, |broker| {
        for partition in 0..3 {
            fill(broker, partition, 5);
        }
    });
    let mut offsets = [vec![], vec![], vec![]];
    for _ in 0..150 {
        let got = world.step().expect("a record").records;
        offsets[got[0].partition as usize].push(got[0].offset);
        world.run();
        let buffered = world.buffered();
        for partition in 0..3 {
            let held = buffered.iter().filter(|each| **each == partition).count();
            assert!(held <= 2, "{buffered:?}");
        }
    }
    assert_eq!(offsets, [(); 3].map(|()| (0..50).collect::<Vec<_>>()));
}

/// A refused record lets other partitions pass, but not the later records of its own partition.
#[test]
fn what_follows_a_refused_record_does_not_pass_it() {
    let mut world = of_batches(3);
    steps(&mut world, 4);
    let mut full = Collected {
        limit: Some(0),
        ..Collected::default()
    };
    let drained = world
        .consumer
        .drain(Demand::up_to(10), &mut full)
        .expect("refused");
    assert!(drained.refused);
    assert_eq!(
        world.drain(100).expect("records").offsets(0),
        (4..20).collect::<Vec<_>>()
    );
}
