//! The parts of `Producer` and `AsyncProducer`: the client, its topics, the Python steps.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use thalweg_network::ClientView;
use thalweg_network::producer::{MaxBlock, PartitionWait, ProducerClient};
use thalweg_producer::{Accumulator, CompletionListener};
use thalweg_protocol::Str;

use crate::client::metrics::groups_dict;
use crate::convert::options::{Options, duration_ms};
use crate::convert::{errors, settings, tls};
use crate::producing::futures::Listener;
use crate::producing::hooks::Hooks;
use crate::producing::topics::TopicCache;

/// A producer whose client was started.
pub(crate) struct OpenProducer {
    pub(crate) client: Arc<ProducerClient>,
    pub(crate) accumulator: Arc<Accumulator>,
    pub(crate) topics: TopicCache,
    pub(crate) max_block: Duration,
    pub(crate) hooks: Option<Hooks>,
    pub(crate) bootstrap_timeout: Duration,
}

impl OpenProducer {
    /// Starts connecting in the background, without waiting for a broker.
    pub(crate) fn start(
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        hooks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut options = Options::new(config)?;
        let mut client_config = settings::client(&mut options)?;
        let mut producer_config = settings::producer(&mut options)?;
        settings::align_producer(&mut producer_config, &client_config);
        let max_block = options
            .get::<f64>("max_block_ms")?
            .map_or(Duration::from_secs(60), duration_ms);
        options.finish()?;
        tls::prepare(py, &mut client_config)?;
        let hooks = hooks
            .filter(|given| !given.is_none())
            .map(Hooks::new)
            .transpose()?;
        let listener: Arc<dyn CompletionListener> = Arc::new(Listener::new());
        let client = py
            .detach(|| ProducerClient::start(&client_config, producer_config, Some(listener)))
            .map_err(|error| errors::client(py, &error))?;
        Ok(Self {
            accumulator: Arc::clone(client.accumulator()),
            client: Arc::new(client),
            topics: TopicCache::new(),
            max_block,
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

    /// Waits until the partitions of a topic are known, and returns their number.
    pub(crate) fn partitions_for(&self, topic: &str) -> PartitionWait {
        let max_block = MaxBlock::begin(self.max_block);
        self.client
            .wait_for_partition(&Str::from(topic), None, max_block)
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
