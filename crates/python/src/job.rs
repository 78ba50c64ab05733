//! `Job`: what a [`Call`](crate::call::Call) of asyncio does that is no producer's.

use std::task::Waker;
use std::time::Instant;

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;

/// What a job came to so far.
pub(crate) enum Polled {
    Done(Py<PyAny>),
    /// The waker is woken when it can go on; at its deadline it is to be polled again.
    Pending,
    /// Nothing yet: the loop's other tasks are to have a turn first.
    Turn,
}

/// Dropping it gives up what it waits for.
pub(crate) trait Job: Send + Sync {
    /// An error if there is no use in beginning.
    fn check(&self, py: Python<'_>) -> PyResult<()>;

    /// The short way: the result, if nothing has to be waited for.
    fn attempt(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let _ = py;
        Ok(None)
    }

    /// Goes on as far as it can. What it takes out it returns at once: a task that is cancelled
    /// between two polls has lost nothing.
    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Polled>;

    /// Until when it waits; `None` as long as it takes.
    fn deadline(&self) -> Option<Instant>;

    /// Shows the garbage collector what Python objects it holds.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let _ = visit;
        Ok(())
    }
}
