//! `AsyncProducer`: the class that `thalweg.aio.AIOKafkaProducer` extends.
//!
//! It has the same core as `Producer`. Each method creates a `Call`, which asyncio awaits.

use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use thalweg_network::{CLOSE_GRACE, ClientView};

use crate::asyncio::call::{Call, Producing};
use crate::asyncio::completions::Completions;
use crate::client::{Client, Handle};
use crate::convert::errors;
use crate::interpreter::gil;
use crate::operation::{Operation, is_over};
use crate::producing::core::{Bootstrap, Core, PartitionsFor};
use crate::producing::hooks::topic_name;
use crate::producing::producer::far_away;
use crate::producing::sending::{Given, Sending};
use crate::producing::transactions::{Group, Offset, Transacting};
use crate::producing::{outgoing, send_many};

struct Opened {
    core: Arc<Core>,
    completions: Py<Completions>,
}

/// The producer core for one event loop.
#[pyclass(subclass, weakref, generic, frozen, module = "thalweg._core")]
pub(crate) struct AsyncProducer(OnceLock<Opened>);

impl AsyncProducer {
    fn opened(&self, py: Python<'_>) -> PyResult<&Opened> {
        self.0.get().ok_or_else(|| {
            let text = "the producer was not started: await its start() first";
            errors::raise(py, "IllegalStateError", text)
        })
    }

    #[inline]
    fn call(&self, py: Python<'_>, work: Producing) -> PyResult<Call> {
        let Opened { core, completions } = self.opened(py)?;
        Ok(Call::new(Arc::clone(core), completions.clone_ref(py), work))
    }

    /// Stores the core, once a bootstrap server has responded.
    pub(crate) fn opened_by(
        producer: &Py<Self>,
        py: Python<'_>,
        core: &Arc<Core>,
        completions: &Py<Completions>,
    ) -> PyResult<()> {
        let opened = Opened {
            core: Arc::clone(core),
            completions: completions.clone_ref(py),
        };
        let set = producer.get().0.set(opened);
        set.map_err(|_| errors::raise(py, "IllegalStateError", "the producer is started already"))
    }
}

