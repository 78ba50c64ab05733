//! `fetch_buffer_memory` is respected, decoding waits, and records stay in order if batches do
//! not.

use std::sync::Arc;
use std::time::Duration;

use thalweg_cluster::{Job, Role};
use thalweg_consumer::{ConsumerConfig, ConsumerError, Demand};
use thalweg_records::Compression;

use crate::batches::{compressed, marker, noisy, plain, sized, transactional};
use crate::broker::Broker;
use crate::stepping::Meanwhile;
use crate::world::{NOW_MS, World, config, tp};

pub(crate) const BUDGET: usize = 200_000;

pub(crate) fn budgeted() -> ConsumerConfig {
    ConsumerConfig {
        fetch_buffer_memory_bytes: BUDGET,
        max_partition_fetch_bytes: 20_000,
        fetch_max_bytes: 100_000,
        ..config()
    }
}

#[test]
fn the_budget_is_kept_under_load_and_everything_arrives() {
    for codec in Compression::ALL {
        let mut world = World::with_topic(budgeted(), 20, |broker| {
            for partition in 0..20 {
                for batch in 0..10_i64 {
                    let batch_bytes = compressed(batch * 10, 10, 900, codec);
                    broker.append("t", partition, (batch + 1) * 10, batch_bytes);
                }
            }
        });
        let mut records = 0;
        for _ in 0..100_000 {
            world.run();
            let (used, peak) = world.consumer.buffered_bytes();
            assert!(used <= peak);
            assert!(peak <= BUDGET + 40_000, "{codec}: {peak} bytes at the peak");
            records += world.drain(7).expect("records").records.len();
            if records == 2000 {
                break;
            }
        }
        assert_eq!(records, 2000, "{codec}");
        world.advance(Duration::from_secs(1));
        world.drain(100).expect("nothing");
        assert_eq!(
            world.consumer.buffered_bytes().0,
            0,
            "{codec}: all of it came back"
        );
    }
}

/// One response does not use all of the memory, so that the next one is in flight while it is
/// drained.
#[test]
fn a_fetch_asks_for_a_quarter_of_the_memory_or_for_one_partition() {
    for (partition_max, asked) in [(20_000, 50_000), (80_000, 80_000)] {
        let limits = ConsumerConfig {
            max_partition_fetch_bytes: partition_max,
            ..budgeted()
        };
        let mut world = World::with_topic(limits, 20, |broker| {
            for partition in 0..20 {
                broker.append("t", partition, 10, sized(0, 10, 1_500));
            }
        });
        world.run();
        let fetches = world.broker.fetches();
        assert!(fetches.len() > 1, "the next one waited for the drain");
        assert_eq!(fetches[0].max_bytes, asked);
    }
}

#[test]
fn memory_for_one_fetch_at_a_time_is_given_to_each_broker_in_turn() {
    let limits = ConsumerConfig {
        fetch_buffer_memory_bytes: 25_000,
        max_partition_fetch_bytes: 20_000,
        ..config()
    };
    let mut broker = Broker::new(&[1, 2, 3]);
    broker.create("t", 3, 1);
    for partition in 0..3 {
        broker.log("t", partition).leader = partition + 1;
        for batch in 0..30_i64 {
            let bytes = sized(batch * 10, 10, 1_000);
            broker.append("t", partition, (batch + 1) * 10, bytes);
        }
    }
    let mut world = World::new(limits, broker);
    world.assign_all(3);
    let mut drained = [0; 3];
    for _ in 0..12 {
        world.run();
        let got = world.drain(usize::MAX).expect("records");
        for partition in 0..3 {
            drained[usize::try_from(partition).expect("few")] += got.offsets(partition).len();
        }
    }
    assert!(drained.iter().all(|&records| records >= 20), "{drained:?}");
}

