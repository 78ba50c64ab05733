//! Bulk appends of whole columns.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use thalweg_producer::{
    AppendedRows, BulkAppend, BulkStep, ProducerConfig, ProducerError, Record, RecordSource,
    murmur2, to_positive,
};

use crate::world::{World, config, counting_waker};

#[derive(Debug, Default)]
struct Rows {
    keys: Option<Vec<String>>,
    partitions: Option<Vec<i32>>,
    values: Vec<Vec<u8>>,
}

impl Rows {
    fn numbered(count: usize) -> Self {
        let values = (0..count)
            .map(|n| format!("{n:08}{}", "x".repeat(n % 50)).into_bytes())
            .collect();
        Self {
            values,
            ..Self::default()
        }
    }
}

impl RecordSource for Rows {
    fn rows(&self) -> usize {
        self.values.len()
    }

    fn record(&mut self, row: usize) -> Record<'_> {
        Record {
            partition: self.partitions.as_ref().map(|partitions| partitions[row]),
            key: self.keys.as_ref().map(|keys| keys[row].as_bytes()),
            value: Some(&self.values[row]),
            ..Record::default()
        }
    }

    fn is_keyless(&self) -> bool {
        self.keys.is_none() && self.partitions.is_none()
    }
}

/// Appends everything, and runs the world when memory is short.
fn append_all(world: &mut World, source: Rows) -> AppendedRows {
    append_with(world, source, |_| ())
}

