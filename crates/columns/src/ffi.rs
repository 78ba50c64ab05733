//! The Arrow C data interface: C structs out of record batches, record batches out of a C stream.
//!
//! The binding puts the structs into capsules (`arrow_schema`, `arrow_array`,
//! `arrow_array_stream`) and takes them out; whoever releases a struct gives our buffers back to
//! their pool. This is the only file of the crate that may use unsafe code.
#![allow(unsafe_code)]

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::{DataType, Schema, SchemaRef};

use crate::error::ColumnsError;

/// A record batch as the pair that `__arrow_c_array__` returns.
#[derive(Debug)]
pub struct ArrayExport {
    pub schema: FFI_ArrowSchema,
    pub array: FFI_ArrowArray,
}

/// For `__arrow_c_schema__`.
pub fn export_schema(schema: &Schema) -> Result<FFI_ArrowSchema, ColumnsError> {
    Ok(FFI_ArrowSchema::try_from(schema)?)
}

/// For `__arrow_c_array__`: a struct array, as the interface wants it. Shares the buffers.
pub fn export_array(batch: &RecordBatch) -> Result<ArrayExport, ColumnsError> {
    let schema = export_schema(&batch.schema())?;
    let array = FFI_ArrowArray::new(&StructArray::from(batch.clone()).to_data());
    Ok(ArrayExport { schema, array })
}

/// For `__arrow_c_stream__`: may be called any number of times for the same batches.
pub fn export_stream(schema: SchemaRef, batches: Vec<RecordBatch>) -> FFI_ArrowArrayStream {
    let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    FFI_ArrowArrayStream::new(Box::new(reader))
}

/// Takes over the array behind an `arrow_array` capsule; the schema is only read.
///
/// # Safety
///
/// `array` must point to a valid, unreleased `ArrowArray` of that schema which nobody else uses at
/// the same time. It is moved out: the struct left behind is marked as released.
pub unsafe fn import_array(
    schema: &FFI_ArrowSchema,
    array: *mut FFI_ArrowArray,
) -> Result<RecordBatch, ColumnsError> {
    // SAFETY: the caller's promise is what both calls ask for.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array), schema) }?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(ColumnsError::NoTable {
            found: data.data_type().to_string(),
        });
    }
    let table = StructArray::from(data);
    // A record batch has no rows that are null as a whole; arrow would panic.
    match (0..table.len()).find(|&row| table.is_null(row)) {
        Some(row) => Err(ColumnsError::NullRow { row }),
        None => Ok(RecordBatch::from(table)),
    }
}

/// Takes over the stream behind an `arrow_array_stream` capsule.
///
/// # Safety
///
/// `stream` must point to a valid, unreleased `ArrowArrayStream` that nobody else uses at the
/// same time. It is moved out: the struct left behind is marked as released.
pub unsafe fn import_stream(
    stream: *mut FFI_ArrowArrayStream,
) -> Result<RecordBatchStreamReader, ColumnsError> {
    // SAFETY: the caller's promise is exactly what `from_raw` asks for.
    Ok(unsafe { RecordBatchStreamReader::from_raw(stream) }?)
}
