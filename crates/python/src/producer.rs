//! `Producer`: the class that `thalweg.producer.KafkaProducer` extends.
//!
//! `send` without hooks touches no Python code: the name's entry by identity, slices of the bytes,
//! one lock, a future from the free list.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use thalweg_network::producer::ProducerClient;
use thalweg_producer::{CompletionListener, Record};
use thalweg_records::Headers;

use crate::append::{Appender, NotAppended, now_ms};
use crate::batch_futures::FutureBatchMetadata;
use crate::client::{Client, Handle};
use crate::config::{Options, duration_ms};
use crate::futures::{FutureRecordMetadata, Listener, Sent};
use crate::hooks::{Given, Hooks, topic_name};
use crate::outgoing::{Data, HeaderList, header_refs, header_size, need_key_or_value};
use crate::topics::TopicCache;
use crate::types::Sizes;
use crate::{errors, gil, settings};

/// An opened producer.
pub(crate) struct Core {
    pub(crate) client: Arc<ProducerClient>,
    pub(crate) appender: Appender,
    pub(crate) hooks: Option<Hooks>,
}

/// The producer core.
#[pyclass(subclass, weakref, generic, frozen, module = "thalweg._core")]
pub(crate) struct Producer(OnceLock<Core>);

impl Producer {
    /// The core, if it is open and of this process.
    #[inline]
    fn core(&self, py: Python<'_>) -> PyResult<&Core> {
        match self.0.get() {
            Some(core) => match core.client.view().check() {
                Ok(()) => Ok(core),
                Err(error) => Err(errors::client(py, &error)),
            },
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
    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        // A subclass may have an __init__ of any signature; `_open` is what opens.
        let _ = (args, kwargs);
        Self(OnceLock::new())
    }

    #[pyo3(signature = (config, hooks = None))]
    fn _open(
        &self,
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        hooks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mut options = Options::new(config)?;
        let client_config = settings::client(&mut options)?;
        let mut producer_config = settings::producer(&mut options)?;
        settings::align_producer(&mut producer_config, &client_config);
        let max_block = options
            .get::<f64>("max_block_ms")?
            .map_or(Duration::from_secs(60), duration_ms);
        options.finish()?;
        let hooks = hooks
            .filter(|given| !given.is_none())
            .map(Hooks::new)
            .transpose()?;
        let listener: Arc<dyn CompletionListener> = Arc::new(Listener);
        let client = gil::client_call(py, |interrupted| {
            let client = ProducerClient::start(&client_config, producer_config, Some(listener))?;
            client
                .view()
                .wait_bootstrapped(client_config.bootstrap_timeout, interrupted)?;
            Ok(client)
        })?;
        let appender = Appender {
            accumulator: Arc::clone(client.accumulator()),
            metadata: Arc::clone(client.view().metadata()),
            topics: TopicCache::new(),
            max_block,
        };
        let core = Core {
            client: Arc::new(client),
            appender,
            hooks,
        };
        self.0
            .set(core)
            .map_err(|_| errors::raise(py, "IllegalStateError", "the producer is open already"))
    }

    #[pyo3(signature = (topic, value = None, key = None, headers = None, partition = None, timestamp_ms = None))]
    #[allow(clippy::too_many_arguments)]
    fn send<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        value: Option<Bound<'py, PyAny>>,
        key: Option<Bound<'py, PyAny>>,
        headers: Option<Bound<'py, PyAny>>,
        partition: Option<i32>,
        timestamp_ms: Option<i64>,
    ) -> PyResult<FutureRecordMetadata> {
        let core = self.core(py)?;
        let topic = topic_name(topic)?;
        let given = Given {
            topic,
            value,
            key,
            headers,
            partition,
            timestamp_ms,
        };
        match &core.hooks {
            None => send_plain(py, &core.appender, &given),
            Some(hooks) => hooks.send(py, &core.appender, given),
        }
    }

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
        crate::send_many::send_lists(
            py,
            core,
            &topic,
            values,
            keys,
            headers,
            partition,
            timestamps_ms,
        )
    }

    fn send_arrow<'py>(
        &self,
        py: Python<'py>,
        topic: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<FutureBatchMetadata> {
        let core = self.core(py)?;
        let topic = topic_name(topic)?;
        crate::send_many::send_columns(py, core, &topic, data)
    }

    #[pyo3(signature = (timeout = None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let core = self.core(py)?;
        let mut ticket = core.appender.accumulator.flush();
        let done = gil::wait(py, gil::deadline_seconds(timeout), |waker| {
            ticket.poll_done(waker).is_ready().then_some(())
        })?;
        if done.is_some() {
            return Ok(());
        }
        let left = ticket.remaining();
        let seconds = timeout.unwrap_or_default();
        let text = format!("{left} batches were not acknowledged within {seconds} seconds");
        Err(errors::raise(py, "KafkaTimeoutError", &text))
    }

    #[pyo3(signature = (timeout = None))]
    fn close(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let Some(core) = self.0.get() else {
            return Ok(());
        };
        if core.client.view().is_inherited() {
            return Err(errors::client(py, &thalweg_network::ClientError::Forked));
        }
        let deadline = gil::deadline_seconds(timeout).unwrap_or_else(far_away);
        gil::client_call(py, |interrupted| core.client.close(deadline, interrupted))
    }

    fn partitions_for(&self, py: Python<'_>, topic: &str) -> PyResult<BTreeSet<i32>> {
        let appender = &self.core(py)?.appender;
        match appender.await_partition(py, topic, None, appender.budget()) {
            Ok(count) => Ok((0..count).collect()),
            Err(NotAppended::Raise(error)) => Err(error),
            Err(NotAppended::Fail(error)) => Err(PyErr::from_value(error.into_bound(py))),
        }
    }

    fn bootstrap_connected(&self, py: Python<'_>) -> PyResult<bool> {
        let core = self.core(py)?;
        crate::client::is_connected(py, core.client.view())
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // Not `core`: the last figures of a closed producer are worth reading.
        let core = match self.0.get() {
            Some(core) if !core.client.view().is_inherited() => core,
            _ => self.core(py)?,
        };
        let values = PyDict::new(py);
        for (name, value) in core.appender.accumulator.metrics_snapshot() {
            values.set_item(name, value)?;
        }
        let groups = PyDict::new(py);
        groups.set_item("producer-metrics", values)?;
        Ok(groups)
    }

    #[getter]
    fn client(&self, py: Python<'_>) -> PyResult<Client> {
        let core = self.core(py)?;
        Ok(Client::of(Handle::Producer(Arc::clone(&core.client))))
    }

    #[getter]
    fn closed(&self) -> bool {
        self.0
            .get()
            .is_none_or(|core| core.client.view().is_closed())
    }
}

