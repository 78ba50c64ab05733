//! A call that may have to wait, as a value to poll. Both APIs run this one implementation.
//!
//! ```text
//! KafkaProducer      run():   poll ── nothing yet ──▶ release the GIL, sleep until woken, poll again
//! AIOKafkaProducer   call.rs: poll ── nothing yet ──▶ suspend the coroutine until woken, poll again
//! ```

use std::task::Waker;
use std::time::Instant;

use pyo3::prelude::*;
use thalweg_network::wait::Parker;

use crate::interpreter::gil;
use crate::producing::core::Core;

/// A step-wise call. Dropping it gives up its wait, and does not undo what it did before.
pub(crate) trait Operation: Send + Sync {
    type Output;

    /// Continues as far as possible. If it returns `None`, the waker is woken when it can
    /// continue. The caller must also poll again at the deadline, for the result of the timeout.
    fn poll(
        &mut self,
        py: Python<'_>,
        core: &Core,
        waker: &Waker,
    ) -> PyResult<Option<Self::Output>>;

    /// Returns when its wait ends, or `None` for no limit.
    fn deadline(&self) -> Option<Instant>;

    /// Tells a waiting operation that the caller's exception (Ctrl-C, a cancellation) ends it.
    fn given_up(&self, _py: Python<'_>, _core: &Core, _error: &PyErr) {}
}

/// Runs an operation in the calling thread, which sleeps without the GIL between the steps.
pub(crate) fn run<O: Operation>(
    py: Python<'_>,
    core: &Core,
    operation: &mut O,
) -> PyResult<O::Output> {
    let parker = Parker::current();
    loop {
        if let Some(done) = operation.poll(py, core, parker.waker())? {
            return Ok(done);
        }
        gil::park(py, operation.deadline())
            .inspect_err(|error| operation.given_up(py, core, error))?;
    }
}

/// Whether a deadline has passed.
pub(crate) fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|at| Instant::now() >= at)
}
