//! Decides whether the producer accepts records. Each append checks it with one relaxed load.
//!
//! The gate is shut by `close`, by a permanent failure, and by a transactional producer outside a
//! transaction. Appends check it under a partition's lock. A closing thread takes each of these
//! locks once after it shut the gate, so it misses no append that passed the check. A thread that
//! ends a transaction does not: a record that passes the gate at that moment was sent while the
//! transaction ended. If the sender then has no transaction for it, the sender fails it.

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
    /// Set if the producer has failed permanently.
    failed: Option<ProducerError>,
    /// Set if there is no transaction, or if the transaction accepts no records.
    held: Option<ProducerError>,
}

impl Gate {
    #[inline]
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Relaxed)
    }

    /// Returns whether the gate is shut permanently.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.settle(|_| {});
    }

    /// Stores why nothing can be sent any more. Only the first reason is kept.
    pub(crate) fn fail(&self, error: ProducerError) {
        self.settle(|why| {
            why.failed.get_or_insert(error);
        });
    }

    /// Refuses records with this error until `release`.
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

    /// Returns the error for a refused record.
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
