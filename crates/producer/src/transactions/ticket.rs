//! The outcome of a call on transactions, for whoever waits for it.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::error::ProducerError;
use crate::sync::lock;

type Outcome = Result<(), ProducerError>;

#[derive(Debug, Default)]
struct Inner {
    outcome: Option<Outcome>,
    seen: bool,
    wakers: Vec<Waker>,
}

/// A future outcome. It is cheap to clone, and all clones report the same outcome.
#[derive(Debug, Clone, Default)]
pub struct TransactionTicket(Arc<Mutex<Inner>>);

impl TransactionTicket {
    /// Creates a ticket that already has its outcome.
    pub fn done(outcome: Outcome) -> Self {
        let ticket = Self::default();
        ticket.finish(outcome);
        ticket
    }

    /// Sets the outcome. Only the first one counts.
    pub(crate) fn finish(&self, outcome: Outcome) {
        let wakers = {
            let mut inner = lock(&self.0);
            inner.outcome.get_or_insert(outcome);
            std::mem::take(&mut inner.wakers)
        };
        for waker in wakers {
            waker.wake();
        }
    }

    /// Returns the outcome if it is known, and marks it as seen. Otherwise wakes `waker` once it
    /// is.
    pub fn poll(&self, waker: &Waker) -> Option<Outcome> {
        let mut inner = lock(&self.0);
        if inner.outcome.is_none() && !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            inner.wakers.push(waker.clone());
        }
        inner.seen |= inner.outcome.is_some();
        inner.outcome.clone()
    }

    /// Marks the outcome as seen, because nobody will ask for it.
    pub(crate) fn dismiss(&self) {
        lock(&self.0).seen = true;
    }

    /// Returns whether the application has seen the outcome, or does not want it.
    pub(crate) fn was_seen(&self) -> bool {
        lock(&self.0).seen
    }
}
