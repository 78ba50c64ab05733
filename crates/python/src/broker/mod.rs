//! `EmbeddedBroker`: the core that `thalweg.broker.EmbeddedBroker` wraps.
//!
//! ```text
//! state.rs      what its objects share
//! security.rs   users, ACLs, certificates and sessions
//! faults.rs     faults for tests of clients
//! groups.rs     the broker's groups and their coordinator in Python
//! ```

mod faults;
mod groups;
mod security;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use thalweg_broker::{BrokerConfig, BrokerError, EmbeddedBroker as RunningBroker};
use thalweg_protocol::ApiKey;

use crate::convert::errors;
pub(crate) use faults::BrokerFaults;
pub(crate) use groups::BrokerGroups;
pub(crate) use security::BrokerSecurity;
use state::{Shared, State};

/// The value of `EADDRINUSE` differs between Linux, macOS and Windows. Python knows it.
const ADDRESS_IN_USE: &str = "EADDRINUSE";

/// The core of the embedded broker. `thalweg.broker.EmbeddedBroker` wraps it.
///
/// The constructor takes the options, which `start` checks. It opens nothing. `configs` are Kafka's
/// broker options under their dotted names. Port 0 means any free ports. With another port, the
/// nodes use port, port + 1, ... `users` are names and passwords. `tls` has the chain, the key, and
/// the authorities of clients, in PEM format. `jwks` is a JSON Web Key Set.
///
/// The calls about topics, ports, nodes, requests and faults raise `IllegalStateError` unless the
/// broker runs.
///
/// Raises:
///     `ValueError`: If nodes < 1, or the broker does not support the protocol or the mechanism.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct EmbeddedBroker(Arc<Shared>);

