//! All connections of a client: opening with backoff, requests in flight, timeouts, authenticating
//! again, closing when idle.
//!
//! Events and calls go in. [`Action`]s, [`Completed`] requests and [`Change`]s come out.

mod exchange;
mod reauthentication;
mod tick;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_protocol::SplitMix64;

use crate::address::Address;
use crate::api_versions::ApiVersions;
use crate::backoff::Backoff;
use crate::config::ClusterConfig;
use crate::connection::{Connection, InFlight, State};
use crate::error::{ConnectionError, RequestError, SetupStep};
use crate::event::{Action, ConnectionId, Event};
use crate::metrics::ClientMetrics;
use crate::nodes::Nodes;
use crate::request::{NodeId, Purpose, RequestId, ResponseBody};

/// Names a connection: its node and its purpose.
pub(crate) type Key = (NodeId, Purpose);

/// The shortest backoff after an error that fails calls: they see it only during the backoff. The
/// options allow a backoff of 0.
const SEEN_FOR: Duration = Duration::from_millis(1);

/// A last safeguard: roles themselves limit their connections for other purposes than Produce.
const IN_FLIGHT_MAX_OTHER: usize = 100;

/// A request that has its response, or will never get one.
pub(crate) type Completed = (RequestId, Result<ResponseBody, RequestError>);

/// What happened to a connection, as the rest of the cluster needs to know it.
#[derive(Debug)]
pub(crate) enum Change {
    Up,
    /// An established connection broke, or we closed it.
    Lost {
        key: Key,
        cause: Arc<ConnectionError>,
    },
    /// All addresses were tried without success.
    Failed {
        key: Key,
        error: Arc<ConnectionError>,
    },
}

#[derive(Debug)]
pub(crate) struct Connections {
    client_id: Option<String>,
    produce_in_flight_max: usize,
    max_idle: Duration,
    reconnect: Backoff,
    setup: Backoff,
    request_timeout: Duration,
    /// Spreads the re-authentications of connections.
    random: SplitMix64,
    by_key: BTreeMap<Key, Connection>,
    keys: BTreeMap<ConnectionId, Key>,
    versions: BTreeMap<NodeId, Arc<ApiVersions>>,
    authenticates: bool,
    metrics: Arc<ClientMetrics>,
    next_conn: u64,
    next_request: u64,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) completed: VecDeque<Completed>,
    pub(crate) changes: VecDeque<Change>,
}

impl Connections {
    pub(crate) fn new(config: &ClusterConfig) -> Self {
        let backoff = |initial, max, salt| Backoff::new(initial, max, config.seed ^ salt);
        Self {
            // The header's length field for it has 16 bits. A longer client id is left out.
            client_id: config
                .client_id
                .clone()
                .filter(|id| i16::try_from(id.len()).is_ok()),
            produce_in_flight_max: config.max_in_flight_requests_per_connection.max(1),
            max_idle: config.connections_max_idle,
            reconnect: backoff(config.reconnect_backoff, config.reconnect_backoff_max, 2),
            setup: backoff(
                config.socket_connection_setup_timeout,
                config.socket_connection_setup_timeout_max,
                3,
            ),
            request_timeout: config.request_timeout,
            random: SplitMix64::new(config.seed ^ 6),
            by_key: BTreeMap::new(),
            keys: BTreeMap::new(),
            versions: BTreeMap::new(),
            authenticates: config.authenticates,
            metrics: Arc::new(ClientMetrics::new(config.metrics)),
            next_conn: 0,
            next_request: 0,
            actions: VecDeque::new(),
            completed: VecDeque::new(),
            changes: VecDeque::new(),
        }
    }

