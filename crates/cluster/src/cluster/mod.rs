//! [`Cluster`]: the only type that roles and the network talk to.
//!
//! The client's actor owns it. Roles call the methods in this file. The network uses those in
//! `drive`: `handle` for each event, `poll` for what is due, then it takes out responses and
//! actions. `internal` contains the few requests that the cluster sends itself.

mod drive;
mod internal;
mod least_loaded;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use thalweg_protocol::versions::TransactionVersion;
use thalweg_protocol::{ApiKey, Str};

use crate::address::Address;
use crate::api_versions::ApiVersions;
use crate::config::ClusterConfig;
use crate::connections::{Completed, Connections};
use crate::coordinators::{Coordinator, CoordinatorKey, CoordinatorType, Coordinators};
use crate::error::{ConnectionError, RequestError};
use crate::event::ConnectionId;
use crate::metadata::{
    InvalidTopic, LeaderHint, Metadata, MetadataQuery, Node, Requests, SharedMetadata,
    validate_topic_name, with_leaders,
};
use crate::metrics::ClientMetrics;
use crate::nodes::Nodes;
use crate::notifier::Notifier;
use crate::request::{NodeId, Outgoing, Purpose, RequestId};
use crate::throttle;

/// A request that the cluster itself sent.
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
    /// The refresh whose response names the controller, since a caller reported a change.
    controller_refresh: u64,
    internal: BTreeMap<RequestId, Internal>,
    responses: VecDeque<Completed>,
    fatal: Option<Arc<ConnectionError>>,
    hedge_at: Option<Instant>,
    closed: bool,
}

