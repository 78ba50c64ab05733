//! `Coroutine`: an operation that a task of asyncio awaits.
//!
//! ```text
//! await ──▶ poll the operation ── done ──────────▶ its result
//!               ▲      └─ not yet ──▶ a future of the loop is yielded: the task sleeps
//!               └───────────────────────── the waker, or the deadline's timer, completes it
//! ```
//! Like any coroutine, it does nothing before it is awaited. If it is cancelled while it waits, it
//! gives up its wait: a record that is not in a batch by then will not be sent.
//!
//! Python has two classes of it, because the garbage collector can look inside only one of them.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use pyo3::PyTraverseError;
use pyo3::exceptions::{
    PyBaseException, PyGeneratorExit, PyRuntimeError, PyRuntimeWarning, PyStopIteration,
};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;

use crate::asyncio::awaiting::{Awaitable, Step};
use crate::asyncio::completions::Completions;
use crate::asyncio::record_future::RecordFuture;
use crate::convert::errors;
use crate::interpreter::untracked::untracked;
use crate::interpreter::{failures, gil};
use crate::operation::{PyOperation, is_over};
use crate::producing::futures::SentRecord;
use crate::producing::open_producer::OpenProducer;
use crate::producing::sending::{Given, Sending};

/// Clocks of event loops are rounded.
const TIMER_SLACK: Duration = Duration::from_millis(5);

/// An operation whose output is the result of its coroutine.
type Boxed = Box<dyn PyOperation<Output = Py<PyAny>> + Send + Sync>;

#[allow(clippy::large_enum_variant)]
enum Work {
    /// A producer's `send`. Sends are many and short, so they are stored here: the memory of the
    /// coroutines is reused.
    Send(Sending<Arc<OpenProducer>>),
    /// Any other call of a producer.
    Produce(Boxed),
    /// A call of a consumer.
    Consume(Boxed),
}

/// A call that sleeps.
struct Suspended {
    key: u64,
    waker: Waker,
    timer: Option<(Instant, Py<PyAny>)>,
}

/// An operation, and the sleep of its task.
struct Coroutine {
    completions: Py<Completions>,
    /// The operation, until it is over.
    work: Option<Work>,
    started: bool,
    suspended: Option<Suspended>,
    /// The result, while the loop gets a turn before it is returned.
    result: Option<Py<PyAny>>,
}

/// A coroutine of a producer.
///
/// The method that creates it documents its result.
#[pyclass(freelist = 256, module = "thalweg._core")]
pub(crate) struct ProducerCoroutine(Coroutine);

impl ProducerCoroutine {
    #[inline]
    pub(crate) fn of_send(
        core: Arc<OpenProducer>,
        completions: Py<Completions>,
        given: Given,
    ) -> Self {
        let work = Work::Send(Sending::new(core, given));
        Self(Coroutine::new(completions, work))
    }

    pub(crate) fn new(
        completions: Py<Completions>,
        operation: impl PyOperation<Output = Py<PyAny>> + Send + Sync + 'static,
    ) -> Self {
        let work = Work::Produce(Box::new(operation));
        Self(Coroutine::new(completions, work))
    }
}

#[pymethods]
impl ProducerCoroutine {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.resume(py)?.iterated()
    }

    /// Resumes the coroutine. The value is ignored. `StopIteration` has the result.
    fn send(&mut self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = value;
        self.__next__(py)
    }

    /// Ends the coroutine with this exception, and raises it.
    #[pyo3(signature = (kind, value = None, traceback = None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = traceback;
        Err(self.0.throw(py, kind, value))
    }

    /// Ends the coroutine, as if it was cancelled.
    fn close(&mut self, py: Python<'_>) {
        self.0.give_up(py, &PyGeneratorExit::new_err(()));
    }
}

/// A coroutine of a consumer.
///
/// The method that creates it documents its result.
// It may sleep as long as its consumer lives, in a reference cycle through its task, so the garbage
// collector must be able to traverse it. A producer makes too many calls for that, and they end
// soon.
#[pyclass(module = "thalweg._core")]
pub(crate) struct ConsumerCoroutine(Coroutine);

impl ConsumerCoroutine {
    pub(crate) fn new(
        completions: Py<Completions>,
        operation: impl PyOperation<Output = Py<PyAny>> + Send + Sync + 'static,
    ) -> Self {
        let work = Work::Consume(Box::new(operation));
        Self(Coroutine::new(completions, work))
    }
}

