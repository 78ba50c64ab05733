//! Appending: batches, limits, memory, lingering, wake-ups.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use thalweg_producer::{AppendRefusal, ProducerConfig, Record};
use thalweg_records::Compression;

use crate::world::broker::Reaction;
use crate::world::{TOPIC, World, config, counting_waker, is_pending, offset};

#[test]
fn batches_stay_within_batch_size_and_one_record_may_exceed_it() {
    let config = ProducerConfig {
        batch_size: 1_000,
        linger: Duration::from_secs(1),
        ..config()
    };
    let mut world = World::ready(config, 1, 1);
    for n in 0..200 {
        world.send(0, &"x".repeat(n % 97));
        if n == 100 {
            world.send(0, &"y".repeat(5_000));
        }
    }
    world.advance_ms(2_000);
    let lens: Vec<usize> = world
        .brokers
        .log(TOPIC, 0)
        .headers
        .iter()
        .map(thalweg_records::BatchHeader::total_len)
        .collect();
    let large: Vec<usize> = (0..lens.len()).filter(|&at| lens[at] > 1_000).collect();
    assert_eq!(large.len(), 1);
    // The batch before it was closed early, and the last one is not full yet.
    let others = (0..lens.len() - 1).filter(|&at| at + 1 != large[0]);
    assert!(
        others.clone().count() > 10 && others.into_iter().all(|at| lens[at] > 900),
        "{lens:?}"
    );
}

#[test]
fn a_full_batch_does_not_linger_and_an_open_one_does() {
    let config = ProducerConfig {
        batch_size: 512,
        linger: Duration::from_millis(100),
        ..config()
    };
    let mut world = World::ready(config, 1, 1);
    let sent: Vec<_> = (0..6).map(|_| world.send(0, &"x".repeat(100))).collect();
    world.run();
    assert!(!is_pending(&sent[0]), "the first four fill a batch");
    assert!(is_pending(&sent[5]));
    world.advance_ms(99);
    assert!(is_pending(&sent[5]));
    world.advance_ms(2);
    assert_eq!(offset(&sent[5]), 5);
}

/// Scenario 29.
#[test]
fn a_record_that_can_never_be_sent_is_refused_whatever_is_queued() {
    let config = ProducerConfig {
        max_request_size: 10_000,
        buffer_memory: 8_000,
        batch_size: 1_000,
        linger: Duration::from_secs(1),
        ..config()
    };
    let world = World::ready(config, 1, 1);
    world.send(0, "a");
    let refusal = |len: usize| match world.try_send(0, &"x".repeat(len)) {
        Err(AppendRefusal::TooLarge {
            size,
            limit,
            option,
        }) => Some((size, limit, option)),
        _ => None,
    };
    assert_eq!(
        refusal(9_990),
        Some((61 + 21 + 1 + 3 + 9_990 + 1, 10_000, "max_request_size"))
    );
    assert_eq!(
        refusal(8_000),
        Some((61 + 21 + 1 + 2 + 8_000 + 1, 8_000, "buffer_memory"))
    );
    assert_eq!(refusal(5_000), None);
}

/// The memory for codec threads depends on the machine, but which records are accepted must not.
#[test]
fn which_records_are_taken_does_not_depend_on_the_number_of_codec_threads() {
    for (buffer_memory, most) in [(8_000, 7_000), (11_000, 9_900), (64_000, 9_900)] {
        for codec_threads in [1, 2, 64] {
            let config = ProducerConfig {
                max_request_size: 10_000,
                buffer_memory,
                batch_size: 1_000,
                compression: Compression::Lz4,
                codec_threads,
                ..config()
            };
            let world = World::ready(config, 1, 1);
            let fits = |len: usize| world.try_send(0, &"x".repeat(len)).is_ok();
            let refused = buffer_memory.min(10_000);
            assert!(!fits(refused), "{codec_threads} threads, {refused} bytes");
            let taken = most - 87;
            assert!(fits(taken), "{codec_threads} threads, {taken} bytes");
        }
    }
}

