//! Creates objects that the interpreter's cycle collector does not see.
//!
//! `PyO3` makes the collector track every object, including those of classes without
//! `__traverse__`, through which it can find no cycle. Each collection would visit them for
//! nothing. A program may hold hundreds of thousands of records and futures, and a `poll` that
//! creates hundreds at a time starts collections itself.

use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;

/// A class without `__traverse__`. Without tracking, no cycle is missed that would be found with
/// it.
pub(crate) trait NotTraversed: PyClass {}

/// Creates an object of such a class.
#[inline]
pub(crate) fn untracked<T: NotTraversed>(
    py: Python<'_>,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'_, T>> {
    let made = Bound::new(py, value)?;
    // SAFETY: it is a live object of a class that takes part in collection, as all of `PyO3`'s do,
    // and nothing else has it yet. Its deallocation untracks it again, which does nothing then.
    unsafe { ffi::PyObject_GC_UnTrack(made.as_ptr().cast()) };
    Ok(made)
}