#[pymethods]
impl ConsumerCoroutine {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.resume(py)?.iterated()
    }

    /// Resumes the coroutine. The value is ignored. `StopIteration` has the result.
    fn send(&mut self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = value;
        self.__next__(py)
    }

    /// Ends the coroutine with this exception, and raises it.
    #[pyo3(signature = (kind, value = None, traceback = None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = traceback;
        Err(self.0.throw(py, kind, value))
    }

    /// Ends the coroutine, as if it was cancelled.
    fn close(&mut self, py: Python<'_>) {
        self.0.give_up(py, &PyGeneratorExit::new_err(()));
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Coroutine {
            completions,
            work,
            suspended,
            result,
            ..
        } = &self.0;
        visit.call(completions)?;
        visit.call(result.as_ref())?;
        if let Some(Suspended {
            timer: Some((_, timer)),
            ..
        }) = suspended
        {
            visit.call(timer)?;
        }
        match work {
            Some(Work::Consume(operation)) => operation.traverse(&visit),
            _ => Ok(()),
        }
    }
}

impl Awaitable for ProducerCoroutine {
    #[inline]
    fn step(slf: &Bound<'_, Self>) -> PyResult<Step> {
        slf.try_borrow_mut()?.0.resume(slf.py())
    }
}

impl Awaitable for ConsumerCoroutine {
    #[inline]
    fn step(slf: &Bound<'_, Self>) -> PyResult<Step> {
        slf.try_borrow_mut()?.0.resume(slf.py())
    }
}

impl Coroutine {
    #[inline]
    fn new(completions: Py<Completions>, work: Work) -> Self {
        Self {
            completions,
            work: Some(work),
            started: false,
            suspended: None,
            result: None,
        }
    }

    /// Runs a step. An error ends the call. A `StopIteration` of the application (of a serializer
    /// or a listener) would look like a result, so it becomes a `RuntimeError`, as in any
    /// coroutine (PEP 479).
    #[inline]
    fn resume(&mut self, py: Python<'_>) -> PyResult<Step> {
        self.step(py).map_err(|error| {
            self.end(py);
            if !error.is_instance_of::<PyStopIteration>(py) {
                return error;
            }
            let raised = PyRuntimeError::new_err("coroutine raised StopIteration");
            raised.set_cause(py, Some(error));
            raised
        })
    }

    fn step(&mut self, py: Python<'_>) -> PyResult<Step> {
        if let Some(result) = self.result.take() {
            return Ok(Step::Return(result));
        }
        if self.work.is_none() {
            let text = "cannot reuse already awaited coroutine";
            return Err(PyRuntimeError::new_err(text));
        }
        if let Some(suspended) = &self.suspended {
            self.completions.get().forget(suspended.key);
        } else if let Some(step) = self.first_step(py)? {
            return Ok(step);
        }
        let suspended = self.suspended.get_or_insert_with(|| {
            let (key, waker) = self.completions.get().new_waiter();
            let timer = None;
            Suspended { key, waker, timer }
        });
        let waker = suspended.waker.clone();
        let (result, deadline) = self.poll(py, &waker)?;
        if let Some(result) = result {
            self.end(py);
            return Ok(Step::Return(result));
        }
        if is_over(deadline) {
            // It must be polled again at once. But the loop's other tasks run first, because one of
            // them may do what this one waits for.
            return Ok(Step::Yield(py.None()));
        }
        self.sleep(py, deadline).map(Step::Yield)
    }

    /// Checks the caller, and uses the fast path if there is nothing to wait for.
    #[inline]
    fn first_step(&mut self, py: Python<'_>) -> PyResult<Option<Step>> {
        self.started = true;
        let completions = self.completions.get();
        let work = self.work.as_mut().expect("the call is not over yet");
        // First check whether the client belongs to the parent, because asyncio says in a child
        // that no loop runs.
        match work {
            Work::Send(sending) => sending.check(py)?,
            Work::Produce(operation) | Work::Consume(operation) => operation.check(py)?,
        }
        completions.check_loop(py)?;
        let result = match work {
            Work::Send(sending) => match sending.attempt(py)? {
                Some(outcome) => Some(future_of(py, completions, outcome)?),
                None => None,
            },
            // A consumer gives the loop its turn before it takes anything, so that a cancellation
            // loses nothing.
            Work::Consume(_) if completions.is_turn_due() => {
                return Ok(Some(Step::Yield(py.None())));
            }
            Work::Produce(operation) | Work::Consume(operation) => operation.attempt(py)?,
        };
        let Some(result) = result else {
            return Ok(None);
        };
        let is_send = matches!(work, Work::Send(_));
        self.work = None;
        if is_send && completions.is_turn_due() {
            self.result = Some(result);
            return Ok(Some(Step::Yield(py.None())));
        }
        Ok(Some(Step::Return(result)))
    }

