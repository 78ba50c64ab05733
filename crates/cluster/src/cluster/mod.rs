//! [`Cluster`]: the one thing that roles and the network talk to.
//!
//! Owned by the client's actor. Roles call what stands in this file; the network drives `drive`:
//! `handle` for each event, `poll` for what time brings, then responses and actions are taken out.
//! `internal` holds the few requests that the cluster sends itself.

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
use crate::connection::Connection;
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

    /// What connections did so far; for other threads too.
    pub fn metrics(&self) -> &Arc<ClientMetrics> {
        self.connections.metrics()
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

    /// Takes all new leaders that one Produce or Fetch answer names, and the addresses that it gives
    /// for them (KIP-951). Returns how many of the hints are news: an epoch that is not newer, and a
    /// leader without a known address, change nothing.
    pub fn update_leaders(&mut self, hints: &[LeaderHint], endpoints: &[Node]) -> usize {
        let Some((snapshot, news)) = with_leaders(&self.metadata, hints, endpoints) else {
            return 0;
        };
        self.install(Arc::new(snapshot));
        news
    }

    /// May a request be sent to this node now? Connected, not throttled, in flight below the limit.
    /// If it is not connected, connecting starts (with backoff) and the actor's next turns say so.
    pub fn is_ready(&mut self, node: NodeId, purpose: Purpose, now: Instant) -> bool {
        !self.closed && self.connections.is_ready((node, purpose), &self.nodes, now)
    }

    /// Whether this connection is established, even if it takes no request at the moment.
    pub fn is_connected_to(&self, node: NodeId, purpose: Purpose) -> bool {
        let connection = self.connections.get((node, purpose));
        connection.is_some_and(Connection::is_ready)
    }

    /// Whether an attempt to establish it is under way.
    pub fn is_connecting(&self, node: NodeId, purpose: Purpose) -> bool {
        let connection = self.connections.get((node, purpose));
        connection.is_some_and(|connection| !connection.is_ready() && connection.conn().is_some())
    }

    /// Requests sent and not yet answered.
    pub fn in_flight(&self, node: NodeId, purpose: Purpose) -> usize {
        self.connections
            .get((node, purpose))
            .map_or(0, Connection::in_flight_count)
    }

    /// Whether connecting failed, or the connection was lost, and no new attempt may be made yet.
    pub fn is_backing_off(&self, node: NodeId, purpose: Purpose, now: Instant) -> bool {
        let connection = self.connections.get((node, purpose));
        connection.is_some_and(|connection| connection.is_backing_off(now))
    }

    /// Why the connection is not there; None if it is or was never tried.
    pub fn connection_error(&self, node: NodeId, purpose: Purpose) -> Option<Arc<ConnectionError>> {
        self.connections.get((node, purpose))?.last_error.clone()
    }

    /// An authentication or certificate failure that no later success has cured.
    pub fn fatal_error(&self) -> Option<&Arc<ConnectionError>> {
        self.fatal.as_ref()
    }

    /// The bootstrap addresses with the last failure of each, or what is amiss with the connection
    /// that is being made: the causes of `NoBrokersAvailable`.
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

    /// The node of a connection and where it is, for log lines; bootstrap addresses have negative
    /// node ids.
    pub fn place_of(&self, conn: ConnectionId) -> Option<(NodeId, &Address)> {
        let node = self.connections.node_of(conn)?;
        Some((node, self.nodes.address(node)?))
    }

    /// Every bootstrap address was tried in vain at least once.
    pub fn has_tried_bootstrap(&self) -> bool {
        self.nodes.bootstrap_ids().all(|(id, _)| {
            let connection = self.connections.get((id, Purpose::General));
            connection.is_some_and(|connection| connection.failures > 0)
        })
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

    /// As [`Self::require_version`], for a request that belongs to a transaction.
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
}
