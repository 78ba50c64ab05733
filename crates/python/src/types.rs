//! Constructors of `thalweg.structs`, looked up once.

use pyo3::prelude::*;
use pyo3::ffi;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyString};

static TOPIC_PARTITION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static RECORD_METADATA: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
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

/// `RecordMetadata` with its sizes; -1 stands for "none" as in Kafka.
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

/// Makes the metadata of records of one partition: what they share is made once.
pub(crate) struct RecordMetadataOf<'py> {
    class: &'py Bound<'py, PyAny>,
    topic: Bound<'py, PyString>,
    partition: Bound<'py, PyInt>,
    both: Bound<'py, PyAny>,
}

impl<'py> RecordMetadataOf<'py> {
    pub(crate) fn new(py: Python<'py>, topic: &str, partition: i32) -> PyResult<Self> {
        let topic = PyString::new(py, topic);
        let partition = partition.into_pyobject(py)?;
        let both = class(py, &TOPIC_PARTITION, "TopicPartition")?.call1((&topic, &partition))?;
        Ok(Self {
            class: class(py, &RECORD_METADATA, "RecordMetadata")?,
            topic,
            partition,
            both,
        })
    }

    pub(crate) fn make(
        &self,
        py: Python<'py>,
        offset: i64,
        timestamp_ms: i64,
        sizes: Sizes,
    ) -> PyResult<Bound<'py, PyAny>> {
        let fields = (
            &self.topic,
            &self.partition,
            &self.both,
            offset,
            timestamp_ms,
            py.None(),
            sizes.key,
            sizes.value,
            sizes.headers,
        );
        // As namedtuple's `_make`: its __new__ would be a Python call a record.
        let made = (fields.into_pyobject(py)?,).into_pyobject(py)?;
        let class = self.class.as_ptr().cast::<ffi::PyTypeObject>();
        // SAFETY: the class is a subclass of tuple without a slot of its own, hence made by tuple's
        // own tp_new, which takes a type, a tuple of arguments and no keywords.
        unsafe {
            let new = ffi::PyTuple_Type.tp_new.expect("tuples can be made");
            let object = new(class, made.as_ptr(), std::ptr::null_mut());
            Bound::from_owned_ptr_or_err(py, object)
        }
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

static PRODUCER_RECORD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// What interceptors see.
pub(crate) fn producer_record<'py>(
    py: Python<'py>,
    given: &crate::sending::Given,
) -> PyResult<Bound<'py, PyAny>> {
    let class = PRODUCER_RECORD.get_or_try_init(py, || {
        py.import("thalweg.interceptor")?
            .getattr("ProducerRecord")
            .map(Bound::unbind)
    })?;
    class.bind(py).call1((
        &given.topic,
        &given.value,
        &given.key,
        &given.headers,
        given.partition,
        given.timestamp_ms,
    ))
}
