//! The Arrow C data interface: exports record batches as C structs, and imports a C stream.
//!
//! The binding puts the structs into capsules (`arrow_schema`, `arrow_array`, `arrow_array_stream`)
//! and takes them out. When the consumer of a struct releases it, the buffers return to their pool.
//! Imported data is checked before and after Arrow's importer reads it (`ffi_checks`).
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchIterator, StructArray};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Schema, SchemaRef};

use crate::error::ColumnsError;
use crate::ffi_checks::{check_array, check_schema};

/// A record batch as the pair that `__arrow_c_array__` returns.
#[derive(Debug)]
pub struct ArrayExport {
    pub schema: FFI_ArrowSchema,
    pub array: FFI_ArrowArray,
}

/// Exports a schema for `__arrow_c_schema__`.
pub fn export_schema(schema: &Schema) -> Result<FFI_ArrowSchema, ColumnsError> {
    Ok(FFI_ArrowSchema::try_from(schema)?)
}

/// Exports a batch for `__arrow_c_array__` as a struct array, which the interface requires. Shares
/// the buffers.
pub fn export_array(batch: &RecordBatch) -> Result<ArrayExport, ColumnsError> {
    let schema = export_schema(&batch.schema())?;
    let array = FFI_ArrowArray::new(&StructArray::from(batch.clone()).to_data());
    Ok(ArrayExport { schema, array })
}

/// Exports batches for `__arrow_c_stream__`. May be called any number of times for the same
/// batches.
pub fn export_stream(schema: SchemaRef, batches: Vec<RecordBatch>) -> FFI_ArrowArrayStream {
    let reader = RecordBatchIterator::new(batches.into_iter().map(Ok), schema);
    FFI_ArrowArrayStream::new(Box::new(reader))
}

/// Imports the array of an `arrow_array` capsule. The schema is only read.
///
/// # Safety
///
/// Both pointers must be null or point to the C interface's structs. Nothing else may use these at
/// the same time, and the memory they point to must be as large as they say. The array is moved
/// out, and the struct is marked as released.
pub unsafe fn import_array(
    schema: *const FFI_ArrowSchema,
    array: *mut FFI_ArrowArray,
) -> Result<RecordBatch, ColumnsError> {
    // SAFETY: the caller guarantees it.
    let schema = unsafe { schema.as_ref() }.ok_or(ColumnsError::Released { what: "schema" })?;
    let data_type = table_type(schema)?;
    if array.is_null() {
        return Err(ColumnsError::Released { what: "array" });
    }
    // SAFETY: the caller guarantees it.
    unsafe { batch_of(FFI_ArrowArray::from_raw(array), &data_type) }
}

/// Imports an array.
///
/// # Safety
///
/// The memory that the array points to must be as large as it says.
unsafe fn batch_of(
    array: FFI_ArrowArray,
    data_type: &DataType,
) -> Result<RecordBatch, ColumnsError> {
    check_array(data_type, &array)?;
    // SAFETY: the array has the shape of its type, and the caller guarantees its buffers.
    let data = unsafe { from_ffi_and_data_type(array, data_type.clone()) }?;
    let data = without_stray_offsets(data);
    data.validate_full()?;
    let table = StructArray::from(data);
    // A record batch cannot have rows that are null as a whole. Arrow would panic.
    match (0..table.len()).find(|&row| table.is_null(row)) {
        Some(row) => Err(ColumnsError::NullRow { row }),
        None => Ok(RecordBatch::from(table)),
    }
}

/// Replaces empty arrays, whose offsets may be wrong.
///
/// A text array without rows may still have a nonzero offset into data that it does not have,
/// because it is a slice of a longer array. No part of an array without rows is needed.
fn without_stray_offsets(data: ArrayData) -> ArrayData {
    if data.is_empty() {
        return ArrayData::new_empty(data.data_type());
    }
    let children = data.child_data().iter().cloned();
    let children = children.map(without_stray_offsets).collect();
    // SAFETY: the caller validates the result.
    unsafe { data.into_builder().child_data(children).build_unchecked() }
}

/// Returns the type of a table: a struct whose fields are the columns.
fn table_type(schema: &FFI_ArrowSchema) -> Result<DataType, ColumnsError> {
    let data_type = check_schema(schema)?;
    match data_type {
        DataType::Struct(_) => Ok(data_type),
        other => Err(ColumnsError::NoTable {
            found: other.to_string(),
        }),
    }
}

/// The batches of an imported stream, each checked when it is read.
#[derive(Debug)]
pub struct ImportedStream {
    stream: FFI_ArrowArrayStream,
    data_type: DataType,
    schema: SchemaRef,
    is_over: bool,
}

/// Imports the stream of an `arrow_array_stream` capsule.
///
/// # Safety
///
/// `stream` must be null or point to the C interface's struct. Nothing else may use it at the same
/// time, and the memory that its arrays point to must be as large as they say. The stream is moved
/// out, and the struct is marked as released.
pub unsafe fn import_stream(
    stream: *mut FFI_ArrowArrayStream,
) -> Result<ImportedStream, ColumnsError> {
    let released = || ColumnsError::Released { what: "stream" };
    if stream.is_null() {
        return Err(released());
    }
    // SAFETY: the caller guarantees it.
    let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    stream.release().ok_or_else(released)?;
    let get_schema = stream.get_schema().ok_or_else(incomplete)?;
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the stream is not released, and the function belongs to it.
    let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
    if code != 0 {
        return Err(stream_error(&mut stream, code));
    }
    let data_type = table_type(&schema)?;
    let DataType::Struct(fields) = &data_type else {
        unreachable!("the type of a table is a struct");
    };
    let schema = Arc::new(Schema::new(fields.clone()));
    Ok(ImportedStream {
        stream,
        data_type,
        schema,
        is_over: false,
    })
}

impl ImportedStream {
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, ColumnsError> {
        let get_next = self.stream.get_next().ok_or_else(incomplete)?;
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream is not released, and the function belongs to it.
        let code = unsafe { get_next(&raw mut self.stream, &raw mut array) };
        if code != 0 {
            return Err(stream_error(&mut self.stream, code));
        }
        if array.is_released() {
            return Ok(None);
        }
        // SAFETY: the caller of `import_stream` guaranteed it.
        unsafe { batch_of(array, &self.data_type) }.map(Some)
    }
}

impl Iterator for ImportedStream {
    type Item = Result<RecordBatch, ColumnsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let read = self.read();
        self.is_over = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

fn incomplete() -> ColumnsError {
    ColumnsError::Malformed {
        reason: "a stream has no pointer to one of its functions".to_owned(),
    }
}

/// Returns the error of a stream, in the words of its producer.
fn stream_error(stream: &mut FFI_ArrowArrayStream, code: i32) -> ColumnsError {
    let said = stream.get_last_error().and_then(|last_error| {
        // SAFETY: the stream is not released, its last call failed, and the function belongs to it.
        let text = unsafe { last_error(std::ptr::from_mut(stream)) };
        // SAFETY: by the C interface it is null, or text that lives until the stream's next call.
        (!text.is_null()).then(|| {
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        })
    });
    ColumnsError::Stream {
        reason: said.unwrap_or_else(|| format!("error {code}")),
    }
}
