//! A result that the I/O thread fills in later: a one-shot channel without an async runtime.
//!
//! The asking thread keeps a [`Pending`], the fetcher a `Completer`. This module does not wait:
//! [`Pending::poll`] stores a [`Waker`] of a task or a parked thread. If a completer is dropped
//! without a result, the result is [`ConsumerError::Closed`], so no waiter waits forever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::error::ConsumerError;

type Outcome<T> = Result<T, ConsumerError>;

#[derive(Debug)]
enum Slot<T> {
    Waiting(Option<Waker>),
    Done(Outcome<T>),
    Taken,
}

#[derive(Debug)]
struct Cell<T>(Mutex<Slot<T>>);

impl<T> Cell<T> {
    fn lock(&self) -> MutexGuard<'_, Slot<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct Pending<T>(Arc<Cell<T>>);

impl<T> Pending<T> {
    /// Returns the result once. Until then it stores `waker`, which is woken when the result
    /// arrives. After the result is taken, it always returns pending.
    pub fn poll(&self, waker: &Waker) -> Poll<Outcome<T>> {
        let mut slot = self.0.lock();
        match std::mem::replace(&mut *slot, Slot::Taken) {
            Slot::Done(outcome) => Poll::Ready(outcome),
            Slot::Waiting(_) => {
                *slot = Slot::Waiting(Some(waker.clone()));
                Poll::Pending
            }
            Slot::Taken => Poll::Pending,
        }
    }

    /// Returns the result if it has arrived.
    pub fn try_take(&self) -> Option<Outcome<T>> {
        match self.poll(Waker::noop()) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct Completer<T>(Arc<Cell<T>>);

impl<T> Completer<T> {
    pub(crate) fn complete(self, outcome: Outcome<T>) {
        self.fill(outcome);
    }

    fn fill(&self, outcome: Outcome<T>) {
        let mut slot = self.0.lock();
        if let Slot::Waiting(waker) = &mut *slot {
            let waker = waker.take();
            *slot = Slot::Done(outcome);
            drop(slot);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        self.fill(Err(ConsumerError::Closed));
    }
}

pub(crate) fn pending<T>() -> (Pending<T>, Completer<T>) {
    let cell = Arc::new(Cell(Mutex::new(Slot::Waiting(None))));
    (Pending(Arc::clone(&cell)), Completer(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_taken_once() {
        let (pending, completer) = pending::<u32>();
        assert!(pending.try_take().is_none());
        completer.complete(Ok(7));
        assert_eq!(pending.try_take(), Some(Ok(7)));
        assert!(pending.try_take().is_none());
    }

    #[test]
    fn a_dropped_completer_closes() {
        let (pending, completer) = pending::<u32>();
        drop(completer);
        assert_eq!(pending.try_take(), Some(Err(ConsumerError::Closed)));
    }
}
