//! One thread at a time uses a consumer.
//!
//! ```text
//! poll: from its first look until its records are handed over ──┐
//! commit, subscribe, seek, ... ─────────────────────────────────┴──▶ Usage: this thread's, or nobody's
//! ```
//! So a commit of a second thread finds no positions of records that the first is still being given.
//! Nested calls of the same thread are fine: hooks, listeners and deserializers commit and seek.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::errors;

const NOBODY: u64 = 0;

thread_local!(static ME: u8 = const { 0 });

#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// An address that only this thread has, or `NOBODY`.
    thread: AtomicU64,
    /// Calls within calls; written by that thread only.
    depth: AtomicU32,
}

/// While it lives, its thread uses the consumer.
pub(crate) struct Using<'a>(&'a Usage);

impl Usage {
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<Using<'_>> {
        self.begin(py)?;
        Ok(Using(self))
    }

    /// Turns a second thread away, for a call that gives control to nobody and ends at once.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self.thread.load(Ordering::Acquire) {
            NOBODY => Ok(()),
            thread if thread == me() => Ok(()),
            _ => Err(used_elsewhere(py)),
        }
    }

    /// For Python, which has no scope to bind it to: followed by [`Self::end`].
    pub(crate) fn begin(&self, py: Python<'_>) -> PyResult<()> {
        let me = me();
        if self.thread.load(Ordering::Acquire) != me {
            let taken =
                self.thread
                    .compare_exchange(NOBODY, me, Ordering::AcqRel, Ordering::Acquire);
            if taken.is_err() {
                return Err(used_elsewhere(py));
            }
        }
        self.depth.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether the call of this thread is within no other.
    pub(crate) fn is_outermost(&self) -> bool {
        self.depth.load(Ordering::Relaxed) == 1
    }

    pub(crate) fn end(&self) {
        if self.depth.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.thread.store(NOBODY, Ordering::Release);
        }
    }
}

fn me() -> u64 {
    ME.with(|mine| std::ptr::from_ref(mine) as u64)
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub(crate) fn used_elsewhere(py: Python<'_>) -> PyErr {
    errors::raise(
        py,
        "IllegalStateError",
        "the consumer is being used by another thread (or, to poll, from within its own hook): one \
         thread at a time may use a consumer; only wakeup() and mark() may be called from any",
    )
}
