//! [`Cluster`]: the one thing that roles and the network talk to.
//!
//! Owned by the client's actor. Roles call the upper half, the network drives the lower half:
//! `handle` for each event, `poll` for what time brings, then responses and actions are taken out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_protocol::messages::find_coordinator::FindCoordinatorRequest;
use thalweg_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use thalweg_protocol::{ApiKey, ErrorCode, Request, Str};

use crate::address::Address;
use crate::api_versions::ApiVersions;
use crate::config::ClusterConfig;
use crate::connection::{Connection, State};
use crate::connections::{Change, Completed, Connections};
use crate::coordinators::{self, Coordinator, CoordinatorKey, CoordinatorType, Coordinators};
use crate::error::{ConnectionError, RequestError};
use crate::event::{Action, Event};
use crate::metadata::{
    Due, InvalidTopic, Metadata, MetadataQuery, Node, Requests, SharedMetadata, merge,
    validate_topic_name, with_leader,
};
use crate::nodes::Nodes;
use crate::notifier::Notifier;
use crate::request::{NodeId, Outgoing, Purpose, RequestId, ResponseBody};
use crate::throttle;

/// An attempt that takes longer than this no longer keeps us from trying another broker.
const HEDGE_AFTER: Duration = Duration::from_secs(1);

/// What the cluster itself asks the brokers.
#[derive(Debug)]
enum Internal {
    Metadata(MetadataQuery),
    FindCoordinator(CoordinatorKey),
}

/// One client's view of the brokers.
#[derive(Debug)]
pub struct Cluster {
    config: ClusterConfig,
    nodes: Nodes,
    connections: Connections,
    metadata: Arc<Metadata>,
    shared: Arc<SharedMetadata>,
    requests: Requests,
    coordinators: Coordinators,
    internal: BTreeMap<RequestId, Internal>,
    responses: VecDeque<Completed>,
    fatal: Option<Arc<ConnectionError>>,
    hedge_at: Option<Instant>,
    closed: bool,
}

/// For roles.
impl Cluster {
    /// `notifier` wakes the actor when other threads ask for metadata.
    pub fn new(config: ClusterConfig, notifier: Arc<Notifier>) -> Self {
        let config = config.clamped();
        Self {
            nodes: Nodes::new(config.bootstrap_servers.clone(), config.seed ^ 5),
            connections: Connections::new(&config),
            metadata: Arc::default(),
            shared: Arc::new(SharedMetadata::new(notifier)),
            requests: Requests::new(&config),
            coordinators: Coordinators::new(&config),
            internal: BTreeMap::new(),
            responses: VecDeque::new(),
            fatal: None,
            hedge_at: None,
            closed: false,
            config,
        }
    }

    pub fn config(&self) -> &ClusterConfig {
        &self.config
    }

    /// The current snapshot.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// The same for other threads.
    pub fn shared_metadata(&self) -> &Arc<SharedMetadata> {
        &self.shared
    }

    /// Marks a topic as used, and asks for it if it is unknown. Cheap when it is known.
    pub fn add_topic(&mut self, name: &str, now: Instant) -> Result<(), InvalidTopic> {
        let known = self
            .metadata
            .topic(name)
            .is_some_and(|topic| topic.missing_answers == 0);
        if !known {
            validate_topic_name(name)?;
        }
        self.requests.add_topic(name, known, now);
        Ok(())
    }

    /// Exactly these topics stay in the metadata although nobody mentions them (assigned ones).
    pub fn pin_topics(&mut self, names: &BTreeSet<Str>, now: Instant) -> Result<(), InvalidTopic> {
        for name in names {
            self.add_topic(name, now)?;
        }
        self.requests.pin_topics(names, now);
        Ok(())
    }

    /// Ask for all topics that exist, from now on (subscription by pattern).
    pub fn set_all_topics(&mut self, all: bool) {
        self.requests.set_all_topics(all);
    }

    /// What is known is stale: an unknown leader, an answer that says so. Waits its backoff.
    pub fn request_update(&mut self) {
        self.requests.request_update();
    }

