//! `EmbeddedBroker`: the core that `thalweg.broker.EmbeddedBroker` wraps.
//!
//! ```text
//! groups.rs   the broker's groups and their coordinator in Python
//! ```

mod groups;

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use thalweg_broker::{
    BrokerConfig, BrokerError, EmbeddedBroker as Core, FaultAction, FaultMatch, GroupClock,
    GroupService, GroupTicket, SaslMechanism, SecurityConfig, SecurityProtocol, TlsFiles,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str};
use thalweg_security::Secret;
use thalweg_security::acl::{Acl, Operation, PatternType, Permission, ResourceType};

use crate::convert::errors;
use crate::interpreter::gil;

/// The value of `EADDRINUSE` differs between Linux, macOS and Windows. Python knows it.
const ADDRESS_IN_USE: &str = "EADDRINUSE";

enum State {
    New,
    Running(Box<Core>),
    Closed,
}

/// The core of the embedded broker.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct EmbeddedBroker {
    config: BrokerConfig,
    pid: u32,
    state: Mutex<State>,
    /// For the coordinator of groups, from its start until the broker is closed.
    groups: Mutex<Option<GroupService>>,
    groups_clock: OnceLock<GroupClock>,
}

impl EmbeddedBroker {
    /// Uses the state without the GIL. The holder of its lock may be starting a broker, and needs
    /// the GIL afterwards.
    fn with_state<T: Send>(
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

    /// Returns the groups for their coordinator, or `None` once the broker is closed.
    fn group_service(&self, py: Python<'_>) -> PyResult<Option<GroupService>> {
        if self.groups_clock.get().is_none() {
            let text = "_serve_groups() must be called first";
            return Err(errors::raise(py, "IllegalStateError", text));
        }
        let groups = &self.groups;
        Ok(py.detach(|| {
            groups
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        }))
    }

    /// Passes the running broker to `question`.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&Core) -> Result<T, BrokerError> + Send,
    ) -> PyResult<T> {
        let answer = self.with_state(py, |state| match state {
            State::Running(core) => Some(question(core)),
            State::New | State::Closed => None,
        })?;
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(broker_error(py, &error)),
            None => Err(errors::raise(
                py,
                "IllegalStateError",
                "the broker is not running",
            )),
        }
    }
}

