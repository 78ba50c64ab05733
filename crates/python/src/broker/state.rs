//! [`Shared`]: the state of an embedded broker, which its Python objects share.

use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;
use thalweg_broker::{
    BrokerConfig, BrokerError, EmbeddedBroker as RunningBroker, GroupClock, GroupService,
};

use super::broker_error;
use crate::convert::errors;

pub(super) enum State {
    New,
    Running(Box<RunningBroker>),
    Closed,
}

pub(super) struct Shared {
    pub(super) config: BrokerConfig,
    pid: u32,
    state: Mutex<State>,
    /// For the coordinator of groups, from its start until the broker is closed.
    pub(super) groups: Mutex<Option<GroupService>>,
    pub(super) groups_clock: OnceLock<GroupClock>,
}

impl Shared {
    pub(super) fn new(config: BrokerConfig) -> Self {
        Self {
            config,
            pid: std::process::id(),
            state: Mutex::new(State::New),
            groups: Mutex::new(None),
            groups_clock: OnceLock::new(),
        }
    }

    /// Uses the state without the GIL. The holder of its lock may be starting a broker, and needs
    /// the GIL afterwards.
    pub(super) fn with_state<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&mut State) -> T + Send,
    ) -> PyResult<T> {
        if self.pid != std::process::id() {
            let text =
                "this broker was started before fork(), in the parent process: start a new one";
            return Err(errors::raise(py, "IllegalStateError", text));
        }
        Ok(py.detach(|| look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))))
    }

    /// Passes the running broker to `question`.
    pub(super) fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&RunningBroker) -> Result<T, BrokerError> + Send,
    ) -> PyResult<T> {
        let outcome = self.with_state(py, |state| match state {
            State::Running(core) => Some(question(core)),
            State::New | State::Closed => None,
        })?;
        match outcome {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(broker_error(py, &error)),
            None => Err(errors::raise(
                py,
                "IllegalStateError",
                "the broker is not running: call start(). After close(), create a new one",
            )),
        }
    }
}