#[test]
fn paused_partitions_that_hold_the_whole_budget_do_not_stop_the_others() {
    let mut world = World::with_topic(budgeted(), 12, |broker| {
        for partition in 0..12 {
            for batch in 0..4_i64 {
                broker.append(
                    "t",
                    partition,
                    (batch + 1) * 10,
                    sized(batch * 10, 10, 2_000),
                );
            }
        }
    });
    world.run();
    let buffered = world.buffered();
    let paused: Vec<_> = buffered.iter().map(|p| tp(*p)).collect();
    world.consumer.pause(&paused).expect("assigned");
    let others = (0..12).filter(|p| !buffered.contains(p)).count();
    assert!(others > 0, "the budget did not hold all of them");
    let got = world.drain_all();
    assert_eq!(got.len(), others * 40, "the others are read to their end");
    world.consumer.resume(&paused).expect("assigned");
    assert_eq!(world.drain_all().len(), (12 - others) * 40);
}

#[test]
fn a_paused_leftover_does_not_pin_its_frame() {
    let mut world = World::with_topic(config(), 10, |broker| {
        for partition in 0..10 {
            broker.append("t", partition, 10, sized(0, 10, 10_000));
        }
    });
    world.run();
    let frame = world.consumer.buffered_bytes().0;
    assert!(frame > 1_000_000);
    world.consumer.pause(&[tp(0)]).expect("assigned");
    assert_eq!(world.drain(usize::MAX).expect("records").records.len(), 90);
    world.run();
    let left = world.consumer.buffered_bytes().0;
    assert!(
        left < 150_000,
        "the paused partition holds its own records only, not {left}"
    );
    world.consumer.resume(&[tp(0)]).expect("assigned");
    assert_eq!(
        world.drain(usize::MAX).expect("records").offsets(0).len(),
        10
    );
}

#[test]
fn batches_decoded_out_of_order_are_handed_out_in_order() {
    let mut world = World::with_topic(config(), 2, |broker| {
        for batch in 0..4_i64 {
            let bytes = noisy(batch * 10, Compression::Zstd);
            broker.append("t", 0, (batch + 1) * 10, bytes);
        }
        broker.append("t", 1, 5, plain(0, 5));
        broker.log("t", 0).high_watermark = 40;
    });
    world.hold_jobs = true;
    world.consumer.seek(&tp(0), 0, -1).expect("assigned");
    world.consumer.seek(&tp(1), 0, -1).expect("assigned");
    world.run();
    assert_eq!(world.jobs.len(), 4);
    let last_first: Vec<_> = world.jobs.drain(..).rev().collect();
    for (done, job) in last_first.into_iter().enumerate() {
        let got = world.drain(100).expect("only what is ready");
        assert!(
            got.offsets(0).is_empty(),
            "{done} of 4 decoded, the first is not"
        );
        assert_eq!(
            got.offsets(1).len(),
            if done == 0 { 5 } else { 0 },
            "others flow meanwhile"
        );
        let output = job.run();
        world
            .fetcher
            .job_done(output, &mut world.cluster, world.now, NOW_MS);
    }
    assert_eq!(
        world.drain(100).expect("records").offsets(0),
        (0..40).collect::<Vec<_>>()
    );
}

#[test]
fn jobs_of_a_fetch_that_was_thrown_away_are_dropped() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 10, compressed(0, 10, 100, Compression::Gzip));
    });
    world.hold_jobs = true;
    world.drain(100).expect("records");
    world.consumer.seek(&tp(0), 0, -1).expect("assigned");
    world.run();
    assert_eq!(world.jobs.len(), 1);
    let job = world.jobs.pop_front().expect("one job");
    world.consumer.seek(&tp(0), 5, -1).expect("assigned");
    let output = job.run();
    world
        .fetcher
        .job_done(output, &mut world.cluster, world.now, NOW_MS);
    world.hold_jobs = false;
    world.run();
    assert_eq!(
        world.drain(100).expect("records").offsets(0),
        [5, 6, 7, 8, 9]
    );
    assert_eq!(world.consumer.buffered_bytes().0, 0);
}

/// Fetches partition 0 from its start and decodes everything. Returns the number of jobs.
fn jobs_of_a_whole_fetch(world: &mut World) -> usize {
    world.hold_jobs = true;
    world.consumer.seek(&tp(0), 0, -1).expect("assigned");
    world.run();
    let mut jobs = 0;
    while !world.jobs.is_empty() {
        jobs += world.jobs.len();
        world.run_jobs();
        world.run();
    }
    jobs
}

