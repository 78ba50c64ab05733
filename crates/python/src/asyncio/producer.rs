//! `AsyncProducer`: the class that `thalweg.aio.AIOKafkaProducer` extends.
//!
//! It has the same core as `Producer`. Each method creates a coroutine, which asyncio awaits.

use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Instant;

use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyTuple};
use pyo3::{IntoPyObjectExt, PyTraverseError};

use crate::asyncio::completions::Completions;
use crate::asyncio::coroutine::ProducerCoroutine;
use crate::client::{Client, Handle};
use crate::convert::errors;
use crate::interpreter::gil;
use crate::operation::{PyOperation, run};
use crate::producing::batch_futures::{Batch, Rows};
use crate::producing::hooks::topic_name;
use crate::producing::open_producer::OpenProducer;
use crate::producing::sending::Given;
use crate::producing::transactions::{Group, Offset, group_of, id_and_epoch, offsets_of};
use crate::producing::{outgoing, send_many};

struct Opened {
    core: Arc<OpenProducer>,
    completions: Py<Completions>,
}

impl Opened {
    /// Creates the coroutine of an operation. `convert` makes its result.
    fn coroutine<O>(
        &self,
        py: Python<'_>,
        operation: O,
        convert: impl FnMut(Python<'_>, O::Output) -> PyResult<Py<PyAny>> + Send + Sync + 'static,
    ) -> ProducerCoroutine
    where
        O: PyOperation + Send + Sync + 'static,
    {
        let operation = Converted {
            core: Arc::clone(&self.core),
            operation,
            convert,
        };
        ProducerCoroutine::new(self.completions.clone_ref(py), operation)
    }

    /// Creates the coroutine of an operation without a result.
    fn coroutine_of_none<O>(&self, py: Python<'_>, operation: O) -> ProducerCoroutine
    where
        O: PyOperation<Output = ()> + Send + Sync + 'static,
    {
        self.coroutine(py, operation, |py, ()| Ok(py.None()))
    }

    /// Creates the coroutine of a column. Its result is a future of the rows.
    fn coroutine_of_rows<O>(&self, py: Python<'_>, operation: O) -> ProducerCoroutine
    where
        O: PyOperation<Output = (Rows, usize)> + Send + Sync + 'static,
    {
        let completions = self.completions.clone_ref(py);
        self.coroutine(py, operation, move |py, (rows, len)| {
            let batch = Arc::new(Batch::new(rows, len));
            let future = completions.get().future_of_many(py, batch)?;
            Ok(future.unbind())
        })
    }
}

/// An operation whose output becomes the result of a coroutine.
struct Converted<O, F> {
    core: Arc<OpenProducer>,
    operation: O,
    convert: F,
}

impl<O, F> PyOperation for Converted<O, F>
where
    O: PyOperation,
    F: FnMut(Python<'_>, O::Output) -> PyResult<Py<PyAny>>,
{
    type Output = Py<PyAny>;

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.core.check(py)
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Py<PyAny>>> {
        match self.operation.poll(py, waker)? {
            Some(output) => (self.convert)(py, output).map(Some),
            None => Ok(None),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.operation.deadline()
    }

    fn give_up(&mut self, py: Python<'_>, error: &PyErr) {
        self.operation.give_up(py, error);
    }
}

/// A flush or a close. Once it is over, or has failed, no result waits for the loop.
struct Finishing<O> {
    core: Arc<OpenProducer>,
    completions: Py<Completions>,
    operation: O,
    /// A closed client can be closed again.
    is_close: bool,
}

impl<O: PyOperation<Output = ()>> PyOperation for Finishing<O> {
    type Output = Py<PyAny>;

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_close && !self.core.view().is_inherited() {
            return Ok(());
        }
        self.core.check(py)
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Py<PyAny>>> {
        let outcome = self.operation.poll(py, waker);
        if !matches!(outcome, Ok(None)) {
            // Deliver the results that the loop has not seen yet.
            self.completions.get().drain_all(py);
        }
        Ok(outcome?.map(|()| py.None()))
    }

    fn deadline(&self) -> Option<Instant> {
        self.operation.deadline()
    }
}

/// The producer core for one event loop.
///
/// `thalweg.aio.AIOKafkaProducer` is its public subclass. The constructor accepts and ignores all
/// arguments, as that of `Producer`. Before `_open`, calls raise `IllegalStateError`.
///
/// Its coroutines are `ProducerCoroutine` objects. A call does nothing before it is awaited. A
/// cancelled call stops waiting. A call raises `IllegalStateError` in a loop other than that of
/// `_open`, after the close, and in a forked child. No call blocks its thread.
#[pyclass(subclass, weakref, generic, frozen, module = "thalweg._core")]
pub(crate) struct AsyncProducer(OnceLock<Opened>);

impl AsyncProducer {
    fn opened(&self, py: Python<'_>) -> PyResult<&Opened> {
        self.0.get().ok_or_else(|| {
            let text = "the producer was not started: await its start() first";
            errors::raise(py, "IllegalStateError", text)
        })
    }

    /// Stores the core, once a bootstrap server has responded.
    fn open_with(&self, py: Python<'_>, opened: Opened) -> PyResult<()> {
        self.0.set(opened).map_err(|_| {
            errors::raise(
                py,
                "IllegalStateError",
                "the producer was already started: await start() only once",
            )
        })
    }

    fn finish<O>(&self, py: Python<'_>, operation: O, is_close: bool) -> PyResult<ProducerCoroutine>
    where
        O: PyOperation<Output = ()> + Send + Sync + 'static,
    {
        let Opened { core, completions } = self.opened(py)?;
        let finishing = Finishing {
            core: Arc::clone(core),
            completions: completions.clone_ref(py),
            operation,
            is_close,
        };
        Ok(ProducerCoroutine::new(completions.clone_ref(py), finishing))
    }
}

#[pymethods]
impl AsyncProducer {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(Opened { core, completions }) = self.0.get() else {
            return Ok(());
        };
        visit.call(completions)?;
        match &core.hooks {
            // A coroutine that shares the core may still call the hooks, and the collector does not
            // see it.
            Some(hooks) if Arc::strong_count(core) == 1 => hooks.traverse(&visit),
            _ => Ok(()),
        }
    }

    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        // A subclass may have an `__init__` with any signature. `_open` opens the producer.
        let _ = (args, kwargs);
        Self(OnceLock::new())
    }

    /// Opens the producer, as `Producer._open`.
    ///
    /// After a failure or cancellation, call it again.
    #[pyo3(signature = (completions, config, hooks = None))]
    fn _open(
        slf: Py<Self>,
        py: Python<'_>,
        completions: Py<Completions>,
        config: &Bound<'_, PyAny>,
        hooks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ProducerCoroutine> {
        let core = Arc::new(OpenProducer::start(py, config, hooks)?);
        let bootstrap = core.view().bootstrap(core.bootstrap_timeout);
        let opened = Opened { core, completions };
        let (core, completions) = (Arc::clone(&opened.core), opened.completions.clone_ref(py));
        Ok(opened.coroutine(py, bootstrap, move |py, ()| {
            let opened = Opened {
                core: Arc::clone(&core),
                completions: completions.clone_ref(py),
            };
            slf.get().open_with(py, opened)?;
            Ok(py.None())
        }))
    }

    /// Adds a record to its batch, and returns a future of its result (aiokafka).
    ///
    /// If it does not have to wait, it appends the record without a task switch. After 512 such
    /// sends in a row, other tasks run. The steps, checks and errors are those of `Producer.send`.
    /// `await` raises the errors. If it is cancelled before the append, the record is not sent.
    /// Cancelling the returned future does not cancel the record.
    #[pyo3(signature = (topic, value = None, key = None, partition = None, timestamp_ms = None, headers = None))]
    #[allow(clippy::too_many_arguments)]
    fn send<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        value: Option<Py<PyAny>>,
        key: Option<Py<PyAny>>,
        #[pyo3(from_py_with = outgoing::partition)] partition: Option<i32>,
        #[pyo3(from_py_with = outgoing::timestamp_ms)] timestamp_ms: Option<i64>,
        headers: Option<Py<PyAny>>,
    ) -> PyResult<ProducerCoroutine> {
        let given = Given {
            topic: topic_name(topic)?.unbind(),
            value,
            key,
            headers,
            partition,
            timestamp_ms,
        };
        let Opened { core, completions } = self.opened(py)?;
        let (core, completions) = (Arc::clone(core), completions.clone_ref(py));
        Ok(ProducerCoroutine::of_send(core, completions, given))
    }

    /// Sends a list of records, as `Producer.send_many`. `serialized` skips the Python steps.
    #[pyo3(signature = (topic, values, keys = None, headers = None, partition = None, timestamps_ms = None, *, serialized = false))]
    #[allow(clippy::too_many_arguments)]
    fn _send_many<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        keys: Option<&Bound<'py, PyAny>>,
        headers: Option<&Bound<'py, PyAny>>,
        partition: Option<&Bound<'py, PyAny>>,
        timestamps_ms: Option<&Bound<'py, PyAny>>,
        serialized: bool,
    ) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        // First, because a lock of the core may be taken for ever in a forked process.
        opened.core.check(py)?;
        let topic = topic_name(topic)?;
        let columns = send_many::columns(&topic, values, keys, headers, partition, timestamps_ms)?;
        let core = Arc::clone(&opened.core);
        let sending = send_many::send_lists(py, core, &topic, columns, serialized)?;
        Ok(opened.coroutine_of_rows(py, sending))
    }

    /// Sends the rows of an Arrow table, data frame or stream, as `Producer.send_arrow`.
    #[pyo3(signature = (topic, data, partition = None))]
    fn _send_arrow<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = outgoing::partition)] partition: Option<i32>,
    ) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        opened.core.check(py)?;
        let (core, topic) = (&opened.core, topic_name(topic)?);
        let sending = send_many::send_columns(py, core, &topic, data, partition)?;
        Ok(opened.coroutine_of_rows(py, sending))
    }

    /// Waits until every record sent before has its result, as `Producer.flush`.
    #[pyo3(signature = (timeout = None))]
    fn _flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<ProducerCoroutine> {
        let client = &self.opened(py)?.core.client;
        self.finish(py, client.flush(gil::given_seconds(timeout)?), false)
    }

    /// Returns the partition IDs of a topic, as `Producer.partitions_for`.
    fn _partitions_for(&self, py: Python<'_>, topic: &str) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        let waiting = opened.core.partitions_for(topic);
        Ok(opened.coroutine(py, waiting, |py, count| {
            let set = PySet::new(py, 0..count)?;
            Ok(set.into_any().unbind())
        }))
    }

    /// Prepares the producer for transactions.
    ///
    /// The calls on transactions are as in `Producer`. If one is cancelled, its operation
    /// continues.
    fn _init_transactions(&self, py: Python<'_>) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        let core = &opened.core;
        Ok(opened.coroutine_of_none(py, core.client.init_transactions(core.max_block)))
    }

    /// Begins a transaction. It sends no request.
    fn _begin_transaction(&self, py: Python<'_>) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        let core = &opened.core;
        Ok(opened.coroutine_of_none(py, core.client.begin_transaction(core.max_block)))
    }

    /// Commits a group's offsets with the transaction, as `Producer._send_offsets`.
    fn _send_offsets(
        &self,
        py: Python<'_>,
        offsets: Vec<Offset>,
        group: Group,
    ) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        let (group, offsets) = (group_of(group), offsets_of(offsets));
        let (client, max_block) = (&opened.core.client, opened.core.max_block);
        let call = client.send_offsets_to_transaction(group, offsets, max_block);
        Ok(opened.coroutine_of_none(py, call))
    }

    /// Returns the producer ID and epoch, as `Producer._prepare_transaction`.
    fn _prepare_transaction(&self, py: Python<'_>) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        let core = &opened.core;
        let call = core.client.prepare_transaction(core.max_block);
        Ok(opened.coroutine(py, call, |py, prepared| {
            prepared.map(id_and_epoch).into_py_any(py)
        }))
    }

    /// Waits for all records of the transaction, then commits it.
    fn _commit_transaction(&self, py: Python<'_>) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        let core = &opened.core;
        Ok(opened.coroutine_of_none(py, core.client.commit_transaction(core.max_block)))
    }

    /// Aborts the transaction.
    fn _abort_transaction(&self, py: Python<'_>) -> PyResult<ProducerCoroutine> {
        let opened = self.opened(py)?;
        let core = &opened.core;
        Ok(opened.coroutine_of_none(py, core.client.abort_transaction(core.max_block)))
    }

    /// Closes the producer within `timeout` seconds. `None` waits for all acknowledgements.
    ///
    /// If it is cancelled, closing continues in the background. A second call waits for its end.
    #[pyo3(signature = (timeout = None))]
    fn _close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<ProducerCoroutine> {
        let view = self.opened(py)?.core.view();
        self.finish(py, view.close(gil::limit_seconds(timeout)), true)
    }

    /// Closes the producer at exit, when no loop runs.
    fn _close_blocking(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let Some(Opened { core, .. }) = self.0.get() else {
            return Ok(());
        };
        run(
            py,
            &mut core.view().close(gil::limit_seconds(Some(timeout))),
        )
    }

    /// Returns {group: {name: value}}, as `Producer.metrics`.
    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.opened(py)?.core.metrics(py)
    }

    /// A client for requests by name, as `Producer._core_client`.
    #[getter]
    fn _core_client(&self, py: Python<'_>) -> PyResult<Client> {
        let core = &self.opened(py)?.core;
        core.check(py)?;
        Ok(Client::of(Handle::Producer(Arc::clone(&core.client))))
    }

    /// Whether it was stopped, or belongs to the parent of this process.
    ///
    /// It is False before the start.
    #[getter]
    fn closed(&self) -> bool {
        self.0
            .get()
            .is_some_and(|opened| opened.core.view().check().is_err())
    }
}
