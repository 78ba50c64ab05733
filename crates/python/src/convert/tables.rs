//! `RecordTable`: columns of consumed records, which can be exported several times.

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use thalweg_columns::{export_array, export_schema, export_stream};

use crate::convert::capsules;

/// Consumed records as Arrow columns. It is immutable.
///
/// You can export it several times without a copy. The columns, even of an empty table: topic
/// string, partition int32, offset int64, timestamp timestamp[ms, UTC], `timestamp_type` int32,
/// `leader_epoch` int32, key binary, value binary, headers
/// `list<struct<key: string, value: binary>>`. key, value and headers may be null.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct RecordTable(RecordBatch);

impl RecordTable {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self(batch)
    }
}

#[pymethods]
impl RecordTable {
    /// The number of records.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The size of the columns in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0
            .columns()
            .iter()
            .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
            .sum()
    }

    /// The names of the columns, in their order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0
            .schema()
            .fields()
            .iter()
            .map(|field| field.name().clone())
            .collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema =
            export_schema(&self.0.schema()).map_err(|error| capsules::columns_error(&error))?;
        capsules::schema(py, schema)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore the requested schema. Consumers cast what they
        // get.
        drop(requested_schema);
        capsules::stream(py, export_stream(self.0.schema(), vec![self.0.clone()]))
    }
}

/// One record batch with the schema of the Spark connector.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct ArrowBatch(RecordBatch);

impl ArrowBatch {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self(batch)
    }
}

#[pymethods]
impl ArrowBatch {
    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema =
            export_schema(&self.0.schema()).map_err(|error| capsules::columns_error(&error))?;
        capsules::schema(py, schema)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let export = export_array(&self.0).map_err(|error| capsules::columns_error(&error))?;
        Ok((
            capsules::schema(py, export.schema)?,
            capsules::array(py, export.array)?,
        ))
    }
}
