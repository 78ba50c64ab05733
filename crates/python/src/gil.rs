//! The one door out of the GIL: waiting, with signals looked for.

use std::task::Waker;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use thalweg_network::ClientError;
use thalweg_network::wait::{Blocked, block_until};

use crate::config::duration_ms;
use crate::errors;

/// Whether a signal's handler raised, and what; asked in the middle of a wait.
fn signalled(raised: &mut Option<PyErr>) -> bool {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(error) => {
            *raised = Some(error);
            true
        }
    })
}

/// Waits without the GIL until `poll` gives something; `None` when the deadline is over. A signal
/// whose handler raises (Ctrl-C) ends the wait with what it raised.
///
/// `poll` must hand the waker to whatever will change before it looks.
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

/// Runs a wait for a lock of ours; without the GIL, if this thread has it.
pub(crate) fn wait_for_lock(wait: &mut (dyn FnMut() + Send)) {
    // SAFETY: the call asks for nothing: it says whether this thread is attached.
    if unsafe { pyo3::ffi::PyGILState_Check() } == 0 {
        return wait();
    }
    Python::attach(|py| py.detach(wait));
}

/// Sleeps without the GIL until this thread's parker is woken, the deadline is over, or a signal's
/// handler raises. Whoever is to wake it has the waker already.
pub(crate) fn park(py: Python<'_>, deadline: Option<Instant>) -> PyResult<()> {
    let mut slept = false;
    wait(py, deadline, |_| {
        std::mem::replace(&mut slept, true).then_some(())
    })?;
    Ok(())
}

/// Runs a call of the network crate without the GIL; it asks the closure it is given whether a
/// signal wants it to stop.
pub(crate) fn client_call<T: Send>(
    py: Python<'_>,
    call: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, ClientError> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = py.detach(|| call(&mut || signalled(&mut raised)));
    match result {
        Ok(value) => Ok(value),
        Err(ClientError::Interrupted) => Err(raised.unwrap_or_else(|| errors::interrupted(py))),
        Err(error) => Err(errors::client(py, &error)),
    }
}

/// When a timeout in seconds is over; `None` never.
pub(crate) fn deadline_seconds(timeout: Option<f64>) -> Option<Instant> {
    let seconds = timeout.filter(|seconds| seconds.is_finite())?;
    Some(Instant::now() + duration_ms(seconds * 1_000.0))
}

/// When a timeout in milliseconds is over; `None` never.
pub(crate) fn deadline_ms(timeout_ms: Option<f64>) -> Option<Instant> {
    let ms = timeout_ms.filter(|ms| ms.is_finite())?;
    Some(Instant::now() + duration_ms(ms))
}

/// What is left until a deadline.
pub(crate) fn left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|at| at.saturating_duration_since(Instant::now()))
}
