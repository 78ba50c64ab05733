//! What a coroutine of an `AsyncConsumer` waits for, except records: one job for each.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::{IntoPyObjectExt, PyTraverseError};

use crate::asyncio::job::{Job, Polled};
use crate::asyncio::producer::Closing;
use crate::client::{Pending, answered, still_under_way};
use crate::consuming::consumer::Consumer;
use crate::consuming::lookups::Lookup;
use crate::consuming::polling::{Core, not_open};
use crate::operation::is_over;
use crate::producing::core::Bootstrap;

/// Waits until a bootstrap server has responded.
pub(super) struct Opening {
    pub(super) consumer: Py<Consumer>,
    pub(super) core: Option<Core>,
    pub(super) bootstrap: Bootstrap,
}

impl Job for Opening {
    fn check(&self, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Polled> {
        let Some(core) = &self.core else {
            return Err(not_open(py));
        };
        if self
            .bootstrap
            .poll_view(py, core.client.view(), waker)?
            .is_none()
        {
            return Ok(Polled::Pending);
        }
        if let Some(core) = self.core.take() {
            self.consumer.get().open_with(py, core)?;
        }
        Ok(Polled::Done(py.None()))
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.bootstrap.until())
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.consumer)
    }
}

/// Waits until offsets are looked up.
pub(super) struct Listing(pub(super) Lookup);

impl Job for Listing {
    fn check(&self, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Polled> {
        match self.0.poll(py, waker)? {
            Some(listed) => listed.into_py_any(py).map(Polled::Done),
            None => Ok(Polled::Pending),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.0.deadline())
    }
}

/// Waits for the response to a request.
pub(super) struct Answer {
    pub(super) pending: Arc<Pending>,
    pub(super) deadline: Option<Instant>,
}

impl Job for Answer {
    fn check(&self, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Polled> {
        match self.pending.poll(waker) {
            Some(answer) => Ok(Polled::Done(answered(py, answer)?.unbind())),
            None if is_over(self.deadline) => Err(still_under_way(py)),
            None => Ok(Polled::Pending),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// Waits until the connections are closed. If it is given up, closing continues in the background.
pub(super) struct Stopping {
    pub(super) consumer: Py<Consumer>,
    pub(super) closing: Closing,
}

impl Job for Stopping {
    fn check(&self, _py: Python<'_>) -> PyResult<()> {
        Ok(())
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Polled> {
        let Some(core) = self.consumer.get().opened() else {
            return Ok(Polled::Done(py.None()));
        };
        let closed = self.closing.poll_view(py, core.client.view(), waker)?;
        if closed.is_none() {
            return Ok(Polled::Pending);
        }
        // Wakes the calls that wait for records, because none will arrive.
        core.consumer().wake();
        Ok(Polled::Done(py.None()))
    }

    fn deadline(&self) -> Option<Instant> {
        self.closing.until()
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.consumer)
    }
}
