//! A call that may have to wait, as something to be polled: the one form of it that both APIs run.
//!
//! ```text
//! KafkaProducer      run():   poll ── nothing yet ──▶ release the GIL, sleep until woken, poll again
//! AIOKafkaProducer   call.rs: poll ── nothing yet ──▶ suspend the coroutine until woken, poll again
//! ```

use std::task::Waker;
use std::time::Instant;

use pyo3::prelude::*;
use thalweg_network::wait::Parker;

use crate::gil;
use crate::producer_core::Core;

/// Dropping it gives up what it waits for; what it did before stays done.
pub(crate) trait Operation: Send + Sync {
    type Output;

    /// Goes on as far as it can. `None`: the waker is woken when it can go on, and at the deadline
    /// it is to be polled again, for what it then has to say.
    fn poll(
        &mut self,
        py: Python<'_>,
        core: &Core,
        waker: &Waker,
    ) -> PyResult<Option<Self::Output>>;

    /// Until when it waits; `None` as long as it takes.
    fn deadline(&self) -> Option<Instant>;

    /// The caller's exception (Ctrl-C, a cancellation) ends it while it waits.
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

/// Whether a deadline is over.
pub(crate) fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|at| Instant::now() >= at)
}
