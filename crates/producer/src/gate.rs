//! Whether records are taken at the moment: one relaxed load on the way of each record.
//!
//! Shut by `close`, by a failure for good, and by a transactional producer outside of a transaction.
//! Asked under a partition's lock. Whoever closes takes each lock once afterwards, and so misses no
//! append that had passed. Whoever ends a transaction does not: a record that slips through then was
//! sent while it ended, and the sender, which finds no transaction for it, fails it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::ProducerError;
use crate::sync::lock;

#[derive(Debug, Default)]
pub(crate) struct Gate {
    shut: AtomicBool,
    closed: AtomicBool,
    why: Mutex<Why>,
}

#[derive(Debug, Default)]
struct Why {
    /// The producer cannot go on.
    failed: Option<ProducerError>,
    /// There is no transaction, or none that takes records.
    held: Option<ProducerError>,
}

impl Gate {
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Relaxed)
    }

    /// Shut for good.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.settle(|_| {});
    }

    /// Says why nothing can be sent any more. The first reason stays.
    pub(crate) fn fail(&self, error: ProducerError) {
        self.settle(|why| {
            why.failed.get_or_insert(error);
        });
    }

    /// Takes no records until `release`, for this reason.
    pub(crate) fn hold(&self, error: ProducerError) {
        self.settle(|why| why.held = Some(error));
    }

    pub(crate) fn release(&self) {
        self.settle(|why| why.held = None);
    }

    fn settle(&self, change: impl FnOnce(&mut Why)) {
        let mut why = lock(&self.why);
        change(&mut why);
        let shut = self.is_closed() || why.held.is_some();
        self.shut.store(shut, Ordering::Release);
    }

    /// What a record is refused with.
    #[cold]
    pub(crate) fn refusal(&self) -> ProducerError {
        let why = lock(&self.why);
        let held = why.held.clone().filter(|_| !self.is_closed());
        why.failed.clone().or(held).unwrap_or(ProducerError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_shuts_it_and_the_gravest_is_told() {
        let gate = Gate::default();
        assert!(!gate.is_shut());
        let held = ProducerError::IllegalState("READY".into());
        gate.hold(held.clone());
        assert!(gate.is_shut() && !gate.is_closed());
        assert_eq!(gate.refusal(), held);
        gate.release();
        assert!(!gate.is_shut());
        gate.hold(held);
        gate.close();
        assert_eq!(gate.refusal(), ProducerError::Closed);
        gate.release();
        assert!(gate.is_shut(), "closed is closed");
        let fatal = ProducerError::Fatal("no producer id".into());
        gate.fail(fatal.clone());
        gate.fail(ProducerError::Fatal("later".into()));
        assert_eq!(gate.refusal(), fatal);
    }
}