    /// A newer leader from a Produce or Fetch answer (KIP-951); false if it was no news.
    pub fn update_leader(
        &mut self,
        topic: &str,
        partition: i32,
        leader: NodeId,
        leader_epoch: i32,
        endpoint: Option<Node>,
    ) -> bool {
        let told = with_leader(
            &self.metadata,
            topic,
            partition,
            leader,
            leader_epoch,
            endpoint,
        );
        let Some(snapshot) = told else { return false };
        self.install(Arc::new(snapshot));
        true
    }

    /// May a request be sent to this node now? Connected, not throttled, in flight below the limit.
    /// If it is not connected, connecting starts (with backoff) and the actor's next turns say so.
    pub fn is_ready(&mut self, node: NodeId, purpose: Purpose, now: Instant) -> bool {
        !self.closed && self.connections.is_ready((node, purpose), &self.nodes, now)
    }

    /// Requests sent and not yet answered.
    pub fn in_flight(&self, node: NodeId, purpose: Purpose) -> usize {
        self.connections
            .get((node, purpose))
            .map_or(0, Connection::in_flight_count)
    }

    /// Why the connection is not there; None if it is or was never tried.
    pub fn connection_error(&self, node: NodeId, purpose: Purpose) -> Option<Arc<ConnectionError>> {
        self.connections.get((node, purpose))?.last_error.clone()
    }

    /// An authentication or certificate failure that no later success has cured.
    pub fn fatal_error(&self) -> Option<&Arc<ConnectionError>> {
        self.fatal.as_ref()
    }

    /// The bootstrap addresses with the last failure of each: the causes of `NoBrokersAvailable`.
    pub fn bootstrap_errors(&self) -> Vec<(Address, Option<Arc<ConnectionError>>)> {
        self.nodes
            .bootstrap_ids()
            .map(|(id, address)| (address.clone(), self.connection_error(id, Purpose::General)))
            .collect()
    }

    /// True as soon as one answer has named the brokers.
    pub fn is_bootstrapped(&self) -> bool {
        self.metadata.version > 0
    }

    /// Is any connection established right now?
    pub fn is_connected(&self) -> bool {
        self.connections.any_ready()
    }

    /// What the node said it understands; None before the first connection to it.
    pub fn api_versions(&self, node: NodeId) -> Option<&Arc<ApiVersions>> {
        self.connections.api_versions(node)
    }

    /// The version to use for an API with a node; None before the first connection to it and if
    /// there is none in common ([`Self::require_version`] tells which).
    pub fn api_version(&self, node: NodeId, key: ApiKey) -> Option<i16> {
        self.connections.api_versions(node)?.negotiate(key)
    }

    /// As [`Self::api_version`], with an error that names node, API and ranges.
    pub fn require_version(&self, node: NodeId, key: ApiKey) -> Result<i16, RequestError> {
        let versions = self
            .connections
            .api_versions(node)
            .ok_or(RequestError::NotReady { node })?;
        Ok(versions.require(node, key)?)
    }

    /// The finalized level of a feature, from whichever node knows the newest (KIP-584).
    pub fn finalized_level(&self, feature: &str) -> i16 {
        self.connections
            .all_versions()
            .max_by_key(|(_, versions)| versions.finalized_features_epoch)
            .map_or(0, |(_, versions)| versions.finalized_level(feature))
    }

    /// Sends a request on the connection of this purpose. Call [`Self::is_ready`] first: if the
    /// connection is not there the request fails at once, as retriable, through `on_response`.
    pub fn send(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        outgoing: Outgoing,
        now: Instant,
    ) -> RequestId {
        self.connections.send((node, purpose), outgoing, now)
    }

    /// Hold back requests on this connection (KIP-219). Answers that open with `throttle_time_ms`
    /// do this by themselves; Produce answers end with it, so the producer says it.
    pub fn throttle(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        throttle_time_ms: i32,
        now: Instant,
    ) {
        let wait = throttle::from_ms(throttle_time_ms);
        if !wait.is_zero() {
            self.connections.throttle((node, purpose), wait, now);
        }
    }

