//! Creates the core of a `Consumer` or an `AsyncConsumer` from its configuration, and checks that a
//! `Consumer` is open.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use thalweg_network::consumer::ConsumerClient;

use crate::consuming::consumer::Consumer;
use crate::consuming::polling::{ConsumerHooks, OpenConsumer, forked, not_open};
use crate::convert::options::{Options, duration_ms};
use crate::convert::{errors, settings, tls};
use crate::interpreter::callbacks;

/// The default of `poll_arrow_max_bytes`. A larger table no longer fits into the CPU's cache until
/// it is read.
const ARROW_BYTES: usize = 4 * 1024 * 1024;

/// Returns a core that starts connecting in the background, and how long to wait for the
/// connection.
pub(crate) fn start(
    py: Python<'_>,
    config: &Bound<'_, PyAny>,
    hooks: Option<&Bound<'_, PyAny>>,
) -> PyResult<(OpenConsumer, Duration)> {
    let mut options = Options::new(config)?;
    let mut client_config = settings::client(&mut options)?;
    let mut consumer_config = settings::consumer(&mut options)?;
    settings::align_consumer(&mut consumer_config, &client_config);
    let max_poll_records = options.get::<usize>("max_poll_records")?.unwrap_or(500);
    let arrow_bytes = options
        .get::<usize>("poll_arrow_max_bytes")?
        .unwrap_or(ARROW_BYTES);
    let timeout: Option<Duration> = options.get::<f64>("consumer_timeout_ms")?.map(duration_ms);
    options.finish()?;
    tls::prepare(py, &mut client_config)?;
    let hooks = ConsumerHooks::new(hooks.filter(|given| !given.is_none()))?;
    if consumer_config.group_id.is_some() {
        callbacks::responses().start()?;
    }
    let client = py
        .detach(|| ConsumerClient::start(&client_config, consumer_config))
        .map_err(|error| errors::client(py, &error))?;
    let core = OpenConsumer::new(
        Arc::new(client),
        hooks,
        max_poll_records,
        arrow_bytes,
        timeout,
    );
    Ok((core, client_config.bootstrap_timeout))
}

impl Consumer {
    /// Returns the core, if it is open and belongs to this process.
    pub(crate) fn core(&self, py: Python<'_>) -> PyResult<&OpenConsumer> {
        match self.0.get() {
            Some(core) if !core.client.view().is_inherited() => {
                core.client
                    .view()
                    .check()
                    .map_err(|error| errors::client(py, &error))?;
                Ok(core)
            }
            Some(_) => Err(forked(py)),
            None => Err(not_open(py)),
        }
    }

    /// Returns the core of a consumer that was opened, even if it is closed now.
    pub(crate) fn opened(&self) -> Option<&OpenConsumer> {
        self.0.get()
    }

    /// Whether the consumer was opened and then closed. A call checks this only after an error, to
    /// explain it: another thread may close the consumer at any moment, also after a check.
    pub(crate) fn is_closed(&self) -> bool {
        self.opened()
            .is_some_and(|core| core.client.view().is_closed())
    }

    /// Stores the core, once a bootstrap server has responded.
    pub(crate) fn open_with(&self, py: Python<'_>, core: OpenConsumer) -> PyResult<()> {
        self.0
            .set(core)
            .map_err(|_| errors::raise(py, "IllegalStateError", "the consumer is open already"))
    }
}
