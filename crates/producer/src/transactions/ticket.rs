//! The outcome of a call on transactions, for the thread or task that waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use thalweg_cluster::OneShot;

use crate::error::ProducerError;
use crate::idempotence::ProducerIdAndEpoch;

type Outcome = Result<(), ProducerError>;

#[derive(Debug, Default)]
struct Inner {
    outcome: OneShot<Outcome>,
    seen: AtomicBool,
    prepared: OnceLock<ProducerIdAndEpoch>,
}

/// A future outcome. It is cheap to clone, and all clones report the same outcome.
#[derive(Debug, Clone, Default)]
pub struct TransactionTicket(Arc<Inner>);

impl TransactionTicket {
    /// Creates a ticket that already has its outcome.
    pub fn done(outcome: Outcome) -> Self {
        let ticket = Self::default();
        ticket.finish(outcome);
        ticket
    }

    /// Sets the outcome. Only the first one counts.
    pub(crate) fn finish(&self, outcome: Outcome) {
        self.0.outcome.set(outcome);
    }

    /// Sets what another client needs to end the prepared transaction.
    pub(crate) fn set_prepared(&self, producer: ProducerIdAndEpoch) {
        let _ = self.0.prepared.set(producer);
    }

    /// Returns what another client needs to end the prepared transaction. `None`: nothing was sent
    /// in it, so there is nothing to end. Call it after a successful outcome.
    pub fn prepared(&self) -> Option<ProducerIdAndEpoch> {
        self.0.prepared.get().copied()
    }

    /// Returns the outcome if it is known, and marks it as seen. Otherwise wakes `waker` once it
    /// is.
    pub fn poll(&self, waker: &Waker) -> Option<Outcome> {
        self.0.outcome.peek_or_wait(waker, |outcome| {
            if outcome.is_some() {
                self.dismiss();
            }
            outcome.cloned()
        })
    }

    /// Marks the outcome as seen, because no caller will ask for it.
    pub(crate) fn dismiss(&self) {
        self.0.seen.store(true, Ordering::SeqCst);
    }

    /// Returns whether the application has seen the outcome, or does not want it.
    pub(crate) fn was_seen(&self) -> bool {
        self.0.seen.load(Ordering::SeqCst)
    }
}