    /// The coordinator of a group or transactional id; if it is unknown it is looked for.
    pub fn coordinator(&mut self, kind: CoordinatorType, key: &str) -> Coordinator {
        self.coordinators.get(kind, key)
    }

    /// An answer said `NOT_COORDINATOR` or `COORDINATOR_NOT_AVAILABLE`.
    pub fn invalidate_coordinator(&mut self, kind: CoordinatorType, key: &str, now: Instant) {
        self.coordinators.invalidate(kind, key, now);
    }

    /// A node that can take a general request now, the one with the fewest in flight. None if there
    /// is none: then connecting to one has begun, or waits for its backoff.
    pub fn least_loaded_node(&mut self, now: Instant) -> Option<NodeId> {
        if self.closed {
            return None;
        }
        self.hedge_at = None;
        let mut best: Option<(usize, NodeId)> = None;
        let mut hedge: Option<Instant> = None;
        let mut idle: Option<(u32, NodeId)> = None;
        let mut waiting: Option<(Instant, NodeId)> = None;
        for node in self.nodes.candidates() {
            let Some(connection) = self.connections.get((node, Purpose::General)) else {
                idle = idle.min(Some((0, node))).or(Some((0, node)));
                continue;
            };
            match &connection.state {
                State::Ready { .. } if !connection.is_throttled(now) => {
                    let load = connection.in_flight_count();
                    if best.is_none_or(|(least, _)| load < least) {
                        best = Some((load, node));
                    }
                }
                State::Ready { .. } => {}
                State::Connecting { since, .. } => {
                    let until = *since + HEDGE_AFTER;
                    hedge = hedge.max(Some(until));
                }
                State::Disconnected if connection.may_connect(now) => {
                    let rank = (connection.failures, node);
                    if idle.is_none_or(|(failures, _)| rank.0 < failures) {
                        idle = Some(rank);
                    }
                }
                State::Disconnected => {
                    let at = connection.retry_at.unwrap_or(now);
                    if waiting.is_none_or(|(soonest, _)| at < soonest) {
                        waiting = Some((at, node));
                    }
                }
            }
        }
        if let Some((_, node)) = best
            && self
                .connections
                .is_ready((node, Purpose::General), &self.nodes, now)
        {
            return Some(node);
        }
        match (hedge, idle, waiting) {
            // One attempt is young enough: wait for it, then try another as well.
            (Some(until), Some(_), _) if now < until => self.hedge_at = Some(until),
            (_, Some((_, node)), _) => {
                self.connections
                    .is_ready((node, Purpose::General), &self.nodes, now);
            }
            (None, None, Some((_, node))) => self.connections.want((node, Purpose::General), now),
            _ => {}
        }
        None
    }
}

/// For the network.
impl Cluster {
    /// Takes an event in.
    pub fn handle(&mut self, event: Event, now: Instant) {
        self.connections.handle(event, &self.nodes, now);
        self.settle(now);
    }

    /// Does what time brings: timeouts, reconnects, metadata and coordinator requests.
    pub fn poll(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        let (topics, update) = self.shared.take_requests();
        for topic in topics {
            let known = self.metadata.topic(&topic).is_some();
            self.requests.add_topic(&topic, known, now);
        }
        if update {
            self.requests.request_update();
        }
        self.connections.tick(&self.nodes, now);
        self.settle(now);
        self.rebootstrap_if_due(now);
        self.request_metadata(now);
        self.find_coordinators(now);
        self.settle(now);
    }

