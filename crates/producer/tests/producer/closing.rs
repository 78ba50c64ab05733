//! Flush, close, forced close, callbacks.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use thalweg_cluster::Role;
use thalweg_producer::{
    AppendRefusal, BatchCompletion, Callback, CompletionListener, ProducerConfig, ProducerError,
};

use crate::world::broker::{Brokers, Reaction};
use crate::world::{TOPIC, World, config, counting_waker, error, is_pending, offset, outcome};

fn lingering() -> ProducerConfig {
    ProducerConfig {
        linger: Duration::from_secs(60),
        ..config()
    }
}

#[test]
fn flush_is_done_when_all_that_was_appended_before_is_done() {
    let mut world = World::ready(lingering(), 1, 3);
    let before = [0, 1, 2].map(|partition| world.send(partition, "a"));
    world.advance_ms(100);
    assert!(before.iter().all(is_pending), "they linger");
    let mut ticket = world.accumulator.flush();
    let (count, waker) = counting_waker();
    world.script([Reaction::Hold]);
    world.run();
    assert_eq!(ticket.poll_done(&waker), Poll::Pending);
    assert_eq!(ticket.remaining(), 3);
    world.brokers.release();
    world.run();
    assert!(count.get() >= 1);
    assert_eq!(ticket.poll_done(&waker), Poll::Ready(()));
    assert!(before.iter().all(|one| offset(one) == 0));
    drop(ticket);
    let after = world.send(0, "b");
    world.advance_ms(100);
    assert!(is_pending(&after), "after a flush records linger again");
}

#[test]
fn flush_counts_failures_as_done_and_is_at_once_if_nothing_waits() {
    let mut world = World::ready(lingering(), 1, 1);
    let (_, waker) = counting_waker();
    assert_eq!(world.accumulator.flush().poll_done(&waker), Poll::Ready(()));
    let sent = world.send(0, "a");
    world.script([Reaction::Refuse(
        thalweg_protocol::ErrorCode::INVALID_TIMESTAMP,
    )]);
    let mut ticket = world.accumulator.flush();
    world.run();
    assert_eq!(ticket.poll_done(&waker), Poll::Ready(()));
    assert!(outcome(&sent).expect("done").is_err());
}

#[test]
fn close_sends_what_is_there_and_takes_no_more() {
    let mut world = World::ready(lingering(), 1, 2);
    let sent = [0, 1, 0].map(|partition| world.send(partition, "a"));
    let deadline = world.now + Duration::from_secs(5);
    world.sender.close(deadline, &mut world.cluster, world.now);
    assert!(!world.sender.is_closed());
    assert!(matches!(
        world.try_send(0, "b"),
        Err(AppendRefusal::Closed(ProducerError::Closed))
    ));
    world.run();
    assert!(world.sender.is_closed());
    assert!(sent.iter().all(|one| matches!(outcome(one), Some(Ok(_)))));
}

#[test]
fn a_forced_close_fails_the_rest_and_says_how_many() {
    let mut world = World::ready(lingering(), 1, 2);
    world.script([Reaction::Hold]);
    let in_flight = {
        let sent = world.send(0, "a");
        let ticket = world.accumulator.flush();
        world.run();
        drop(ticket);
        sent
    };
    let queued = [world.send(1, "b"), world.send(1, "c")];
    world.sender.abort(world.now);
    assert!(world.sender.is_closed());
    for (sent, possibly) in [(&in_flight, true), (&queued[0], false), (&queued[1], false)] {
        match error(sent) {
            ProducerError::ClosedBeforeDelivery {
                records: 3,
                possibly_written,
            } => {
                assert_eq!(possibly_written, possibly);
            }
            other => panic!("{other:?}"),
        }
    }
    // A late response has no effect, and the memory returns once the request is dropped.
    world.brokers.release();
    world.run();
    let pool = world.accumulator.pool();
    assert_eq!(pool.available_bytes(), pool.total_bytes());
}

#[test]
fn a_forced_close_fails_batches_in_the_codec_threads_too() {
    let config = ProducerConfig {
        compression: thalweg_records::Compression::Lz4,
        ..config()
    };
    let mut world = World::ready(config, 1, 1);
    world.hold_jobs = true;
    let sent = world.send_alone(0, "a");
    let job = world
        .sender
        .poll_job()
        .expect("the batch is to be compressed");
    world.sender.abort(world.now);
    assert!(matches!(
        error(&sent),
        ProducerError::ClosedBeforeDelivery { records: 1, .. }
    ));
    let done = thalweg_cluster::Job::run(job);
    world
        .sender
        .job_done(done, &mut world.cluster, world.now, 0);
    let pool = world.accumulator.pool();
    assert_eq!(pool.available_bytes(), pool.request_bytes_max());
}

#[test]
fn close_ends_waits_for_memory() {
    let small = ProducerConfig {
        buffer_memory: 2048,
        batch_size: 1024,
        ..lingering()
    };
    let world = World::ready(small, 1, 3);
    let _full = [world.send(0, "a"), world.send(1, "a")];
    let Err(AppendRefusal::BufferExhausted(mut wait)) = world.try_send(2, "a") else {
        panic!("two batches fill the memory");
    };
    let (count, waker) = counting_waker();
    assert!(wait.poll_reservation(&waker).is_pending());
    world.accumulator.close();
    assert_eq!(count.get(), 1);
    assert!(matches!(
        wait.poll_reservation(&waker),
        Poll::Ready(Err(ProducerError::Closed))
    ));
}

#[derive(Default)]
struct Heard(Mutex<Vec<(i32, u32, u64)>>);

impl CompletionListener for Heard {
    fn completed(&self, completion: &Arc<BatchCompletion>, callbacks: Vec<Callback>) {
        let mut heard = self.0.lock().expect("no panic under it");
        heard.extend(
            callbacks
                .iter()
                .map(|c| (completion.partition(), c.index, c.token)),
        );
    }
}

#[test]
fn callbacks_come_once_and_in_the_order_of_their_partition() {
    let heard = Arc::new(Heard::default());
    let listener = Arc::clone(&heard) as Arc<dyn CompletionListener>;
    let mut world = World::with(config(), Brokers::new(1, &[(TOPIC, 1)]), Some(listener));
    world.know(TOPIC);
    for n in 0..10_u64 {
        let sent = world.send(0, &n.to_string());
        assert!(sent.completion.add_callback(sent.index, n));
        if n == 4 {
            world.script([Reaction::LoseResponse]);
        }
        if n % 2 == 0 {
            world.run();
        }
    }
    world.advance_ms(5_000);
    let heard = heard.0.lock().expect("no panic under it");
    let order: Vec<u64> = heard.iter().map(|&(_, _, token)| token).collect();
    assert_eq!(order, (0..10).collect::<Vec<u64>>());
}

#[test]
fn a_future_that_nobody_keeps_costs_nothing_after_its_batch_is_done() {
    let mut world = World::ready(config(), 1, 1);
    let weak = {
        let sent = world.send(0, "a");
        Arc::downgrade(&sent.completion)
    };
    assert!(weak.upgrade().is_some());
    world.run();
    assert!(weak.upgrade().is_none());
    assert_eq!(world.accumulator.incomplete_batches(), 0);
}
