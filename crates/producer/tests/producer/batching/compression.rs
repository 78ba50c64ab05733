//! Codec jobs, the ratio estimate, and batches that are too large for the broker.

use std::sync::Arc;
use std::time::Duration;

use thalweg_cluster::{Job, Role};
use thalweg_producer::{ProducerConfig, ProducerError, Record};
use thalweg_protocol::ErrorCode;
use thalweg_records::Compression;

use crate::world::broker::Reaction;
use crate::world::{TOPIC, World, config, error, is_pending, offset, outcome};

const CODECS: [Compression; 4] = [
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn compressing(codec: Compression) -> ProducerConfig {
    ProducerConfig {
        compression: codec,
        linger: Duration::from_millis(5),
        batch_size: 4096,
        ..config()
    }
}

fn text(n: usize) -> String {
    format!("record {n:06} of a log that says much the same in each of its lines, as logs do")
}

#[test]
fn every_codec_brings_every_record_in_order_and_gives_the_memory_back() {
    for codec in CODECS {
        let mut world = World::ready(compressing(codec), 1, 2);
        let mut sent = Vec::new();
        for n in 0..2_000 {
            sent.push(world.send((n % 2) as i32, &text(n)));
            if n % 100 == 0 {
                world.run();
            }
        }
        world.advance_ms(50);
        for partition in 0..2 {
            let expected: Vec<_> = (0..2_000)
                .filter(|n| n % 2 == partition)
                .map(text)
                .collect();
            assert_eq!(world.values(partition as i32), expected, "{codec}");
        }
        assert!(sent.iter().all(|one| matches!(outcome(one), Some(Ok(_)))));
        let headers = &world.brokers.log(TOPIC, 0).headers;
        let compressed = headers
            .iter()
            .filter(|h| h.attributes.compression() == Some(codec));
        assert_eq!(compressed.count(), headers.len(), "{codec}");
        let pool = world.accumulator.pool();
        assert_eq!(pool.available_bytes(), pool.request_bytes_max());
    }
}

#[test]
fn the_estimate_lets_batches_hold_more_than_their_wire_size() {
    let mut world = World::ready(compressing(Compression::Zstd), 1, 1);
    for n in 0..60_000 {
        world.send(0, &text(n));
        if n % 50 == 0 {
            world.run();
        }
    }
    world.advance_ms(50);
    let headers = &world.brokers.log(TOPIC, 0).headers;
    let (first, last) = (
        headers[0].records_count,
        headers[headers.len() - 2].records_count,
    );
    assert!(last > 2 * first, "{first} {last}");
    let largest = headers
        .iter()
        .map(thalweg_records::BatchHeader::total_len)
        .max();
    assert!(largest <= Some(4096 + 200), "{largest:?}");
    assert!(world.metric("compression-rate-avg") < 0.6);
}

#[test]
fn incompressible_records_go_out_as_they_are() {
    let mut world = World::ready(compressing(Compression::Lz4), 1, 1);
    let mut state = 1_u64;
    let value: Vec<u8> = (0..2_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let record = Record {
        partition: Some(0),
        value: Some(&value),
        ..Record::default()
    };
    let sent = world.append(&record);
    world.advance_ms(10);
    assert_eq!(offset(&sent), 0);
    let header = world.brokers.log(TOPIC, 0).headers[0];
    assert_eq!(header.attributes.compression(), Some(Compression::None));
}

#[test]
fn jobs_that_finish_out_of_order_do_not_reorder_a_partition() {
    let mut world = World::ready(compressing(Compression::Lz4), 1, 1);
    world.hold_jobs = true;
    for n in 0..120 {
        world.send(0, &text(n));
    }
    world.run();
    let jobs: Vec<_> = std::iter::from_fn(|| world.sender.poll_job()).collect();
    assert_eq!(jobs.len(), 2, "two full batches ahead");
    for job in jobs.into_iter().rev() {
        let done = job.run();
        world
            .sender
            .job_done(done, &mut world.cluster, world.now, 0);
    }
    world.hold_jobs = false;
    world.advance_ms(50);
    assert_eq!(world.values(0), (0..120).map(text).collect::<Vec<_>>());
}

#[test]
fn a_compressor_that_panics_fails_its_own_batch_at_once() {
    let options = ProducerConfig {
        enable_idempotence: true,
        ..compressing(Compression::Lz4)
    };
    let mut world = World::ready(options, 1, 1);
    world.hold_jobs = true;
    let mut batches: Vec<Vec<_>> = Vec::new();
    for _ in 0..3 {
        let sent = (0..5).map(|n| world.send(0, &text(n))).collect();
        world.advance_ms(10);
        batches.push(sent);
        let job = world.sender.poll_job().expect("a batch to compress");
        let done = if batches.len() == 2 {
            job.run_with(|_, _, _| panic!("a bug"))
        } else {
            job.run()
        };
        let (cluster, now) = (&mut world.cluster, world.now);
        world.sender.job_done(done, cluster, now, 0);
        if batches.len() == 2 {
            for sent in &batches[1] {
                let text = error(sent).to_string();
                assert!(
                    text.contains("t-0: not sent, because the lz4 compressor panicked: a bug"),
                    "{text}"
                );
            }
        }
        world.run();
    }
    let offsets = |batch: &[_]| batch.iter().map(offset).collect::<Vec<_>>();
    assert_eq!(offsets(&batches[0]), [0, 1, 2, 3, 4]);
    assert_eq!(offsets(&batches[2]), [5, 6, 7, 8, 9]);
    let headers = &world.brokers.log(TOPIC, 0).headers;
    let sequences: Vec<_> = headers.iter().map(|header| header.base_sequence).collect();
    assert_eq!(sequences, [0, 5], "no gap in the numbering");
    let pool = world.accumulator.pool();
    assert_eq!(pool.available_bytes(), pool.request_bytes_max());
}

#[test]
fn a_batch_behind_one_whose_compressor_panics_goes_out() {
    let mut world = World::ready(compressing(Compression::Lz4), 1, 1);
    world.hold_jobs = true;
    let sent: Vec<_> = (0..120).map(|n| world.send(0, &text(n))).collect();
    world.run();
    let jobs: Vec<_> = std::iter::from_fn(|| world.sender.poll_job()).collect();
    assert_eq!(jobs.len(), 2, "two full batches ahead");
    let mut jobs = jobs.into_iter();
    let first = jobs.next().expect("two jobs");
    let second = jobs.next().expect("two jobs").run();
    let panicked = first.run_with(|_, _, _| panic!("a bug"));
    for done in [second, panicked] {
        let (cluster, now) = (&mut world.cluster, world.now);
        world.sender.job_done(done, cluster, now, 0);
    }
    world.hold_jobs = false;
    world.advance_ms(50);
    let failed = sent
        .iter()
        .take_while(|one| matches!(outcome(one), Some(Err(_))))
        .count();
    assert!(failed > 0 && failed < 120, "{failed}");
    let expected: Vec<_> = (failed..120).map(text).collect();
    assert_eq!(world.values(0), expected);
}

/// Scenario 29.
#[test]
fn a_batch_too_large_for_the_broker_is_split_in_order() {
    // KIP-126.
    for codec in [Compression::None, Compression::Gzip, Compression::Zstd] {
        let mut world = World::ready(compressing(codec), 1, 1);
        let first = world.send(0, &text(0));
        world.advance_ms(10);
        let message_max_bytes = if codec == Compression::None {
            1_000
        } else {
            300
        };
        world.brokers.message_max_bytes = message_max_bytes;
        let sent: Vec<_> = (1..40).map(|n| world.send(0, &text(n))).collect();
        let later = world.send(0, "later");
        world.advance_ms(2_000);
        let mut expected: Vec<_> = (0..40).map(text).collect();
        expected.push("later".to_owned());
        assert_eq!(world.values(0), expected, "{codec}");
        assert_eq!(offset(&first), 0);
        for (at, one) in sent.iter().chain([&later]).enumerate() {
            assert_eq!(offset(one), at as i64 + 1);
        }
        assert!(world.metric("batch-split-total") >= 1.0);
        // The pieces keep the original range of sequences.
        let mut next = 0;
        for header in &world.brokers.log(TOPIC, 0).headers {
            assert_eq!((header.producer_epoch, header.base_sequence), (0, next));
            next += header.records_count;
            assert!(header.total_len() <= message_max_bytes || next == 1);
        }
        let pool = Arc::clone(world.accumulator.pool());
        assert_eq!(pool.available_bytes(), pool.request_bytes_max());
    }
}

/// KIP-126: with the old estimate, every batch after a split one would be too large as well.
#[test]
fn behind_a_split_batches_are_filled_as_if_nothing_compressed() {
    for codec in CODECS {
        let mut world = World::ready(compressing(codec), 1, 1);
        let mut sent = 0;
        let mut send = |world: &mut World, count: usize| {
            for _ in 0..count {
                world.send(0, &text(sent));
                sent += 1;
                if sent % 50 == 0 {
                    world.run();
                }
            }
            world.advance_ms(20);
        };
        send(&mut world, 12_000);
        let headers = world.brokers.log(TOPIC, 0).headers.clone();
        // The last batch contains the rest that lingered.
        let (first, full) = (headers[0], headers[headers.len() - 2]);
        assert!(full.records_count > 2 * first.records_count, "{codec}");
        world.brokers.message_max_bytes = usize::midpoint(first.total_len(), full.total_len());
        send(&mut world, full.records_count as usize);
        assert_eq!(world.metric("batch-split-total") as usize, 1, "{codec}");
        let behind = world.brokers.log(TOPIC, 0).headers.len();
        send(&mut world, 2_000);
        assert_eq!(world.metric("batch-split-total") as usize, 1, "{codec}");
        let headers = &world.brokers.log(TOPIC, 0).headers[behind..];
        let records: Vec<i32> = headers.iter().map(|header| header.records_count).collect();
        let small = |&count: &i32| count < 2 * first.records_count;
        assert!(records.iter().all(small), "{codec}: {records:?}");
    }
}

/// Scenario 29.
#[test]
fn of_a_batch_that_is_split_only_the_record_that_is_too_large_fails() {
    let mut world = World::ready(compressing(Compression::None), 1, 1);
    world.send(0, "warm");
    world.advance_ms(10);
    world.brokers.message_max_bytes = 600;
    let small = [world.send(0, "a"), world.send(0, "b")];
    let large = world.send(0, &"x".repeat(700));
    let behind = [world.send(0, "c"), world.send(0, "d")];
    world.advance_ms(2_000);
    assert_eq!(error(&large).code(), Some(ErrorCode::MESSAGE_TOO_LARGE));
    assert!(
        small
            .iter()
            .chain(&behind)
            .all(|one| matches!(outcome(one), Some(Ok(_))))
    );
    assert_eq!(world.values(0), ["warm", "a", "b", "c", "d"]);
}

#[test]
fn batches_behind_one_that_is_split_keep_their_place() {
    let small = ProducerConfig {
        batch_size: 512,
        ..compressing(Compression::None)
    };
    let mut world = World::ready(small, 1, 1);
    world.send(0, "warm");
    world.advance_ms(10);
    world.script([Reaction::Hold, Reaction::Hold, Reaction::Hold]);
    let sent: Vec<_> = (0..18).map(|n| world.send(0, &text(n))).collect();
    world.advance_ms(10);
    assert_eq!(world.brokers.held(), 3);
    world
        .brokers
        .release_with(&Reaction::Refuse(ErrorCode::MESSAGE_TOO_LARGE));
    world.brokers.release();
    world.brokers.release();
    world.advance_ms(2_000);
    let mut expected = vec!["warm".to_owned()];
    expected.extend((0..18).map(text));
    assert_eq!(world.values(0), expected);
    assert!(!sent.iter().any(is_pending));
}

/// A split decompresses and compresses a whole batch. On the I/O thread it would delay all clients.
#[test]
fn a_split_waits_for_a_codec_thread_and_nothing_of_its_partition_passes_it() {
    for codec in [Compression::None, Compression::Gzip] {
        let mut world = World::ready(compressing(codec), 1, 1);
        world.script([Reaction::Hold]);
        let sent: Vec<_> = (0..20).map(|n| world.send(0, &text(n))).collect();
        world.advance_ms(10);
        assert_eq!(world.brokers.held(), 1);
        world.hold_jobs = true;
        let refused = Reaction::Refuse(ErrorCode::MESSAGE_TOO_LARGE);
        world.brokers.release_with(&refused);
        let later = world.send(0, "later");
        world.advance_ms(500);
        assert!(world.values(0).is_empty(), "{codec}");
        assert!(sent.iter().chain([&later]).all(is_pending));
        let jobs: Vec<_> = std::iter::from_fn(|| world.sender.poll_job()).collect();
        assert_eq!(jobs.len(), 1, "{codec}: the split");
        for job in jobs {
            let done = job.run();
            world
                .sender
                .job_done(done, &mut world.cluster, world.now, 0);
        }
        world.hold_jobs = false;
        world.advance_ms(100);
        let mut expected: Vec<_> = (0..20).map(text).collect();
        expected.push("later".to_owned());
        assert_eq!(world.values(0), expected, "{codec}");
        assert_eq!(offset(&later), 20);
        assert_eq!(world.metric("batch-split-total") as usize, 1);
    }
}

#[test]
fn a_batch_that_grows_too_old_while_it_is_split_fails_once() {
    let short = ProducerConfig {
        delivery_timeout: Duration::from_secs(40),
        ..compressing(Compression::None)
    };
    let mut world = World::ready(short, 1, 1);
    world.script([Reaction::Hold]);
    let sent = [world.send(0, "a"), world.send(0, "b")];
    world.advance_ms(10);
    world.hold_jobs = true;
    let refused = Reaction::Refuse(ErrorCode::MESSAGE_TOO_LARGE);
    world.brokers.release_with(&refused);
    world.advance_ms(41_000);
    for one in &sent {
        assert!(matches!(error(one), ProducerError::DeliveryTimeout { .. }));
    }
    world.hold_jobs = false;
    let later = world.send(0, "later");
    world.advance_ms(2_000);
    assert_eq!(world.values(0), ["later"]);
    assert_eq!(offset(&later), 0);
}
