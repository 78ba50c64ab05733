//! `Producer`: the class that `thalweg.producer.KafkaProducer` extends.
//!
//! `send` without hooks runs no Python code: it finds the topic's entry by identity, takes slices
//! of the bytes and one lock, and creates a future.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::client::{Client, Handle};
use crate::convert::errors;
use crate::interpreter::gil;
use crate::interpreter::untracked::untracked;
use crate::operation::run;
use crate::producing::batch_futures::FutureBatchMetadata;
use crate::producing::futures::FutureRecordMetadata;
use crate::producing::hooks::topic_name;
use crate::producing::open_producer::OpenProducer;
use crate::producing::sending::Given;
use crate::producing::transactions::{Group, Offset, group_of, id_and_epoch, offsets_of};
use crate::producing::{outgoing, send_many};

/// The producer core. `thalweg.producer.KafkaProducer` is its public subclass.
///
/// The constructor accepts and ignores all arguments, so that a user's subclass may have its own
/// `__init__`. Before `_open`, every method except `_open` and `close` raises `IllegalStateError`.
#[pyclass(subclass, weakref, generic, frozen, module = "thalweg._core")]
pub(crate) struct Producer(OnceLock<OpenProducer>);

impl Producer {
    /// Returns the core, if it is open and belongs to this process.
    #[inline]
    fn core(&self, py: Python<'_>) -> PyResult<&OpenProducer> {
        match self.0.get() {
            Some(core) => core.check(py).map(|()| core),
            None => Err(errors::raise(
                py,
                "IllegalStateError",
                "the producer was never opened",
            )),
        }
    }
}

