//! `FutureRecordMetadata`: the result of one send, which its batch completes.
//!
//! A future is a reference to the batch's completion and an index. Nothing else refers to the
//! future, so a future that is dropped costs nothing more.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use thalweg_network::{ClientError, Generation};
use thalweg_producer::{BatchCompletion, Callback, CompletionListener};

use crate::convert::types::Sizes;
use crate::convert::{errors, types};
use crate::interpreter::callbacks::{self, Work};
use crate::interpreter::untracked::NotTraversed;
use crate::interpreter::{failures, gil};

/// A value or an exception, both as Python objects.
pub(crate) type Outcome<'py> = Result<Bound<'py, PyAny>, Bound<'py, PyAny>>;

/// What both kinds of futures share.
pub(crate) trait Awaited {
    fn is_done(&self) -> bool;

    /// Whether it can never be done, because it belongs to the parent of this forked process.
    fn is_orphaned(&self) -> bool;

    /// Returns true if it is done. Otherwise the waker is woken when that may have changed.
    fn poll_done(&self, waker: &Waker) -> bool;

    /// Makes its batch leave without lingering, because a thread or task waits for it.
    fn hasten(&self);

    /// Returns the result. Call it only once it is done.
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Outcome<'py>>;

    /// Runs the work once it is done, after the callbacks that are due by then.
    fn when_done(self: Arc<Self>, py: Python<'_>, work: Work);
}

/// Waits, and returns the value or raises the error.
pub(crate) fn get<'py, A: Awaited + Sync>(
    py: Python<'py>,
    future: &A,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let limit = gil::given_seconds(timeout)?;
    if !future.is_done() {
        check_process(py, future)?;
        future.hasten();
        let deadline = limit.map(|limit| Instant::now() + limit);
        let done = gil::wait(py, deadline, |waker| future.poll_done(waker).then_some(()))?;
        if done.is_none() {
            let seconds = timeout.unwrap_or_default();
            let text = format!(
                "not acknowledged within the {seconds} seconds of this get(). The client continues to \
                 send: call get() again to keep waiting"
            );
            let fields = PyDict::new(py);
            fields.set_item("possibly_written", true)?;
            let made = errors::instance_with(py, "KafkaTimeoutError", &text, &fields);
            return Err(errors::raised(made));
        }
    }
    future.outcome(py)?.map_err(PyErr::from_value)
}

/// Returns an error in a forked child, where nothing completes the future.
fn check_process<A: Awaited>(py: Python<'_>, future: &A) -> PyResult<()> {
    if future.is_orphaned() {
        return Err(errors::client(py, &ClientError::Forked));
    }
    Ok(())
}

/// Returns the result if it is known.
pub(crate) fn known<'py, A: Awaited>(
    py: Python<'py>,
    future: &A,
) -> PyResult<Option<Outcome<'py>>> {
    if future.is_done() {
        future.outcome(py).map(Some)
    } else {
        Ok(None)
    }
}

/// The results that a callback is for.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    Value,
    Exception,
    Both,
}

/// Calls `f(*args, outcome, **kwargs)` on the callback thread, or in this thread if the result is
/// known and no other callback is due.
pub(crate) fn add<A: Awaited + Send + Sync + 'static>(
    py: Python<'_>,
    future: Arc<A>,
    wanted: Wanted,
    f: Py<PyAny>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
) -> PyResult<()> {
    // Otherwise only a log would show the mistake, much later.
    let given = f.bind(py);
    if !given.is_callable() {
        let text = format!("{} is not callable", given.repr()?);
        return Err(PyTypeError::new_err(text));
    }
    check_process(py, &*future)?;
    let known = Arc::clone(&future);
    let call = move |py: Python<'_>| {
        if let Err(error) = call(py, &*known, wanted, &f, &args, kwargs.as_ref()) {
            failures::report(py, "delivery callback", error);
        }
    };
    future.when_done(py, Box::new(call));
    Ok(())
}