/// Producers that do not linger write one record per batch. A separate job for each would cost
/// more than its work.
#[test]
fn small_batches_travel_together_to_a_codec_thread_and_fail_alone() {
    const BATCHES: i64 = 2_000;
    const CORRUPT: i64 = 1_500;
    let mut world = World::with_topic(config(), 1, |broker| {
        for batch in 0..BATCHES {
            let mut bytes = compressed(batch, 1, 100, Compression::Zstd);
            if batch == CORRUPT {
                *bytes.last_mut().expect("not empty") ^= 1;
            }
            broker.append("t", 0, batch + 1, bytes);
        }
    });
    // The growth of the very first batch is not known, so it is decoded alone.
    let jobs = jobs_of_a_whole_fetch(&mut world);
    assert!((2..20).contains(&jobs), "{jobs} jobs");
    let good = world
        .drain(usize::MAX)
        .expect("those before the corrupt one");
    assert_eq!(good.offsets(0), (0..CORRUPT).collect::<Vec<_>>());
    let error = world.drain(usize::MAX).expect_err("the corrupt one");
    assert!(matches!(
        error,
        ConsumerError::CorruptBatch {
            offset: CORRUPT,
            ..
        }
    ));
}

/// Partitions of 4 MB that compress to almost nothing.
pub(crate) fn of_megabytes(partitions: i32) -> World {
    World::with_topic(config(), partitions, fill_with_megabytes(partitions))
}

fn fill_with_megabytes(partitions: i32) -> impl FnOnce(&mut Broker) {
    move |broker| {
        for partition in 0..partitions {
            for batch in 0..10_i64 {
                let bytes = compressed(batch * 400, 400, 1_000, Compression::Zstd);
                broker.append("t", partition, (batch + 1) * 400, bytes);
            }
        }
    }
}

/// For a slow application, decoding ahead is limited to about the size of a codec's buffers.
#[test]
fn decoding_runs_ahead_of_the_application_by_a_bound() {
    let mut world = of_megabytes(6);
    world.run();
    let ahead = world.consumer.buffered_bytes().0;
    assert!(
        (8 << 20..13 << 20).contains(&ahead),
        "{ahead} of 24 million bytes ahead"
    );
    assert_eq!(world.drain_all().len(), 6 * 4_000);
    assert_eq!(world.consumer.buffered_bytes().0, 0);
}

/// Its buffer of 1 MB is full, and its four partitions have several times as much.
fn with_a_full_buffer() -> World {
    let limited = ConsumerConfig {
        fetch_buffer_memory_bytes: 1_000_000,
        ..config()
    };
    let mut world = World::with_topic(limited, 4, fill_with_megabytes(4));
    world.run();
    world
}

/// While a drain runs, its fetch is out of the table. The other batches are not decoded beyond the
/// limit because of that, however long the application takes.
#[test]
fn a_slow_drain_does_not_let_decoding_exceed_the_memory_limit() {
    for drain in [Demand::up_to(500), Demand::one(), Demand::step()] {
        let mut world = with_a_full_buffer();
        let consumer = Arc::clone(&world.consumer);
        let mut records = 0;
        for _ in 0..100_000 {
            let mut sink = Meanwhile(|| {
                if records % 100 == 0 {
                    world.run();
                }
                records += 1;
            });
            let drained = consumer.drain(drain, &mut sink).expect("records");
            if drained.records == 0 {
                world.run();
            }
            if records == 4 * 4_000 {
                break;
            }
        }
        assert_eq!(records, 4 * 4_000);
        let (used, peak) = consumer.buffered_bytes();
        assert_eq!(used, 0);
        assert!(peak <= 1_500_000, "{peak} bytes at the peak");
    }
}

/// A deserializer may call the consumer while a drain runs and the buffer is full.
#[test]
fn a_drain_inside_another_is_served_though_the_buffer_is_full() {
    let mut world = with_a_full_buffer();
    let consumer = Arc::clone(&world.consumer);
    let (mut outer, mut inner) = (0, 0);
    while outer < 20 {
        let mut sink = Meanwhile(|| {
            for _ in 0..50 {
                world.run();
                let got = world.drain(1_000).expect("records").records.len();
                inner += got;
                if got > 0 {
                    break;
                }
            }
            outer += 1;
        });
        consumer
            .drain(Demand::up_to(5), &mut sink)
            .expect("records");
    }
    assert!(inner >= 4_000, "{inner} records of the inner drains");
}

