//! `ConsumerRecord`: one consumed record, which behaves as kafka-python's namedtuple.
//!
//! `poll` creates records in Rust while it drains, so every expensive field is lazy: headers stay
//! the raw section of the batch until they are used. It is not a tuple, because a tuple of 13
//! boxed fields would cost ten allocations per record.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

use crate::interpreter::untracked::NotTraversed;

/// Field names, in kafka-python's order.
const FIELDS: [&str; 13] = [
    "topic",
    "partition",
    "leader_epoch",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "checksum",
    "serialized_key_size",
    "serialized_value_size",
    "serialized_header_size",
];

/// A record's headers: the raw section until the first access, then the list.
pub(crate) enum Headers {
    None,
    /// The count and the encoded section, copied once from the batch.
    Raw(Box<RawHeaders>),
    Made(Py<PyAny>),
}

pub(crate) struct RawHeaders {
    pub(crate) section: Box<[u8]>,
    pub(crate) parse: fn(Python<'_>, &[u8]) -> PyResult<Py<PyList>>,
    parsed: PyOnceLock<Py<PyList>>,
}

impl RawHeaders {
    pub(crate) fn new(
        section: Box<[u8]>,
        parse: fn(Python<'_>, &[u8]) -> PyResult<Py<PyList>>,
    ) -> Self {
        Self {
            section,
            parse,
            parsed: PyOnceLock::new(),
        }
    }
}

/// The fields that all records of one run (same partition, same batch) share.
pub(crate) struct RecordRun {
    pub(crate) topic: Py<PyString>,
    pub(crate) partition: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) timestamp_type: i8,
}

/// One consumed record. It behaves like kafka-python's namedtuple, but is not a tuple subclass.
///
/// It keeps the raw bytes of the headers and parses them on first access. All arguments are
/// required, by position or keyword. It compares, orders and hashes like the tuple of its fields,
/// including with plain tuples. You can pickle and copy it.
// tests/unit/consumer/test_records.py runs the same assertions on both.
#[pyclass(frozen, generic, module = "thalweg._core")]
pub(crate) struct ConsumerRecord {
    pub(crate) run: Arc<RecordRun>,
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Py<PyAny>,
    pub(crate) value: Py<PyAny>,
    pub(crate) headers: Headers,
    pub(crate) checksum: Option<Box<Py<PyAny>>>,
    pub(crate) key_size: i32,
    pub(crate) value_size: i32,
    pub(crate) header_size: i32,
}

impl NotTraversed for ConsumerRecord {}

fn optional_epoch(epoch: i32) -> Option<i32> {
    (epoch >= 0).then_some(epoch)
}

#[pymethods]
impl ConsumerRecord {
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        topic: Bound<'_, PyString>,
        partition: i32,
        leader_epoch: Option<i32>,
        offset: i64,
        timestamp: i64,
        timestamp_type: i8,
        key: Py<PyAny>,
        value: Py<PyAny>,
        headers: Py<PyAny>,
        checksum: Option<Py<PyAny>>,
        serialized_key_size: i32,
        serialized_value_size: i32,
        serialized_header_size: i32,
    ) -> Self {
        Self {
            run: Arc::new(RecordRun {
                topic: topic.unbind(),
                partition,
                leader_epoch: leader_epoch.unwrap_or(-1),
                timestamp_type,
            }),
            offset,
            timestamp,
            key,
            value,
            headers: Headers::Made(headers),
            checksum: checksum.map(Box::new),
            key_size: serialized_key_size,
            value_size: serialized_value_size,
            header_size: serialized_header_size,
        }
    }

    #[classattr]
    fn __match_args__(py: Python<'_>) -> PyResult<Py<PyTuple>> {
        Ok(PyTuple::new(py, FIELDS)?.unbind())
    }

    #[classattr]
    fn _fields(py: Python<'_>) -> PyResult<Py<PyTuple>> {
        Ok(PyTuple::new(py, FIELDS)?.unbind())
    }

    #[classattr]
    fn _field_defaults(py: Python<'_>) -> Py<PyDict> {
        PyDict::new(py).unbind()
    }