#[pymethods]
impl Producer {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let hooks = self.0.get().and_then(|core| core.hooks.as_ref());
        hooks.map_or(Ok(()), |hooks| hooks.traverse(&visit))
    }

    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        // A subclass may have an `__init__` with any signature. `_open` opens the producer.
        let _ = (args, kwargs);
        Self(OnceLock::new())
    }

    /// Bootstraps within `bootstrap_timeout_ms`. Call it once.
    ///
    /// Raises a `NoBrokersAvailable` that names each address with the cause. After an error, it has
    /// closed what it had opened.
    #[pyo3(signature = (config, hooks = None))]
    fn _open(
        &self,
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        hooks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let core = OpenProducer::start(py, config, hooks)?;
        run(py, &mut core.view().bootstrap(core.bootstrap_timeout))?;
        self.0
            .set(core)
            .map_err(|_| errors::raise(py, "IllegalStateError", "the producer is open already"))
    }

    /// Sends a record, and returns a future of its `RecordMetadata`.
    ///
    /// It waits at most `max_block_ms` for metadata and buffer memory together. Without a
    /// serializer, value and key are bytes, and one of them is not None. headers is a list of
    /// (str, bytes or None). With `partition=None`, the partitioner chooses. `timestamp_ms` is in
    /// Unix ms. None: the time of the call.
    ///
    /// Raises `IllegalStateError` after close, or outside a transaction of a transactional
    /// producer. Raises `AbortableTransactionError` or `FatalTransactionError` if the transaction
    /// or the producer has failed.
    ///
    /// The steps, in order:
    /// 1. Interceptors.
    /// 2. Checks. `TypeError`: the topic is not a str, or headers is not a list of (str, bytes or
    ///    None) tuples. `InvalidTopicError`: the topic name is not valid. `ValueError`: `value` and
    ///    `key` are both None, or `timestamp_ms` is negative.
    /// 3. Metadata. It waits at most `max_block_ms`, then raises `KafkaTimeoutError`. If a broker
    ///    refuses the topic, for example with `TopicAuthorizationFailedError`, the returned future
    ///    has failed with that error.
    /// 4. Serializers. The result must be bytes, bytearray, memoryview or None, otherwise
    ///    `TypeError`.
    /// 5. Partition. Raises `ValueError` if it is negative, or does not exist after a metadata
    ///    refresh.
    /// 6. Size: `RecordTooLargeError`.
    /// 7. Buffer memory. It waits for the rest of `max_block_ms`, then raises
    ///    `BufferExhaustedError`.
    #[pyo3(signature = (topic, value = None, key = None, headers = None, partition = None, timestamp_ms = None))]
    #[allow(clippy::too_many_arguments)]
    fn send<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        key: Option<Bound<'py, PyAny>>,
        headers: Option<Bound<'py, PyAny>>,
        #[pyo3(from_py_with = outgoing::partition)] partition: Option<i32>,
        #[pyo3(from_py_with = outgoing::timestamp_ms)] timestamp_ms: Option<i64>,
    ) -> PyResult<Bound<'py, FutureRecordMetadata>> {
        let core = self.core(py)?;
        let topic = topic_name(topic)?;
        let given = Given {
            topic: topic.unbind(),
            value: value.map(Bound::unbind),
            key: key.map(Bound::unbind),
            headers: headers.map(Bound::unbind),
            partition,
            timestamp_ms,
        };
        untracked(py, crate::producing::sending::send(py, core, given)?)
    }

    /// Sends a list of records in one call, and returns a future of their `BatchMetadata`.
    ///
    /// Each argument is a sequence of the same length as `values`. `partition` may also be one
    /// number for all rows.
    /// If rows are not written, the future raises a `BatchSendError` with the error of each row
    /// (docs/columns.md).
    ///
    /// The hooks apply to each record. Before it sends anything, it raises `ValueError` for
    /// sequences of different length or a negative timestamp. Without a serializer, it also raises
    /// `TypeError` for an element that is not bytes, and names its row. `max_block_ms` limits the
    /// wait for each part of the list.
    #[pyo3(signature = (topic, values, keys = None, headers = None, partition = None, timestamps_ms = None))]
    #[allow(clippy::too_many_arguments)]
    fn send_many<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        keys: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamps_ms: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<FutureBatchMetadata> {
        let core = self.core(py)?;
        let topic = topic_name(topic)?;
        let columns = send_many::columns(&topic, values, keys, headers, partition, timestamps_ms)?;
        let mut sending = send_many::send_lists(py, core, &topic, columns, false)?;
        let (rows, len) = run(py, &mut sending)?;
        Ok(FutureBatchMetadata::new(rows, len))
    }

    /// Sends the rows of an Arrow table, data frame or stream.
    ///
    /// It returns a future of their `BatchMetadata`. The columns are found by name: value, key,
    /// partition, timestamp and headers. It ignores topic, offset, `timestamp_type` and
    /// `leader_epoch`. Any other column raises `ValueError`. `partition` is one partition for all
    /// rows, in place of the column. See docs/columns.md.
    ///
    /// `data` has `__arrow_c_stream__` or `__arrow_c_array__`. Raises `ValueError` for an unknown
    /// column, whose name is in the message, a timestamp before 1970 or a negative partition.
    /// Raises `IllegalStateError` if a serializer, a Python partitioner or an interceptor is set.
    #[pyo3(signature = (topic, data, partition = None))]
    fn send_arrow<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = outgoing::partition)] partition: Option<i32>,
    ) -> PyResult<FutureBatchMetadata> {
        let core = self.core(py)?;
        let topic = topic_name(topic)?;
        let mut sending = send_many::send_columns(py, core, &topic, data, partition)?;
        let (rows, len) = run(py, &mut sending)?;
        Ok(FutureBatchMetadata::new(rows, len))
    }

    /// Waits until every record sent before has its result.
    ///
    /// Raises `KafkaTimeoutError` after `timeout` seconds. None means no limit.
    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core(py)?;
        run(py, &mut core.client.flush(gil::given_seconds(timeout)?))
    }

    /// Sends the remaining records for at most `timeout` seconds, then closes. None means no limit.
    ///
    /// The other records fail with a `KafkaTimeoutError`, and the client logs a warning with their
    /// number. A second call does nothing.
    #[pyo3(signature = (timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let Some(core) = self.0.get() else {
            return Ok(());
        };
        if core.view().is_inherited() {
            return Ok(()); // its connections are the parent's
        }
        run(py, &mut core.view().close(gil::limit_seconds(timeout)))
    }

    /// Prepares the producer for transactions.
    ///
    /// All calls on transactions wait at most `max_block_ms`, then raise `KafkaTimeoutError`. Call
    /// again to continue the same operation. `IllegalStateError` names the state. The messages of
    /// `AbortableTransactionError` and `FatalTransactionError` say what to do.
    fn init_transactions(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.core(py)?;
        run(py, &mut core.client.init_transactions(core.max_block))
    }

    /// Begins a transaction. It sends no request.
    fn begin_transaction(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.core(py)?;
        run(py, &mut core.client.begin_transaction(core.max_block))
    }

    /// Commits a group's offsets with the transaction.
    ///
    /// The rows of `offsets` are (topic, partition, offset, metadata, leader epoch). `group` is
    /// (group id, generation, member id, instance id).
    fn _send_offsets(&self, py: Python<'_>, offsets: Vec<Offset>, group: Group) -> PyResult<()> {
        let core = self.core(py)?;
        let (group, offsets) = (group_of(group), offsets_of(offsets));
        let client = &core.client;
        let mut call = client.send_offsets_to_transaction(group, offsets, core.max_block);
        run(py, &mut call)
    }

    /// Returns the producer ID and epoch, or None if nothing was sent in the transaction.
    fn _prepare_transaction(&self, py: Python<'_>) -> PyResult<Option<(i64, i16)>> {
        let core = self.core(py)?;
        let prepared = run(py, &mut core.client.prepare_transaction(core.max_block))?;
        Ok(prepared.map(id_and_epoch))
    }

    /// Waits for all records of the transaction, then commits it.
    ///
    /// Raises the errors of `init_transactions`.
    fn commit_transaction(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.core(py)?;
        run(py, &mut core.client.commit_transaction(core.max_block))
    }

    /// Aborts the transaction. Raises the errors of `init_transactions`.
    fn abort_transaction(&self, py: Python<'_>) -> PyResult<()> {
        let core = self.core(py)?;
        run(py, &mut core.client.abort_transaction(core.max_block))
    }

    /// Returns the partition ids of a topic.
    ///
    /// It waits for metadata at most `max_block_ms`, then raises `KafkaTimeoutError`.
    fn partitions_for(&self, py: Python<'_>, topic: &str) -> PyResult<BTreeSet<i32>> {
        let count = run(py, &mut self.core(py)?.partitions_for(topic))?;
        Ok((0..count).collect())
    }

    /// Whether a broker is connected.
    fn bootstrap_connected(&self, py: Python<'_>) -> PyResult<bool> {
        run(py, &mut self.core(py)?.view().is_connected())
    }

    /// Returns {group: {name: value}} under Kafka's names, even of a closed producer.
    ///
    /// For example ('producer-metrics', 'record-send-total'). The name of a group for one node or
    /// topic ends in '.node-1' or in the topic's name.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match self.0.get() {
            Some(core) => core.metrics(py),
            None => self.core(py)?.metrics(py),
        }
    }

    /// A client for requests by name, on this producer's connections and metadata.
    #[getter]
    fn _core_client(&self, py: Python<'_>) -> PyResult<Client> {
        let core = self.core(py)?;
        Ok(Client::of(Handle::Producer(Arc::clone(&core.client))))
    }

    /// Whether it was never opened, was closed, or belongs to the parent of this process.
    #[getter]
    fn closed(&self) -> bool {
        self.0.get().is_none_or(|core| core.view().check().is_err())
    }
}
