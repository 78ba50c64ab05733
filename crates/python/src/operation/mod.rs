//! `PyOperation`: an operation that is polled with the GIL, so it may run Python code.
//!
//! ```text
//! KafkaProducer     run():      poll ── nothing yet ──▶ sleep without the GIL until woken, poll
//! AIOKafkaProducer  coroutine:  poll ── nothing yet ──▶ suspend the task until woken, poll
//! ```
//! Both APIs poll the same operation (`asyncio/coroutine.rs` has the coroutine). Most operations
//! are those of the network crate ([`Operation`]), which know no Python. The others convert Python
//! objects between their waits, or run the application's code.
//!
//! The polls of a `KafkaConsumer` are not among them: they keep their state locked while they sleep
//! (`consuming/polling`).

use std::task::Waker;
use std::time::Instant;

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use thalweg_network::Operation;
use thalweg_network::wait::ThreadWait;

use crate::convert::errors;
use crate::interpreter::gil;

/// A call that may have to wait. Dropping it ends the wait, and does not undo what it did before.
pub(crate) trait PyOperation {
    type Output;

    /// Returns an error if a coroutine must not begin it.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        let _ = py;
        Ok(())
    }

    /// Returns the result if there is nothing to wait for. It comes before the first poll.
    fn attempt(&mut self, py: Python<'_>) -> PyResult<Option<Self::Output>> {
        let _ = py;
        Ok(None)
    }

    /// Continues as far as possible. If it returns `None`, the waker is woken when it can
    /// continue. It must also be polled at its deadline. A coroutine that is cancelled between two
    /// polls must lose nothing, so a poll returns at once what it takes out.
    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Self::Output>>;

    /// Returns when its wait ends, or `None` for no limit.
    fn deadline(&self) -> Option<Instant>;

    /// Tells the operation that the caller's exception (Ctrl-C, a cancellation) ends it.
    fn give_up(&mut self, py: Python<'_>, error: &PyErr) {
        let _ = (py, error);
    }

    /// Shows the garbage collector the Python objects that it holds.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let _ = visit;
        Ok(())
    }
}

impl<O: Operation> PyOperation for O {
    type Output = O::Output;

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<O::Output>> {
        Operation::poll(self, waker)
            .transpose()
            .map_err(|error| errors::client(py, &error))
    }

    fn deadline(&self) -> Option<Instant> {
        Operation::deadline(self)
    }

    fn give_up(&mut self, _: Python<'_>, _: &PyErr) {
        Operation::give_up(self);
    }
}

/// Runs an operation in the calling thread, which sleeps without the GIL between the polls.
#[inline]
pub(crate) fn run<O: PyOperation>(py: Python<'_>, operation: &mut O) -> PyResult<O::Output> {
    match operation.attempt(py)? {
        Some(output) => Ok(output),
        None => wait(py, operation),
    }
}

/// Not inlined: most sends never come here.
#[inline(never)]
fn wait<O: PyOperation>(py: Python<'_>, operation: &mut O) -> PyResult<O::Output> {
    let mut waiting = ThreadWait::begin();
    loop {
        if let Some(output) = operation.poll(py, waiting.waker())? {
            return Ok(output);
        }
        gil::sleep(py, &mut waiting, operation.deadline())
            .inspect_err(|error| operation.give_up(py, error))?;
    }
}

/// Whether a deadline has passed.
pub(crate) fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|at| Instant::now() >= at)
}
