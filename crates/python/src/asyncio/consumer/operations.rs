//! What a coroutine of an `AsyncConsumer` waits for, except records.

use std::task::Waker;
use std::time::Instant;

use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::{IntoPyObjectExt, PyTraverseError};
use thalweg_network::consumer::OffsetLookup;
use thalweg_network::{Bootstrap, Close};

use crate::client::ResponseWait;
use crate::consuming::consumer::Consumer;
use crate::consuming::lookups::listed;
use crate::consuming::polling::{OpenConsumer, not_open};
use crate::operation::PyOperation;

/// Waits until a bootstrap server has responded, and opens the consumer.
pub(super) struct Opening {
    pub(super) consumer: Py<Consumer>,
    pub(super) core: Option<OpenConsumer>,
    pub(super) bootstrap: Bootstrap,
}

impl PyOperation for Opening {
    type Output = Py<PyAny>;

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Py<PyAny>>> {
        if self.bootstrap.poll(py, waker)?.is_none() {
            return Ok(None);
        }
        let core = self.core.take().ok_or_else(|| not_open(py))?;
        self.consumer.get().open_with(py, core)?;
        Ok(Some(py.None()))
    }

    fn deadline(&self) -> Option<Instant> {
        self.bootstrap.deadline()
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.consumer)
    }
}

/// Waits until offsets are looked up.
pub(super) struct Listing(pub(super) OffsetLookup);

impl PyOperation for Listing {
    type Output = Py<PyAny>;

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Py<PyAny>>> {
        let found = self.0.poll(py, waker)?.map(listed);
        found.map(|rows| rows.into_py_any(py)).transpose()
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }
}

/// Waits for the response to a request.
pub(super) struct AwaitingResponse(pub(super) ResponseWait);

impl PyOperation for AwaitingResponse {
    type Output = Py<PyAny>;

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Py<PyAny>>> {
        if self.0.poll(py, waker)?.is_none() {
            return Ok(None);
        }
        self.0.to_py(py).map(|response| Some(response.unbind()))
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }
}

/// Waits until the connections are closed. There are none if the consumer was never opened.
pub(super) struct Stopping(pub(super) Option<Close>);

impl PyOperation for Stopping {
    type Output = Py<PyAny>;

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Py<PyAny>>> {
        match &mut self.0 {
            Some(close) => Ok(close.poll(py, waker)?.map(|()| py.None())),
            None => Ok(Some(py.None())),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.as_ref().and_then(PyOperation::deadline)
    }
}
