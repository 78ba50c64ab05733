//! `Client`: any Kafka API by name, on its own connections or on those of a producer or consumer.
//!
//! ```text
//! cluster.rs   a snapshot of its metadata
//! metrics.rs   metrics as dicts, and calls that repeat
//! pending.rs   requests that wait for their response
//! ```

pub(crate) mod cluster;
pub(crate) mod metrics;
mod pending;

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use thalweg_cluster::{CoordinatorType, NodeId};
use thalweg_network::admin::AdminClient;
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::producer::ProducerClient;
use thalweg_network::sasl::Secret;
use thalweg_network::{ClientView, NamedRequest, RequestTarget, VersionChoice};
use thalweg_protocol::dynamic;
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::client::cluster::ClusterMetadata;
use crate::convert::options::{self, Options};
use crate::convert::{errors, settings, tls, values};
use crate::interpreter::gil;
use crate::operation::run;
pub(crate) use pending::{PendingRequest, ResponseWait};

/// The client whose connections are used. The handle keeps it open.
#[derive(Clone)]
pub(crate) enum Handle {
    Own(Arc<AdminClient>),
    Producer(Arc<ProducerClient>),
    Consumer(Arc<ConsumerClient>),
}

impl Handle {
    fn view(&self) -> &ClientView {
        match self {
            Self::Own(client) => client.view(),
            Self::Producer(client) => client.view(),
            Self::Consumer(client) => client.view(),
        }
    }
}

/// Sends requests of any Kafka API by name.
///
/// A body is a dict with the field names of Kafka's JSON schemas ("`TopicName`"): structs are
/// dicts, arrays lists, bytes and records bytes, and null is None. UUIDs are str in Kafka's
/// URL-safe base64 ("AAAAAAAAAAAAAAAAAAAAAA" is the zero ID). A missing field gets the schema's
/// default. An unknown field raises a `ValueError` that names it. A field with a non-default value
/// that the negotiated version does not have raises `UnsupportedVersionError`. If the fields differ
/// by version, the body is a list of (min version, fields), and the last one that the negotiated
/// version supports is sent. The caller must check the error codes inside a response.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct Client(Handle);

impl Client {
    pub(crate) fn of(handle: Handle) -> Self {
        Self(handle)
    }

    fn view(&self) -> &ClientView {
        self.0.view()
    }
}

/// A request without its body.
struct Asked {
    target: RequestTarget,
    version: VersionChoice,
    timeout: Option<Duration>,
}

#[pymethods]
impl Client {
    #[new]
    fn new(py: Python<'_>, config: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut options = Options::new(config)?;
        let mut config = settings::client(&mut options)?;
        options.finish()?;
        tls::prepare(py, &mut config)?;
        let client = py
            .detach(|| AdminClient::start(&config))
            .map_err(|error| errors::client(py, &error))?;
        run(py, &mut client.view().bootstrap(config.bootstrap_timeout))?;
        Ok(Self(Handle::Own(Arc::new(client))))
    }

