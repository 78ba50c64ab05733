//! A single request until it has its response: finds its broker, waits for the connection, agrees
//! on a version.
//!
//! ```text
//!   UnsentRequest ── advance: node known, connected, version agreed ──▶ SentRequest ──▶ reply
//!        ▲                                                              │
//!        └─────── a read whose connection was lost, while there is time ┘
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_cluster::{
    Body, Cluster, ConnectionError, Coordinator, NodeId, Outgoing, Purpose, RequestError,
    RequestId, ResponseBody, UnsupportedVersion,
};
use thalweg_protocol::{ErrorCode, versions};

use super::request::{Request, RequestTarget, Response, VersionChoice};
use super::ticket::Reply;
use crate::error::ClientError;

/// A request that is not sent yet.
#[derive(Debug)]
pub(crate) struct UnsentRequest {
    pub(crate) request: Request,
    pub(crate) reply: Reply<Response>,
    pub(crate) deadline: Instant,
    /// How long the response may take before the connection is treated as dead.
    pub(crate) wire_timeout: Duration,
    /// The snapshot of the metadata may be older than the node that the request is for. So one
    /// refresh is requested, and this is its number.
    pub(crate) refresh: Option<u64>,
}

/// A request that was sent. It is kept because a read may have to be sent again.
#[derive(Debug)]
pub(crate) struct SentRequest {
    pending: UnsentRequest,
    node: NodeId,
}

impl SentRequest {
    pub(crate) fn deadline(&self) -> Instant {
        self.pending.deadline
    }

    /// Passes on the response. Returns a read whose connection was lost, to be sent again.
    pub(crate) fn answered(
        self,
        result: Result<ResponseBody, RequestError>,
        now: Instant,
    ) -> Option<UnsentRequest> {
        let mut pending = self.pending;
        let again = matches!(&result, Err(error) if error.is_retriable())
            && pending.request.is_read()
            && now < pending.deadline;
        if again {
            return Some(pending);
        }
        let response = result.map(|body| Response {
            node: body.node,
            api_key: body.api_key,
            version: body.version,
            reader: body.reader,
        });
        if let (Ok(response), Some(on_response)) = (&response, pending.request.on_response.take()) {
            on_response(response);
        }
        pending.reply.send(response.map_err(ClientError::from));
        None
    }

    /// Fails the request because the caller's deadline has passed. A later response is dropped.
    pub(crate) fn forget(self) {
        let api = self.pending.request.api_key.name();
        let what = format!("{api}: node {} did not respond in time", self.node);
        self.pending.reply.send(Err(ClientError::TimedOut(what)));
    }
}

pub(crate) enum Step {
    Wait(UnsentRequest),
    Sent(RequestId, SentRequest),
    /// It has failed, and the caller has the error.
    Done,
}

enum Found {
    Node(NodeId),
    NotYet,
    Never(ClientError),
}

impl UnsentRequest {
    /// Tries to send the request. Call it again after any event.
    pub(crate) fn advance(mut self, cluster: &mut Cluster, now: Instant) -> Step {
        let node = match find(&self.request, &mut self.refresh, cluster, now) {
            Found::Node(node) => node,
            Found::Never(error) => return self.fail(error),
            Found::NotYet => return self.wait(None, cluster, now),
        };
        let purpose = self.request.purpose();
        if !cluster.is_ready(node, purpose, now) {
            return self.wait(Some((node, purpose)), cluster, now);
        }
        let version = match choose_version(cluster, node, &self.request) {
            Ok(version) => version,
            Err(error) => return self.fail(error.into()),
        };
        let body = match (self.request.encode)(version) {
            Ok(body) => Body::new(body),
            Err(error) => return self.fail(error.into()),
        };
        let outgoing = Outgoing {
            api_key: self.request.api_key,
            version,
            body,
            timeout: self.wire_timeout,
            expects_response: true,
        };
        let id = cluster.send(node, purpose, outgoing, now);
        let sent = SentRequest {
            pending: self,
            node,
        };
        Step::Sent(id, sent)
    }

    fn fail(self, error: ClientError) -> Step {
        self.reply.send(Err(error));
        Step::Done
    }

    fn wait(self, node: Option<(NodeId, Purpose)>, cluster: &mut Cluster, now: Instant) -> Step {
        let cause = match node {
            Some((node, purpose)) => cluster.connection_error(node, purpose),
            None if cluster.is_connected() => cluster.refusal(now),
            None => cluster.fatal_error().cloned(),
        };
        // An attempt that is in progress may succeed: the last one may be long ago, or had other
        // credentials.
        let is_latest =
            node.is_none_or(|(node, purpose)| cluster.is_backing_off(node, purpose, now));
        if let Some(cause) = cause
            .as_ref()
            .filter(|cause| cause.fails_calls() && is_latest)
        {
            return self.fail(ClientError::Connection(Arc::clone(cause)));
        }
        if now < self.deadline {
            return Step::Wait(self);
        }
        if !cluster.is_bootstrapped() {
            return self.fail(no_brokers(cluster));
        }
        let what = match (&self.request.target, node) {
            (_, Some((node, _))) => format!("no connection to node {node} in time"),
            (RequestTarget::LeastLoaded, None) => "no connection to any node in time".to_owned(),
            (target, None) => format!("no broker reported {target:?} in time"),
        };
        let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        let api = self.request.api_key.name();
        self.fail(ClientError::TimedOut(format!("{api}: {what}{cause}")))
    }
}