/// Appends everything. Calls `when_full` before each wait for memory.
fn append_with(world: &mut World, source: Rows, when_full: impl Fn(&mut World)) -> AppendedRows {
    let mut bulk = BulkAppend::new(world.topic(), source);
    let accumulator = std::sync::Arc::clone(&world.accumulator);
    let now = world.now;
    let mut step = bulk.step(&accumulator, || now);
    let (_, waker) = counting_waker();
    loop {
        match step {
            BulkStep::Done => return bulk.finish(),
            BulkStep::BufferExhausted(mut wait) => {
                world.waits += 1;
                when_full(world);
                let reservation = loop {
                    if let Poll::Ready(reservation) = wait.poll_reservation(&waker) {
                        break reservation.expect("open");
                    }
                    assert!(world.turn(), "memory comes back by itself");
                };
                step = bulk.step_reserved(&accumulator, reservation, || now);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Checks that each row is in the log of its partition, at the offset that its outcome reports.
fn check(world: &mut World, rows: &AppendedRows, values: &[Vec<u8>]) {
    let mut seen = vec![false; values.len()];
    for (row, completion, index) in rows.iter() {
        assert!(!std::mem::replace(&mut seen[row], true), "row {row} twice");
        let offset = completion
            .outcome(index)
            .expect("done")
            .expect("written")
            .offset;
        let log = world.brokers.log("t", completion.partition());
        assert_eq!(
            log.records[offset as usize].value.as_ref(),
            Some(&values[row]),
            "row {row}"
        );
    }
    assert!(seen.iter().all(|&seen| seen));
    assert!(rows.refused().is_empty());
}

#[test]
fn keyless_rows_fill_whole_batches_in_their_order() {
    let config = ProducerConfig {
        batch_size: 4096,
        linger: Duration::from_millis(5),
        ..config()
    };
    let mut world = World::ready(config, 1, 4);
    let source = Rows::numbered(50_000);
    let values = source.values.clone();
    let rows = append_all(&mut world, source);
    world.advance_ms(50);
    check(&mut world, &rows, &values);
    assert!(
        rows.iter().map(|(row, ..)| row).eq(0..50_000),
        "in their own order"
    );
    let bytes: usize = values.iter().map(|value| value.len() + 7).sum();
    let batches: usize = (0..4)
        .map(|p| world.brokers.log("t", p).headers.len())
        .sum();
    assert!(batches <= bytes / 3_900 + 5, "{batches}");
}

#[test]
fn keyed_rows_keep_their_order_within_a_partition() {
    let config = ProducerConfig {
        batch_size: 4096,
        linger: Duration::from_millis(5),
        ..config()
    };
    let mut world = World::ready(config, 2, 7);
    let keys: Vec<String> = (0..40_000).map(|n| format!("key-{}", n % 1000)).collect();
    let source = Rows {
        keys: Some(keys.clone()),
        ..Rows::numbered(40_000)
    };
    let values = source.values.clone();
    let rows = append_all(&mut world, source);
    world.advance_ms(50);
    check(&mut world, &rows, &values);
    let mut expected: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
    for (key, value) in keys.iter().zip(&values) {
        let partition = to_positive(murmur2(key.as_bytes())) % 7;
        expected.entry(partition).or_default().push(value.clone());
    }
    for (partition, values) in expected {
        let log = world.brokers.log("t", partition);
        assert!(
            log.records
                .iter()
                .map(|r| r.value.as_ref())
                .eq(values.iter().map(Some))
        );
    }
}

/// Each row is in the partition that its key's hash selects, with the old or the new number of
/// partitions.
#[test]
fn keyed_rows_keep_to_their_hash_if_the_topic_gets_more_partitions() {
    let config = ProducerConfig {
        batch_size: 4096,
        buffer_memory: 32 * 1024,
        ..config()
    };
    let mut world = World::ready(config, 1, 4);
    let keys: Vec<String> = (0..20_000).map(|n| format!("key-{n}")).collect();
    let source = Rows {
        keys: Some(keys.clone()),
        ..Rows::numbered(20_000)
    };
    let values = source.values.clone();
    let rows = append_with(&mut world, source, |world| {
        if world.waits == 3 {
            let topic = world.brokers.topics.get_mut("t").expect("it exists");
            topic.leaders.push((1, 0));
            world.cluster.request_update();
            world.advance_ms(1_000);
            assert_eq!(world.topic().partition_count(), 5);
        }
    });
    world.advance_ms(50);
    check(&mut world, &rows, &values);
    let mut of_new_partition = 0;
    for (row, completion, _) in rows.iter() {
        let hash = to_positive(murmur2(keys[row].as_bytes()));
        let partition = completion.partition();
        assert!([hash % 4, hash % 5].contains(&partition), "row {row}");
        of_new_partition += usize::from(partition == 4);
    }
    assert!(of_new_partition > 1_000, "{of_new_partition}");
}

#[test]
fn memory_that_runs_out_is_waited_for_and_kept_within_its_cap() {
    let config = ProducerConfig {
        batch_size: 4096,
        buffer_memory: 32 * 1024,
        compression: thalweg_records::Compression::Lz4,
        ..config()
    };
    let mut world = World::ready(config, 1, 3);
    let partitions = (0..20_000).map(|n| n % 3).collect();
    let source = Rows {
        partitions: Some(partitions),
        ..Rows::numbered(20_000)
    };
    let values = source.values.clone();
    let rows = append_all(&mut world, source);
    world.advance_ms(50);
    check(&mut world, &rows, &values);
    assert!(world.waits > 5);
}

#[test]
fn rows_that_cannot_be_sent_are_refused_alone() {
    let config = ProducerConfig {
        max_request_size: 5_000,
        ..config()
    };
    let mut world = World::ready(config, 1, 2);
    let mut source = Rows {
        partitions: Some((0..100).map(|n| n % 2).collect()),
        ..Rows::numbered(100)
    };
    source.values[17] = vec![0; 6_000];
    source.partitions.as_mut().expect("set")[40] = 9;
    let mut bulk = BulkAppend::new(world.topic(), source);
    let (accumulator, now) = (std::sync::Arc::clone(&world.accumulator), world.now);
    let step = bulk.step(&accumulator, || now);
    match step {
        BulkStep::UnknownPartition {
            row: 40,
            partition: Some(9),
            partitions: 2,
        } => {}
        other => panic!("{other:?}"),
    }
    bulk.refuse_row(ProducerError::Closed);
    assert!(matches!(bulk.step(&accumulator, || now), BulkStep::Done));
    let rows = bulk.finish();
    world.run();
    let mut refused: Vec<usize> = rows.refused().iter().map(|(row, _)| *row).collect();
    refused.sort_unstable();
    assert_eq!(refused, [17, 40]);
    let too_large = rows
        .refused()
        .iter()
        .find(|(row, _)| *row == 17)
        .expect("refused");
    assert!(matches!(
        too_large.1,
        ProducerError::RecordTooLarge {
            option: "max_request_size",
            ..
        }
    ));
    assert_eq!(rows.iter().count(), 98);
}

#[test]
fn giving_up_leaves_every_row_with_one_outcome() {
    let config = ProducerConfig {
        buffer_memory: 4096,
        batch_size: 1024,
        ..config()
    };
    let world = World::ready(config, 1, 2);
    let source = Rows {
        partitions: Some((0..500).map(|n| n % 2).collect()),
        ..Rows::numbered(500)
    };
    let mut bulk = BulkAppend::new(world.topic(), source);
    let now = world.now;
    let BulkStep::BufferExhausted(wait) = bulk.step(&world.accumulator, || now) else {
        panic!("500 rows do not fit");
    };
    drop(wait);
    bulk.refuse_rest(&ProducerError::BufferExhausted);
    let rows = bulk.finish();
    let mut all: Vec<usize> = rows.iter().map(|(row, ..)| row).collect();
    assert!(!all.is_empty());
    all.extend(rows.refused().iter().map(|(row, _)| *row));
    all.sort_unstable();
    assert!(all.into_iter().eq(0..500));
}
