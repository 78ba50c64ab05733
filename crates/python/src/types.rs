//! Constructors of `thalweg.structs`, looked up once.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

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
    let both = topic_partition(py, topic, partition)?;
    class(py, &RECORD_METADATA, "RecordMetadata")?.call1((
        topic,
        partition,
        both,
        offset,
        timestamp_ms,
        py.None(),
        sizes.key,
        sizes.value,
        sizes.headers,
    ))
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
