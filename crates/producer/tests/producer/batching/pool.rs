//! Compares the buffer pool with a naive model, and tests its promises one by one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use proptest::prelude::*;
use thalweg_producer::{BufferPool, BufferWait, Reservation};

use crate::world::counting_waker;

const LARGE: usize = 1024;

/// The free bytes, and which waits want which pieces in which order. It has no buffers or lists.
#[derive(Debug)]
struct Model {
    total: usize,
    free: usize,
    queue: VecDeque<(usize, Vec<usize>, usize)>,
    ready: Vec<usize>,
}

impl Model {
    /// Returns the sizes: large pieces first, then one for the remainder.
    fn pieces(&self, len: usize) -> Vec<usize> {
        let mut pieces = vec![LARGE; len / LARGE];
        let rest = len % LARGE;
        if rest > 0 {
            let fits = pieces.len() * LARGE + LARGE <= self.total;
            pieces.push(if fits { LARGE } else { rest });
        }
        pieces
    }

    fn acquire(&mut self, len: usize) -> bool {
        let wanted: usize = self.pieces(len).iter().sum();
        let granted = self.queue.is_empty() && wanted <= self.free;
        self.free -= if granted { wanted } else { 0 };
        granted
    }

    fn wait(&mut self, id: usize, len: usize) {
        let mut pieces = self.pieces(len);
        pieces.reverse();
        self.queue.push_back((id, pieces, 0));
        self.feed();
    }

    fn feed(&mut self) {
        while let Some((_, pieces, gathered)) = self.queue.front_mut() {
            while let Some(&piece) = pieces.last() {
                if piece > self.free {
                    return;
                }
                self.free -= piece;
                *gathered += piece;
                pieces.pop();
            }
            let (id, ..) = self.queue.pop_front().expect("it was just looked at");
            self.ready.push(id);
        }
    }

    fn release(&mut self, bytes: usize) {
        self.free += bytes;
        self.feed();
    }

    fn abandon(&mut self, id: usize) {
        if let Some(at) = self.queue.iter().position(|(waiting, ..)| *waiting == id) {
            let (_, _, gathered) = self.queue.remove(at).expect("it was just found");
            self.release(gathered);
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Acquire(usize),
    Wait(usize),
    Release(usize),
    Abandon(usize),
    Poll(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..6000_usize).prop_map(Step::Acquire),
        (1..6000_usize).prop_map(Step::Wait),
        any::<usize>().prop_map(Step::Release),
        any::<usize>().prop_map(Step::Abandon),
        any::<usize>().prop_map(Step::Poll),
    ]
}

proptest! {
    #[test]
    fn the_pool_does_what_the_model_does(
        total in 6000..20_000_usize,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let pool = BufferPool::new(total, LARGE, 0);
        let mut model = Model { total, free: total, queue: VecDeque::new(), ready: Vec::new() };
        let mut granted: Vec<Reservation> = Vec::new();
        let mut waits: Vec<(usize, BufferWait)> = Vec::new();
        let (_, waker) = counting_waker();
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Acquire(len) => {
                    let got = pool.try_acquire_of(len, 0);
                    prop_assert_eq!(got.is_some(), model.acquire(len));
                    if let Some(got) = got {
                        prop_assert!(got.len() >= len);
                        granted.push(got);
                    }
                }
                Step::Wait(len) => {
                    waits.push((id, pool.wait(len)));
                    model.wait(id, len);
                }
                Step::Release(at) if !granted.is_empty() => {
                    let one = granted.swap_remove(at % granted.len());
                    let bytes = one.len();
                    drop(one);
                    model.release(bytes);
                }
                Step::Abandon(at) if !waits.is_empty() => {
                    let (id, mut wait) = waits.swap_remove(at % waits.len());
                    // A wait that is ready is taken instead of dropped: then it is a grant like any
                    // other.
                    if let Poll::Ready(got) = wait.poll_reservation(&waker) {
                        prop_assert!(model.ready.contains(&id));
                        granted.push(got.expect("open"));
                    } else {
                        drop(wait);
                        model.abandon(id);
                    }
                }
                Step::Poll(at) if !waits.is_empty() => {
                    let at = at % waits.len();
                    let (id, wait) = &mut waits[at];
                    let ready = model.ready.contains(id);
                    match wait.poll_reservation(&waker) {
                        Poll::Ready(got) => {
                            prop_assert!(ready);
                            granted.push(got.expect("open"));
                            waits.swap_remove(at);
                        }
                        Poll::Pending => prop_assert!(!ready),
                    }
                }
                _ => {}
            }
            prop_assert_eq!(pool.available_bytes(), model.free);
            prop_assert_eq!(pool.waiting(), model.queue.len());
        }
        drop((granted, waits));
        prop_assert_eq!(pool.available_bytes(), total);
        prop_assert_eq!(pool.waiting(), 0);
    }
}

