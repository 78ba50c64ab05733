//! Connects the embedded broker's groups to their coordinator in Python: events to Python, views
//! and responses from it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use thalweg_broker::{
    EmbeddedBroker as RunningBroker, GroupClock, GroupEvent, GroupEventKind, GroupKind,
    GroupRequest, GroupService, GroupTicket, GroupView, MemberView,
};
use thalweg_protocol::dynamic::{self, StructSchema};
use thalweg_protocol::{ApiKey, DecodeError, ErrorCode, Reader, Str};

use super::state::Shared;
use crate::convert::{errors, values};
use crate::interpreter::gil;

/// The groups of an embedded broker, for their coordinator.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct BrokerGroups(pub(super) Arc<Shared>);

impl BrokerGroups {
    /// Returns the groups for their coordinator, or `None` once the broker is closed.
    fn service(&self, py: Python<'_>) -> PyResult<Option<GroupService>> {
        if self.0.groups_clock.get().is_none() {
            let text = "serve() must be called first";
            return Err(errors::raise(py, "IllegalStateError", text));
        }
        let groups = &self.0.groups;
        Ok(py.detach(|| {
            groups
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        }))
    }
}

#[pymethods]
impl BrokerGroups {
    /// Makes the broker announce the APIs of groups and pass on their requests.
    ///
    /// A second call does nothing. Raises `IllegalStateError` unless the broker runs. Before this
    /// call, all methods but `options` raise `IllegalStateError`.
    fn serve(&self, py: Python<'_>) -> PyResult<()> {
        let service = self.0.ask(py, RunningBroker::serve_groups)?;
        let clock = service.clock();
        py.detach(|| {
            *self.0.groups.lock().unwrap_or_else(PoisonError::into_inner) = Some(service);
        });
        self.0.groups_clock.get_or_init(|| clock);
        Ok(())
    }

    /// Returns Kafka's broker options that begin with 'group.', given or default.
    fn options(&self, py: Python<'_>) -> PyResult<BTreeMap<&'static str, String>> {
        self.0.ask(py, |core| Ok(core.group_options()))
    }

    /// Waits without the GIL, and returns the oldest events, at most 500, in order.
    ///
    /// Returns an empty list when the time is over, and None when the broker is closed. Only one
    /// thread may wait.
    #[pyo3(signature = (timeout_ms = None))]
    fn next_events<'py>(
        &self,
        py: Python<'py>,
        timeout_ms: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        match self.service(py)? {
            Some(groups) => next_events(py, &groups, gil::deadline_ms(timeout_ms)),
            None => Ok(None),
        }
    }

    /// Responds to a request. Returns False if the client no longer waits.
    ///
    /// Raises `ValueError` or `TypeError` if the body does not fit the schema or version of the
    /// response. The client then gets `UNKNOWN_SERVER_ERROR`.
    fn respond(&self, py: Python<'_>, token: u64, body: &Bound<'_, PyAny>) -> PyResult<bool> {
        match self.service(py)? {
            Some(groups) => respond(py, &groups, GroupTicket(token), body),
            None => Ok(false),
        }
    }

    /// Sets the broker's view of a group, as of the event at `at_ms`.
    ///
    /// The session of a member begins now if it was not watched before, or has a new timeout.
    fn publish(&self, py: Python<'_>, view: &Bound<'_, PyDict>, at_ms: f64) -> PyResult<()> {
        let (group, view) = view_from_py(view)?;
        if let Some(groups) = self.service(py)? {
            py.detach(|| groups.publish(&group, view, at_ms));
        }
        Ok(())
    }

    /// Removes the broker's view of a group. Its committed offsets stay.
    fn forget(&self, py: Python<'_>, group_id: &str) -> PyResult<()> {
        if let Some(groups) = self.service(py)? {
            py.detach(|| groups.forget(group_id));
        }
        Ok(())
    }

    /// Returns (name, id, number of partitions) of all topics.
    fn topics(&self, py: Python<'_>) -> PyResult<Vec<(String, String, i32)>> {
        let Some(service) = self.service(py)? else {
            return Ok(Vec::new());
        };
        Ok(py.detach(|| service.topics()))
    }

    /// Returns those of the topics that a user may describe from a host.
    fn visible_topics(
        &self,
        py: Python<'_>,
        principal: &str,
        host: &str,
        names: Vec<String>,
    ) -> PyResult<Vec<String>> {
        let Some(service) = self.service(py)? else {
            return Ok(Vec::new());
        };
        Ok(py.detach(|| service.visible_topics(principal, host, names)))
    }

    /// Returns the time on the clock of events: milliseconds since `start()`.
    fn now_ms(&self, py: Python<'_>) -> PyResult<f64> {
        self.service(py)?;
        Ok(self.0.groups_clock.get().map_or(0.0, GroupClock::now_ms))
    }
}

/// Waits without the GIL for new events, and returns them. `None`: the broker is closed.
fn next_events<'py>(
    py: Python<'py>,
    service: &GroupService,
    deadline: Option<Instant>,
) -> PyResult<Option<Bound<'py, PyList>>> {
    let found = gil::wait(py, deadline, |waker| match service.poll_events(waker) {
        std::task::Poll::Ready(events) => Some(events),
        std::task::Poll::Pending => None,
    })?;
    let list = PyList::empty(py);
    match found {
        Some(None) => return Ok(None),
        Some(Some(events)) => {
            for event in events {
                if let Some(event) = event_to_py(py, service, event)? {
                    list.append(event)?;
                }
            }
        }
        None => {}
    }
    Ok(Some(list))
}

