//! The process's threads and its log, for Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thalweg_network::{PerProcess, Runtime, log};

use crate::interpreter::{callbacks, failures, foreign};

/// Sets the lowest level that Rust passes on for the logger `thalweg.<name>`.
///
/// The level is one of `logging`. An event below it costs one atomic comparison. Other events go
/// through a bounded queue to the callback thread, which calls
/// `thalweg._logging.emit(logger, level, message)`. `thalweg._logging` calls this when a client is
/// created and in `refresh()`.
#[pyfunction]
pub(crate) fn set_log_level(logger: &str, level: u32) -> PyResult<()> {
    let level = u8::try_from(level).unwrap_or(u8::MAX);
    match log::Logger::ALL
        .into_iter()
        .find(|known| known.name() == logger)
    {
        Some(known) => log::set_level(known, level),
        None => {
            return Err(PyValueError::new_err(format!(
                "there is no logger {logger:?}"
            )));
        }
    }
    pump()
}

/// At exit, a running callback may continue for this long.
const RUNNING_CALLBACK_MAX: Duration = Duration::from_secs(3);

/// Prevents other threads from starting application code within our calls.
///
/// It is called first at exit. From now on, calls that would run a deserializer, serializer,
/// listener or interceptor raise `IllegalStateError`. Functions that supply tokens or passwords can
/// still be called until `stop_threads`.
#[pyfunction]
pub(crate) fn begin_exit() {
    foreign::end();
}

/// Stops the runtime's threads, and returns the number of callbacks that did not run in time.
///
/// It is called last at exit.
///
/// Args:
///     timeout: Seconds for the callbacks that are due. A callback that already runs gets 3
///         seconds.
#[pyfunction]
#[pyo3(signature = (timeout = 1.0))]
pub(crate) fn stop_threads(py: Python<'_>, timeout: f64) -> usize {
    let timeout =
        crate::convert::options::duration_ms(timeout * 1_000.0).max(Duration::from_millis(1));
    let (callbacks, responses) = (callbacks::current(), callbacks::responses());
    py.detach(|| {
        foreign::wait(RUNNING_CALLBACK_MAX);
        callbacks.stop(RUNNING_CALLBACK_MAX);
        responses.stop(RUNNING_CALLBACK_MAX);
    });
    let until = Instant::now() + timeout;
    responses.run_left(py, until);
    let left = callbacks.run_left(py, until);
    py.detach(|| {
        if let Some(runtime) = Runtime::existing() {
            runtime.shutdown(timeout);
        }
    });
    left
}

/// Waits until all callbacks that are due have run, at most `timeout` seconds.
///
/// Inside a callback it does nothing.
#[pyfunction]
#[pyo3(signature = (timeout))]
pub(crate) fn wait_for_callbacks(py: Python<'_>, timeout: f64) -> PyResult<()> {
    let deadline =
        Instant::now().checked_add(crate::convert::options::duration_ms(timeout * 1_000.0));
    callbacks::current().wait_until_run(py, deadline)
}

/// Calls a function in the callback thread, after all callbacks that are due now.
///
/// It calls the function at once if no callback is due, or inside a callback.
#[pyfunction]
#[pyo3(signature = (f))]
pub(crate) fn call_after_callbacks(py: Python<'_>, f: Py<PyAny>) {
    let work = Box::new(move |py: Python<'_>| {
        if let Err(error) = f.call0(py) {
            failures::report(py, "a function after callbacks", error);
        }
    });
    callbacks::current().after_all(py, work);
}

/// Makes the callback thread empty the log's queue whenever it has events.
fn pump() -> PyResult<()> {
    static PENDING: PerProcess<AtomicBool> = PerProcess::new();

    struct Awake;
    impl Wake for Awake {
        fn wake(self: Arc<Self>) {
            schedule();
        }
    }

    fn schedule() {
        let pending = PENDING.get_or_make(AtomicBool::default);
        if !pending.swap(true, Ordering::AcqRel) {
            callbacks::current().run(Box::new(|py| {
                pending.store(false, Ordering::Release);
                empty(py);
            }));
        }
    }

    fn empty(py: Python<'_>) {
        let waker = Waker::from(Arc::new(Awake));
        loop {
            let events = log::drain(Some(&waker));
            if events.is_empty() {
                return;
            }
            for event in events {
                failures::caught(py, || {
                    if let Err(error) = emit(py, &event) {
                        error.write_unraisable(py, None);
                    }
                });
            }
        }
    }

    callbacks::current().start()?;
    schedule();
    Ok(())
}

fn emit(py: Python<'_>, event: &log::Event) -> PyResult<()> {
    let logging = py.import("thalweg._logging")?;
    logging.call_method1(
        "emit",
        (event.logger.name(), event.level as u8, &event.message),
    )?;
    Ok(())
}
