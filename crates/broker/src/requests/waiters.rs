//! The long polls that wait for a partition to change.
//!
//! ```text
//! Fetch, nothing there yet -> Waiter, registered at each of its partitions
//! append, leader change, deletion -> Waiters::wake_all -> the connection's task looks again
//! ```
//! A partition holds its waiters weakly. One that has its response, or whose connection is gone, is
//! dropped at the next append, or when the dead ones outnumber the live ones.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Waker;

/// One waiting request.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    waker: Mutex<Option<Waker>>,
}

impl Waiter {
    pub(crate) fn new(waker: &Waker) -> Arc<Self> {
        let waiter = Self::default();
        waiter.set(waker);
        Arc::new(waiter)
    }

    pub(crate) fn set(&self, waker: &Waker) {
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.as_mut() {
            Some(old) => old.clone_from(waker),
            None => *slot = Some(waker.clone()),
        }
    }

    pub(crate) fn wake(&self) {
        let slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = slot.as_ref() {
            waker.wake_by_ref();
        }
    }
}

const PRUNE_AT_LEAST: usize = 8;

/// The waiters of one partition.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    list: Vec<Weak<Waiter>>,
    prune_at: usize,
}

impl Waiters {
    /// Adds a waiter unless it is already registered.
    pub(crate) fn add(&mut self, waiter: &Arc<Waiter>) {
        let this = Arc::as_ptr(waiter);
        if self
            .list
            .iter()
            .any(|other| std::ptr::eq(other.as_ptr(), this))
        {
            return;
        }
        if self.list.len() >= self.prune_at.max(PRUNE_AT_LEAST) {
            self.list.retain(|waiter| waiter.strong_count() > 0);
            self.prune_at = self.list.len() * 2;
        }
        self.list.push(Arc::downgrade(waiter));
    }

    /// Wakes and removes all waiters. Those that must wait longer register again.
    pub(crate) fn wake_all(&mut self) {
        for waiter in self.list.drain(..) {
            if let Some(waiter) = waiter.upgrade() {
                waiter.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_waiter_is_woken_once_and_the_dead_are_forgotten() {
        let count = Arc::new(Count(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let mut waiters = Waiters::default();
        let living = Waiter::new(&waker);
        for _ in 0..100 {
            waiters.add(&living);
        }
        assert_eq!(waiters.list.len(), 1);
        for _ in 0..1000 {
            waiters.add(&Waiter::new(&waker));
        }
        assert!(waiters.list.len() < 20);
        waiters.wake_all();
        waiters.wake_all();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
