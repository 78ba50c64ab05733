//! Corrupt, truncated and oversized data cause an error for their partition, and only for it.

use std::time::Duration;

use thalweg_cluster::Role as _;
use thalweg_consumer::{ConsumerConfig, ConsumerError};
use thalweg_protocol::ErrorCode;
use thalweg_records::Compression;

use crate::batches::{compressed, plain, sized};
use crate::world::{World, config, tp};

fn flipped(mut batch: Vec<u8>) -> Vec<u8> {
    let at = batch.len() - 2;
    batch[at] ^= 0x40;
    batch
}

/// None of the records of a batch with a wrong checksum is returned, and the position never passes
/// it silently. Scenario 6.
#[test]
fn a_corrupt_batch_raises_with_its_place_the_position_stays_and_others_flow() {
    for corrupt in [
        flipped(plain(10, 10)),
        flipped(compressed(10, 10, 50, Compression::Gzip)),
        flipped(compressed(10, 10, 50, Compression::Zstd)),
    ] {
        let mut world = World::with_topic(config(), 2, |broker| {
            broker.append("t", 0, 10, plain(0, 10));
            broker.append("t", 0, 20, corrupt);
            broker.append("t", 0, 30, plain(20, 10));
            broker.append("t", 1, 10, plain(0, 10));
        });
        assert_eq!(
            world.drain(100).expect("good ones first").offsets(0),
            (0..10).collect::<Vec<_>>()
        );
        match world
            .drain(100)
            .expect_err("nothing good is left before it")
        {
            ConsumerError::CorruptBatch {
                partition, offset, ..
            } => {
                assert_eq!((partition, offset), (tp(0), 10));
            }
            other => panic!("{other}"),
        }
        assert_eq!(world.position(0), 10, "the position has not moved");
        assert_eq!(
            world.drain(100).expect("records").offsets(1).len(),
            10,
            "others flow"
        );
        // It is fetched again after a wait, because a fresh copy might be undamaged.
        world.advance(Duration::from_secs(1));
        let again = world.drain(100).expect_err("still corrupt");
        assert!(matches!(
            again,
            ConsumerError::CorruptBatch { offset: 10, .. }
        ));
        assert!(world.consumer.metrics().corrupt_batches_total.get() >= 2);
        // The application can seek past it.
        world.consumer.seek(&tp(0), 20, -1).expect("assigned");
        world.run();
        assert_eq!(
            world.drain(100).expect("records").offsets(0),
            (20..30).collect::<Vec<_>>()
        );
    }
}

#[test]
fn damage_on_the_way_heals_by_another_fetch() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 10, flipped(plain(0, 10)));
    });
    world.drain(100).expect_err("corrupt");
    world.broker.log("t", 0).batches[0].bytes = plain(0, 10).into();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.drain(100).expect("whole now").offsets(0).len(), 10);
}

/// Nothing else would explain why no records arrive.
#[test]
fn responses_that_cannot_be_read_are_told_of_once_and_asked_for_again() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
        broker.unreadable = 3;
    });
    world.run();
    for _ in 0..20 {
        world.advance(Duration::from_millis(200));
    }
    assert_eq!(world.drain(100).expect("records").offsets(0).len(), 10);
    let told: Vec<_> = std::iter::from_fn(|| world.fetcher.poll_warning()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("node 1 with records cannot be read"),
        "{}",
        told[0]
    );
    world.broker.unreadable = 1;
    world.broker.append("t", 0, 20, plain(10, 10));
    world.advance(Duration::from_secs(2));
    let again: Vec<_> = std::iter::from_fn(|| world.fetcher.poll_warning()).collect();
    assert_eq!(again.len(), 1, "a new problem is reported again");
}

#[test]
fn without_check_crcs_only_the_structure_counts() {
    let off = ConsumerConfig {
        check_crcs: false,
        ..config()
    };
    let mut world = World::with_topic(off, 1, |broker| {
        broker.append("t", 0, 10, flipped(plain(0, 10)));
    });
    assert_eq!(
        world
            .drain(100)
            .expect("a changed value is not noticed")
            .records
            .len(),
        10
    );
}

