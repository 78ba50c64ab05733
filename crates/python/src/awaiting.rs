//! What `await` takes from our awaitables: a step, without an exception for each result.
//!
//! An iterator ends an `await` by raising `StopIteration` with the result, which costs as much as an
//! append. By the slot `am_send` the interpreter takes the result as it is. `PyO3` has no method by
//! the slot's name, so it is set once the classes are there; `__next__` and `send` say the same to
//! who calls them by name.

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

/// A class whose objects are awaited, and are their own iterators.
pub(crate) trait Awaitable: PyClass {
    /// Goes on as far as it can.
    fn step(slf: &Bound<'_, Self>) -> PyResult<Step>;
}

/// To be called once, before there are objects of the class.
pub(crate) fn take_steps<T: Awaitable>(py: Python<'_>) {
    let class = py.get_type::<T>().as_type_ptr();
    // SAFETY: the class is alive, and one on the heap, as all of `PyO3`'s are: its table of methods
    // lies within it. Nobody else has seen it yet.
    unsafe {
        if let Some(methods) = (*class).tp_as_async.as_mut() {
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
    Python::attach(|py| {
        let step = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the interpreter calls the slot with an object of a class that has it, which
            // it holds during the call. None of them can be extended.
            let slf = unsafe { Bound::from_borrowed_ptr(py, slf).cast_into_unchecked::<T>() };
            T::step(&slf)
        }));
        let (outcome, object) = match step {
            Ok(Ok(Step::Return(object))) => (ffi::PySendResult::PYGEN_RETURN, object.into_ptr()),
            Ok(Ok(Step::Yield(object))) => (ffi::PySendResult::PYGEN_NEXT, object.into_ptr()),
            Ok(Err(error)) => {
                error.restore(py);
                (ffi::PySendResult::PYGEN_ERROR, std::ptr::null_mut())
            }
            Err(panic) => {
                PanicException::new_err((told(&*panic),)).restore(py);
                (ffi::PySendResult::PYGEN_ERROR, std::ptr::null_mut())
            }
        };
        // SAFETY: it is the caller's place for the result.
        unsafe { *result = object };
        outcome
    })
}

fn told(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic from Rust code".to_owned())
}
