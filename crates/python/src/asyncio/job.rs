//! `Job`: the work of a [`Call`](crate::asyncio::call::Call) of asyncio that is not a producer's.

use std::task::Waker;
use std::time::Instant;

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// The progress of a job.
pub(crate) enum Polled {
    Done(Py<PyAny>),
    /// The waker is woken when it can continue. It must also be polled again at its deadline.
    Pending,
    /// Nothing yet. The loop's other tasks should run first.
    Turn,
}

/// The work of a call. Dropping it gives up its wait.
pub(crate) trait Job: Send + Sync {
    /// Returns an error if the job cannot begin.
    fn check(&self, py: Python<'_>) -> PyResult<()>;

    /// The fast path: returns the result if there is nothing to wait for.
    fn attempt(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let _ = py;
        Ok(None)
    }

    /// Continues as far as possible. It returns what it takes out at once, so a task that is
    /// cancelled between two polls loses nothing.
    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Polled>;

    /// Returns when its wait ends, or `None` for no limit.
    fn deadline(&self) -> Option<Instant>;

    /// Shows the garbage collector the Python objects that it holds.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let _ = visit;
        Ok(())
    }
}
