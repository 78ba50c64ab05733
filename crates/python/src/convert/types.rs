//! Constructors of `thalweg.structs`, looked up once.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyString, PyTuple, PyType};

static TOPIC_PARTITION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static RECORD_METADATA: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static OFFSET_AND_METADATA: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static BROKER_METADATA: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyAny>>,
    name: &str,
) -> PyResult<&'py Bound<'py, PyAny>> {
    Ok(cell
        .get_or_try_init(py, || {
            py.import("thalweg.structs")?
                .getattr(name)
                .map(Bound::unbind)
        })?
        .bind(py))
}

pub(crate) fn topic_partition<'py>(
    py: Python<'py>,
    topic: &str,
    partition: i32,
) -> PyResult<Bound<'py, PyAny>> {
    class(py, &TOPIC_PARTITION, "TopicPartition")?.call1((topic, partition))
}

/// The sizes of a `RecordMetadata`. As in Kafka, -1 means none.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) key: i32,
    pub(crate) value: i32,
    pub(crate) headers: i32,
}

pub(crate) fn record_metadata<'py>(
    py: Python<'py>,
    topic: &str,
    partition: i32,
    offset: i64,
    timestamp_ms: i64,
    sizes: Sizes,
) -> PyResult<Bound<'py, PyAny>> {
    RecordMetadataOf::new(py, topic, partition)?.make(py, offset, timestamp_ms, sizes)
}

/// Creates the metadata of records of one partition, and what they share only once.
pub(crate) struct RecordMetadataOf {
    topic: Py<PyString>,
    partition: Py<PyInt>,
    both: Py<PyAny>,
    /// The last timestamp: many records have the same one.
    timestamp: Option<(i64, Py<PyInt>)>,
}

impl RecordMetadataOf {
    pub(crate) fn new(py: Python<'_>, topic: &str, partition: i32) -> PyResult<Self> {
        let topic = PyString::new(py, topic);
        let partition = partition.into_pyobject(py)?;
        let both = class(py, &TOPIC_PARTITION, "TopicPartition")?.call1((&topic, &partition))?;
        Ok(Self {
            topic: topic.unbind(),
            partition: partition.unbind(),
            both: both.unbind(),
            timestamp: None,
        })
    }

    pub(crate) fn make<'py>(
        &mut self,
        py: Python<'py>,
        offset: i64,
        timestamp_ms: i64,
        sizes: Sizes,
    ) -> PyResult<Bound<'py, PyAny>> {
        let timestamp = match &self.timestamp {
            Some((known, timestamp)) if *known == timestamp_ms => timestamp.clone_ref(py),
            _ => {
                let timestamp = timestamp_ms.into_pyobject(py)?.unbind();
                self.timestamp = Some((timestamp_ms, timestamp.clone_ref(py)));
                timestamp
            }
        };
        let fields = (
            &self.topic,
            &self.partition,
            &self.both,
            offset,
            timestamp,
            py.None(),
            sizes.key,
            sizes.value,
            sizes.headers,
        );
        new_record_metadata(fields.into_pyobject(py)?)
    }
}

/// Does what the named tuple's own constructor does, without its Python frame.
fn new_record_metadata(fields: Bound<'_, PyTuple>) -> PyResult<Bound<'_, PyAny>> {
    let py = fields.py();
    let class = RECORD_METADATA.get_or_try_init(py, || {
        let class = py.import("thalweg.structs")?.getattr("RecordMetadata")?;
        let class = class.cast_into::<PyType>()?;
        if class.is_subclass_of::<PyTuple>()? {
            return Ok(class.unbind());
        }
        let text = "thalweg.structs.RecordMetadata was replaced by a class that is not a tuple";
        Err(PyTypeError::new_err(text))
    })?;
    let class = class.bind(py);
    let arguments = (fields,).into_pyobject(py)?;
    // SAFETY: the slot is that of `tuple`. It accepts any class that extends `tuple`, which was
    // checked, and a tuple with one iterable. It returns a new reference, or null with an
    // exception set.
    unsafe {
        let new = ffi::PyTuple_Type
            .tp_new
            .expect("the class tuple can create objects");
        let made = new(
            class.as_type_ptr(),
            arguments.as_ptr(),
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, made)
    }
}

pub(crate) fn offset_and_metadata<'py>(
    py: Python<'py>,
    offset: i64,
    metadata: &str,
    leader_epoch: i32,
) -> PyResult<Bound<'py, PyAny>> {
    class(py, &OFFSET_AND_METADATA, "OffsetAndMetadata")?.call1((offset, metadata, leader_epoch))
}

pub(crate) fn broker_metadata<'py>(
    py: Python<'py>,
    id: i32,
    host: &str,
    port: u16,
    rack: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    class(py, &BROKER_METADATA, "BrokerMetadata")?.call1((id, host, port, rack))
}
