//! The parts of `Producer` and `AsyncProducer`: the client, its appender, the Python steps.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use thalweg_network::producer::ProducerClient;
use thalweg_network::{ASK_TIMEOUT, ClientError, ClientView, Ticket};
use thalweg_producer::{CompletionListener, FlushTicket, Timed};

use crate::client::metrics::groups_dict;
use crate::convert::config::{Options, duration_ms};
use crate::convert::{errors, settings};
use crate::operation::{Operation, is_over};
use crate::producing::append::{Appender, Brought, NotAppended, PartitionWait, Waiting};
use crate::producing::futures::Listener;
use crate::producing::hooks::Hooks;
use crate::producing::topics::TopicCache;

/// A producer whose client was started.
pub(crate) struct Core {
    pub(crate) client: Arc<ProducerClient>,
    pub(crate) appender: Appender,
    pub(crate) hooks: Option<Hooks>,
    pub(crate) bootstrap_timeout: Duration,
}

impl Core {
    /// Starts connecting in the background, without waiting for a broker.
    pub(crate) fn start(
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        hooks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
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
        let listener: Arc<dyn CompletionListener> = Arc::new(Listener::new());
        let client = py
            .detach(|| ProducerClient::start(&client_config, producer_config, Some(listener)))
            .map_err(|error| errors::client(py, &error))?;
        let appender = Appender {
            accumulator: Arc::clone(client.accumulator()),
            metadata: Arc::clone(client.view().metadata()),
            topics: TopicCache::new(),
            max_block,
        };
        Ok(Self {
            client: Arc::new(client),
            appender,
            hooks,
            bootstrap_timeout: client_config.bootstrap_timeout,
        })
    }

    pub(crate) fn view(&self) -> &ClientView {
        self.client.view()
    }

    /// Returns an error if the client is closed or belongs to another process.
    #[inline]
    pub(crate) fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.view()
            .check()
            .map_err(|error| errors::client(py, &error))
    }

    /// Returns {group: {name: value}}, also of a closed producer, whose last metrics are still
    /// useful.
    pub(crate) fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if self.view().is_inherited() {
            self.check(py)?;
        }
        groups_dict(py, self.client.metrics(Instant::now()))
    }
}

/// Waits until a bootstrap server has responded, or each has failed for a known reason.
pub(crate) struct Bootstrap {
    deadline: Instant,
    causes: Option<Ticket<ClientError>>,
}

impl Bootstrap {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self {
            deadline: Instant::now() + timeout,
            causes: None,
        }
    }

    /// Continues as far as possible, see [`Operation::poll`].
    pub(crate) fn poll_view(
        &mut self,
        py: Python<'_>,
        view: &ClientView,
        waker: &Waker,
    ) -> PyResult<Option<()>> {
        if self.causes.is_none() {
            match view.poll_bootstrapped(waker) {
                Some(Ok(())) => return Ok(Some(())),
                Some(Err(error)) => return Err(errors::client(py, &error)),
                None if !is_over(Some(self.deadline)) => return Ok(None),
                None => {}
            }
            self.deadline = Instant::now() + ASK_TIMEOUT;
        }
        let causes = self.causes.get_or_insert_with(|| view.no_brokers());
        match causes.poll(waker) {
            Some(Ok(error) | Err(error)) => Err(errors::client(py, &error)),
            None if !is_over(Some(self.deadline)) => Ok(None),
            None => {
                let text = "no broker responded, and the client did not report why".to_owned();
                Err(errors::client(py, &ClientError::TimedOut(text)))
            }
        }
    }

    pub(crate) fn until(&self) -> Instant {
        self.deadline
    }
}

impl Operation for Bootstrap {
    type Output = ();

    fn poll(&mut self, py: Python<'_>, core: &Core, waker: &Waker) -> PyResult<Option<()>> {
        self.poll_view(py, core.view(), waker)
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }
}

/// Waits until a topic's partitions are known, and returns their number.
pub(crate) struct PartitionsFor {
    wait: Waiting,
    deadline: Instant,
}

impl PartitionsFor {
    pub(crate) fn new(py: Python<'_>, core: &Core, topic: &str) -> PyResult<Self> {
        let wait = PartitionWait::new(py, &core.appender, topic, None)?;
        Ok(Self {
            wait: Waiting::Partition(wait),
            deadline: core.appender.budget(),
        })
    }
}

impl Operation for PartitionsFor {
    type Output = i32;

    fn poll(&mut self, py: Python<'_>, core: &Core, waker: &Waker) -> PyResult<Option<i32>> {
        let unmet = match self.wait.poll(py, &core.appender, waker) {
            Some(Ok(Brought::Metadata(count))) => return Ok(Some(count)),
            Some(Ok(Brought::Memory(_))) => unreachable!("this wait is only for metadata"),
            Some(Err(unmet)) => unmet,
            None if !is_over(Some(self.deadline)) => return Ok(None),
            None => self.wait.timed_out(py, &core.appender),
        };
        Err(unmet.into_error(py).into_raised(py))
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }
}

/// Waits until all records appended before have their result.
pub(crate) struct Flush {
    ticket: FlushTicket,
    began: Instant,
    timeout: Option<f64>,
    deadline: Option<Instant>,
}

impl Flush {
    pub(crate) fn new(core: &Core, timeout: Option<f64>) -> Self {
        Self {
            ticket: core.appender.accumulator.flush(),
            began: Instant::now(),
            timeout,
            deadline: crate::interpreter::gil::deadline_seconds(timeout),
        }
    }
}

impl Operation for Flush {
    type Output = ();

    fn poll(&mut self, py: Python<'_>, core: &Core, waker: &Waker) -> PyResult<Option<()>> {
        let done = self.ticket.poll_done(waker).is_ready();
        if !done && !is_over(self.deadline) {
            return Ok(None);
        }
        let metrics = core.appender.accumulator.metrics();
        metrics.took(Timed::Flush, self.began.elapsed());
        if let Some(failure) = core.view().failure() {
            // Its records have failed with the client.
            return Err(errors::client(py, &failure));
        }
        if done {
            return Ok(Some(()));
        }
        let left = self.ticket.remaining();
        let seconds = self.timeout.unwrap_or_default();
        let text = format!("flush: {left} batches were not acknowledged within {seconds} seconds");
        Err(errors::raise(py, "KafkaTimeoutError", &text))
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl NotAppended {
    /// Converts to an error to raise, for calls without a future that could hold it.
    pub(crate) fn into_raised(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Raise(error) => error,
            Self::Fail(error) => PyErr::from_value(error.into_bound(py)),
        }
    }
}