/// Returns the error that lists each bootstrap address with its last failure.
pub(crate) fn no_brokers(cluster: &Cluster) -> ClientError {
    let causes = cluster
        .bootstrap_errors()
        .into_iter()
        .map(|(address, error)| {
            let cause =
                error.map_or_else(|| "no response yet".to_owned(), |error| error.to_string());
            (address, cause)
        });
    ClientError::NoBrokersAvailable(causes.collect())
}

fn find(
    request: &Request,
    refresh: &mut Option<u64>,
    cluster: &mut Cluster,
    now: Instant,
) -> Found {
    if !cluster.is_bootstrapped() {
        return Found::NotYet;
    }
    match &request.target {
        RequestTarget::LeastLoaded => cluster
            .least_loaded_node(now)
            .map_or(Found::NotYet, Found::Node),
        &RequestTarget::Node(node) => find_node(node, refresh, cluster),
        RequestTarget::Controller => match cluster.controller() {
            Some(node) => Found::Node(node),
            None => after_refresh(cluster),
        },
        RequestTarget::Coordinator { kind, key } => match cluster.coordinator(*kind, key) {
            Coordinator::Known(node) => Found::Node(node),
            Coordinator::Unknown => Found::NotYet,
            Coordinator::Failed { error, message } => {
                // Reported once. The next request asks the brokers again.
                cluster.invalidate_coordinator(*kind, key, now);
                let about = message.filter(|text| !text.is_empty());
                let context = about.map_or_else(|| key.to_string(), |text| text.to_string());
                // A right to do what the request needs includes that to look up the coordinator.
                let principal = &cluster.config().principal;
                let context = principal.explained(&context, request.api_key, error, key);
                Found::Never(ClientError::Broker {
                    code: error,
                    context,
                })
            }
        },
        RequestTarget::Leader { topic, partition } => find_leader(topic, *partition, cluster, now),
    }
}

fn find_node(node: NodeId, refresh: &mut Option<u64>, cluster: &Cluster) -> Found {
    if cluster.metadata().node(node).is_some() {
        return Found::Node(node);
    }
    let shared = cluster.shared_metadata();
    let number = *refresh.get_or_insert_with(|| shared.request_update());
    if shared.is_answered(number) {
        Found::Never(ClientError::UnknownNode(node))
    } else {
        after_refresh(cluster)
    }
}

/// Waits for a refresh of the metadata, unless the client refuses every response: they name a host
/// that the options do not allow.
fn after_refresh(cluster: &Cluster) -> Found {
    match cluster.shared_metadata().fatal_error() {
        Some(error) if matches!(*error, ConnectionError::HostNotAllowed { .. }) => {
            Found::Never(ClientError::Connection(error))
        }
        _ => Found::NotYet,
    }
}

fn find_leader(topic: &str, partition: i32, cluster: &mut Cluster, now: Instant) -> Found {
    if let Err(error) = cluster.add_topic(topic, now) {
        return Found::Never(error.into());
    }
    if let Some(node) = cluster.metadata().leader(topic, partition) {
        return Found::Node(node);
    }
    if let Some(code) = cluster.metadata().topic_error(topic)
        && !code.is_retriable()
    {
        return Found::Never(ClientError::Broker {
            code,
            context: topic.to_owned(),
        });
    }
    if let Some(known) = cluster.metadata().topic(topic) {
        if known.partition(partition).is_none() {
            let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            let context = format!("topic {topic} has no partition {partition}");
            return Found::Never(ClientError::Broker { code, context });
        }
        cluster.request_update();
    }
    Found::NotYet
}

fn choose_version(cluster: &Cluster, node: NodeId, request: &Request) -> Result<i16, RequestError> {
    let key = request.api_key;
    let newest = cluster.require_version(node, key)?;
    let theirs = cluster
        .api_versions(node)
        .and_then(|versions| versions.range(key));
    let ours = versions::client_versions(key);
    let both = |version: i16| {
        theirs
            .as_ref()
            .is_some_and(|range| range.contains(&version))
            && ours.as_ref().is_some_and(|range| range.contains(&version))
    };
    let chosen = match request.version {
        VersionChoice::Newest => newest,
        VersionChoice::AtMost(cap) => newest.min(cap),
        VersionChoice::Exactly(version) => version,
    };
    if both(chosen) {
        return Ok(chosen);
    }
    let ours = Some(chosen..=chosen);
    Err(UnsupportedVersion {
        node,
        api: key,
        ours,
        theirs,
    }
    .into())
}