fn call<A: Awaited>(
    py: Python<'_>,
    future: &A,
    wanted: Wanted,
    f: &Py<PyAny>,
    args: &Py<PyTuple>,
    kwargs: Option<&Py<PyDict>>,
) -> PyResult<()> {
    let given = match (future.outcome(py)?, wanted) {
        (Ok(value), Wanted::Value | Wanted::Both) => value,
        (Err(error), Wanted::Exception | Wanted::Both) => error,
        _ => return Ok(()),
    };
    let mut all: Vec<Bound<'_, PyAny>> = args.bind(py).iter().collect();
    all.push(given);
    f.call(
        py,
        PyTuple::new(py, all)?,
        kwargs.map(|kwargs| kwargs.bind(py)),
    )?;
    Ok(())
}

/// Passes the tokens of a completed batch to the callback thread.
pub(crate) struct Listener(Generation);

impl Listener {
    pub(crate) fn new() -> Self {
        Self(Generation::current())
    }
}

impl CompletionListener for Listener {
    fn completed(&self, _: &Arc<BatchCompletion>, callbacks: Vec<Callback>) {
        let thread = callbacks::current();
        for callback in callbacks {
            thread.completed(callback.token);
        }
    }

    fn is_inherited(&self) -> bool {
        self.0.is_inherited()
    }
}

/// Runs the work once the record's batch is done, after the callbacks that are due by then.
pub(crate) fn when_batch_done(
    py: Python<'_>,
    completion: &BatchCompletion,
    index: u32,
    work: Work,
) {
    let thread = callbacks::current();
    let token = thread.new_token();
    thread.register(token, work);
    if !completion.add_callback(index, token)
        && let Some(work) = thread.take(token)
    {
        thread.run_now_or_in_turn(py, work);
    }
}

/// The place of one record: its batch and its index there.
#[derive(Clone)]
pub(crate) struct SentRecord {
    pub(crate) completion: Arc<BatchCompletion>,
    pub(crate) index: u32,
    pub(crate) timestamp_ms: i64,
    pub(crate) sizes: Sizes,
}

impl Awaited for SentRecord {
    #[inline]
    fn is_done(&self) -> bool {
        self.completion.is_done()
    }

    fn is_orphaned(&self) -> bool {
        self.completion.is_orphaned()
    }

    fn poll_done(&self, waker: &Waker) -> bool {
        self.completion.poll_done(waker).is_ready()
    }

    fn hasten(&self) {
        self.completion.hasten();
    }

    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Outcome<'py>> {
        let outcome = self
            .completion
            .outcome(self.index)
            .expect("asked for once it is done");
        match outcome {
            Ok(written) => types::record_metadata(
                py,
                self.completion.topic(),
                self.completion.partition(),
                written.offset,
                written.log_append_time_ms.unwrap_or(self.timestamp_ms),
                self.sizes,
            )
            .map(Ok),
            Err(error) => errors::producer(py, &error).map(Err),
        }
    }

    fn when_done(self: Arc<Self>, py: Python<'_>, work: Work) {
        when_batch_done(py, &self.completion, self.index, work);
    }
}

/// Copies an error. A raised error holds the frames that it passed, and they hold the future.
pub(crate) fn copy_of<'py>(error: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    let py = error.py();
    let copied = py
        .import(intern!(py, "copy"))
        .and_then(|copy| copy.call_method1(intern!(py, "copy"), (error,)));
    let Ok(copied) = copied else {
        return error.clone();
    };
    let name = intern!(py, "__cause__");
    match error.getattr(name) {
        Ok(cause) if !cause.is_none() => drop(copied.setattr(name, cause)),
        _ => {}
    }
    copied
}

/// A record that failed before it was appended.
struct Failed(Py<PyAny>);

impl Awaited for Failed {
    fn is_done(&self) -> bool {
        true
    }

    fn is_orphaned(&self) -> bool {
        false
    }

    fn poll_done(&self, _: &Waker) -> bool {
        true
    }