#[pymethods]
impl EmbeddedBroker {
    #[new]
    #[pyo3(signature = (
        nodes = 1, port = 0, host = "127.0.0.1", configs = None, security_protocol = "PLAINTEXT",
        sasl_mechanisms = None, users = None, tls = None, jwks = None
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        nodes: i32,
        port: u16,
        host: &str,
        configs: Option<BTreeMap<String, String>>,
        security_protocol: &str,
        sasl_mechanisms: Option<Vec<String>>,
        users: Option<BTreeMap<String, String>>,
        tls: Option<(String, String, Option<String>)>,
        jwks: Option<&str>,
    ) -> PyResult<Self> {
        if nodes < 1 {
            return Err(PyValueError::new_err(format!(
                "nodes must be at least 1, got {nodes}"
            )));
        }
        let config = BrokerConfig {
            nodes,
            host: host.to_owned(),
            port,
            options: configs.unwrap_or_default(),
            security: security::config(security_protocol, sasl_mechanisms, users, tls, jwks)?,
            ..BrokerConfig::default()
        };
        Ok(Self(Arc::new(Shared::new(config))))
    }

    /// Returns the object that adds and removes faults.
    fn faults(&self) -> BrokerFaults {
        BrokerFaults(Arc::clone(&self.0))
    }

    /// Returns the object for users, ACLs, certificates and sessions.
    fn security(&self) -> BrokerSecurity {
        BrokerSecurity(Arc::clone(&self.0))
    }

    /// Returns the object for the coordinator of groups.
    fn groups(&self) -> BrokerGroups {
        BrokerGroups(Arc::clone(&self.0))
    }

    /// Starts the broker. Returns when all nodes accept connections.
    ///
    /// A second call does nothing.
    ///
    /// Raises:
    ///     `OSError`: If a port is in use (`EADDRINUSE`). The error names the port.
    ///     `KafkaConfigurationError`: If an option is unknown, a value is wrong, or a port is above
    ///         65535.
    ///     `IllegalStateError`: After `close()`.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let started = self.0.with_state(py, |state| match state {
            State::Running(_) => Ok(()),
            State::Closed => Err(BrokerError::Closed),
            State::New => {
                *state = State::Running(Box::new(RunningBroker::start(self.0.config.clone())?));
                Ok(())
            }
        })?;
        started.map_err(|error| broker_error(py, &error))
    }

    /// Stops all nodes. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.with_state(py, |state| {
            if let State::Running(core) = std::mem::replace(state, State::Closed) {
                core.close();
            }
            // A thread that waits for events keeps a clone until it learns of the end.
            *self.0.groups.lock().unwrap_or_else(PoisonError::into_inner) = None;
        })
    }

    /// The address that the nodes listen on.
    #[getter]
    fn host(&self) -> &str {
        &self.0.config.host
    }

    /// The node IDs.
    #[getter]
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<i32>> {
        self.0.with_state(py, |state| match state {
            State::Running(core) => core.node_ids(),
            State::New | State::Closed => (1..=self.0.config.nodes).collect(),
        })
    }

    /// The port of each node. It raises `IllegalStateError` before `start()`.
    #[getter]
    fn ports(&self, py: Python<'_>) -> PyResult<Vec<u16>> {
        self.0.ask(py, |core| Ok(core.ports()))
    }

    /// The addresses of all nodes: 'host:port,host:port'.
    ///
    /// Raises `IllegalStateError` before `start()`.
    #[getter]
    fn bootstrap_servers(&self, py: Python<'_>) -> PyResult<String> {
        self.0.ask(py, |core| Ok(core.bootstrap_servers()))
    }

    /// Whether the broker runs: between `start()` and `close()`.
    #[getter]
    fn running(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.with_state(
            py,
            |state| matches!(state, State::Running(core) if core.is_running()),
        )
    }

    /// Creates a topic.
    ///
    /// Raises Kafka's errors: `TopicAlreadyExistsError`, `InvalidTopicError`,
    /// `InvalidPartitionsError`, and others.
    #[pyo3(signature = (name, num_partitions = 1, replication_factor = 1, configs = None))]
    fn create_topic(
        &self,
        py: Python<'_>,
        name: &str,
        num_partitions: i32,
        replication_factor: i16,
        configs: Option<BTreeMap<String, String>>,
    ) -> PyResult<()> {
        let configs = configs.unwrap_or_default();
        self.0.ask(py, |core| {
            core.create_topic(name, num_partitions, replication_factor, &configs)
        })
    }

    /// Deletes a topic. Raises `UnknownTopicOrPartitionError` if it does not exist.
    fn delete_topic(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.0.ask(py, |core| core.delete_topic(name))
    }

    /// Returns {name: number of partitions}.
    fn topics(&self, py: Python<'_>) -> PyResult<BTreeMap<String, i32>> {
        self.0.ask(py, |core| Ok(core.topics()))
    }

    /// Returns the node ID of a partition's leader, or -1 if no node runs.
    ///
    /// Raises `UnknownTopicOrPartitionError` if the partition does not exist.
    fn leader(&self, py: Python<'_>, partition: (String, i32)) -> PyResult<i32> {
        self.0
            .ask(py, |core| core.leader(&partition.0, partition.1))
    }

    /// Makes a node the leader of a partition, with a higher leader epoch.
    ///
    /// Raises:
    ///     `ValueError`: If there is no such node.
    ///     `BrokerNotAvailableError`: If the node is stopped.
    ///     `UnknownTopicOrPartitionError`: If the partition does not exist.
    fn move_leader(&self, py: Python<'_>, partition: (String, i32), node: i32) -> PyResult<()> {
        self.0
            .ask(py, |core| core.move_leader(&partition.0, partition.1, node))
    }

    /// Makes a node the coordinator of the group and the transactional id with this name.
    ///
    /// Raises `ValueError` if there is no such node.
    fn move_coordinator(&self, py: Python<'_>, key: &str, node: i32) -> PyResult<()> {
        self.0.ask(py, |core| core.move_coordinator(key, node))
    }

    /// Stops a node: closes its port and connections, and moves its partitions' leaders.
    ///
    /// Raises `ValueError` if there is no such node.
    fn stop_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        self.0.ask(py, |core| core.stop_node(node))
    }

    /// Starts a stopped node on its old port. Raises `ValueError` if there is no such node.
    fn start_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        self.0.ask(py, |core| core.start_node(node))
    }

    /// Returns the names of all Kafka APIs, for faults and `requests`.
    #[staticmethod]
    fn api_names() -> Vec<&'static str> {
        thalweg_protocol::dynamic::schemas()
            .iter()
            .map(|api| api.name)
            .collect()
    }

    /// Returns the names of the options that `configs` may have.
    #[staticmethod]
    fn option_names() -> Vec<&'static str> {
        thalweg_broker::options::broker_option_names().collect()
    }

    /// Returns {API name: number of requests since the start, with or without a response}.
    #[pyo3(signature = (api = None))]
    fn requests(&self, py: Python<'_>, api: Option<&str>) -> PyResult<BTreeMap<String, u64>> {
        let key = api.map(api_key).transpose()?;
        self.0.ask(py, |core| {
            let seen = core.requests(key);
            Ok(seen
                .into_iter()
                .map(|(api, count)| (api.to_string(), count))
                .collect())
        })
    }
}

fn api_key(name: &str) -> PyResult<ApiKey> {
    ApiKey::from_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("there is no Kafka API named {name:?}")))
}

fn broker_error(py: Python<'_>, error: &BrokerError) -> PyErr {
    let text = error.to_string();
    match error {
        BrokerError::PortTaken { .. } => {
            let number = py
                .import("errno")
                .and_then(|errno| errno.getattr(ADDRESS_IN_USE));
            match number {
                Ok(number) => PyOSError::new_err((number.unbind(), text)),
                Err(error) => error,
            }
        }
        BrokerError::Listen { source, .. } => {
            PyOSError::new_err((source.raw_os_error().unwrap_or(0), text))
        }
        BrokerError::Config(_) => errors::raise(py, "KafkaConfigurationError", &text),
        BrokerError::Kafka { code, .. } => errors::raised(errors::for_code(py, code.0, &text)),
        BrokerError::NoSuchNode { .. } => PyValueError::new_err(text),
        BrokerError::Closed => errors::raise(py, "IllegalStateError", &text),
        BrokerError::Timeout { .. } => errors::raise(py, "KafkaTimeoutError", &text),
        _ => errors::raise(py, "KafkaError", &text),
    }
}
