//! Panics and exceptions of work that has no caller, such as a callback.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;

/// Runs one item, and drops what it holds. A panic in it is a bug of this library, and affects
/// only that item.
pub(crate) fn caught<T>(py: Python<'_>, run: impl FnOnce() -> T) -> Option<T> {
    let panic = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => return Some(value),
        Err(panic) => panic,
    };
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    let words = owned.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = format!(
        "a bug of thalweg, please report it: {}",
        words.unwrap_or("panic")
    );
    // Reporting may panic too, and then nothing can be reported.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        report(
            py,
            "native code of a callback",
            PyRuntimeError::new_err(text),
        );
    }));
    None
}

/// Logs the exception of a callback with `thalweg._logging`. It affects only its own record.
/// Ctrl-C in a callback is passed on to the main thread.
pub(crate) fn report(py: Python<'_>, what: &str, error: PyErr) {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        // SAFETY: this thread is attached to the interpreter, which is the only requirement of the
        // call.
        unsafe { pyo3::ffi::PyErr_SetInterrupt() };
        return;
    }
    // The exception as a value has its traceback.
    let raised = error.clone_ref(py).into_value(py);
    let logged = py
        .import("thalweg._logging")
        .and_then(|module| module.call_method1("callback_failed", (what, raised)));
    if logged.is_err() {
        error.write_unraisable(py, None);
    }
}