    fn hasten(&self) {}

    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Outcome<'py>> {
        Ok(Err(copy_of(self.0.bind(py))))
    }

    fn when_done(self: Arc<Self>, py: Python<'_>, work: Work) {
        callbacks::current().run_now_or_in_turn(py, work);
    }
}

/// The result of one `send`. It completes with the record's batch.
///
/// Its methods are those of kafka.producer.future.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct FutureRecordMetadata(State);

impl NotTraversed for FutureRecordMetadata {}

enum State {
    Sent(SentRecord),
    Failed(Arc<Failed>),
}

macro_rules! with_state {
    ($self:expr, $future:ident => $body:expr) => {
        match &$self.0 {
            State::Sent($future) => $body,
            State::Failed($future) => {
                let $future = &**$future;
                $body
            }
        }
    };
}

impl FutureRecordMetadata {
    #[inline]
    pub(crate) fn new(sent: Result<SentRecord, Py<PyAny>>) -> Self {
        Self(match sent {
            Ok(sent) => State::Sent(sent),
            Err(error) => State::Failed(Arc::new(Failed(error))),
        })
    }

    pub(crate) fn add(
        &self,
        py: Python<'_>,
        wanted: Wanted,
        f: Py<PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let (args, kwargs) = (
            args.clone().unbind(),
            kwargs.map(|given| given.clone().unbind()),
        );
        match &self.0 {
            State::Sent(sent) => add(py, Arc::new(sent.clone()), wanted, f, args, kwargs),
            State::Failed(failed) => add(py, Arc::clone(failed), wanted, f, args, kwargs),
        }
    }
}

#[pymethods]
impl FutureRecordMetadata {
    /// Waits for the result, at most `timeout` seconds. None means no limit.
    ///
    /// Raises the error of the record, or `KafkaTimeoutError` after the timeout, with
    /// `possibly_written`: the client continues to send the record. Call `get` again to keep
    /// waiting.
    #[pyo3(signature = (timeout = None))]
    fn get<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        with_state!(self, future => get(py, future, timeout))
    }

    /// Whether the result is known.
    #[getter]
    fn is_done(&self) -> bool {
        with_state!(self, future => future.is_done())
    }

    /// Where the record was written. None if it is not written, or not yet.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(with_state!(self, future => known(py, future))?.and_then(Result::ok))
    }

    /// Why the record was not written. None if it was, or if the result is not known yet.
    #[getter]
    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(with_state!(self, future => known(py, future))?.and_then(Result::err))
    }

    /// Whether it is done and the record was written.
    fn succeeded(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(with_state!(self, future => known(py, future))?.is_some_and(|outcome| outcome.is_ok()))
    }

    /// Whether it is done and the record has an error.
    fn failed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(with_state!(self, future => known(py, future))?.is_some_and(|outcome| outcome.is_err()))
    }

    /// Whether it failed, and sending the record again may succeed.
    fn retriable(&self, py: Python<'_>) -> PyResult<bool> {
        match self.exception(py)? {
            Some(error) => Ok(error
                .getattr_opt("retriable")?
                .is_some_and(|flag| flag.is_truthy().unwrap_or(false))),
            None => Ok(false),
        }
    }

    /// Calls `f(*args, value, **kwargs)` when the record is written.
    ///
    /// The callback thread calls it, after the callbacks that are already due. If the result is
    /// known and no callback is due, it is called at once in this thread. If f raises, the error is
    /// logged.
    ///
    /// Raises:
    ///     `TypeError`: If f is not callable.
    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_callback<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyRef<'py, Self>> {
        slf.add(py, Wanted::Value, f, args, kwargs)?;
        Ok(slf)
    }

    /// Calls `f(*args, exception, **kwargs)` if the record fails. See `add_callback`.
    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_errback<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyRef<'py, Self>> {
        slf.add(py, Wanted::Exception, f, args, kwargs)?;
        Ok(slf)
    }

    /// Calls `f(*args, value or exception, **kwargs)` in both cases. See `add_callback`.
    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_both<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyRef<'py, Self>> {
        slf.add(py, Wanted::Both, f, args, kwargs)?;
        Ok(slf)
    }
}