    pub(crate) fn metrics(&self) -> &Arc<ClientMetrics> {
        &self.metrics
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Connection> {
        self.by_key.get(&key)
    }

    pub(crate) fn api_versions(&self, node: NodeId) -> Option<&Arc<ApiVersions>> {
        self.versions.get(&node)
    }

    pub(crate) fn all_versions(&self) -> impl Iterator<Item = (NodeId, &Arc<ApiVersions>)> {
        self.versions
            .iter()
            .map(|(&node, versions)| (node, versions))
    }

    /// Whether a request can be sent now. If the connection is not established, connecting starts.
    pub(crate) fn is_ready(&mut self, key: Key, nodes: &Nodes, now: Instant) -> bool {
        let limit = self.in_flight_max(key.1);
        let connection = self
            .by_key
            .entry(key)
            .or_insert_with(|| Connection::new(now));
        if connection.is_ready() {
            let throttled = connection.is_throttled(now);
            let held = connection.is_held(now);
            connection.wanted = throttled || held;
            let takes_more = connection.in_flight_count() < limit;
            if held && !throttled {
                self.reauthenticate(key, now);
            }
            return !throttled && !held && takes_more;
        }
        connection.wanted = true;
        if connection.may_connect(now) {
            self.connect(key, 0, nodes, now);
        }
        false
    }

    fn in_flight_max(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Produce => self.produce_in_flight_max,
            _ => IN_FLIGHT_MAX_OTHER,
        }
    }

    fn connect(&mut self, key: Key, address: usize, nodes: &Nodes, now: Instant) {
        let Some(connection) = self.by_key.get_mut(&key) else {
            return;
        };
        let Some(Address { host, port }) = nodes.address(key.0).cloned() else {
            // The metadata does not list the node (any more). A caller that knows it from
            // elsewhere, such as a coordinator lookup, must get an error. Otherwise it would wait
            // for ever.
            let address = format!("node {}", key.0);
            let reason = "the metadata does not list it".to_owned();
            let error = ConnectionError::Connect { address, reason };
            self.give_up(key, Arc::new(error), now);
            return;
        };
        // The metadata has been checked, but a coordinator's or a new leader's address has not.
        if let Err(error) = nodes.check_host(key.0, &host, port) {
            self.give_up(key, Arc::new(error), now);
            return;
        }
        let conn = ConnectionId(self.next_conn);
        self.next_conn += 1;
        let timeout = self.setup.after(connection.failures);
        let addresses = match connection.state {
            State::Connecting { addresses, .. } => addresses,
            _ => 0,
        };
        connection.state = State::Connecting {
            conn,
            address,
            addresses,
            since: now,
            deadline: now + timeout,
            timeout,
            step: None,
        };
        connection.retry_at = None;
        connection.session = None;
        self.keys.insert(conn, key);
        self.actions.push_back(Action::Connect {
            conn,
            node: key.0,
            purpose: key.1,
            host,
            port,
            address,
        });
    }

    pub(crate) fn handle(&mut self, event: Event, nodes: &Nodes, now: Instant) {
        match event {
            Event::Resolved { conn, addresses } => self.resolved(conn, addresses),
            Event::Awaiting { conn, step } => self.awaiting(conn, step),
            Event::Authenticated { conn, session } => self.authenticated(conn, &session, now),
            Event::Connected { conn, api_versions } => self.connected(conn, api_versions, now),
            Event::ConnectFailed { conn, error } => self.attempt_failed(conn, error, nodes, now),
            Event::Disconnected { conn, error } => self.lost(conn, error, now),
            Event::Frame { conn, frame } => self.frame(conn, frame, now),
            Event::Written { conn, request } => self.written(conn, request, now),
        }
    }

    fn resolved(&mut self, conn: ConnectionId, count: usize) {
        let Some(key) = self.keys.get(&conn) else {
            return;
        };
        if let Some(State::Connecting { addresses, .. }) =
            self.by_key.get_mut(key).map(|c| &mut c.state)
        {
            *addresses = count;
        }
    }

    fn awaiting(&mut self, conn: ConnectionId, awaited: SetupStep) {
        let Some(key) = self.keys.get(&conn) else {
            return;
        };
        let Some(connection) = self.by_key.get_mut(key) else {
            return;
        };
        if let State::Connecting { step, .. } = &mut connection.state {
            *step = Some(awaited);
        } else if let Some(reauthentication) = &mut connection.reauthentication {
            reauthentication.step = awaited;
        }
    }

