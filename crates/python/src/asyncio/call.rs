//! `Call`: an operation as a coroutine of asyncio.
//!
//! ```text
//! await ──▶ poll the operation ── done ──────────▶ its result
//!               ▲      └─ not yet ──▶ a future of the loop is yielded: the task sleeps
//!               └───────────────────────── the waker, or the deadline's timer, completes it
//! ```
//! Like any coroutine, it does nothing before it is awaited. If it is cancelled while it waits, it
//! gives up its wait: a record that is not in a batch by then will not be sent.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyGeneratorExit, PyRuntimeError, PyRuntimeWarning, PyStopIteration};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PySet;

use crate::asyncio::awaiting::{Awaitable, Step};
use crate::asyncio::completions::Completions;
use crate::asyncio::job::{Job, Polled};
use crate::asyncio::producer::{AsyncProducer, Closing};
use crate::asyncio::record_future::RecordFuture;
use crate::interpreter::untracked::untracked;
use crate::interpreter::{callbacks, gil};
use crate::operation::{Operation, is_over};
use crate::producing::batch_futures::{Batch, Rows};
use crate::producing::core::{Bootstrap, Core, Flush, PartitionsFor};
use crate::producing::send_many::SendMany;
use crate::producing::sending::{Outcome, Sending};
use crate::producing::transactions::Transacting;

/// Clocks of event loops are rounded.
const TIMER_SLACK: Duration = Duration::from_millis(5);

/// A call on a producer.
pub(crate) enum Producing {
    Send(Sending),
    SendMany(SendMany),
    PartitionsFor(PartitionsFor),
    /// The timeout in seconds. Flushing begins when the call is awaited.
    Flush(Option<f64>),
    Flushing(Flush),
    Transacting(Transacting),
    Start(Bootstrap, Py<AsyncProducer>),
    Close(Closing),
}

/// The work of a call. A producer's calls are many and short, so their work is stored in the call,
/// whose memory is reused.
#[allow(clippy::large_enum_variant)]
enum Work {
    Produce(Arc<Core>, Producing),
    Job(Box<dyn Job>),
}

/// A call that sleeps.
struct Suspended {
    key: u64,
    waker: Waker,
    timer: Option<(Instant, Py<PyAny>)>,
}

/// A coroutine of a producer.
#[pyclass(freelist = 256, module = "thalweg._core")]
pub(crate) struct Call {
    completions: Py<Completions>,
    work: Option<Work>,
    started: bool,
    suspended: Option<Suspended>,
    /// The result, while the loop gets a turn before it is returned.
    result: Option<Py<PyAny>>,
}

#[pymethods]
impl Call {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.resume(py)?.iterated()
    }

    fn send(&mut self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let _ = value;
        self.__next__(py)
    }

    #[pyo3(signature = (kind, value = None, traceback = None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let _ = traceback;
        let error = match value {
            Some(value) if value.is_instance_of::<pyo3::exceptions::PyBaseException>() => {
                PyErr::from_value(value)
            }
            Some(value) => PyErr::from_value(kind.call1((value,))?),
            None => PyErr::from_value(kind),
        };
        self.give_up(py, &error);
        Err(error)
    }

    fn close(&mut self, py: Python<'_>) {
        self.give_up(py, &PyGeneratorExit::new_err(()));
    }
}

/// A coroutine of a consumer. It may sleep as long as its consumer lives, in a reference cycle
/// through its task, so the garbage collector must be able to traverse it. Calls of producers are
/// too many for that, and end soon.
#[pyclass(module = "thalweg._core")]
pub(crate) struct JobCall(Call);

#[pymethods]
impl JobCall {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.__next__(py)
    }

    fn send(&mut self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.0.send(py, value)
    }

    #[pyo3(signature = (kind, value = None, traceback = None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        self.0.throw(py, kind, value, traceback)
    }

    fn close(&mut self, py: Python<'_>) {
        self.0.close(py);
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0.completions)?;
        visit.call(self.0.result.as_ref())?;
        if let Some(Suspended {
            timer: Some((_, timer)),
            ..
        }) = &self.0.suspended
        {
            visit.call(timer)?;
        }
        match &self.0.work {
            Some(Work::Job(job)) => job.traverse(&visit),
            _ => Ok(()),
        }
    }
}

impl Awaitable for Call {
    #[inline]
    fn step(slf: &Bound<'_, Self>) -> PyResult<Step> {
        slf.try_borrow_mut()?.resume(slf.py())
    }
}

impl Awaitable for JobCall {
    #[inline]
    fn step(slf: &Bound<'_, Self>) -> PyResult<Step> {
        slf.try_borrow_mut()?.0.resume(slf.py())
    }
}

impl Call {
    #[inline]
    pub(crate) fn new(core: Arc<Core>, completions: Py<Completions>, work: Producing) -> Self {
        Self::of(completions, Work::Produce(core, work))
    }

    /// Creates a call that is not a producer's.
    pub(crate) fn job(completions: Py<Completions>, job: impl Job + 'static) -> JobCall {
        JobCall(Self::of(completions, Work::Job(Box::new(job))))
    }

    #[inline]
    fn of(completions: Py<Completions>, work: Work) -> Self {
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
        loop {
            let key_and_waker = self.suspended.get_or_insert_with(|| {
                let (key, waker) = self.completions.get().new_waiter();
                let timer = None;
                Suspended { key, waker, timer }
            });
            let waker = key_and_waker.waker.clone();
            let (polled, deadline) = self.poll(py, &waker)?;
            match polled {
                Polled::Done(result) => {
                    self.end(py);
                    return Ok(Step::Return(result));
                }
                Polled::Turn => return Ok(Step::Yield(py.None())),
                Polled::Pending if !is_over(deadline) => {
                    return self.sleep(py, deadline).map(Step::Yield);
                }
                Polled::Pending => {}
            }
        }
    }