/// A deadline for those who wait as long as it takes.
pub(crate) fn far_away() -> Instant {
    Instant::now() + duration_ms(f64::INFINITY)
}

/// `send` without any Python step.
#[inline]
fn send_plain(
    py: Python<'_>,
    appender: &Appender,
    given: &Given<'_>,
) -> PyResult<FutureRecordMetadata> {
    let key = Data::new(given.key.as_ref(), "key")?;
    let value = Data::new(given.value.as_ref(), "value")?;
    need_key_or_value(key.as_slice().is_some(), value.as_slice().is_some())?;
    let topic = appender.topic(&given.topic)?;
    let timestamp_ms = given.timestamp_ms.unwrap_or_else(now_ms);
    let record = Record {
        partition: given.partition,
        timestamp_ms,
        key: key.as_slice(),
        value: value.as_slice(),
        headers: Headers::default(),
    };
    let (appended, header_bytes) = match &given.headers {
        None => (appender.append(py, topic, &record), -1),
        Some(headers) => {
            let held = HeaderList::new(headers)?;
            let data = held.data()?;
            let refs = header_refs(&data);
            let record = Record {
                headers: Headers::List(&refs),
                ..record
            };
            (appender.append(py, topic, &record), header_size(&refs))
        }
    };
    match appended {
        Ok(appended) => Ok(FutureRecordMetadata::sent(Sent {
            completion: appended.completion,
            index: appended.index,
            timestamp_ms,
            sizes: Sizes {
                key: key.size(),
                value: value.size(),
                headers: header_bytes,
            },
        })),
        Err(NotAppended::Raise(error)) => Err(error),
        Err(NotAppended::Fail(error)) => Ok(FutureRecordMetadata::refused(error)),
    }
}
