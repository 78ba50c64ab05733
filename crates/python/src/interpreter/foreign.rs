//! Tracks application code that runs within our calls: deserializers, serializers, listeners.
//!
//! When the interpreter ends, `CPython` (until 3.14) ends every other thread where it next takes
//! the interpreter's lock. With Rust frames below, that aborts the process. So at exit no other
//! thread starts a new call of application code, and the exit waits for a limited time until the
//! running calls end. Once such a thread is back in its own Python code, it can be ended safely.
//! Only token providers and password functions may still be called, until the clients are closed: a
//! client that must log in again needs a token or password to send its last records.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use thalweg_network::PerProcess;

use crate::convert::errors;

/// A forked child starts with its own state: the threads of its parent do not run in it.
static STATE: PerProcess<State> = PerProcess::new();

const LOOK_EVERY: Duration = Duration::from_millis(1);

#[derive(Default)]
struct State {
    running: AtomicUsize,
    /// The thread that ends the interpreter, once it does.
    ended_by: OnceLock<ThreadId>,
    /// The clients are closed, and the exit waits for the calls that are running.
    awaited: AtomicBool,
}

fn state() -> &'static State {
    STATE.get_or_make(State::default)
}

/// Exists while application code runs.
pub(crate) struct Foreign(&'static State);

impl Foreign {
    /// Marks the start of application code. Raises `IllegalStateError` if the interpreter is
    /// ending.
    pub(crate) fn begin(py: Python<'_>) -> PyResult<Self> {
        let state = state();
        state.running.fetch_add(1, Ordering::SeqCst);
        let begun = Self(state);
        let is_another = |by: &ThreadId| *by != thread::current().id();
        if state.ended_by.get().is_some_and(is_another) {
            return Err(errors::raise(
                py,
                "IllegalStateError",
                "the interpreter is exiting",
            ));
        }
        Ok(begun)
    }

    /// Marks the start of a call that may also start at exit, until [`wait`]. Returns `None` after
    /// that. Call it before the thread takes the interpreter's lock.
    pub(crate) fn begin_until_wait() -> Option<Self> {
        let state = state();
        // Counted first: either `wait` sees this call, or this call sees that `wait` has begun.
        state.running.fetch_add(1, Ordering::SeqCst);
        let begun = Self(state);
        (!state.awaited.load(Ordering::SeqCst)).then_some(begun)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Prevents other threads from starting application code from now on, except token providers.
pub(crate) fn end() {
    let _ = state().ended_by.set(thread::current().id());
}

/// Waits without the interpreter's lock until running code has ended, at most `timeout`.
pub(crate) fn wait(timeout: Duration) {
    state().awaited.store(true, Ordering::SeqCst);
    let until = Instant::now() + timeout;
    while state().running.load(Ordering::SeqCst) > 0 && Instant::now() < until {
        thread::sleep(LOOK_EVERY);
    }
}
