//! `RecordFuture`: the result of one send for asyncio, with the methods of `asyncio.Future`.
//!
//! Like `FutureRecordMetadata`, it is a batch's completion and an index, and only its batch
//! completes it. A future that is not awaited is never set, and its metadata is never created.
//! Only waits are stored, in the loop's `RecordWaits`. The interpreter's cycle collector does not
//! see it (`untracked`), because hundreds of thousands may be alive. So it must not hold an object
//! that could lead back to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::asyncio::{CancelledError, InvalidStateError};
use pyo3::intern;
use pyo3::prelude::*;
use thalweg_network::ClientError;

use crate::asyncio::awaiting::{Awaitable, Step};
use crate::asyncio::record_waits::{Callback, RecordWaits, all_written};
use crate::convert::errors;
use crate::interpreter::untracked::NotTraversed;
use crate::producing::futures::{Awaited, Outcome, SentRecord, copy_of};

/// The result of one `send` for asyncio. You can await it like an `asyncio.Future`.
///
/// You can also pass it to `gather`, `wait`, `shield` and `wait_for`. It completes when the batch
/// of the record completes. Cancelling it does not cancel the record. If no code asks for its
/// error, the loop's exception handler gets it.
#[pyclass(frozen, weakref, module = "thalweg._core")]
pub(crate) struct RecordFuture {
    state: State,
    waits: Arc<RecordWaits>,
    /// A task checks this attribute of what its coroutine yields (`asyncio.Future.__await__`).
    blocking: AtomicBool,
    cancelled: AtomicBool,
    /// The result was returned to a caller.
    retrieved: AtomicBool,
    cancel_message: OnceLock<Py<PyAny>>,
}

impl NotTraversed for RecordFuture {}

enum State {
    Sent(SentRecord),
    /// The record was refused before it was part of a batch.
    Failed(Py<PyAny>),
}

impl RecordFuture {
    #[inline]
    pub(crate) fn new(waits: Arc<RecordWaits>, sent: Result<SentRecord, Py<PyAny>>) -> Self {
        let state = match sent {
            Ok(sent) => State::Sent(sent),
            Err(error) => State::Failed(error),
        };
        Self {
            state,
            waits,
            blocking: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            retrieved: AtomicBool::new(false),
            cancel_message: OnceLock::new(),
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Outcome<'py>> {
        if self.is_cancelled() {
            return Err(self.cancelled_error(py));
        }
        let outcome = match &self.state {
            State::Failed(error) => Err(copy_of(error.bind(py))),
            State::Sent(sent) if sent.is_done() => self.waits.outcome_of(py, sent)?,
            State::Sent(_) => return Err(InvalidStateError::new_err("Result is not set.")),
        };
        self.retrieved.store(true, Ordering::Relaxed);
        Ok(outcome)
    }

    /// Returns an error in a forked child, where nothing completes a batch.
    fn check_process(&self, py: Python<'_>) -> PyResult<()> {
        if self.waits.is_inherited() {
            return Err(errors::client(py, &ClientError::Forked));
        }
        Ok(())
    }

    /// Returns the error that was never retrieved, if it is known now.
    fn lost_error<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match &self.state {
            State::Failed(error) => Some(error.bind(py).clone()),
            State::Sent(sent) => {
                let failed = sent.completion.outcome(sent.index)?.err()?;
                errors::producer(py, &failed).ok()
            }
        }
    }
}

#[pymethods]
impl RecordFuture {
    /// Whether it has a result or an error, or was cancelled.
    fn done(&self) -> bool {
        self.is_cancelled()
            || match &self.state {
                State::Sent(sent) => sent.is_done(),
                State::Failed(_) => true,
            }
    }

    /// Whether it was cancelled.
    fn cancelled(&self) -> bool {
        self.is_cancelled()
    }

