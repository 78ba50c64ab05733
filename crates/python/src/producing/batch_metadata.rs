//! `BatchMetadata`: where the rows of a `send_many` or `send_arrow` were written.
//!
//! A pickle has the partitions as a dict and the offsets as little-endian bytes, because the
//! process that reads it may run on another machine.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyType};
use thalweg_protocol::Str;

use crate::convert::types;

/// Count, first and last offset.
pub(crate) type Written = (usize, i64, i64);

/// The results of all rows.
pub(crate) struct Settled {
    /// The offset of each row, -1 if it is not known.
    pub(crate) offsets: Vec<i64>,
    pub(crate) count: usize,
    pub(crate) partitions: BTreeMap<(Str, i32), Written>,
}

/// Where the rows of a `send_many` or `send_arrow` were written. It can be pickled.
///
/// `len()` is the number of rows given to the call, written or not. The constructor's `offsets` is
/// a sequence of little-endian int64. It raises `ValueError` if its length is wrong.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct BatchMetadata {
    settled: Settled,
    view: PyOnceLock<Py<PyAny>>,
}

impl From<Settled> for BatchMetadata {
    fn from(settled: Settled) -> Self {
        Self {
            settled,
            view: PyOnceLock::new(),
        }
    }
}

#[pymethods]
impl BatchMetadata {
    /// Creates it again from the arguments that `__reduce__` returns.
    #[new]
    fn new(partitions: BTreeMap<(String, i32), Written>, offsets: &[u8]) -> PyResult<Self> {
        let (offsets, rest) = offsets.as_chunks();
        if !rest.is_empty() {
            return Err(PyValueError::new_err(
                "offsets must be bytes of whole int64 numbers",
            ));
        }
        let counts = partitions.values().map(|(count, ..)| *count);
        let settled = Settled {
            count: counts.fold(0, usize::saturating_add),
            offsets: offsets.iter().copied().map(i64::from_le_bytes).collect(),
            partitions: partitions
                .into_iter()
                .map(|((topic, partition), written)| ((Str::from(topic), partition), written))
                .collect(),
        };
        Ok(settled.into())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, this) = (slf.py(), slf.get());
        let offsets = this.settled.offsets.iter();
        let raw: Vec<u8> = offsets.flat_map(|offset| offset.to_le_bytes()).collect();
        let fields = (this.partitions(py)?, PyBytes::new(py, &raw));
        Ok((slf.get_type(), fields))
    }

    fn __repr__(&self) -> String {
        let Settled {
            count, partitions, ..
        } = &self.settled;
        let partitions = partitions.len();
        format!("BatchMetadata(count={count}, partitions={partitions})")
    }

    /// The number of rows that were written.
    #[getter]
    fn count(&self) -> usize {
        self.settled.count
    }

    /// `{TopicPartition: (count, first offset, last offset)}`.
    #[getter]
    fn partitions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for ((topic, partition), (count, first, last)) in &self.settled.partitions {
            let key = types::topic_partition(py, topic, *partition)?;
            dict.set_item(key, (count, first, last))?;
        }
        Ok(dict)
    }

    /// The offset of each row, as int64 (format 'q').
    ///
    /// -1: the row was not written, or the broker did not send its offset. Brokers send no offsets
    /// with acks=0, or for a duplicate whose offset they have forgotten.
    /// It is created on first access.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = self.view.get_or_try_init(py, || -> PyResult<_> {
            let raw: Vec<u8> = self
                .settled
                .offsets
                .iter()
                .flat_map(|offset| offset.to_ne_bytes())
                .collect();
            let bytes = PyBytes::new(py, &raw);
            let view = PyMemoryView::from(bytes.as_any())?;
            Ok(view.call_method1("cast", ("q",))?.unbind())
        })?;
        Ok(view.bind(py).clone())
    }

    fn __len__(&self) -> usize {
        self.settled.offsets.len()
    }
}

/// The class and the arguments to create it again.
type Reduced<'py> = (
    Bound<'py, PyType>,
    (Bound<'py, PyDict>, Bound<'py, PyBytes>),
);