    /// What the network is to do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.connections.actions.pop_front()
    }

    /// An answer for whoever sent the request; the cluster's own are handled inside.
    pub fn poll_response(&mut self) -> Option<Completed> {
        if self.responses.is_empty() {
            // A send that failed at once; nothing of the cluster's own fails there.
            return self.connections.completed.pop_front();
        }
        self.responses.pop_front()
    }

    /// Whether [`Self::poll_response`] has something.
    pub fn has_responses(&self) -> bool {
        !self.responses.is_empty() || !self.connections.completed.is_empty()
    }

    /// When [`Self::poll`] must be called at the latest.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let metadata = match self.requests.due() {
            Some(Due::At(at)) if at > now => Some(at),
            // Due and not sent: a connection must come first, and it has its own deadline.
            _ => None,
        };
        let trigger = self
            .requests
            .failing_since()
            .filter(|_| self.config.rebootstrap)
            .map(|since| since + self.config.metadata_recovery_rebootstrap_trigger);
        let hedge = self.hedge_at.filter(|&at| at > now);
        [
            self.connections.next_deadline(now),
            metadata,
            trigger,
            hedge,
            self.coordinators.next_deadline(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Closes all connections; what is in flight fails. Nothing is sent after it.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        self.connections
            .close_all(&ConnectionError::ClientClosed, now);
        self.settle(now);
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Hands completed requests on, and takes in what concerns the cluster itself.
    fn settle(&mut self, now: Instant) {
        while let Some(change) = self.connections.changes.pop_front() {
            self.connection_changed(change, now);
        }
        while let Some((id, result)) = self.connections.completed.pop_front() {
            match self.internal.remove(&id) {
                None => self.responses.push_back((id, result)),
                Some(Internal::Metadata(query)) => self.metadata_answered(&query, result, now),
                Some(Internal::FindCoordinator(key)) => {
                    self.coordinator_answered(&key, result, now);
                }
            }
        }
    }

    fn connection_changed(&mut self, change: Change, now: Instant) {
        match change {
            Change::Up => self.fatal = None,
            Change::Lost { key, cause } => {
                if !matches!(
                    *cause,
                    ConnectionError::Idle | ConnectionError::ClientClosed
                ) {
                    self.requests.request_update();
                    self.coordinators.invalidate_node(key.0, now);
                }
            }
            Change::Failed { key, error } => {
                self.requests.request_update();
                self.coordinators.invalidate_node(key.0, now);
                if error.is_fatal() {
                    self.fatal = Some(Arc::clone(&error));
                    self.shared.publish_fatal(error);
                }
            }
        }
    }

    fn rebootstrap_if_due(&mut self, now: Instant) {
        let overdue = self
            .requests
            .failing_since()
            .is_some_and(|since| now >= since + self.config.metadata_recovery_rebootstrap_trigger);
        if self.config.rebootstrap && overdue {
            self.rebootstrap(now);
        }
    }

    fn rebootstrap(&mut self, now: Instant) {
        self.requests.restart(now);
        self.nodes.rebootstrap();
        self.connections
            .close_all(&ConnectionError::Rebootstrap, now);
    }

    fn request_metadata(&mut self, now: Instant) {
        if !self.requests.due().is_some_and(|due| due.is_over(now)) {
            return;
        }
        if self.config.rebootstrap && !self.nodes.is_bootstrapping() && self.all_nodes_down(now) {
            // KIP-899. Connections of the roles stay: only the question goes elsewhere.
            self.nodes.rebootstrap();
        }
        let Some(node) = self.least_loaded_node(now) else {
            return;
        };
        let Some(version) = self.internal_version(node, ApiKey::METADATA) else {
            return;
        };
        let query = self.requests.start(now);
        let request = metadata_request(&query, self.config.allow_auto_create_topics);
        self.send_internal(node, &request, version, Internal::Metadata(query), now);
    }

    /// No candidate is connected, being connected, or free to be connected.
    fn all_nodes_down(&mut self, now: Instant) -> bool {
        self.nodes.candidates().into_iter().all(|node| {
            self.connections
                .get((node, Purpose::General))
                .is_some_and(|c| c.conn().is_none() && !c.may_connect(now))
        })
    }

    fn internal_version(&mut self, node: NodeId, key: ApiKey) -> Option<i16> {
        match self.require_version(node, key) {
            Ok(version) => Some(version),
            Err(error) => {
                let address = self
                    .nodes
                    .address(node)
                    .map_or_else(String::new, Address::to_string);
                let error = ConnectionError::Unsupported {
                    address,
                    reason: error.to_string(),
                };
                let error = Arc::new(error);
                if self.fatal.as_ref() != Some(&error) {
                    self.fatal = Some(Arc::clone(&error));
                    self.shared.publish_fatal(error);
                }
                None
            }
        }
    }

    fn send_internal<R: Request>(
        &mut self,
        node: NodeId,
        request: &R,
        version: i16,
        internal: Internal,
        now: Instant,
    ) {
        let outgoing = Outgoing::new(request, version, self.config.request_timeout)
            .expect("our own requests fit every version that we negotiate");
        let id = self
            .connections
            .send((node, Purpose::General), outgoing, now);
        self.internal.insert(id, internal);
    }

    fn metadata_answered(
        &mut self,
        query: &MetadataQuery,
        result: Result<ResponseBody, RequestError>,
        now: Instant,
    ) {
        let answer = result
            .ok()
            .and_then(|body| body.decode::<MetadataRequest>().ok());
        let Some(answer) = answer else {
            return self.requests.failed(now);
        };
        if ErrorCode(answer.error_code) == ErrorCode::REBOOTSTRAP_REQUIRED {
            self.requests.failed(now);
            if self.config.rebootstrap {
                self.rebootstrap(now);
            }
            return;
        }
        if answer.brokers.is_empty() {
            // A broker that starts up knows nobody yet; what we know is better.
            return self.requests.failed(now);
        }
        let outcome = merge(&self.metadata, &answer, query.scope);
        for (name, error) in outcome.snapshot.topic_errors() {
            if error == ErrorCode::INVALID_TOPIC_EXCEPTION {
                self.requests.forget(name);
            }
        }
        self.requests
            .succeeded(outcome.changed, outcome.incomplete, now);
        self.install(Arc::new(outcome.snapshot));
    }

    /// Makes a snapshot the current one.
    fn install(&mut self, snapshot: Arc<Metadata>) {
        let bootstrapping = self.nodes.is_bootstrapping();
        for moved in self.nodes.update(&snapshot) {
            self.connections.moved(moved);
        }
        if bootstrapping {
            let ids: Vec<NodeId> = self.nodes.bootstrap_ids().map(|(id, _)| id).collect();
            for id in ids {
                if let Some(twin) = self.nodes.twin_of(id) {
                    self.connections.adopt(id, twin);
                }
            }
        }
        self.metadata = Arc::clone(&snapshot);
        self.shared.publish(snapshot);
    }

    fn find_coordinators(&mut self, now: Instant) {
        for key in self.coordinators.due(now) {
            let Some(node) = self.least_loaded_node(now) else {
                return;
            };
            let Some(version) = self.internal_version(node, ApiKey::FIND_COORDINATOR) else {
                return;
            };
            self.coordinators.started(&key);
            let request = coordinators::request(&key, version);
            self.send_internal(node, &request, version, Internal::FindCoordinator(key), now);
        }
    }

    fn coordinator_answered(
        &mut self,
        key: &CoordinatorKey,
        result: Result<ResponseBody, RequestError>,
        now: Instant,
    ) {
        let answer = result
            .ok()
            .and_then(|body| body.decode::<FindCoordinatorRequest>().ok());
        let Some(answer) = answer else {
            return self.coordinators.failed(key, now);
        };
        if let Some((node, address)) = self.coordinators.answered(key, &answer, now)
            && self.nodes.address(node).is_none()
        {
            self.nodes.learn(node, address);
        }
    }
}

fn metadata_request(query: &MetadataQuery, allow_auto_topic_creation: bool) -> MetadataRequest {
    let topic = |name: &Str| MetadataRequestTopic {
        name: Some(name.clone()),
        ..Default::default()
    };
    MetadataRequest {
        topics: query
            .topics
            .as_ref()
            .map(|names| names.iter().map(topic).collect()),
        allow_auto_topic_creation,
        ..MetadataRequest::default()
    }
}