    /// Checks the caller, and uses the fast path if there is nothing to wait for.
    #[inline]
    fn first_step(&mut self, py: Python<'_>) -> PyResult<Option<Step>> {
        self.started = true;
        let completions = self.completions.get();
        match self.work.as_mut().expect("the call is not done yet") {
            Work::Produce(core, work) => {
                // First check whether the client belongs to the parent, because asyncio says in a
                // child that no loop runs. A close is also allowed for closed clients.
                if !matches!(work, Producing::Close(_)) || core.view().is_inherited() {
                    core.check(py)?;
                }
                completions.check_loop(py)?;
                match work {
                    Producing::Send(sending) => {
                        let Some(outcome) = sending.attempt(py, core, None)? else {
                            return Ok(None);
                        };
                        let future = future_of(py, completions, outcome)?;
                        self.work = None;
                        if completions.is_turn_due() {
                            self.result = Some(future);
                            return Ok(Some(Step::Yield(py.None())));
                        }
                        return Ok(Some(Step::Return(future)));
                    }
                    Producing::Flush(timeout) => {
                        *work = Producing::Flushing(Flush::new(core, *timeout));
                    }
                    _ => {}
                }
                Ok(None)
            }
            Work::Job(job) => {
                job.check(py)?;
                completions.check_loop(py)?;
                // Give the loop its turn before anything is taken, so that a cancellation loses
                // nothing.
                if completions.is_turn_due() {
                    return Ok(Some(Step::Yield(py.None())));
                }
                let found = job.attempt(py)?;
                if found.is_some() {
                    self.work = None;
                }
                Ok(found.map(Step::Return))
            }
        }
    }

    /// Polls the work. Returns its progress and when its wait ends.
    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<(Polled, Option<Instant>)> {
        match self.work.as_mut().expect("the call is not done yet") {
            Work::Job(job) => Ok((job.poll(py, waker)?, job.deadline())),
            Work::Produce(core, work) => {
                let result = work.poll(py, core, &self.completions, waker)?;
                Ok((
                    result.map_or(Polled::Pending, Polled::Done),
                    work.deadline(),
                ))
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

    /// Ends the call with the caller's exception.
    fn give_up(&mut self, py: Python<'_>, error: &PyErr) {
        if let Some(Work::Produce(core, work)) = &self.work {
            work.given_up(py, core, error);
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

impl Producing {
    /// Returns the result if there is one.
    fn poll(
        &mut self,
        py: Python<'_>,
        core: &Arc<Core>,
        completions: &Py<Completions>,
        waker: &Waker,
    ) -> PyResult<Option<Py<PyAny>>> {
        let of_loop = completions.get();
        let result = match self {
            Self::Send(sending) => sending
                .poll(py, core, waker)?
                .map(|outcome| future_of(py, of_loop, outcome)),
            Self::SendMany(sending) => sending
                .poll(py, core, waker)?
                .map(|rows| future_of_many(py, of_loop, rows)),
            Self::PartitionsFor(waiting) => waiting
                .poll(py, core, waker)?
                .map(|count| PySet::new(py, 0..count).map(|set| set.into_any().unbind())),
            Self::Flushing(flush) => flush.poll(py, core, waker)?.map(|()| {
                // All futures have their results, so deliver those that the loop has not seen yet.
                of_loop.drain_all(py);
                Ok(py.None())
            }),
            Self::Flush(_) => unreachable!("the first step turns it into Flushing"),
            Self::Transacting(call) => call.poll(py, core, waker)?.map(|()| Ok(py.None())),
            Self::Start(waiting, producer) => waiting.poll(py, core, waker)?.map(|()| {
                AsyncProducer::opened_by(producer, py, core, completions).map(|()| py.None())
            }),
            Self::Close(closing) => closing.poll(py, core, waker)?.map(|()| {
                of_loop.drain_all(py);
                Ok(py.None())
            }),
        };
        result.transpose()
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Send(sending) => sending.deadline(),
            Self::SendMany(sending) => sending.deadline(),
            Self::PartitionsFor(waiting) => waiting.deadline(),
            Self::Flushing(flush) => flush.deadline(),
            Self::Flush(_) => None,
            Self::Transacting(call) => call.deadline(),
            Self::Start(waiting, _) => waiting.deadline(),
            Self::Close(closing) => closing.deadline(),
        }
    }

    fn given_up(&self, py: Python<'_>, core: &Core, error: &PyErr) {
        match self {
            Self::Send(sending) => sending.given_up(py, core, error),
            Self::SendMany(sending) => sending.given_up(py, core, error),
            Self::Transacting(call) => call.given_up(py, core, error),
            _ => {}
        }
    }
}

impl Drop for Call {
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
        callbacks::report(py, "timer of a call", error);
    }
}

#[inline]
fn future_of(py: Python<'_>, completions: &Completions, outcome: Outcome) -> PyResult<Py<PyAny>> {
    let future = RecordFuture::new(Arc::clone(completions.records()), outcome);
    Ok(untracked(py, future)?.into_any().unbind())
}

fn future_of_many(
    py: Python<'_>,
    completions: &Completions,
    (rows, len): (Rows, usize),
) -> PyResult<Py<PyAny>> {
    let batch = Arc::new(Batch::new(rows, len));
    completions.future_of_many(py, batch).map(Bound::unbind)
}