    /// Polls the operation. Returns its result if there is one, and when its wait ends.
    fn poll(
        &mut self,
        py: Python<'_>,
        waker: &Waker,
    ) -> PyResult<(Option<Py<PyAny>>, Option<Instant>)> {
        match self.work.as_mut().expect("the call is not over yet") {
            Work::Send(sending) => {
                let outcome = sending.poll(py, waker)?;
                let future = |outcome| future_of(py, self.completions.get(), outcome);
                Ok((outcome.map(future).transpose()?, sending.deadline()))
            }
            Work::Produce(operation) | Work::Consume(operation) => {
                Ok((operation.poll(py, waker)?, operation.deadline()))
            }
        }
    }

    /// Makes the task sleep until the waker is used or the deadline is over.
    fn sleep(&mut self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<Py<PyAny>> {
        let completions = self.completions.get();
        let suspended = self
            .suspended
            .as_mut()
            .expect("the call was suspended before it sleeps");
        let future = completions.wait(py, suspended.key)?;
        // A timer whose time has come may have fired slightly too early by our clock. It will not
        // fire again.
        let kept = |(at, _): &(Instant, Py<PyAny>)| {
            deadline == Some(*at) && *at > Instant::now() + TIMER_SLACK
        };
        if !suspended.timer.as_ref().is_some_and(kept) {
            cancel(py, suspended.timer.take());
            if let (Some(at), Some(left)) = (deadline, gil::left(deadline)) {
                let wake = self.completions.bind(py).getattr(intern!(py, "wake"))?;
                let arguments = (left.as_secs_f64(), wake, suspended.key);
                let event_loop = completions.event_loop(py);
                let timer = event_loop.call_method1(intern!(py, "call_later"), arguments)?;
                suspended.timer = Some((at, timer.unbind()));
            }
        }
        // A task checks this attribute of what its coroutine yields (`asyncio.Future.__await__`).
        future.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
        Ok(future.unbind())
    }

    /// Ends the call with the exception that its caller throws, and returns it.
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
    ) -> PyErr {
        let error = match value {
            Some(value) if value.is_instance_of::<PyBaseException>() => PyErr::from_value(value),
            Some(value) => errors::raised(kind.call1((value,))),
            None => PyErr::from_value(kind),
        };
        self.give_up(py, &error);
        error
    }

    /// Ends the call with the caller's exception.
    fn give_up(&mut self, py: Python<'_>, error: &PyErr) {
        match &mut self.work {
            Some(Work::Send(sending)) => sending.give_up(py, error),
            Some(Work::Produce(operation) | Work::Consume(operation)) => {
                operation.give_up(py, error);
            }
            None => {}
        }
        self.end(py);
    }

    /// Gives up the wait.
    fn end(&mut self, py: Python<'_>) {
        self.started = true;
        self.work = None;
        self.result = None;
        if let Some(suspended) = self.suspended.take() {
            self.completions.get().forget(suspended.key);
            cancel(py, suspended.timer);
        }
    }
}

impl Drop for Coroutine {
    fn drop(&mut self) {
        if self.started {
            return;
        }
        // Warn, as for any coroutine that was never awaited, and keep an exception that is being
        // raised.
        Python::try_attach(|py| {
            let raised = PyErr::take(py);
            let kind = py.get_type::<PyRuntimeWarning>();
            let text = c"a call of an asyncio client was never awaited: it did nothing";
            if let Err(error) = PyErr::warn(py, &kind, text, 1) {
                error.write_unraisable(py, None);
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}

fn cancel(py: Python<'_>, timer: Option<(Instant, Py<PyAny>)>) {
    if let Some((_, timer)) = timer
        && let Err(error) = timer.call_method0(py, intern!(py, "cancel"))
    {
        failures::report(py, "timer of a call", error);
    }
}

#[inline]
fn future_of(
    py: Python<'_>,
    completions: &Completions,
    outcome: Result<SentRecord, Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    let future = RecordFuture::new(Arc::clone(completions.records()), outcome);
    Ok(untracked(py, future)?.into_any().unbind())
}