    /// Returns where the record was written.
    ///
    /// Raises the error of the record, `CancelledError`, or `asyncio.InvalidStateError` before it
    /// is done.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.outcome(py)?.map_err(PyErr::from_value)
    }

    /// Returns the error of the record, or None if it was written. Raises as `result`.
    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.outcome(py)?.err())
    }

    /// Returns the event loop of the producer.
    fn get_loop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.waits.event_loop(py)
    }

    /// Cancels the future, but not the record. Returns false if it is done.
    #[pyo3(signature = (msg = None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> bool {
        let this = slf.get();
        if this.done() || this.waits.is_inherited() {
            return false;
        }
        if let Some(message) = msg {
            // It was not cancelled before, so there is no message yet.
            let _ = this.cancel_message.set(message);
        }
        this.cancelled.store(true, Ordering::Relaxed);
        if let State::Sent(sent) = &this.state {
            this.waits.call_all_of(slf.py(), sent, slf.as_any());
        }
        true
    }

    /// Calls the function soon after the future is done, in the loop's thread.
    #[pyo3(signature = (function, *, context = None))]
    fn add_done_callback(
        slf: &Bound<'_, Self>,
        function: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        this.check_process(py)?;
        let context = match context {
            Some(context) => context,
            None => py
                .import(intern!(py, "contextvars"))?
                .call_method0(intern!(py, "copy_context"))?
                .unbind(),
        };
        let callback = Callback {
            future: slf.clone().unbind(),
            function,
            context,
        };
        match &this.state {
            State::Sent(sent) if !this.is_cancelled() => {
                this.waits.call_when_done(py, sent, callback)
            }
            _ => this.waits.call_soon(py, &callback),
        }
    }

    /// Removes a callback, and returns how often it was there.
    fn remove_done_callback(slf: &Bound<'_, Self>, function: &Bound<'_, PyAny>) -> PyResult<usize> {
        let this = slf.get();
        this.check_process(slf.py())?;
        match &this.state {
            State::Sent(sent) => this.waits.forget_callback(sent, slf.as_any(), function),
            State::Failed(_) => Ok(0),
        }
    }

    /// Whether a task of asyncio waits for the future. Only asyncio uses it.
    #[getter(_asyncio_future_blocking)]
    fn blocking(&self) -> bool {
        self.blocking.load(Ordering::Relaxed)
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, blocking: bool) {
        self.blocking.store(blocking, Ordering::Relaxed);
    }

    /// `asyncio.gather` uses this, and `_make_cancelled_error`, for a cancelled future.
    #[getter(_cancel_message)]
    fn cancel_message(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let message = self.cancel_message.get();
        message.map(|message| message.clone_ref(py))
    }

    /// Returns the `CancelledError` of a cancelled future, with its message.
    #[pyo3(name = "_make_cancelled_error")]
    fn cancelled_error(&self, py: Python<'_>) -> PyErr {
        match self.cancel_message.get() {
            Some(message) => CancelledError::new_err((message.clone_ref(py),)),
            None => CancelledError::new_err(()),
        }
    }

    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// Runs a step of the awaiting task: the task sleeps, or gets the result.
    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        Self::step(slf)?.iterated()
    }

    fn __repr__(&self) -> String {
        let state = match &self.state {
            _ if self.is_cancelled() => "cancelled",
            _ if !self.done() => "pending",
            _ => "finished",
        };
        format!("<RecordFuture {state}>")
    }
}

impl Awaitable for RecordFuture {
    fn step(slf: &Bound<'_, Self>) -> PyResult<Step> {
        let this = slf.get();
        if !this.done() {
            this.blocking.store(true, Ordering::Relaxed);
            return Ok(Step::Yield(slf.clone().into_any().unbind()));
        }
        let outcome = this.result(slf.py())?;
        Ok(Step::Return(outcome.unbind()))
    }
}

impl Drop for RecordFuture {
    fn drop(&mut self) {
        let is_told = *self.retrieved.get_mut() || *self.cancelled.get_mut();
        // In a forked child, the parent reports the error.
        if is_told || self.waits.is_inherited() {
            return;
        }
        if let State::Sent(sent) = &self.state {
            if all_written(&sent.completion) {
                return;
            }
            if !sent.is_done() {
                return self.waits.watch(sent);
            }
        }
        Python::try_attach(|py| {
            let raised = PyErr::take(py);
            if let Some(error) = self.lost_error(py) {
                self.waits.tell_lost(py, 1, &error);
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}
