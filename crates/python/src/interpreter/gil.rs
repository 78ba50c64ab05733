//! The only module that releases the GIL to wait. The waits check for signals.

use std::task::Waker;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thalweg_network::wait::{Blocked, ThreadWait, block_until};

use crate::convert::errors;
use crate::convert::options::duration_ms;

/// Whether a signal's handler raised, and what it raised. Called during a wait.
pub(crate) fn signalled(raised: &mut Option<PyErr>) -> bool {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(error) => {
            *raised = Some(error);
            true
        }
    })
}

/// Waits without the GIL until `poll` returns something, or returns `None` after the deadline. A
/// signal whose handler raises (Ctrl-C) ends the wait with that exception.
///
/// `poll` must register the waker before it checks.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    deadline: Option<Instant>,
    poll: impl FnMut(&Waker) -> Option<T> + Send,
) -> PyResult<Option<T>> {
    let mut raised = None;
    let mut interrupted = || signalled(&mut raised);
    match py.detach(|| block_until(deadline, &mut interrupted, poll)) {
        Ok(found) => Ok(Some(found)),
        Err(Blocked::TimedOut) => Ok(None),
        Err(Blocked::Interrupted) => Err(raised.unwrap_or_else(|| errors::interrupted(py))),
    }
}

/// Runs a wait for one of our locks, without the GIL if this thread has it.
pub(crate) fn wait_for_lock(wait: &mut (dyn FnMut() + Send)) {
    // SAFETY: the call has no requirements. It says whether this thread is attached.
    if unsafe { pyo3::ffi::PyGILState_Check() } == 0 {
        return wait();
    }
    Python::attach(|py| py.detach(wait));
}

/// Sleeps once without the GIL: until the waker of `waiting` is used, the deadline is over, or for
/// a shorter time. Returns the exception that a signal's handler raised. The waker must be
/// registered already.
pub(crate) fn sleep(
    py: Python<'_>,
    waiting: &mut ThreadWait,
    deadline: Option<Instant>,
) -> PyResult<()> {
    let mut raised = None;
    let mut interrupted = || signalled(&mut raised);
    if py.detach(|| waiting.sleep(deadline, &mut interrupted)) {
        return Err(raised.unwrap_or_else(|| errors::interrupted(py)));
    }
    Ok(())
}

/// Returns the timeout in seconds that a call was given as a duration. `None`: no limit.
///
/// Raises `ValueError` if it is NaN, which would mean no limit.
pub(crate) fn given_seconds(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    if timeout.is_some_and(f64::is_nan) {
        let text = "timeout must be a number of seconds, 0 or more, got nan";
        return Err(PyValueError::new_err(text));
    }
    Ok(limit_seconds(timeout))
}

/// Returns a timeout in seconds as a duration. `None`: no limit.
pub(crate) fn limit_seconds(timeout: Option<f64>) -> Option<Duration> {
    limit_ms(timeout.map(|seconds| seconds * 1_000.0))
}

/// Returns a timeout in milliseconds as a duration. `None`: no limit.
pub(crate) fn limit_ms(timeout_ms: Option<f64>) -> Option<Duration> {
    timeout_ms.filter(|ms| ms.is_finite()).map(duration_ms)
}

/// Returns when a timeout in milliseconds is over. `None`: never.
pub(crate) fn deadline_ms(timeout_ms: Option<f64>) -> Option<Instant> {
    limit_ms(timeout_ms).map(|limit| Instant::now() + limit)
}

/// Returns the time left until a deadline.
pub(crate) fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|at| at.saturating_duration_since(Instant::now()))
}