    /// Sends one request and waits for the response.
    ///
    /// Args:
    ///     api: Kafka's name of the API.
    ///     body: The fields.
    ///     node: A node ID, "controller", or the least loaded broker (None, "any"). Or a
    ///         coordinator, ("coordinator", "group" | "transaction", key), which is looked up and
    ///         cached. `forget_coordinator` drops it from the cache.
    ///     version: The version to use. None means the highest version that both sides support, up
    ///         to `max_version`.
    ///     `timeout_ms`: The limit in milliseconds. None means `request_timeout_ms`.
    ///     `max_version`: The highest version to use.
    ///
    /// It retries only to reach the node. Requests to a coordinator use the group connection.
    /// `JoinGroup` and `SyncGroup` wait at the coordinator, so they use a connection of their own.
    /// All other requests use the general connection.
    ///
    /// Raises:
    ///     `IncompatibleBrokerVersion`: If there is no common version.
    ///     `KafkaTimeoutError`: After `timeout_ms`.
    ///     `KafkaConnectionError`: If the connection was lost.
    #[pyo3(signature = (api, body, node = None, version = None, timeout_ms = None, max_version = None))]
    #[allow(clippy::too_many_arguments)]
    fn request<'py>(
        &self,
        py: Python<'py>,
        api: &str,
        body: &Bound<'py, PyAny>,
        node: Option<&Bound<'py, PyAny>>,
        version: Option<i16>,
        timeout_ms: Option<f64>,
        max_version: Option<i16>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pending = self.submit(py, api, body, node, version, timeout_ms, max_version)?;
        pending.result(py, None)
    }

    /// Sends one request, as `request`, without waiting for the response.
    #[pyo3(signature = (api, body, node = None, version = None, timeout_ms = None, max_version = None))]
    #[allow(clippy::too_many_arguments)]
    fn submit(
        &self,
        py: Python<'_>,
        api: &str,
        body: &Bound<'_, PyAny>,
        node: Option<&Bound<'_, PyAny>>,
        version: Option<i16>,
        timeout_ms: Option<f64>,
        max_version: Option<i16>,
    ) -> PyResult<PendingRequest> {
        let asked = Asked {
            target: target(node)?,
            version: version_choice(version, max_version),
            timeout: timeout_ms.map(crate::convert::options::duration_ms),
        };
        let named = named_request(api, body)?;
        // A body that no version can carry fails at once, with the name of the field.
        if let Some(version) = version {
            named
                .encode(version)
                .map_err(|error| errors::encode(py, &error, &format!("{api}: {error}")))?;
        }
        let mut request = named.into_request(asked.target);
        request.version = asked.version;
        request.timeout = asked.timeout;
        Ok(PendingRequest::of(self.view().request(request)))
    }

    /// Returns the version that `request` would use, for bodies that differ by version.
    ///
    /// It connects if necessary. Raises `IncompatibleBrokerVersion` if there is no common version.
    #[pyo3(signature = (api, node = None, max_version = None))]
    fn negotiate(
        &self,
        py: Python<'_>,
        api: &str,
        node: Option<&Bound<'_, PyAny>>,
        max_version: Option<i16>,
    ) -> PyResult<i16> {
        let (target, version) = (target(node)?, version_choice(None, max_version));
        run(
            py,
            &mut self.view().negotiate(target, api_key(api)?, version),
        )
    }

    /// Drops a coordinator from the cache, so that the next request looks it up again.
    fn forget_coordinator(&self, kind: &str, key: &str) -> PyResult<()> {
        self.view().forget_coordinator(coordinator_type(kind)?, key);
        Ok(())
    }

    /// Forgets the controller. The client looks it up before the next request to it.
    fn forget_controller(&self) {
        self.view().forget_controller();
    }

    /// Requests metadata and returns the response as `request` does. It creates no topic.
    ///
    /// With None, it requests all topics. With [], it requests none.
    #[pyo3(signature = (topics = None, timeout_ms = None))]
    fn metadata<'py>(
        &self,
        py: Python<'py>,
        topics: Option<Vec<String>>,
        timeout_ms: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let body = PyDict::new(py);
        let list = match topics {
            None => None,
            Some(names) => {
                let list = PyList::empty(py);
                for name in names {
                    let topic = PyDict::new(py);
                    topic.set_item("Name", name)?;
                    list.append(topic)?;
                }
                Some(list)
            }
        };
        body.set_item("Topics", list)?;
        body.set_item("AllowAutoTopicCreation", false)?;
        self.request(py, "Metadata", body.as_any(), None, None, timeout_ms, None)
    }

    /// Returns a snapshot of the metadata that the client has now. It sends no request.
    fn cluster(&self) -> ClusterMetadata {
        ClusterMetadata::new(self.view().metadata().snapshot())
    }

    /// Calls `f(cluster_id)` on the callback thread when the ID becomes known or changes.
    ///
    /// If the ID is already known, the first call is at once. The calls end when the client is
    /// closed. The client logs the errors of f.
    fn watch_cluster_id(&self, f: Py<PyAny>) {
        cluster::watch_id(self.view().clone(), f);
    }

    /// Returns the brokers that the client knows now. It sends no request.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let snapshot = self.view().metadata().snapshot();
        snapshot
            .nodes()
            .map(|node| cluster::broker(py, node))
            .collect()
    }

    /// Returns {API name: (min version, max version)} of a node.
    ///
    /// Unknown APIs have their number as the name.
    #[pyo3(signature = (node = None))]
    fn api_versions<'py>(
        &self,
        py: Python<'py>,
        node: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        // This asks the broker itself, so the broker need not be connected before.
        let body = PyDict::new(py);
        body.set_item("ClientSoftwareName", "thalweg")?;
        body.set_item("ClientSoftwareVersion", env!("CARGO_PKG_VERSION"))?;
        let response = self.request(py, "ApiVersions", body.as_any(), node, None, None, None)?;
        let versions = PyDict::new(py);
        for api in response.get_item("ApiKeys")?.try_iter()? {
            let api = api?;
            let key = ApiKey(api.get_item("ApiKey")?.extract()?);
            let range: (i16, i16) = (
                api.get_item("MinVersion")?.extract()?,
                api.get_item("MaxVersion")?.extract()?,
            );
            match dynamic::schema(key) {
                Some(schema) => versions.set_item(schema.name, range)?,
                None => versions.set_item(key.0.to_string(), range)?,
            }
        }
        Ok(versions)
    }

    /// Whether a broker is connected.
    fn bootstrap_connected(&self, py: Python<'_>) -> PyResult<bool> {
        run(py, &mut self.view().is_connected())
    }

    /// Changes the credentials of PLAIN or SCRAM for the next authentication.
    ///
    /// Open connections stay open. Raises `KafkaConfigurationError` if the client has another
    /// mechanism.
    fn set_sasl_credentials(
        &self,
        py: Python<'_>,
        username: String,
        password: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let password = Secret::new(options::text("password", password)?);
        self.view()
            .set_sasl_credentials(username, password)
            .map_err(|error| errors::client(py, &error))
    }

    /// Returns the text of an error, with the permission to grant.
    ///
    /// It adds the permission only if the code is about permissions. The resource may be "" if the
    /// text names it.
    fn explained(&self, text: &str, api: &str, code: i16, resource: &str) -> PyResult<String> {
        let principal = self.view().principal();
        Ok(principal.explained(text, api_key(api)?, ErrorCode(code), resource))
    }

    /// Closes the client. Raises `IllegalStateError` if it belongs to a producer or consumer.
    #[pyo3(signature = (timeout_ms = None))]
    fn close(&self, py: Python<'_>, timeout_ms: Option<f64>) -> PyResult<()> {
        let Handle::Own(client) = &self.0 else {
            let text = "this client belongs to a producer or consumer: close that instead";
            return Err(errors::raise(py, "IllegalStateError", text));
        };
        if client.view().is_inherited() {
            return Ok(()); // its connections are the parent's
        }
        run(py, &mut client.view().close(gil::limit_ms(timeout_ms)))
    }

    /// Whether it was closed, or belongs to the parent of this process.
    #[getter]
    fn closed(&self) -> bool {
        self.view().check().is_err()
    }
}