#[test]
fn the_first_to_wait_is_the_first_to_get() {
    let pool = BufferPool::new(4 * LARGE, LARGE, 0);
    let mut held: Vec<_> = (0..4)
        .map(|_| pool.try_acquire_of(LARGE, 0).expect("room"))
        .collect();
    let mut waits: Vec<_> = (0..4).map(|_| pool.wait(LARGE)).collect();
    let (_, waker) = counting_waker();
    assert!(
        waits
            .iter_mut()
            .all(|wait| wait.poll_reservation(&waker).is_pending())
    );
    assert!(pool.is_exhausted());
    for turn in 0..4 {
        held.remove(0);
        let ready: Vec<bool> = waits
            .iter_mut()
            .map(|wait| wait.poll_reservation(&waker).is_ready())
            .collect();
        assert_eq!(
            ready.iter().position(|&ready| ready),
            Some(0),
            "turn {turn}"
        );
        waits.remove(0);
    }
    assert!(!pool.is_exhausted());
}

#[test]
fn small_requests_do_not_starve_a_large_one() {
    let pool = BufferPool::new(8 * LARGE, LARGE, 0);
    let mut held: VecDeque<_> = (0..8)
        .map(|_| pool.try_acquire_of(100, 0).expect("room"))
        .collect();
    let mut large = pool.wait(6 * LARGE);
    let (count, waker) = counting_waker();
    assert!(large.poll_reservation(&waker).is_pending());
    for _ in 0..5 {
        held.pop_front();
        assert!(
            pool.try_acquire_of(1, 0).is_none(),
            "a newcomer does not pass the one that waits"
        );
        assert!(large.poll_reservation(&waker).is_pending());
    }
    held.pop_front();
    assert_eq!(count.get(), 1);
    let Poll::Ready(Ok(got)) = large.poll_reservation(&waker) else {
        panic!("six are gathered")
    };
    assert_eq!(got.len(), 6 * LARGE);
}

#[test]
fn giving_up_a_wait_gives_its_gathered_memory_to_the_next() {
    let pool = BufferPool::new(4 * LARGE, LARGE, 0);
    let mut held: Vec<_> = (0..4)
        .map(|_| pool.try_acquire_of(LARGE, 0).expect("room"))
        .collect();
    let large = pool.wait(4 * LARGE);
    let mut small = pool.wait(LARGE);
    held.pop();
    let (count, waker) = counting_waker();
    assert!(small.poll_reservation(&waker).is_pending());
    drop(large);
    assert_eq!(count.get(), 1);
    assert!(small.poll_reservation(&waker).is_ready());
}

#[test]
fn a_wait_is_a_future() {
    let pool = BufferPool::new(2 * LARGE, LARGE, 0);
    let held = pool.try_acquire_of(2 * LARGE, 0).expect("room");
    let mut wait = Box::pin(pool.wait(LARGE));
    let (count, waker) = counting_waker();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(wait.as_mut().poll(&mut context).is_pending());
    drop(held);
    assert_eq!(count.get(), 1);
    assert!(matches!(
        wait.as_mut().poll(&mut context),
        Poll::Ready(Ok(_))
    ));
}

#[test]
fn small_and_large_chunks_come_out_of_one_budget() {
    let pool = BufferPool::new(64 * 1024, 16 * 1024, 0);
    let small: Vec<_> = (0..64)
        .map(|_| pool.try_acquire_of(10, 0).expect("room"))
        .collect();
    assert!(pool.try_acquire_of(10, 0).is_none());
    drop(small);
    // All the memory is in small buffers now. Large ones are allocated in their place.
    let large: Vec<_> = (0..4)
        .map(|_| pool.try_acquire_of(16 * 1024, 0).expect("room"))
        .collect();
    assert!(pool.try_acquire_of(10, 0).is_none());
    drop(large);
    assert_eq!(pool.available_bytes(), 64 * 1024);
}

#[test]
fn what_is_reserved_for_codecs_is_not_given_out() {
    let pool = BufferPool::new(8 * LARGE, LARGE, 2 * LARGE);
    assert_eq!(pool.request_bytes_max(), 6 * LARGE);
    let all = pool.try_acquire_of(6 * LARGE, 0).expect("room");
    assert!(pool.try_acquire_of(1, 0).is_none());
    drop(all);
    let weak = Arc::downgrade(&pool);
    drop(pool);
    assert!(weak.upgrade().is_none());
}
