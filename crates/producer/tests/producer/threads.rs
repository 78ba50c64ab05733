//! Many appending threads, a sender, and memory for two batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use thalweg_producer::{Accumulator, AppendRefusal, Appended, ProducerConfig, Record, TopicEntry};
use thalweg_records::Compression;

use crate::world::{World, config, outcome};

const LIMIT: Duration = Duration::from_secs(120);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Appends as an application thread does: it waits where it must, up to a limit.
fn append(accumulator: &Accumulator, topic: &Arc<TopicEntry>, record: &Record<'_>) -> Appended {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut result = accumulator.append(topic, record, Instant::now);
    loop {
        match result {
            Ok(appended) => return appended,
            Err(AppendRefusal::BufferExhausted(mut wait)) => {
                let reservation = loop {
                    match wait.poll_reservation(&waker) {
                        Poll::Ready(reservation) => break reservation.expect("not closed"),
                        Poll::Pending => thread::park_timeout(LIMIT),
                    }
                };
                result = accumulator.append_reserved(topic, record, reservation, Instant::now);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn run(threads: usize, records: usize, partitions: i32, config: ProducerConfig) {
    let mut world = World::ready(config, 1, partitions);
    let limit = Instant::now() + LIMIT;
    let topic = world.topic();
    let appenders: Vec<_> = (0..threads)
        .map(|thread| {
            let (accumulator, topic) = (Arc::clone(&world.accumulator), Arc::clone(&topic));
            thread::spawn(move || {
                let send = |n: usize| {
                    let value = format!("{thread} {n} {}", "x".repeat((n * 37) % 300));
                    // With a key, without one, or to an explicit partition.
                    let key = thread.to_string();
                    let record = Record {
                        partition: (thread % 3 == 0).then_some(thread as i32 % partitions),
                        key: (thread % 3 == 1).then_some(key.as_bytes()),
                        value: Some(value.as_bytes()),
                        ..Record::default()
                    };
                    append(&accumulator, &topic, &record)
                };
                (0..records).map(send).collect::<Vec<_>>()
            })
        })
        .collect();
    while appenders.iter().any(|appender| !appender.is_finished())
        || world.accumulator.incomplete_batches() > 0
    {
        world.now = Instant::now();
        assert!(world.now < limit, "stuck: {:?}", world.accumulator);
        if !world.turn() {
            thread::yield_now();
        }
    }
    let sent: Vec<Appended> = appenders
        .into_iter()
        .flat_map(|appender| appender.join().expect("no panic"))
        .collect();
    assert!(sent.iter().all(|one| matches!(outcome(one), Some(Ok(_)))));
    let mut seen = BTreeMap::new();
    for partition in 0..partitions {
        let mut last: BTreeMap<String, usize> = BTreeMap::new();
        for value in world.values(partition) {
            let mut words = value.split(' ');
            let thread = words.next().expect("a thread").to_owned();
            let n: usize = words.next().and_then(|n| n.parse().ok()).expect("a number");
            assert!(
                last.insert(thread.clone(), n) < Some(n),
                "order of thread {thread}"
            );
            *seen.entry((thread, n)).or_insert(0) += 1;
        }
    }
    assert_eq!(seen.len(), threads * records, "each record");
    assert!(seen.values().all(|&times| times == 1), "once");
    let pool = world.accumulator.pool();
    assert_eq!(pool.available_bytes(), pool.request_bytes_max());
}

#[test]
fn sixteen_threads_and_a_pool_of_two_batches() {
    let config = ProducerConfig {
        batch_size: 1024,
        buffer_memory: 2048,
        linger: Duration::from_millis(1),
        ..config()
    };
    run(16, 150, 4, config);
}

#[test]
fn a_pool_exhausted_with_any_codec_blocks_nobody_for_ever() {
    for (codec, codec_threads, batches) in Compression::ALL
        .into_iter()
        .flat_map(|codec| [(codec, 1, 4), (codec, 64, 4), (codec, 64, 2)])
    {
        let config = ProducerConfig {
            batch_size: 1024,
            buffer_memory: batches * 1024,
            compression: codec,
            codec_threads,
            linger: Duration::from_millis(1),
            ..config()
        };
        run(8, 50, 3, config);
    }
}

#[test]
fn many_threads_with_memory_enough() {
    let config = ProducerConfig {
        batch_size: 4096,
        linger: Duration::from_millis(1),
        ..config()
    };
    run(16, 400, 6, config);
}
