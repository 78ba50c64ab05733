//! `Client`: any Kafka API by name, on its own connections or on those of a producer or consumer.
//!
//! ```text
//! cluster.rs   a snapshot of its metadata
//! metrics.rs   metrics as dicts, and calls that repeat
//! ```

pub(crate) mod cluster;
pub(crate) mod metrics;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use thalweg_cluster::{CoordinatorType, NodeId};
use thalweg_network::admin::AdminClient;
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::producer::ProducerClient;
use thalweg_network::sasl::Secret;
use thalweg_network::{
    ClientError, ClientView, Generation, NamedRequest, RequestTarget, Response, Ticket,
    VersionChoice,
};
use thalweg_protocol::dynamic::{self, Value};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::client::cluster::ClusterMetadata;
use crate::convert::options::{self, Options};
use crate::convert::{errors, settings, tls, values};
use crate::interpreter::{callbacks, gil};
use crate::operation::{PyOperation, is_over, run};

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
            named.encode(version).map_err(|error| {
                errors::raise(py, "UnsupportedVersionError", &format!("{api}: {error}"))
            })?;
        }
        let mut request = named.into_request(asked.target);
        request.version = asked.version;
        request.timeout = asked.timeout;
        Ok(PendingRequest::of(self.view().request(request)))
    }

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

    fn forget_coordinator(&self, kind: &str, key: &str) -> PyResult<()> {
        self.view().forget_coordinator(coordinator_type(kind)?, key);
        Ok(())
    }

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

    fn cluster(&self) -> ClusterMetadata {
        ClusterMetadata::new(self.view().metadata().snapshot())
    }

    fn watch_cluster_id(&self, f: Py<PyAny>) {
        cluster::watch_id(self.view().clone(), f);
    }

    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let snapshot = self.view().metadata().snapshot();
        snapshot
            .nodes()
            .map(|node| cluster::broker(py, node))
            .collect()
    }

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
        let answer = self.request(py, "ApiVersions", body.as_any(), node, None, None, None)?;
        let versions = PyDict::new(py);
        for api in answer.get_item("ApiKeys")?.try_iter()? {
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

    fn bootstrap_connected(&self, py: Python<'_>) -> PyResult<bool> {
        run(py, &mut self.view().is_connected())
    }

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

    fn explained(&self, text: &str, api: &str, code: i16, resource: &str) -> PyResult<String> {
        let principal = self.view().principal();
        Ok(principal.explained(text, api_key(api)?, ErrorCode(code), resource))
    }

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

struct RequestState {
    ticket: Ticket<Response>,
    generation: Generation,
    /// Held while the result moves from the ticket to `answer`, so that a second waiting thread
    /// finds it in one of the two.
    moving: Mutex<()>,
    /// The decoded response, kept so that it can be read several times.
    answer: OnceLock<Result<Value, ClientError>>,
}

impl RequestState {
    /// Returns the response if it has arrived. Otherwise the waker is woken when it arrives.
    fn poll(&self, waker: &Waker) -> Option<&Result<Value, ClientError>> {
        if self.generation.is_inherited() {
            // Checked first: in a child, threads that do not exist may hold the locks below.
            return Some(self.keep(Err(ClientError::Forked)));
        }
        let _moving = self.moving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = self.answer.get() {
            return Some(answer);
        }
        self.ticket.poll(waker).map(|outcome| self.keep(outcome))
    }

    fn keep(&self, outcome: Result<Response, ClientError>) -> &Result<Value, ClientError> {
        self.answer.get_or_init(|| outcome?.decode_by_name())
    }

    fn is_done(&self) -> bool {
        self.answer.get().is_some() || self.generation.is_inherited() || self.ticket.is_done()
    }

    /// Returns the size of a response that has arrived and was not read yet, otherwise 0.
    fn answer_bytes(&self) -> usize {
        if self.generation.is_inherited() {
            return 0;
        }
        self.ticket.peek(|outcome| match outcome {
            Some(Ok(response)) => response.reader.remaining(),
            _ => 0,
        })
    }
}

/// A request that waits for its response.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct PendingRequest(Arc<RequestState>);

impl PendingRequest {
    pub(crate) fn of(ticket: Ticket<Response>) -> Self {
        Self(Arc::new(RequestState {
            ticket,
            generation: Generation::current(),
            moving: Mutex::default(),
            answer: OnceLock::new(),
        }))
    }

    /// Returns the wait for the response.
    pub(crate) fn answer(&self, timeout_ms: Option<f64>) -> Answer {
        Answer {
            pending: Arc::clone(&self.0),
            deadline: gil::deadline_ms(timeout_ms),
        }
    }
}

/// Waits until a request has its response or its error.
pub(crate) struct Answer {
    pending: Arc<RequestState>,
    deadline: Option<Instant>,
}

impl PyOperation for Answer {
    type Output = ();

    fn attempt(&mut self, _: Python<'_>) -> PyResult<Option<()>> {
        Ok(self.pending.answer.get().is_some().then_some(()))
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<()>> {
        // Without the GIL, because this decodes the response, which may be long.
        let has_answer = py.detach(|| self.pending.poll(waker).is_some());
        if !has_answer && is_over(self.deadline) {
            let text = "the request is still in flight";
            return Err(errors::raise(py, "KafkaTimeoutError", text));
        }
        Ok(has_answer.then_some(()))
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl Answer {
    fn known(&self, py: Python<'_>) -> PyResult<&Value> {
        let answer = self.pending.answer.get();
        let answer = answer.expect("read only once the wait is over");
        answer.as_ref().map_err(|error| errors::client(py, error))
    }

    /// Converts the response to Python, or raises its error. Call it only once the wait is over.
    pub(crate) fn to_py<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        values::to_py(py, self.known(py)?)
    }
}

#[pymethods]
impl PendingRequest {
    #[getter]
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    #[getter]
    fn answer_bytes(&self) -> usize {
        self.0.answer_bytes()
    }

    #[pyo3(signature = (timeout_ms = None))]
    fn result<'py>(&self, py: Python<'py>, timeout_ms: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let mut answer = self.answer(timeout_ms);
        run(py, &mut answer)?;
        // Long responses are read in the background, see `coordinator/driver/_waits.py`.
        values::to_py_in_background(py, answer.known(py)?)
    }

    fn add_done_callback(slf: &Bound<'_, Self>, f: Py<PyAny>) {
        let py = slf.py();
        let this = slf.clone().unbind();
        let call = move |py: Python<'_>| {
            if let Err(error) = f.call1(py, (this.clone_ref(py),)) {
                callbacks::report(py, "done callback of a request", error);
            }
        };
        if slf.get().0.is_done() {
            call(py);
            return;
        }
        let thread = callbacks::current();
        let token = thread.new_token();
        thread.register(token, Box::new(call));
        slf.get().0.ticket.on_done(callbacks::waker(token));
    }
}
