//! Objects that the interpreter's cycle collector does not see.
//!
//! `PyO3` has it track every object, also of classes without `__traverse__`, through which it finds
//! no cycle: each collection visits them for nothing. Of records and futures a program may hold
//! hundreds of thousands, and a `poll` that makes hundreds at a time sets off collections itself.

use pyo3::PyClass;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass_init::PyClassInitializer;

use crate::futures::FutureRecordMetadata;
use crate::record_future::RecordFuture;
use crate::records::ConsumerRecord;

/// A class without `__traverse__`: that it is not tracked loses no cycle that would be found else.
pub(crate) trait NotTraversed: PyClass {}

impl NotTraversed for ConsumerRecord {}
impl NotTraversed for FutureRecordMetadata {}
impl NotTraversed for RecordFuture {}

/// Makes an object of such a class.
#[inline]
pub(crate) fn untracked<T: NotTraversed>(
    py: Python<'_>,
    value: impl Into<PyClassInitializer<T>>,
) -> PyResult<Bound<'_, T>> {
    let made = Bound::new(py, value)?;
    // SAFETY: it is a live object of a class that takes part in collection, as all of `PyO3`'s do, and
    // nobody else has it yet. Its end takes it out once more, which does nothing then.
    unsafe { ffi::PyObject_GC_UnTrack(made.as_ptr().cast()) };
    Ok(made)
}
