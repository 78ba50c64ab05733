//! Arrow's C structs in `PyCapsules`, with the names of the Arrow `PyCapsule` interface.

use std::ffi::CStr;

use arrow_array::RecordBatch;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::SchemaRef;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use thalweg_columns::{ColumnsError, ImportedStream};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// Converts the errors of the columns to Python's own errors.
pub(crate) fn columns_error(error: &ColumnsError) -> PyErr {
    match error {
        ColumnsError::NoTable { .. } | ColumnsError::UnreadableType { .. } => {
            PyTypeError::new_err(error.to_string())
        }
        _ => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn schema(py: Python<'_>, schema: FFI_ArrowSchema) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

pub(crate) fn array(py: Python<'_>, array: FFI_ArrowArray) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, array, ARRAY)
}

pub(crate) fn stream(
    py: Python<'_>,
    stream: FFI_ArrowArrayStream,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, stream, STREAM)
}

/// Returns schema and record batches of an object with `__arrow_c_stream__` or
/// `__arrow_c_array__`.
pub(crate) fn batches(data: &Bound<'_, PyAny>) -> PyResult<(SchemaRef, Vec<RecordBatch>)> {
    if let Some(method) = data.getattr_opt("__arrow_c_stream__")? {
        let capsule = method.call0()?.cast_into::<PyCapsule>()?;
        let pointer = capsule
            .pointer_checked(Some(STREAM))?
            .cast::<FFI_ArrowArrayStream>();
        // SAFETY: the capsule's name says what it holds, and it was created only for this call.
        let reader = unsafe { thalweg_columns::import_stream(pointer.as_ptr()) }
            .map_err(|error| columns_error(&error))?;
        let schema = reader.schema();
        return Ok((schema, batches_of(data.py(), reader)?));
    }
    if let Some(method) = data.getattr_opt("__arrow_c_array__")? {
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
            method.call0()?.extract()?;
        let schema = schema
            .pointer_checked(Some(SCHEMA))?
            .cast::<FFI_ArrowSchema>();
        let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
        // SAFETY: as above. The schema's capsule outlives this call.
        let batch = unsafe { thalweg_columns::import_array(schema.as_ptr(), array.as_ptr()) };
        let batch = batch.map_err(|error| columns_error(&error))?;
        return Ok((batch.schema(), vec![batch]));
    }
    Err(PyTypeError::new_err(format!(
        "expected an Arrow table or batch (an object with __arrow_c_stream__), got {}",
        data.get_type().name()?
    )))
}

/// Reads a stream to its end, or until a signal's handler raises (Ctrl-C).
///
/// Reading may call back into Python (a stream of a generator), which attaches automatically.
fn batches_of(py: Python<'_>, mut reader: ImportedStream) -> PyResult<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    let read = loop {
        let next = py.detach(|| reader.next());
        // Before the result: what the handler raises matters more than an error of the stream.
        if let Err(raised) = py.check_signals() {
            break Err(raised);
        }
        match next {
            Some(Ok(batch)) => batches.push(batch),
            Some(Err(error)) => break Err(columns_error(&error)),
            None => break Ok(batches),
        }
    };
    // Its end may wait for threads that need the GIL.
    py.detach(|| drop(reader));
    read
}