#[pymethods]
impl AsyncProducer {
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        // A subclass may have an `__init__` with any signature. `_open` opens the producer.
        let _ = (args, kwargs);
        Self(OnceLock::new())
    }

    #[pyo3(signature = (completions, config, hooks = None))]
    fn _open(
        slf: Py<Self>,
        py: Python<'_>,
        completions: Py<Completions>,
        config: &Bound<'_, PyAny>,
        hooks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Call> {
        let core = Arc::new(Core::start(py, config, hooks)?);
        let work = Producing::Start(Bootstrap::new(core.bootstrap_timeout), slf);
        Ok(Call::new(core, completions, work))
    }

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
    ) -> PyResult<Call> {
        let given = Given {
            topic: topic_name(topic)?.unbind(),
            value,
            key,
            headers,
            partition,
            timestamp_ms,
        };
        self.call(py, Producing::Send(Sending::new(given)))
    }

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
    ) -> PyResult<Call> {
        let core = &self.opened(py)?.core;
        let topic = topic_name(topic)?;
        let columns = send_many::columns(&topic, values, keys, headers, partition, timestamps_ms)?;
        let sending = send_many::send_lists(py, core, &topic, columns, serialized)?;
        self.call(py, Producing::SendMany(sending))
    }

    #[pyo3(signature = (topic, data, partition = None))]
    fn _send_arrow<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = outgoing::partition)] partition: Option<i32>,
    ) -> PyResult<Call> {
        let core = &self.opened(py)?.core;
        let sending = send_many::send_columns(py, core, &topic_name(topic)?, data, partition)?;
        self.call(py, Producing::SendMany(sending))
    }

    #[pyo3(signature = (timeout = None))]
    fn _flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        self.call(py, Producing::Flush(timeout))
    }

    fn _partitions_for(&self, py: Python<'_>, topic: &str) -> PyResult<Call> {
        let waiting = PartitionsFor::new(py, &self.opened(py)?.core, topic)?;
        self.call(py, Producing::PartitionsFor(waiting))
    }

    fn _init_transactions(&self, py: Python<'_>) -> PyResult<Call> {
        self.call(py, Producing::Transacting(Transacting::Init))
    }

    fn _begin_transaction(&self, py: Python<'_>) -> PyResult<Call> {
        self.call(py, Producing::Transacting(Transacting::Begin))
    }

    fn _send_offsets(&self, py: Python<'_>, offsets: Vec<Offset>, group: Group) -> PyResult<Call> {
        let sending = Transacting::send_offsets(offsets, group);
        self.call(py, Producing::Transacting(sending))
    }

    fn _commit_transaction(&self, py: Python<'_>) -> PyResult<Call> {
        self.call(py, Producing::Transacting(Transacting::Commit))
    }

    fn _abort_transaction(&self, py: Python<'_>) -> PyResult<Call> {
        self.call(py, Producing::Transacting(Transacting::Abort))
    }

    /// Closes the producer within `timeout` seconds. `None` waits for all acknowledgements.
    #[pyo3(signature = (timeout = None))]
    fn _close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        self.call(py, Producing::Close(Closing::new(timeout)))
    }

    /// Closes the producer at exit, when no loop runs.
    fn _close_blocking(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let Some(Opened { core, .. }) = self.0.get() else {
            return Ok(());
        };
        let deadline = gil::deadline_seconds(Some(timeout)).unwrap_or_else(far_away);
        gil::client_call(py, |interrupted| core.client.close(deadline, interrupted))
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.opened(py)?.core.metrics(py)
    }

    fn _bootstrap_connected(&self, py: Python<'_>) -> PyResult<bool> {
        crate::client::is_connected(py, self.opened(py)?.core.view())
    }

    #[getter]
    fn _core_client(&self, py: Python<'_>) -> PyResult<Client> {
        let core = &self.opened(py)?.core;
        core.check(py)?;
        Ok(Client::of(Handle::Producer(Arc::clone(&core.client))))
    }

    /// Whether it was stopped, or belongs to the parent of this process. False before the start.
    #[getter]
    fn closed(&self) -> bool {
        self.0
            .get()
            .is_some_and(|opened| opened.core.view().check().is_err())
    }
}

/// Waits until buffered records are sent and connections closed. If it is given up, closing
/// continues in the background.
pub(crate) struct Closing {
    timeout: Option<f64>,
    deadline: Option<Instant>,
}

impl Closing {
    pub(crate) fn new(timeout: Option<f64>) -> Self {
        Self {
            timeout,
            deadline: None,
        }
    }
}

impl Closing {
    /// Continues as far as possible, see [`Operation::poll`].
    pub(crate) fn poll_view(
        &mut self,
        py: Python<'_>,
        view: &ClientView,
        waker: &Waker,
    ) -> PyResult<Option<()>> {
        if self.deadline.is_none() {
            let deadline = gil::deadline_seconds(self.timeout).unwrap_or_else(far_away);
            view.start_close(deadline);
            self.deadline = Some(deadline + CLOSE_GRACE);
        }
        if view.poll_closed(waker) {
            return Ok(Some(()));
        }
        if is_over(self.deadline) {
            return Err(errors::raise(
                py,
                "KafkaTimeoutError",
                "the client did not close",
            ));
        }
        Ok(None)
    }

    pub(crate) fn until(&self) -> Option<Instant> {
        // A close without a timeout needs no timer.
        self.timeout.and(self.deadline)
    }
}

impl Operation for Closing {
    type Output = ();

    fn poll(&mut self, py: Python<'_>, core: &Core, waker: &Waker) -> PyResult<Option<()>> {
        self.poll_view(py, core.view(), waker)
    }

    fn deadline(&self) -> Option<Instant> {
        self.until()
    }
}
