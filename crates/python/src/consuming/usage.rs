//! Makes sure that only one thread at a time uses a consumer.
//!
//! ```text
//! poll: from its first check until its records are returned ────┐
//! commit, subscribe, seek, ... ─────────────────────────────────┴──▶ Usage: this thread's, or free
//! ```
//! So a commit in a second thread cannot commit the positions of records that the first thread has
//! not received yet. Calls of the same thread can be nested: hooks, listeners and deserializers
//! commit and seek.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pyo3::prelude::*;

use crate::convert::errors;

const NOBODY: u64 = 0;

thread_local!(static ME: u8 = const { 0 });

#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// An address that only this thread has, or `NOBODY`.
    thread: AtomicU64,
    /// Depth of nested calls. Only the thread above writes it.
    depth: AtomicU32,
}

/// The current thread uses the consumer while this value lives.
pub(crate) struct Using<'a>(&'a Usage);

impl Usage {
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<Using<'_>> {
        self.begin(py)?;
        Ok(Using(self))
    }

    /// Refuses a second thread, for a call that runs no other code and ends at once.
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        match self.thread.load(Ordering::Acquire) {
            NOBODY => Ok(()),
            thread if thread == me() => Ok(()),
            _ => Err(used_elsewhere(py)),
        }
    }

    /// Begins a use from Python, which has no scope for it. [`Self::end`] must follow.
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

    /// Whether the current call of this thread is not nested in another one.
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
        "another thread is using the consumer, or one of its own hooks polls it. Only one thread \
         at a time may use a consumer. Only wakeup() and mark() may be called from any thread",
    )
}
