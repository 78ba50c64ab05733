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

/// Cheap to clone; all clones tell the same outcome.
#[derive(Debug, Clone, Default)]
pub struct TransactionTicket(Arc<Mutex<Inner>>);

impl TransactionTicket {
    /// One that has its outcome from the start.
    pub fn done(outcome: Outcome) -> Self {
        let ticket = Self::default();
        ticket.finish(outcome);
        ticket
    }

    /// The first outcome stays.
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

    /// The outcome if it is there, which then counts as seen; else `waker` is woken when it is.
    pub fn poll(&self, waker: &Waker) -> Option<Outcome> {
        let mut inner = lock(&self.0);
        if inner.outcome.is_none() && !inner.wakers.iter().any(|known| known.will_wake(waker)) {
            inner.wakers.push(waker.clone());
        }
        inner.seen |= inner.outcome.is_some();
        inner.outcome.clone()
    }

    /// Nobody will ask for the outcome.
    pub(crate) fn dismiss(&self) {
        lock(&self.0).seen = true;
    }

    /// The application has learned the outcome, or does not want to.
    pub(crate) fn was_seen(&self) -> bool {
        lock(&self.0).seen
    }
}
