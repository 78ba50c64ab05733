//! What `await` takes from our awaitables: a step.
//!
//! ```text
//! await, CPython 3.11 ───────┐
//! a Task of our awaitable ───┴─▶ am_send ──▶ Awaitable::step ──▶ Step::Return: the result as it is
//! await, CPython 3.12 and on,
//! or traced; by hand ──────────▶ __next__ ─────┘            └──▶ StopIteration(result)
//! ```
//! An exception for each result costs a good part of what a send does, so the slot `am_send` is there
//! too, for which `PyO3` has no method. Not here: what a step does, which is each class's own.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::PyClass;
use pyo3::exceptions::PyStopIteration;
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;

/// What a step of a coroutine comes to.
pub(crate) enum Step {
    Yield(Py<PyAny>),
    Return(Py<PyAny>),
}

impl Step {
    /// As an iterator says it.
    pub(crate) fn iterated(self) -> PyResult<Py<PyAny>> {
        match self {
            Self::Yield(waited_for) => Ok(waited_for),
            // In a tuple, as the result may be one itself.
            Self::Return(result) => Err(PyStopIteration::new_err((result,))),
        }
    }
}

/// A class whose objects are awaited, and are their own iterators. None of them can be extended.
pub(crate) trait Awaitable: PyClass {
    /// Goes on as far as it can; no error of it is a `StopIteration`.
    fn step(slf: &Bound<'_, Self>) -> PyResult<Step>;
}

/// Gives the class its slot, if an earlier import of the module has not.
pub(crate) fn set_send_slot<T: Awaitable>(py: Python<'_>) {
    let class = py.get_type::<T>().as_type_ptr();
    // SAFETY: the class is alive, and one on the heap, as all of `PyO3`'s are: its table of methods
    // lies within it. Who reads the slot meanwhile finds it empty, and takes `__next__`.
    unsafe {
        let methods = (*class).tp_as_async.as_mut();
        let methods = methods.expect("a class on the heap has a table of methods");
        if methods.am_send.is_none() {
            methods.am_send = Some(send::<T>);
            ffi::PyType_Modified(class);
        }
    }
}

/// What is sent into it is for coroutines that ask for something; ours do not.
unsafe extern "C" fn send<T: Awaitable>(
    slf: *mut ffi::PyObject,
    _value: *mut ffi::PyObject,
    result: *mut *mut ffi::PyObject,
) -> ffi::PySendResult {
    let run = |py: Python<'_>| {
        let step = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the interpreter calls the slot with an object of the class that has it, which
            // it holds during the call.
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
    // SAFETY: who calls a slot is attached to the interpreter; `result` is its place for the result.
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