/// Methods for roles.
impl Cluster {
    /// Makes a cluster. `notifier` wakes the actor when other threads ask for metadata.
    pub fn new(config: ClusterConfig, notifier: Arc<Notifier>) -> Self {
        let config = config.clamped();
        Self {
            nodes: Nodes::new(&config),
            connections: Connections::new(&config),
            metadata: Arc::default(),
            shared: Arc::new(SharedMetadata::new(notifier)),
            requests: Requests::new(&config),
            coordinators: Coordinators::new(&config),
            controller_refresh: 0,
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

    /// Returns the current snapshot.
    pub fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// Returns the metadata as other threads use it.
    pub fn shared_metadata(&self) -> &Arc<SharedMetadata> {
        &self.shared
    }

    /// Returns the metrics of all connections, which other threads may read as well.
    pub fn metrics(&self) -> &Arc<ClientMetrics> {
        self.connections.metrics()
    }

    /// Marks a topic as used, and asks for it if it is unknown. Cheap if it is known.
    pub fn add_topic(&mut self, name: &str, now: Instant) -> Result<(), InvalidTopic> {
        let known = self
            .metadata
            .topic(name)
            .is_some_and(|topic| topic.omitted_count == 0);
        if !known {
            validate_topic_name(name)?;
        }
        self.requests.add_topic(name, known, now);
        Ok(())
    }

    /// Keeps exactly these topics in the metadata, even if no caller mentions them (assigned
    /// topics).
    pub fn pin_topics(&mut self, names: &BTreeSet<Str>, now: Instant) -> Result<(), InvalidTopic> {
        for name in names {
            self.add_topic(name, now)?;
        }
        self.requests.pin_topics(names, now);
        Ok(())
    }

    /// Decides whether later requests ask for all topics that exist (for a subscription by
    /// pattern).
    pub fn set_all_topics(&mut self, all: bool) {
        self.requests.set_all_topics(all);
    }

    /// Requests an update, after the backoff, because the metadata is stale: a leader is unknown,
    /// or a response said so.
    pub fn request_update(&mut self) {
        self.requests.request_update();
    }

    /// Applies all new leaders that one Produce or Fetch response names, with the addresses that it
    /// gives for them (KIP-951). Returns the number of hints that changed something. Hints with an
    /// epoch that is not newer, or with a leader whose address is unknown, change nothing.
    pub fn update_leaders(&mut self, hints: &[LeaderHint], endpoints: &[Node]) -> usize {
        let Some((snapshot, news)) = with_leaders(&self.metadata, hints, endpoints) else {
            return 0;
        };
        self.install(Arc::new(snapshot));
        news
    }

    /// Whether a request can be sent to this node now: it is connected, not throttled, and has
    /// fewer requests in flight than the limit. If it is not connected, connecting starts (with
    /// backoff), and a later turn of the actor finds it ready.
    pub fn is_ready(&mut self, node: NodeId, purpose: Purpose, now: Instant) -> bool {
        !self.closed && self.connections.is_ready((node, purpose), &self.nodes, now)
    }

    /// Whether the connection failed or was lost, and its backoff still runs.
    pub fn is_backing_off(&self, node: NodeId, purpose: Purpose, now: Instant) -> bool {
        let connection = self.connections.get((node, purpose));
        connection.is_some_and(|connection| connection.is_backing_off(now))
    }

    /// Returns why the connection is not established, or `None` if it is or was never tried.
    pub fn connection_error(&self, node: NodeId, purpose: Purpose) -> Option<Arc<ConnectionError>> {
        self.connections.get((node, purpose))?.last_error.clone()
    }

    /// Returns an authentication or certificate failure that no later success has cured, or why no
    /// connection has credentials.
    pub fn fatal_error(&self) -> Option<&Arc<ConnectionError>> {
        self.fatal.as_ref()
    }

    /// Returns why no node lets the client in, if the last attempt at each node was refused and the
    /// next one is not due yet. Connections of other purposes may still be open: a broker closes one
    /// whose session has ended only when it gets a request.
    pub fn refusal(&mut self, now: Instant) -> Option<Arc<ConnectionError>> {
        let nodes = self.nodes.candidates();
        let mut found = None;
        for node in nodes {
            let refused = self
                .connection_error(node, Purpose::General)
                .filter(|error| error.fails_calls())?;
            if !self.is_backing_off(node, Purpose::General, now) {
                return None;
            }
            found = Some(refused);
        }
        found
    }

    /// Returns each bootstrap address with its last failure, or with the problem of the current
    /// attempt. These are the causes of `NoBrokersAvailable`.
    pub fn bootstrap_errors(&self) -> Vec<(Address, Option<Arc<ConnectionError>>)> {
        self.nodes
            .bootstrap_ids()
            .map(|(id, address)| {
                let failure = self.connection_error(id, Purpose::General);
                let error = failure.or_else(|| self.unanswered(id, address));
                (address.clone(), error)
            })
            .collect()
    }

    fn unanswered(&self, node: NodeId, address: &Address) -> Option<Arc<ConnectionError>> {
        let step = self.connections.awaited((node, Purpose::General))?;
        let address = address.to_string();
        Some(Arc::new(ConnectionError::Unanswered { address, step }))
    }

    /// Returns the node of a connection and its address, for log lines. Bootstrap addresses have
    /// negative node ids.
    pub fn place_of(&self, conn: ConnectionId) -> Option<(NodeId, &Address)> {
        let node = self.connections.node_of(conn)?;
        Some((node, self.nodes.address(node)?))
    }

    /// Whether every bootstrap address was tried without success at least once.
    pub fn has_tried_bootstrap(&self) -> bool {
        self.nodes.bootstrap_ids().all(|(id, _)| {
            let connection = self.connections.get((id, Purpose::General));
            connection.is_some_and(|connection| connection.failures > 0)
        })
    }

    /// True as soon as one response has named the brokers.
    pub fn is_bootstrapped(&self) -> bool {
        self.metadata.version > 0
    }

    /// Whether any connection is established now.
    pub fn is_connected(&self) -> bool {
        self.connections.any_ready()
    }

    /// Returns the API versions of the node, or `None` before the first connection to it.
    pub fn api_versions(&self, node: NodeId) -> Option<&Arc<ApiVersions>> {
        self.connections.api_versions(node)
    }

    /// Returns the version to use for an API with a node. Returns `None` before the first
    /// connection to it, and if no version is in common. [`Self::require_version`] tells the two
    /// cases apart.
    pub fn api_version(&self, node: NodeId, key: ApiKey) -> Option<i16> {
        self.connections.api_versions(node)?.negotiate(key)
    }

    /// Like [`Self::api_version`], but fails with an error that names the node, the API and the
    /// ranges.
    pub fn require_version(&self, node: NodeId, key: ApiKey) -> Result<i16, RequestError> {
        let versions = self
            .connections
            .api_versions(node)
            .ok_or(RequestError::NotReady { node })?;
        Ok(versions.require(node, key)?)
    }

    /// Like [`Self::require_version`], for a request that belongs to a transaction.
    pub fn require_transactional_version(
        &self,
        node: NodeId,
        key: ApiKey,
        version: TransactionVersion,
    ) -> Result<i16, RequestError> {
        let versions = self
            .connections
            .api_versions(node)
            .ok_or(RequestError::NotReady { node })?;
        Ok(versions.require_transactional(node, key, version)?)
    }

    /// Returns the finalized level of a feature, as the node with the newest features epoch reports
    /// it (KIP-584).
    pub fn finalized_level(&self, feature: &str) -> i16 {
        self.connections
            .all_versions()
            .max_by_key(|(_, versions)| versions.finalized_features_epoch)
            .map_or(0, |(_, versions)| versions.finalized_level(feature))
    }

    /// Sends a request on the connection for this purpose. Call [`Self::is_ready`] first. If the
    /// connection is not ready, the request fails at once, as retriable, through `on_response`.
    pub fn send(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        outgoing: Outgoing,
        now: Instant,
    ) -> RequestId {
        self.connections.send((node, purpose), outgoing, now)
    }

    /// Holds back requests on this connection (KIP-219). Responses that begin with
    /// `throttle_time_ms` do this themselves. In Produce responses it comes last, so the producer
    /// calls this.
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

    /// Returns the coordinator of a group or transactional id. If it is unknown, a lookup starts.
    pub fn coordinator(&mut self, kind: CoordinatorType, key: &str) -> Coordinator {
        self.coordinators.get(kind, key)
    }

    /// Forgets a coordinator after `NOT_COORDINATOR` or `COORDINATOR_NOT_AVAILABLE`.
    pub fn invalidate_coordinator(&mut self, kind: CoordinatorType, key: &str, now: Instant) {
        self.coordinators.invalidate(kind, key, now);
    }

    /// Returns the controller. If it is unknown, this requests an update.
    pub fn controller(&mut self) -> Option<NodeId> {
        if !self.shared.is_answered(self.controller_refresh) {
            return None;
        }
        if self.metadata.controller.is_none() {
            self.request_update();
        }
        self.metadata.controller
    }

    /// Forgets the controller after `NOT_CONTROLLER`. A response that is already in flight does not
    /// count, because it may name the old one.
    pub fn invalidate_controller(&mut self) {
        self.controller_refresh = self.shared.request_update();
    }
}