    /// The name of the topic.
    #[getter]
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.run.topic.clone_ref(py)
    }

    /// The number of the partition.
    #[getter]
    fn partition(&self) -> i32 {
        self.run.partition
    }

    /// The leader epoch of the record's batch, or None if the batch has none.
    #[getter]
    fn leader_epoch(&self) -> Option<i32> {
        optional_epoch(self.run.leader_epoch)
    }

    /// The offset of the record in its partition.
    #[getter]
    fn offset(&self) -> i64 {
        self.offset
    }

    /// The timestamp in Unix milliseconds.
    #[getter]
    fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The type of the timestamp: 0 is `CreateTime`, 1 is `LogAppendTime`.
    #[getter]
    fn timestamp_type(&self) -> i8 {
        self.run.timestamp_type
    }

    /// The key, as the deserializer returns it. Without a deserializer it is bytes or None.
    #[getter]
    fn key(&self, py: Python<'_>) -> Py<PyAny> {
        self.key.clone_ref(py)
    }

    /// The value, as the deserializer returns it. Without a deserializer it is bytes or None.
    #[getter]
    fn value(&self, py: Python<'_>) -> Py<PyAny> {
        self.value.clone_ref(py)
    }

    /// The headers, as a list of (str, bytes or None) in the order of the record.
    #[getter]
    fn headers(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.headers {
            Headers::None => Ok(PyList::empty(py).into_any().unbind()),
            Headers::Made(list) => Ok(list.clone_ref(py)),
            Headers::Raw(raw) => {
                let list = raw
                    .parsed
                    .get_or_try_init(py, || (raw.parse)(py, &raw.section))?;
                Ok(list.clone_ref(py).into_any())
            }
        }
    }

    /// Always None in a record that a consumer returns. kafka-python has this field.
    #[getter]
    fn checksum(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.checksum.as_ref().map(|value| value.clone_ref(py))
    }

    /// The size of the key in bytes, before it was deserialized, or -1 if there is no key.
    #[getter]
    fn serialized_key_size(&self) -> i32 {
        self.key_size
    }

    /// The size of the value in bytes, before it was deserialized, or -1 if there is no value.
    #[getter]
    fn serialized_value_size(&self) -> i32 {
        self.value_size
    }

    /// The total size of the headers' names and values in bytes, or -1 if there are no headers.
    #[getter]
    fn serialized_header_size(&self) -> i32 {
        self.header_size
    }

    /// Returns a dict of the field names and values, as a namedtuple does.
    #[pyo3(name = "_asdict")]
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in FIELDS.iter().zip(self.to_tuple(py)?.iter()) {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Returns a copy of the record with new values for these fields.
    ///
    /// Raises a `ValueError` that names an unknown field.
    #[pyo3(signature = (**kwargs))]
    fn _replace<'py>(
        slf: &Bound<'py, Self>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let values = slf.get().as_dict(slf.py())?;
        for (name, value) in kwargs
            .into_iter()
            .flat_map(pyo3::types::PyDictMethods::iter)
        {
            if !values.contains(&name)? {
                return Err(PyValueError::new_err(format!(
                    "Got unexpected field names: {}",
                    PyList::new(slf.py(), [name])?.repr()?
                )));
            }
            values.set_item(name, value)?;
        }
        slf.get_type().call((), Some(&values))
    }

    /// Creates a record from an iterable of all fields. Raises `TypeError` if their number is
    /// wrong.
    #[classmethod]
    fn _make<'py>(
        cls: &Bound<'py, PyType>,
        iterable: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let values: Vec<Bound<'py, PyAny>> = iterable.try_iter()?.collect::<PyResult<_>>()?;
        if values.len() != FIELDS.len() {
            return Err(PyTypeError::new_err(format!(
                "Expected {} arguments, got {}",
                FIELDS.len(),
                values.len()
            )));
        }
        cls.call1(PyTuple::new(cls.py(), values)?)
    }

    /// Returns how many fields have this value, as a tuple does.
    #[pyo3(signature = (value, /))]
    fn count(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.to_tuple(py)?
            .call_method1("count", (value,))?
            .extract()
    }

    /// Returns the index of the first field with this value. Raises `ValueError` if there is none.
    #[pyo3(signature = (value, start = 0, stop = isize::MAX, /))]
    fn index(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        start: isize,
        stop: isize,
    ) -> PyResult<usize> {
        self.to_tuple(py)?
            .call_method1("index", (value, start, stop))?
            .extract()
    }

    fn __len__(&self) -> usize {
        FIELDS.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.to_tuple(py)?.try_iter()?.into_any())
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.to_tuple(py)?.contains(value)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.to_tuple(py)?.as_any().get_item(index)
    }

    fn __add__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.to_tuple(py)?.add(other)
    }

    fn __richcmp__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let theirs = if let Ok(record) = other.cast::<Self>() {
            record.get().to_tuple(py)?
        } else if let Ok(tuple) = other.cast::<PyTuple>() {
            tuple.clone()
        } else {
            return Ok(py.NotImplemented().into_bound(py));
        };
        self.to_tuple(py)?.rich_compare(theirs, op)
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.to_tuple(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut parts = Vec::with_capacity(FIELDS.len());
        for (name, value) in FIELDS.iter().zip(self.to_tuple(py)?.iter()) {
            parts.push(format!("{name}={}", value.repr()?));
        }
        Ok(format!("ConsumerRecord({})", parts.join(", ")))
    }

    fn __getnewargs__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        self.to_tuple(py)
    }

    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (memo, /))]
    fn __deepcopy__<'py>(
        slf: &Bound<'py, Self>,
        memo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let tuple = slf.get().to_tuple(slf.py())?;
        let copied = slf
            .py()
            .import("copy")?
            .call_method1("deepcopy", (tuple, memo))?;
        slf.get_type().call1(copied.cast::<PyTuple>()?)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        Ok((slf.get_type(), slf.get().to_tuple(slf.py())?))
    }
}

impl ConsumerRecord {
    fn to_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (
            self.topic(py),
            self.run.partition,
            self.leader_epoch(),
            self.offset,
            self.timestamp,
            self.run.timestamp_type,
            self.key(py),
            self.value(py),
            self.headers(py)?,
            (
                self.checksum(py),
                self.key_size,
                self.value_size,
                self.header_size,
            ),
        )
            .into_pyobject(py)
            .and_then(|parts| flatten_tail(py, &parts))
    }
}

/// A tuple of more than twelve elements has no conversion in `PyO3`, so the last four are nested.
fn flatten_tail<'py>(
    py: Python<'py>,
    parts: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut all: Vec<Bound<'py, PyAny>> = parts.iter().collect();
    let tail = all.pop().expect("the tuple was made of ten parts");
    all.extend(tail.cast_into::<PyTuple>()?.iter());
    PyTuple::new(py, all)
}

/// Returns the `(name, value)` pair of a header. In a name that is not UTF-8, the invalid bytes
/// become surrogates.
pub(crate) fn header_pair<'py>(
    py: Python<'py>,
    name: &[u8],
    value: Option<&[u8]>,
) -> PyResult<Bound<'py, PyTuple>> {
    let name = match std::str::from_utf8(name) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, name).call_method1("decode", ("utf-8", "surrogateescape"))?,
    };
    let value = value.map(|bytes| PyBytes::new(py, bytes));
    (name, value).into_pyobject(py)
}