#[test]
fn corruption_reported_by_the_broker_raises_too() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
        broker
            .log("t", 0)
            .errors
            .push_back(ErrorCode::CORRUPT_MESSAGE);
    });
    let error = world.drain(100).expect_err("the broker says so");
    assert!(matches!(
        error,
        ConsumerError::CorruptBatch { offset: 0, .. }
    ));
    world.advance(Duration::from_secs(1));
    assert_eq!(world.drain(100).expect("records").records.len(), 10);
}

/// A broker fills its response to the last byte, so the last batch is often cut. Scenario 7.
#[test]
fn a_cut_last_batch_is_fetched_again_in_silence() {
    let mut world = World::with_topic(config(), 1, |broker| {
        broker.append("t", 0, 10, plain(0, 10));
        broker.append("t", 0, 20, plain(10, 10));
        broker.cut_at = Some(plain(0, 10).len() + 30);
    });
    assert_eq!(
        world.drain(100).expect("the whole one").offsets(0),
        (0..10).collect::<Vec<_>>()
    );
    world.broker.cut_at = None;
    world.run();
    assert_eq!(
        world.drain(100).expect("the rest").offsets(0),
        (10..20).collect::<Vec<_>>()
    );
}

/// KIP-74: without it, a consumer whose limits are smaller than one batch would never progress.
/// Scenario 7.
#[test]
fn a_first_batch_larger_than_every_limit_is_consumed() {
    let small = ConsumerConfig {
        fetch_max_bytes: 100,
        max_partition_fetch_bytes: 100,
        fetch_buffer_memory_bytes: 200,
        ..config()
    };
    let mut world = World::with_topic(small, 2, |broker| {
        broker.append("t", 0, 4, sized(0, 4, 5000));
        broker.append("t", 0, 8, compressed(4, 4, 5000, Compression::Lz4));
        broker.append("t", 1, 4, sized(0, 4, 5000));
    });
    let all = world.drain_all();
    assert_eq!(all.iter().filter(|r| r.partition == 0).count(), 8);
    assert_eq!(all.iter().filter(|r| r.partition == 1).count(), 4);
}

/// A few bytes that decompress to gigabytes must not exhaust the memory. Scenario 8.
#[test]
fn a_decompression_bomb_is_refused_at_the_cap_and_others_flow() {
    for codec in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let capped = ConsumerConfig {
            decompressed_batch_bytes_max: 100_000,
            ..config()
        };
        let mut world = World::with_topic(capped, 2, |broker| {
            broker.append("t", 0, 10, compressed(0, 10, 1_000_000, codec));
            broker.append("t", 1, 10, plain(0, 10));
        });
        let mut errors = Vec::new();
        let mut records = 0;
        for _ in 0..3 {
            match world.drain(100) {
                Ok(got) => records += got.offsets(1).len(),
                Err(error) => errors.push(error.to_string()),
            }
        }
        assert_eq!(records, 10);
        assert!(errors[0].contains("100000"), "{codec}: {errors:?}");
        assert!(
            world.consumer.buffered_bytes().1 < 2_000_000,
            "{codec}: 10 MB were not inflated"
        );
    }
}

/// Random counts and lengths in place of batches. Scenario 10.
#[test]
fn nonsense_instead_of_batches_is_an_error_not_a_panic() {
    for nonsense in [
        vec![0xff; 200],
        vec![0; 200],
        vec![7; 16],
        plain(0, 3)[..40].to_vec(),
    ] {
        let mut world = World::with_topic(config(), 1, |broker| {
            broker.append("t", 0, 3, nonsense);
        });
        let error = world.drain(100).expect_err("not records");
        assert!(
            matches!(error, ConsumerError::CorruptBatch { offset: 0, .. }),
            "{error}"
        );
        assert_eq!(world.position(0), 0);
    }
}