#[pymethods]
impl EmbeddedBroker {
    #[new]
    #[pyo3(signature = (
        nodes = 1, port = 0, host = "127.0.0.1", configs = None, security_protocol = "PLAINTEXT",
        sasl_mechanisms = None, users = None, tls = None
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
            security: security(security_protocol, sasl_mechanisms, users, tls)?,
            ..BrokerConfig::default()
        };
        Ok(Self {
            config,
            pid: std::process::id(),
            state: Mutex::new(State::New),
            groups: Mutex::new(None),
            groups_clock: OnceLock::new(),
        })
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let started = self.with_state(py, |state| match state {
            State::Running(_) => Ok(()),
            State::Closed => Err(BrokerError::Closed),
            State::New => {
                *state = State::Running(Box::new(Core::start(self.config.clone())?));
                Ok(())
            }
        })?;
        started.map_err(|error| broker_error(py, &error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.with_state(py, |state| {
            if let State::Running(core) = std::mem::replace(state, State::Closed) {
                core.close();
            }
            // A thread that waits for events keeps a clone until it learns of the end.
            *self.groups.lock().unwrap_or_else(PoisonError::into_inner) = None;
        })
    }

    #[getter]
    fn host(&self) -> &str {
        &self.config.host
    }

    #[getter]
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<i32>> {
        self.with_state(py, |state| match state {
            State::Running(core) => core.node_ids(),
            State::New | State::Closed => (1..=self.config.nodes).collect(),
        })
    }

    #[getter]
    fn ports(&self, py: Python<'_>) -> PyResult<Vec<u16>> {
        self.ask(py, |core| Ok(core.ports()))
    }

    #[getter]
    fn bootstrap_servers(&self, py: Python<'_>) -> PyResult<String> {
        self.ask(py, |core| Ok(core.bootstrap_servers()))
    }

    #[getter]
    fn running(&self, py: Python<'_>) -> PyResult<bool> {
        self.with_state(
            py,
            |state| matches!(state, State::Running(core) if core.is_running()),
        )
    }

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
        self.ask(py, |core| {
            core.create_topic(name, num_partitions, replication_factor, &configs)
        })
    }

    fn delete_topic(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.ask(py, |core| core.delete_topic(name))
    }

    fn topics(&self, py: Python<'_>) -> PyResult<BTreeMap<String, i32>> {
        self.ask(py, |core| Ok(core.topics()))
    }

    fn leader(&self, py: Python<'_>, partition: (String, i32)) -> PyResult<i32> {
        self.ask(py, |core| core.leader(&partition.0, partition.1))
    }

    fn move_leader(&self, py: Python<'_>, partition: (String, i32), node: i32) -> PyResult<()> {
        self.ask(py, |core| core.move_leader(&partition.0, partition.1, node))
    }

    fn move_coordinator(&self, py: Python<'_>, key: &str, node: i32) -> PyResult<()> {
        self.ask(py, |core| core.move_coordinator(key, node))
    }

    fn set_user(&self, py: Python<'_>, user: &str, password: &str) -> PyResult<()> {
        let password = Secret::new(password);
        self.ask(py, |core| core.set_user(user, &password))
    }

    fn remove_user(&self, py: Python<'_>, user: &str) -> PyResult<bool> {
        self.ask(py, |core| core.remove_user(user))
    }

    #[allow(clippy::too_many_arguments)]
    fn create_acl(
        &self,
        py: Python<'_>,
        resource_type: &str,
        pattern_type: &str,
        name: String,
        principal: String,
        host: String,
        operation: &str,
        permission: &str,
    ) -> PyResult<()> {
        let unknown = |word: &str| PyValueError::new_err(format!("unknown word {word:?}"));
        let acl = Acl {
            resource_type: ResourceType::from_name(resource_type)
                .ok_or_else(|| unknown(resource_type))?,
            pattern_type: PatternType::from_name(pattern_type)
                .ok_or_else(|| unknown(pattern_type))?,
            name,
            principal,
            host,
            operation: Operation::from_name(operation).ok_or_else(|| unknown(operation))?,
            permission: Permission::from_name(permission).ok_or_else(|| unknown(permission))?,
        };
        self.ask(py, |core| core.create_acl(acl))
    }

    fn authority_pem(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.ask(py, |core| Ok(core.authority_pem()))
    }

    fn client_certificate(&self, py: Python<'_>, name: &str) -> PyResult<(String, String)> {
        let (certificate, key) = self.ask(py, |core| core.client_certificate(name))?;
        Ok((certificate, key.reveal().to_owned()))
    }

    fn stop_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        self.ask(py, |core| core.stop_node(node))
    }

    fn start_node(&self, py: Python<'_>, node: i32) -> PyResult<()> {
        self.ask(py, |core| core.start_node(node))
    }

    #[staticmethod]
    fn api_names() -> Vec<&'static str> {
        thalweg_protocol::dynamic::schemas()
            .iter()
            .map(|api| api.name)
            .collect()
    }

    #[staticmethod]
    fn option_names() -> Vec<&'static str> {
        thalweg_broker::options::broker_option_names().collect()
    }

    #[pyo3(signature = (api, action, node = None, topic = None, error_code = 0, delay_ms = 0, times = Some(1)))]
    #[allow(clippy::too_many_arguments)]
    fn add_fault(
        &self,
        py: Python<'_>,
        api: Option<&str>,
        action: &str,
        node: Option<i32>,
        topic: Option<String>,
        error_code: i16,
        delay_ms: u64,
        times: Option<u32>,
    ) -> PyResult<u64> {
        let matches = FaultMatch {
            api: api.map(api_key).transpose()?,
            node,
            topic: topic.map(Str::from),
        };
        let action = match action {
            "fail" => FaultAction::Fail(ErrorCode(error_code)),
            "delay" => FaultAction::Delay(Duration::from_millis(delay_ms)),
            "disconnect" => FaultAction::Disconnect,
            "apply_then_disconnect" => FaultAction::ApplyThenDisconnect,
            "silence" => FaultAction::Silence,
            other => {
                return Err(PyValueError::new_err(format!(
                    "unknown fault action {other:?}"
                )));
            }
        };
        self.ask(py, |core| Ok(core.faults().add(matches, action, times).0))
    }

    fn remove_fault(&self, py: Python<'_>, fault: u64) -> PyResult<()> {
        self.ask(py, |core| {
            core.faults().remove(thalweg_broker::FaultId(fault));
            Ok(())
        })
    }

    fn clear_faults(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, |core| {
            core.faults().clear();
            Ok(())
        })
    }

    fn fault_hits(&self, py: Python<'_>, fault: u64) -> PyResult<u64> {
        self.ask(py, |core| {
            Ok(core
                .faults()
                .hits(thalweg_broker::FaultId(fault))
                .unwrap_or(0))
        })
    }

    #[pyo3(signature = (api = None))]
    fn requests(&self, py: Python<'_>, api: Option<&str>) -> PyResult<BTreeMap<String, u64>> {
        let key = api.map(api_key).transpose()?;
        self.ask(py, |core| {
            let seen = core.requests(key);
            Ok(seen
                .into_iter()
                .map(|(api, count)| (api.to_string(), count))
                .collect())
        })
    }

    #[pyo3(name = "_serve_groups")]
    fn serve_groups(&self, py: Python<'_>) -> PyResult<()> {
        let service = self.ask(py, Core::serve_groups)?;
        let clock = service.clock();
        py.detach(|| {
            *self.groups.lock().unwrap_or_else(PoisonError::into_inner) = Some(service);
        });
        self.groups_clock.get_or_init(|| clock);
        Ok(())
    }

    #[pyo3(name = "_group_options")]
    fn group_options(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, String>> {
        self.ask(py, |core| Ok(core.group_options()))
    }

    #[pyo3(name = "_next_group_events", signature = (timeout_ms = None))]
    fn next_group_events<'py>(
        &self,
        py: Python<'py>,
        timeout_ms: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        match self.group_service(py)? {
            Some(groups) => groups::next_events(py, &groups, gil::deadline_ms(timeout_ms)),
            None => Ok(None),
        }
    }

    #[pyo3(name = "_answer_group_request")]
    fn answer_group_request(
        &self,
        py: Python<'_>,
        token: u64,
        body: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        match self.group_service(py)? {
            Some(groups) => groups::answer(py, &groups, GroupTicket(token), body),
            None => Ok(false),
        }
    }

    #[pyo3(name = "_publish_group")]
    fn publish_group(&self, py: Python<'_>, view: &Bound<'_, PyDict>, at_ms: f64) -> PyResult<()> {
        let (group, view) = groups::view_from_py(view)?;
        if let Some(groups) = self.group_service(py)? {
            py.detach(|| groups.publish(&group, view, at_ms));
        }
        Ok(())
    }

    #[pyo3(name = "_forget_group")]
    fn forget_group(&self, py: Python<'_>, group_id: &str) -> PyResult<()> {
        if let Some(groups) = self.group_service(py)? {
            py.detach(|| groups.forget(group_id));
        }
        Ok(())
    }

    #[pyo3(name = "_topics_by_id")]
    fn topics_by_id(&self, py: Python<'_>) -> PyResult<Vec<(String, String, i32)>> {
        let Some(service) = self.group_service(py)? else {
            return Ok(Vec::new());
        };
        Ok(py.detach(|| service.topics()))
    }

    #[pyo3(name = "_broker_now_ms")]
    fn broker_now_ms(&self, py: Python<'_>) -> PyResult<f64> {
        self.group_service(py)?;
        Ok(self.groups_clock.get().map_or(0.0, GroupClock::now_ms))
    }
}

fn security(
    protocol: &str,
    mechanisms: Option<Vec<String>>,
    users: Option<BTreeMap<String, String>>,
    tls: Option<(String, String, Option<String>)>,
) -> PyResult<SecurityConfig> {
    let unknown = |what: &str, name: &str| {
        PyValueError::new_err(format!("the embedded broker has no {what} named {name:?}"))
    };
    let mut config = SecurityConfig {
        protocol: SecurityProtocol::from_name(protocol)
            .ok_or_else(|| unknown("security protocol", protocol))?,
        ..SecurityConfig::default()
    };
    if let Some(names) = mechanisms {
        let known = |name: &String| {
            SaslMechanism::from_name(name).ok_or_else(|| unknown("SASL mechanism", name))
        };
        config.mechanisms = names.iter().map(known).collect::<PyResult<_>>()?;
    }
    config.tls = tls.map(|(chain, key, client_authorities)| TlsFiles {
        chain,
        key: Secret::new(key),
        client_authorities,
    });
    let users = users.unwrap_or_default().into_iter();
    config.users = users
        .map(|(user, password)| (user, Secret::new(password)))
        .collect();
    Ok(config)
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
