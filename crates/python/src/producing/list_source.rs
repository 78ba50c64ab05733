//! The lists of a `send_many` as rows of slices. The slices outlive the call.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use thalweg_producer::{Record, RecordSource};
use thalweg_records::{HeaderRef, Headers};

use crate::producing::outgoing::{Data, HeaderList, header_refs};

/// The arguments of a `send_many`, each column as its own tuple, because the caller may change a
/// list.
pub(crate) struct Columns {
    pub(crate) values: Py<PyTuple>,
    pub(crate) keys: Option<Py<PyTuple>>,
    pub(crate) headers: Option<Py<PyTuple>>,
    pub(crate) partitions: Partitions,
    pub(crate) timestamps: Option<Vec<Option<i64>>>,
}

impl Columns {
    pub(crate) fn len(&self, py: Python<'_>) -> usize {
        self.values.bind(py).len()
    }
}

pub(crate) enum Partitions {
    Chosen,
    One(i32),
    Each(Vec<Option<i32>>),
}

impl Partitions {
    pub(crate) fn of(&self, row: usize) -> Option<i32> {
        match self {
            Self::Chosen => None,
            Self::One(partition) => Some(*partition),
            Self::Each(partitions) => partitions[row],
        }
    }
}

/// Rows of Python lists as slices into objects that `columns` and `held` keep alive.
pub(crate) struct ListSource {
    values: Vec<Data<'static>>,
    keys: Option<Vec<Data<'static>>>,
    headers: Option<Vec<Vec<HeaderRef<'static>>>>,
    now_ms: i64,
    columns: Columns,
    _headers_held: Vec<HeldHeaders>,
}

/// The headers of a row. The slices point into the names and values, or into copies of the values.
struct HeldHeaders {
    _data: Vec<(&'static str, Data<'static>)>,
    _list: HeaderList,
}

impl ListSource {
    /// Converts all columns. One wrong element refuses all rows, and its row is named: nothing is
    /// sent yet.
    pub(crate) fn new(py: Python<'_>, columns: Columns, now_ms: i64) -> PyResult<Self> {
        let values = data_of(columns.values.bind(py), "value")?;
        let keys = columns.keys.as_ref();
        let keys = keys.map(|keys| data_of(keys.bind(py), "key")).transpose()?;
        for (row, value) in values.iter().enumerate() {
            let has_key = keys
                .as_ref()
                .is_some_and(|keys| keys[row].as_slice().is_some());
            if value.as_slice().is_none() && !has_key {
                return Err(PyValueError::new_err(format!(
                    "row {row}: Need at least one: key or value"
                )));
            }
        }
        let mut headers_held = Vec::new();
        let headers = match &columns.headers {
            None => None,
            Some(rows) => Some(headers_of(rows.bind(py), &mut headers_held)?),
        };
        Ok(Self {
            values,
            keys,
            headers,
            now_ms,
            columns,
            _headers_held: headers_held,
        })
    }
}

/// Returns the column's elements as slices, which are valid while the tuple is kept.
fn data_of(column: &Bound<'_, PyTuple>, what: &str) -> PyResult<Vec<Data<'static>>> {
    let rows = column.iter_borrowed().enumerate();
    rows.map(|(row, object)| {
        let data =
            Data::new(Some(&object), what).map_err(|error| at_row(object.py(), row, error))?;
        // SAFETY: the slice is the memory of a `bytes`, which never changes or moves while the
        // object lives. The tuple is immutable and keeps the object.
        Ok(unsafe { std::mem::transmute::<Data<'_>, Data<'static>>(data) })
    })
    .collect()
}

/// Returns the error of a wrong type with its row.
pub(crate) fn at_row(py: Python<'_>, row: usize, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(format!("row {row}: {}", error.value(py)))
    } else {
        error
    }
}

fn headers_of(
    rows: &Bound<'_, PyTuple>,
    held: &mut Vec<HeldHeaders>,
) -> PyResult<Vec<Vec<HeaderRef<'static>>>> {
    let mut refs = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter_borrowed().enumerate() {
        let py = row.py();
        let list = if row.is_none() {
            HeaderList::empty()
        } else {
            HeaderList::new(&row).map_err(|error| at_row(py, index, error))?
        };
        let data = list.data(py).map_err(|error| at_row(py, index, error))?;
        // SAFETY: names and values point into a `str` and a `bytes`. The list keeps them, and is
        // stored next to the slices.
        let data: Vec<(&'static str, Data<'static>)> = unsafe { std::mem::transmute(data) };
        // SAFETY: the same, or into copies on the heap, which do not move with the vector.
        refs.push(unsafe {
            std::mem::transmute::<Vec<HeaderRef<'_>>, Vec<HeaderRef<'static>>>(header_refs(&data))
        });
        held.push(HeldHeaders {
            _data: data,
            _list: list,
        });
    }
    Ok(refs)
}

impl RecordSource for ListSource {
    fn rows(&self) -> usize {
        self.values.len()
    }

    fn record(&mut self, row: usize) -> Record<'_> {
        let times = self.columns.timestamps.as_ref();
        Record {
            partition: self.columns.partitions.of(row),
            timestamp_ms: times.and_then(|times| times[row]).unwrap_or(self.now_ms),
            key: self.keys.as_ref().and_then(|keys| keys[row].as_slice()),
            value: self.values[row].as_slice(),
            headers: self
                .headers
                .as_ref()
                .map_or(Headers::default(), |rows| Headers::List(&rows[row])),
        }
    }

    fn is_keyless(&self) -> bool {
        self.keys.is_none() && matches!(self.columns.partitions, Partitions::Chosen)
    }
}