    /// Returns what a connecting attempt waits for since the other side accepted it.
    pub(crate) fn awaited(&self, key: Key) -> Option<SetupStep> {
        match self.by_key.get(&key)?.state {
            State::Connecting { step, .. } => step,
            _ => None,
        }
    }

    /// Returns the node of a connection.
    pub(crate) fn node_of(&self, conn: ConnectionId) -> Option<NodeId> {
        self.keys.get(&conn).map(|key| key.0)
    }

    fn connected(&mut self, conn: ConnectionId, api_versions: Arc<ApiVersions>, now: Instant) {
        let Some(&key) = self.keys.get(&conn) else {
            return;
        };
        let Some(connection) = self.by_key.get_mut(&key) else {
            return;
        };
        connection.state = State::Ready {
            conn,
            api_versions: Arc::clone(&api_versions),
        };
        connection.wanted = false;
        connection.throttled_until = None;
        connection.last_used = now;
        self.versions.insert(key.0, api_versions);
        self.metrics.connected(self.authenticates, now);
        self.changes.push_back(Change::Up);
    }

    /// Tries the next address at once. After the last one, a backoff follows.
    fn attempt_failed(
        &mut self,
        conn: ConnectionId,
        error: ConnectionError,
        nodes: &Nodes,
        now: Instant,
    ) {
        let Some(key) = self.keys.remove(&conn) else {
            return;
        };
        let Some(connection) = self.by_key.get_mut(&key) else {
            return;
        };
        let State::Connecting {
            address, addresses, ..
        } = connection.state
        else {
            return;
        };
        if matches!(
            error,
            ConnectionError::Authentication { .. } | ConnectionError::NoCredentials { .. }
        ) {
            self.metrics.refused(now);
        }
        // The outcome would be the same at every address.
        let is_final = error.fails_calls();
        let error = Arc::new(error);
        connection.last_error = Some(Arc::clone(&error));
        if !is_final && address + 1 < addresses {
            self.connect(key, address + 1, nodes, now);
            return;
        }
        self.give_up(key, error, now);
    }

    /// Starts the backoff. After it, the cluster tries again only if a caller asks for the
    /// connection.
    fn give_up(&mut self, key: Key, error: Arc<ConnectionError>, now: Instant) {
        let Some(connection) = self.by_key.get_mut(&key) else {
            return;
        };
        connection.last_error = Some(Arc::clone(&error));
        connection.state = State::Disconnected;
        connection.failures = connection.failures.saturating_add(1);
        let mut wait = if matches!(*error, ConnectionError::Authentication { .. }) {
            // Many directories lock an account after a few wrong passwords.
            self.reconnect.longest()
        } else {
            self.reconnect.after(connection.failures - 1)
        };
        if error.fails_calls() {
            wait = wait.max(SEEN_FOR);
        }
        connection.retry_at = Some(now + wait);
        connection.wanted = false;
        self.changes.push_back(Change::Failed { key, error });
    }

