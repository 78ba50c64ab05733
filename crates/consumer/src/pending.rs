//! A result that the I/O thread fills in later.
//!
//! The asking thread keeps a [`Pending`], the fetcher a `Completer`. If a completer is dropped
//! without a result, the result is [`ConsumerError::Closed`], so no waiter waits forever.

use std::sync::Arc;
use std::task::{Poll, Waker};

use thalweg_cluster::OneShot;

use crate::error::ConsumerError;

type Outcome<T> = Result<T, ConsumerError>;

/// The receiving side.
#[derive(Debug)]
pub struct Pending<T>(Arc<OneShot<Outcome<T>>>);

impl<T> Pending<T> {
    /// Returns the result once. Until then it stores `waker`, which is woken when the result
    /// arrives. After the result is taken, it always returns pending.
    pub fn poll(&self, waker: &Waker) -> Poll<Outcome<T>> {
        let outcome = self.0.take_or_wait(waker);
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

/// The sending side.
#[derive(Debug)]
pub(crate) struct Completer<T>(Arc<OneShot<Outcome<T>>>);

impl<T> Completer<T> {
    pub(crate) fn complete(self, outcome: Outcome<T>) {
        self.0.set(outcome);
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        self.0.set(Err(ConsumerError::Closed));
    }
}

pub(crate) fn pending<T>() -> (Pending<T>, Completer<T>) {
    let one_shot = Arc::new(OneShot::default());
    (Pending(Arc::clone(&one_shot)), Completer(one_shot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_taken_once() {
        let (pending, completer) = pending::<u32>();
        assert!(pending.poll(Waker::noop()).is_pending());
        completer.complete(Ok(7));
        assert_eq!(pending.poll(Waker::noop()), Poll::Ready(Ok(7)));
        assert!(pending.poll(Waker::noop()).is_pending());
    }

    #[test]
    fn a_dropped_completer_closes() {
        let (pending, completer) = pending::<u32>();
        drop(completer);
        let closed = Poll::Ready(Err(ConsumerError::Closed));
        assert_eq!(pending.poll(Waker::noop()), closed);
    }
}