/// Builds a request with one body for all versions, or with a sequence of (min version, body).
pub(crate) fn named_request(api: &str, body: &Bound<'_, PyAny>) -> PyResult<NamedRequest> {
    let key = api_key(api)?;
    let schema = dynamic::schema(key).ok_or_else(|| unknown_api(api))?;
    let mut bodies = Vec::new();
    if body.is_instance_of::<PyList>() {
        for pair in body.try_iter()? {
            let (least, fields): (i16, Bound<'_, PyAny>) = pair?.extract()?;
            bodies.push((least, values::struct_from_py(schema.request.root, &fields)?));
        }
    } else {
        bodies.push((i16::MIN, values::struct_from_py(schema.request.root, body)?));
    }
    Ok(NamedRequest::new(key, bodies))
}

fn api_key(name: &str) -> PyResult<ApiKey> {
    ApiKey::from_name(name).ok_or_else(|| unknown_api(name))
}

fn unknown_api(name: &str) -> PyErr {
    PyValueError::new_err(format!("there is no Kafka API named {name:?}"))
}

fn version_choice(exactly: Option<i16>, at_most: Option<i16>) -> VersionChoice {
    match (exactly, at_most) {
        (Some(version), _) => VersionChoice::Exactly(version),
        (None, Some(version)) => VersionChoice::AtMost(version),
        (None, None) => VersionChoice::Newest,
    }
}

fn coordinator_type(kind: &str) -> PyResult<CoordinatorType> {
    match kind {
        "group" => Ok(CoordinatorType::Group),
        "transaction" => Ok(CoordinatorType::Transaction),
        _ => Err(PyValueError::new_err(format!(
            "a coordinator is of kind 'group' or 'transaction', not {kind:?}"
        ))),
    }
}

const NODE: &str = "a node id, 'any', 'controller' or ('coordinator', kind, key)";

/// Converts the argument `node` to the target of a request. See `NODE`.
pub(crate) fn target(node: Option<&Bound<'_, PyAny>>) -> PyResult<RequestTarget> {
    let Some(node) = node else {
        return Ok(RequestTarget::LeastLoaded);
    };
    if let Ok(word) = node.cast::<PyString>() {
        return match word.to_str()? {
            "any" => Ok(RequestTarget::LeastLoaded),
            "controller" => Ok(RequestTarget::Controller),
            other => Err(PyValueError::new_err(format!("unknown node {other:?}"))),
        };
    }
    if let Ok((_, kind, key)) = node.extract::<(String, String, String)>() {
        return Ok(RequestTarget::Coordinator {
            kind: coordinator_type(&kind)?,
            key: Str::from(key),
        });
    }
    let id = node.extract::<NodeId>().map_err(|error| {
        if error.is_instance_of::<PyTypeError>(node.py()) {
            values::wrong_type(&"node", NODE, node)
        } else {
            error
        }
    })?;
    Ok(RequestTarget::Node(id))
}
