//! Converts between records and Arrow columns.
//!
//! ```text
//! Consumer::drain --> ArrowSink --take()--> RecordBatch --ffi--> PyCapsule --> pyarrow, polars, Spark
//! any __arrow_c_stream__ --ffi--> ArrowSource --> producer (whole columns, no Python per row)
//! ```
//! ```text
//! layout.rs        the columns of a table, and their types
//! arrow_sink.rs    fills a table with records. column_builders.rs: one column. slab.rs: its memory
//! arrow_source.rs  records to send. byte_column.rs: reads one column of bytes or text
//! ffi.rs           Arrow's C structs. ffi_checks.rs: refuses wrong ones
//! ```
//! The memory of columns comes from a [`SlabPool`], and returns to it when Arrow releases the
//! buffer.
//!
//! This crate does not know the schemas of the values (for it they are bytes), nor Python: the
//! binding wraps the C structs in capsules. Only `ffi` and `ffi_checks` contain unsafe code.
#![deny(unsafe_code)]

mod arrow_sink;
mod arrow_source;
mod byte_column;
mod column_builders;
mod error;
mod ffi;
mod ffi_checks;
mod layout;
mod slab;

pub use arrow_sink::{ArrowSink, TABLE_BYTES_MAX, TABLE_ROWS_MAX, TableLimits};
pub use arrow_source::ArrowSource;
pub use error::ColumnsError;
pub use ffi::{
    ArrayExport, ImportedStream, export_array, export_schema, export_stream, import_array,
    import_stream,
};
pub use layout::{Column, Layout};
pub use slab::SlabPool;
