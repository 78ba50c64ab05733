//! What `await` gets from our awaitables: a step.
//!
//! ```text
//! await, CPython 3.11 ───────┐
//! a Task of our awaitable ───┴─▶ am_send ──▶ Awaitable::step ──▶ Step::Return: the result as it is
//! await, CPython 3.12 and on,
//! or traced; by hand ──────────▶ __next__ ─────┘            └──▶ StopIteration(result)
//! ```
//! An exception for each result would cost a large part of a send. So our classes also fill the
//! slot `am_send`, for which `PyO3` has no method. Each class implements its own step.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::PyClass;
use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;

/// The result of a coroutine's step.
pub(crate) enum Step {
    Yield(Py<PyAny>),
    Return(Py<PyAny>),
}

impl Step {
    /// Converts the step to the result of `__next__`.
    pub(crate) fn iterated(self) -> PyResult<Py<PyAny>> {
        match self {
            Self::Yield(waited_for) => Ok(waited_for),
            // The result is in a tuple, because it may itself be a tuple.
            Self::Return(result) => Err(PyStopIteration::new_err((result,))),
        }
    }
}

/// A class whose objects can be awaited, and are their own iterators. It cannot be subclassed.
pub(crate) trait Awaitable: PyClass {
    /// Continues as far as possible. Its error is never a `StopIteration`.
    fn step(slf: &Bound<'_, Self>) -> PyResult<Step>;
}

/// Fills the slot of the class, unless an earlier import of the module has done it.
pub(crate) fn set_send_slot<T: Awaitable>(py: Python<'_>) {
    let class = py.get_type::<T>().as_type_ptr();
    // SAFETY: the class is alive and on the heap, as all classes of `PyO3`, so its method table is
    // part of it. A thread that reads the slot before that finds it empty, and uses `__next__`.
    unsafe {
        let methods = (*class).tp_as_async.as_mut();
        let methods = methods.expect("a class on the heap has a table of methods");
        if methods.am_send.is_none() {
            methods.am_send = Some(send::<T>);
            ffi::PyType_Modified(class);
        }
    }
}

/// Implements the slot. The value that is sent in is ignored: our coroutines never ask for one.
unsafe extern "C" fn send<T: Awaitable>(
    slf: *mut ffi::PyObject,
    _value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    let run = |py: Python<'_>| {
        let step = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the interpreter calls the slot with an object of the class that has it, and
            // holds the object during the call.
            let slf = unsafe { Bound::from_borrowed_ptr(py, slf).cast_into_unchecked::<T>() };
            T::step(&slf)
        }));
        let step = step.unwrap_or_else(|panic| Err(PanicException::new_err((text_of(&*panic),))));
        match step {
            Ok(Step::Return(object)) => (ffi::PySendResult::PYGEN_RETURN, object.into_ptr()),
            Ok(Step::Yield(object)) => (ffi::PySendResult::PYGEN_NEXT, object.into_ptr()),
            Err(error) => {
                error.restore(py);
                (ffi::PySendResult::PYGEN_ERROR, std::ptr::null_mut())
            }
        }
    };
    // SAFETY: the caller of a slot is attached to the interpreter, and `result` points to the
    // place for the result.
    unsafe {
        let (outcome, object) = Python::attach_unchecked(run);
        *result = object;
        outcome
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic from Rust code".to_owned())
}