/// Scenario 28.
#[test]
fn a_full_buffer_refuses_and_the_wait_ends_when_batches_are_done() {
    let small = ProducerConfig {
        buffer_memory: 4 * 1024,
        batch_size: 1024,
        linger: Duration::from_secs(60),
        ..config()
    };
    let mut world = World::ready(small, 1, 8);
    world.script([Reaction::Hold]);
    let value = "x".repeat(900);
    let mut sent: Vec<_> = (0..4)
        .map(|partition| world.send(partition, &value))
        .collect();
    let Err(AppendRefusal::BufferExhausted(mut wait)) = world.try_send(4, &value) else {
        panic!("four batches fill the memory");
    };
    let (count, waker) = counting_waker();
    assert!(wait.poll_reservation(&waker).is_pending());
    // An append waits for memory, so lingering batches are sent now.
    world.run();
    assert_eq!(world.brokers.requests.len(), 1);
    assert_eq!(count.get(), 0);
    world.brokers.release();
    world.run();
    assert_eq!(count.get(), 1);
    let Poll::Ready(Ok(reservation)) = wait.poll_reservation(&waker) else {
        panic!("memory is back")
    };
    let now = world.now;
    let record = Record {
        partition: Some(4),
        value: Some(value.as_bytes()),
        ..Record::default()
    };
    sent.push(
        world
            .accumulator
            .append_reserved(&world.topic(), &record, reservation, || now)
            .expect("room"),
    );
    world.advance_ms(60_001);
    assert!(sent.iter().all(|one| offset(one) == 0));
    let pool = world.accumulator.pool();
    assert_eq!(pool.available_bytes(), pool.total_bytes());
}

#[test]
fn an_append_that_finds_a_batch_while_it_waited_gives_its_memory_back() {
    let config = ProducerConfig {
        linger: Duration::from_secs(60),
        ..config()
    };
    let world = World::ready(config, 1, 1);
    let pool = world.accumulator.pool();
    let reservation = pool.try_acquire_of(1_000, 0).expect("the pool is empty");
    let first = world.send(0, "a");
    let before = pool.available_bytes();
    let now = world.now;
    let record = Record {
        partition: Some(0),
        value: Some(b"b"),
        ..Record::default()
    };
    let second = world
        .accumulator
        .append_reserved(&world.topic(), &record, reservation, || now)
        .expect("room");
    assert!(Arc::ptr_eq(&first.completion, &second.completion));
    assert_eq!(second.index, 1);
    assert_eq!(pool.available_bytes(), before + 1024);
}

/// The application may add to a bytearray while its `send` waits.
#[test]
fn a_record_that_grew_while_it_waited_for_memory_waits_again() {
    let config = ProducerConfig {
        buffer_memory: 64 * 1024,
        batch_size: 4 * 1024,
        linger: Duration::from_secs(60),
        ..config()
    };
    let mut world = World::ready(config, 1, 1);
    let topic = world.topic();
    let (pool, now) = (Arc::clone(world.accumulator.pool()), world.now);
    let _rest = pool
        .try_acquire_of(60 * 1024, 0)
        .expect("the pool is empty");
    let reservation = pool.try_acquire_of(100, 0).expect("some is free");
    let record = |value| Record {
        partition: Some(0),
        value: Some(value),
        ..Record::default()
    };
    let long = vec![7; 40 * 1024];
    let accumulator = Arc::clone(&world.accumulator);
    let refused = accumulator.append_reserved(&topic, &record(&long), reservation, || now);
    assert!(matches!(refused, Err(AppendRefusal::BufferExhausted(_))));
    drop(refused);
    let sent = accumulator
        .append(&topic, &record(b"short"), || now)
        .expect("room");
    world.advance_ms(60_001);
    assert_eq!(offset(&sent), 0);
    assert_eq!(world.values(0), ["short"]);
}