/// Converts an event. `None`: the request could not be read, and got an error as its response.
fn event_to_py<'py>(
    py: Python<'py>,
    service: &GroupService,
    event: GroupEvent,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let (at_ms, group) = (event.at_ms, event.group.as_str());
    let tuple = match event.kind {
        GroupEventKind::Expired { member } => ("expired", at_ms, group, member.as_str())
            .into_pyobject(py)?
            .into_any(),
        GroupEventKind::Topics => ("topics", at_ms).into_pyobject(py)?.into_any(),
        GroupEventKind::Deleted => ("deleted", at_ms, group).into_pyobject(py)?.into_any(),
        GroupEventKind::Request(request) => {
            let Ok((body, draft)) = read(&request) else {
                let code = ErrorCode::INVALID_REQUEST;
                py.detach(|| service.refuse(request.ticket, code));
                return Ok(None);
            };
            let draft = draft.map(|draft| values::to_py(py, &draft)).transpose()?;
            let tuple = (
                "request",
                request.ticket.0,
                request.key.to_string(),
                request.version,
                request.client_id.as_deref().unwrap_or_default(),
                request.client_host.as_str(),
                request.principal.as_str(),
                at_ms,
                group,
                values::to_py(py, &body)?,
                draft,
            );
            tuple.into_pyobject(py)?.into_any()
        }
    };
    Ok(Some(tuple))
}

fn read(request: &GroupRequest) -> Result<(dynamic::Value, Option<dynamic::Value>), DecodeError> {
    let (key, version) = (request.key, request.version);
    let mut input = Reader::new(request.body.clone());
    let body = dynamic::decode_request_body(key, version, &mut input)?;
    let draft = request
        .draft
        .clone()
        .map(|draft| dynamic::decode_response_body(key, version, &mut Reader::new(draft)));
    Ok((body, draft.transpose()?))
}

/// Sends a response to a waiting request. A body that does not fit the API raises, and the client
/// gets an error.
fn respond(
    py: Python<'_>,
    service: &GroupService,
    ticket: GroupTicket,
    body: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    let Some((key, version)) = py.detach(|| service.request_api(ticket)) else {
        return Ok(false);
    };
    match encode(key, version, body) {
        Ok(body) => Ok(py.detach(|| service.respond(ticket, body.into()))),
        Err(error) => {
            py.detach(|| service.refuse(ticket, ErrorCode::UNKNOWN_SERVER_ERROR));
            Err(error)
        }
    }
}

fn encode(key: ApiKey, version: i16, body: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let schema: &StructSchema = dynamic::schema(key)
        .map(|api| api.response.root)
        .ok_or_else(|| PyValueError::new_err(format!("{key} has no schema")))?;
    let value = values::struct_from_py(schema, body)?;
    dynamic::encode_response_body(key, version, &value)
        .map_err(|error| PyValueError::new_err(format!("{key} version {version}: {error}")))
}

/// Reads a view from a dict, with the group's ID.
fn view_from_py(view: &Bound<'_, PyDict>) -> PyResult<(String, GroupView)> {
    let view = view.as_any();
    let kind: String = view.get_item("kind")?.extract()?;
    let kind = GroupKind::from_name(&kind).ok_or_else(|| {
        PyValueError::new_err(format!("kind is 'classic' or 'consumer', not {kind:?}"))
    })?;
    let topics: Vec<String> = view.get_item("topics")?.extract()?;
    let members = view.get_item("members")?;
    let members = members.cast::<PyDict>()?.iter().map(|(id, member)| {
        let id: String = id.extract()?;
        Ok((Str::from(id), member_from_py(&member)?))
    });
    let group = GroupView {
        kind,
        protocol_type: text(view, "protocol_type")?,
        state: text(view, "state")?,
        epoch: view.get_item("epoch")?.extract()?,
        topics: topics.into_iter().map(Str::from).collect(),
        members: members.collect::<PyResult<_>>()?,
    };
    Ok((view.get_item("group_id")?.extract()?, group))
}

fn member_from_py(member: &Bound<'_, PyAny>) -> PyResult<MemberView> {
    let instance_id: Option<String> = member.get_item("instance_id")?.extract()?;
    Ok(MemberView {
        instance_id: instance_id.map(Str::from),
        session_timeout_ms: member.get_item("session_timeout_ms")?.extract()?,
        epoch: member.get_item("epoch")?.extract()?,
        assignment_epochs: epochs_from_py(member)?,
        heartbeat: ErrorCode(member.get_item("heartbeat")?.extract()?),
        is_watched: member.get_item("watched")?.extract()?,
    })
}

fn epochs_from_py(member: &Bound<'_, PyAny>) -> PyResult<BTreeMap<Str, BTreeMap<i32, i32>>> {
    let member = member.cast::<PyDict>()?;
    let Some(epochs) = member.get_item("assignment_epochs")? else {
        return Ok(BTreeMap::new());
    };
    let epochs: BTreeMap<String, BTreeMap<i32, i32>> = epochs.extract()?;
    let epochs = epochs.into_iter();
    Ok(epochs.map(|(topic, of)| (Str::from(topic), of)).collect())
}

fn text(of: &Bound<'_, PyAny>, name: &str) -> PyResult<Str> {
    Ok(Str::from(of.get_item(name)?.extract::<String>()?))
}