/// Records of paused partitions do not count as ahead: the others are decoded as if they did not
/// exist.
#[test]
fn what_paused_partitions_hold_does_not_slow_the_others_down() {
    let mut world = of_megabytes(8);
    world.run();
    let held: Vec<_> = (0..8)
        .filter(|p| {
            world
                .drain_only(&[tp(*p)], 1)
                .is_ok_and(|got| !got.records.is_empty())
        })
        .map(tp)
        .collect();
    assert!((2..5).contains(&held.len()), "{held:?} hold what is ahead");
    world.consumer.pause(&held).expect("assigned");
    world.hold_jobs = true;
    assert!(world.drain(1).expect("nothing yet").records.is_empty());
    world.run();
    assert!(world.jobs.len() > 1, "{} jobs at once", world.jobs.len());
    world.hold_jobs = false;
    world.run_jobs();
    assert_eq!(world.drain_all().len(), (8 - held.len()) * 4_000);
    world.consumer.resume(&held).expect("assigned");
    assert_eq!(world.drain_all().len(), held.len() * 3_999);
}

/// Markers between the batches of small transactions do not prevent them from sharing a job.
#[test]
fn small_transactions_travel_together_too() {
    let mut world = World::with_topic(config(), 1, |broker| {
        for number in 0..500_i64 {
            let at = number * 2;
            broker.append("t", 0, at + 1, transactional(at, 1, 7, Compression::Zstd));
            broker.append("t", 0, at + 2, marker(at + 1, 7, true));
        }
    });
    let jobs = jobs_of_a_whole_fetch(&mut world);
    assert!((2..10).contains(&jobs), "{jobs} jobs");
    let got = world.drain(usize::MAX).expect("all of them");
    assert_eq!(got.offsets(0), (0..500).map(|n| n * 2).collect::<Vec<_>>());
}

/// Batches that suddenly grow much more than earlier ones reserve memory again, batch by batch.
#[test]
fn a_job_whose_batches_grow_more_than_was_thought_does_not_pass_the_budget() {
    const BUDGET_BYTES: usize = 2_000_000;
    let small = ConsumerConfig {
        fetch_buffer_memory_bytes: BUDGET_BYTES,
        ..config()
    };
    let mut world = World::with_topic(small, 1, |broker| {
        broker.append("t", 0, 10, noisy(0, Compression::Zstd));
        for batch in 1..=100_i64 {
            let bytes = compressed(batch * 10, 10, 10_000, Compression::Zstd);
            broker.append("t", 0, (batch + 1) * 10, bytes);
        }
    });
    let mut records = 0;
    for _ in 0..1_000 {
        world.run();
        records += world.drain(10).expect("records").records.len();
    }
    assert_eq!(records, 1_010);
    let peak = world.consumer.buffered_bytes().1;
    assert!(peak < BUDGET_BYTES + 200_000, "{peak} bytes at the peak");
}

/// The first batch does not grow, so each of several jobs reserves too little, and has a rest.
#[test]
fn the_rests_of_several_jobs_are_decoded_in_the_order_of_their_batches() {
    const BATCHES: i64 = 1_000;
    let limits = ConsumerConfig {
        fetch_buffer_memory_bytes: 600_000,
        max_partition_fetch_bytes: 300_000,
        fetch_max_bytes: 300_000,
        ..config()
    };
    let mut world = World::with_topic(limits, 1, |broker| {
        broker.append("t", 0, 10, noisy(0, Compression::Zstd));
        for batch in 1..=BATCHES {
            let bytes = compressed(batch * 10, 10, 900, Compression::Zstd);
            broker.append("t", 0, (batch + 1) * 10, bytes);
        }
    });
    let mut records = 0;
    for _ in 0..10_000 {
        world.run();
        let (_, peak) = world.consumer.buffered_bytes();
        assert!(peak <= 700_000, "{peak} bytes at the peak");
        records += world.drain(40).expect("records").records.len();
    }
    assert_eq!(records, 10 + 10 * BATCHES as usize);
}