#[test]
fn a_batch_that_gets_no_more_memory_closes_and_is_sent() {
    // An append that holds chunks never waits for more: its batch closes.
    let config = ProducerConfig {
        buffer_memory: 20 * 1024,
        batch_size: 16 * 1024,
        linger: Duration::from_secs(60),
        ..config()
    };
    let mut world = World::ready(config, 1, 2);
    let other = world
        .accumulator
        .pool()
        .try_acquire_of(10_000, 0)
        .expect("room");
    let value = "x".repeat(900);
    let first = world.send(0, &value);
    let mut refused = None;
    for _ in 0..20 {
        if let Err(refusal) = world.try_send(0, &value) {
            refused = Some(refusal);
            break;
        }
    }
    assert!(
        matches!(refused, Some(AppendRefusal::BufferExhausted(_))),
        "{refused:?}"
    );
    world.run();
    assert_eq!(
        offset(&first),
        0,
        "the batch went out although it is not full"
    );
    drop(other);
}

#[test]
fn an_append_may_be_restricted_to_batches_that_are_open() {
    // KIP-480's abort-on-new-batch, for partitioners with on_new_batch.
    let config = ProducerConfig {
        batch_size: 512,
        linger: Duration::from_secs(1),
        ..config()
    };
    let world = World::ready(config, 1, 1);
    let value = "x".repeat(150);
    let record = Record {
        partition: Some(0),
        value: Some(value.as_bytes()),
        ..Record::default()
    };
    let now = world.now;
    let append = || {
        world
            .accumulator
            .append_to_open_batch(&world.topic(), &record, || now)
    };
    assert!(matches!(append(), Err(AppendRefusal::NewBatch)));
    world.append(&record);
    assert!(append().is_ok());
    assert!(
        matches!(append(), Err(AppendRefusal::NewBatch)),
        "two fill the batch"
    );
}

#[test]
fn the_clock_is_asked_only_when_a_batch_is_opened() {
    let config = ProducerConfig {
        linger: Duration::from_secs(1),
        ..config()
    };
    let world = World::ready(config, 1, 1);
    let asked = std::cell::Cell::new(0);
    let now = world.now;
    let record = Record {
        partition: Some(0),
        value: Some(b"a"),
        ..Record::default()
    };
    for _ in 0..100 {
        let clock = || {
            asked.set(asked.get() + 1);
            now
        };
        world
            .accumulator
            .append(&world.topic(), &record, clock)
            .expect("room");
    }
    assert_eq!(asked.get(), 1);
}

#[test]
fn appends_to_a_lingering_batch_wake_nobody() {
    let config = ProducerConfig {
        linger: Duration::from_millis(50),
        ..config()
    };
    let mut world = World::ready(config, 1, 4);
    let (count, waker) = counting_waker();
    let park = |world: &World| {
        world.notifier.unpark();
        assert!(world.notifier.park(&waker));
    };
    world.run();
    park(&world);
    for n in 0..100 {
        world.send(n % 4, "a");
    }
    assert_eq!(count.get(), 1, "the first record has the earliest deadline");
    world.run();
    park(&world);
    for n in 0..100 {
        world.send(n % 4, "a");
    }
    assert_eq!(
        count.get(),
        1,
        "the sender wakes by itself before these are due"
    );
    world.advance_ms(51);
    park(&world);
    world.send(0, "a");
    assert_eq!(count.get(), 2);
}

#[test]
fn an_append_between_the_last_look_and_the_sleep_is_not_lost() {
    let mut world = World::ready(config(), 1, 1);
    world.run();
    // The sender sleeps for long. An append must wake it through the notifier.
    let (count, waker) = counting_waker();
    world.notifier.unpark();
    assert!(world.notifier.park(&waker));
    let sent = world.send(0, "a");
    assert_eq!(count.get(), 1);
    world.run();
    assert_eq!(offset(&sent), 0);
}