    fn lost(&mut self, conn: ConnectionId, error: ConnectionError, now: Instant) {
        let Some(key) = self.keys.remove(&conn) else {
            return;
        };
        let Some(connection) = self.by_key.get_mut(&key) else {
            return;
        };
        if connection.is_ready() {
            self.metrics.closed(now);
        }
        if matches!(error, ConnectionError::Reauthentication(_)) {
            self.metrics.reauthentication_failed(now);
        }
        connection.state = State::Disconnected;
        connection.throttled_until = None;
        (connection.session, connection.reauthentication) = (None, None);
        let cause = Arc::new(error);
        if matches!(*cause, ConnectionError::Idle | ConnectionError::Rebootstrap) {
            // We closed it ourselves, so a new attempt need not wait.
            connection.retry_at = None;
            connection.last_error = None;
        } else {
            // If an error is still set, no request got a response on this connection either.
            let unproven = connection.last_error.is_some();
            connection.retry_at = Some(now + self.reconnect.after(connection.failures));
            connection.failures = if unproven {
                connection.failures.saturating_add(1)
            } else {
                0
            };
            connection.last_error = Some(Arc::clone(&cause));
        }
        let answered = std::mem::take(&mut connection.in_flight);
        let unwritten = std::mem::take(&mut connection.unwritten);
        // In the order of sending, so that a role can put batches back in order.
        let mut broken: Vec<InFlight> = answered.into_iter().chain(unwritten).collect();
        broken.sort_by_key(|request| request.id);
        for request in broken {
            let error = RequestError::Disconnected {
                node: key.0,
                cause: Arc::clone(&cause),
            };
            self.completed.push_back((request.id, Err(error)));
        }
        self.changes.push_back(Change::Lost { key, cause });
    }

    /// Closes the connection from our side: the network drops it, and all requests in flight fail.
    pub(crate) fn close(&mut self, key: Key, error: ConnectionError, now: Instant) {
        let Some(conn) = self.by_key.get(&key).and_then(Connection::conn) else {
            return;
        };
        self.actions.push_back(Action::Close { conn });
        self.lost(conn, error, now);
    }

    pub(crate) fn close_all(&mut self, error: &ConnectionError, now: Instant) {
        let keys: Vec<Key> = self.by_key.keys().copied().collect();
        for key in keys {
            self.close(key, error.clone(), now);
        }
    }

    /// Ends the attempts at a node's old address, because it lives at another one now.
    pub(crate) fn moved(&mut self, node: NodeId) {
        self.start_attempts_again(|id| id == node);
    }

    /// Ends the attempts with old credentials, and the pauses after those that failed.
    pub(crate) fn credentials_changed(&mut self) {
        self.start_attempts_again(|_| true);
    }

    fn start_attempts_again(&mut self, is_concerned: impl Fn(NodeId) -> bool) {
        let attempts = self
            .by_key
            .iter_mut()
            .filter(|((id, _), c)| is_concerned(*id) && !c.is_ready());
        for (_, connection) in attempts {
            if let Some(conn) = connection.conn() {
                self.actions.push_back(Action::Close { conn });
                self.keys.remove(&conn);
            }
            // Connects at the next tick if a request waits for it.
            connection.wanted |= connection.conn().is_some();
            connection.state = State::Disconnected;
            connection.failures = 0;
            connection.retry_at = None;
            // It is about the old address or the old credentials.
            connection.last_error = None;
        }
    }

    /// Moves a bootstrap connection that turned out to lead to `node` to that node's id.
    pub(crate) fn adopt(&mut self, bootstrap: NodeId, node: NodeId) {
        for purpose in [
            Purpose::General,
            Purpose::Group,
            Purpose::Rebalance,
            Purpose::Fetch,
            Purpose::Produce,
        ] {
            let taken = self
                .by_key
                .get(&(node, purpose))
                .is_some_and(|c| c.conn().is_some());
            let ready = self
                .by_key
                .get(&(bootstrap, purpose))
                .is_some_and(Connection::is_ready);
            if taken || !ready {
                continue;
            }
            if let Some(connection) = self.by_key.remove(&(bootstrap, purpose)) {
                if let Some(conn) = connection.conn() {
                    self.keys.insert(conn, (node, purpose));
                }
                if let State::Ready { api_versions, .. } = &connection.state {
                    self.versions.insert(node, Arc::clone(api_versions));
                }
                self.by_key.insert((node, purpose), connection);
            }
        }
    }

    pub(crate) fn any_ready(&self) -> bool {
        self.by_key.values().any(Connection::is_ready)
    }

    /// Asks for the connection as soon as its backoff is over.
    pub(crate) fn want(&mut self, key: Key, now: Instant) {
        self.by_key
            .entry(key)
            .or_insert_with(|| Connection::new(now))
            .wanted = true;
    }
}
