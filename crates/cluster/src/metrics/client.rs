//! Metrics that every client keeps, whatever its role: connections and bytes, in total and by node.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Metric, MetricGroup, MetricsConfig, Sampled};
use crate::request::NodeId;

/// A node without traffic for this long is no longer listed, as in Kafka's `Selector`.
const NODE_IDLE_MAX: Duration = Duration::from_secs(60 * 60);

/// The connection metrics of one client. Its actor writes them, and any thread may read them.
#[derive(Debug)]
pub struct ClientMetrics(Mutex<State>);

#[derive(Debug)]
struct State {
    config: MetricsConfig,
    all: Traffic,
    nodes: BTreeMap<NodeId, Node>,
    connections: u64,
    created: Sampled,
    closed: Sampled,
    authenticated: Sampled,
    refused: Sampled,
    /// Authentications with brokers that know no re-authentication.
    without_end: Sampled,
    /// Milliseconds.
    reauthenticated: Sampled,
    reauthentication_failed: Sampled,
    metadata_at: Option<Instant>,
}

/// Sizes of complete frames in bytes, one value for each frame.
#[derive(Debug)]
struct Traffic {
    outgoing: Sampled,
    incoming: Sampled,
}

#[derive(Debug)]
struct Node {
    traffic: Traffic,
    /// Milliseconds, only for the role's own requests: Produce and Fetch.
    latency: Sampled,
    last_used: Instant,
}

impl Traffic {
    fn new(config: MetricsConfig) -> Self {
        Self {
            outgoing: Sampled::new(config),
            incoming: Sampled::new(config),
        }
    }

    fn values(&mut self, now: Instant) -> Vec<Metric> {
        let Self { outgoing, incoming } = self;
        vec![
            ("request-rate", outgoing.count_rate(now)),
            ("request-total", outgoing.count() as f64),
            ("request-size-avg", outgoing.avg(now)),
            ("request-size-max", outgoing.max(now)),
            ("outgoing-byte-rate", outgoing.rate(now)),
            ("outgoing-byte-total", outgoing.total()),
            ("response-rate", incoming.count_rate(now)),
            ("response-total", incoming.count() as f64),
            ("incoming-byte-rate", incoming.rate(now)),
            ("incoming-byte-total", incoming.total()),
        ]
    }
}

impl ClientMetrics {
    pub fn new(config: MetricsConfig) -> Self {
        let sampled = || Sampled::new(config);
        Self(Mutex::new(State {
            config,
            all: Traffic::new(config),
            nodes: BTreeMap::new(),
            connections: 0,
            created: sampled(),
            closed: sampled(),
            authenticated: sampled(),
            refused: sampled(),
            without_end: sampled(),
            reauthenticated: sampled(),
            reauthentication_failed: sampled(),
            metadata_at: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sent(&self, node: NodeId, bytes: usize, now: Instant) {
        let mut state = self.lock();
        state.all.outgoing.record(bytes as f64, now);
        let node = state.node(node, now);
        node.traffic.outgoing.record(bytes as f64, now);
    }

    /// Records a response. `latency` is given only for the role's own requests.
    pub(crate) fn answered(
        &self,
        node: NodeId,
        bytes: usize,
        latency: Option<Duration>,
        now: Instant,
    ) {
        let mut state = self.lock();
        state.all.incoming.record(bytes as f64, now);
        let node = state.node(node, now);
        node.traffic.incoming.record(bytes as f64, now);
        if let Some(latency) = latency {
            node.latency.record(latency.as_secs_f64() * 1e3, now);
        }
    }

    pub(crate) fn connected(&self, authenticated: bool, now: Instant) {
        let mut state = self.lock();
        state.connections += 1;
        state.created.record(1.0, now);
        if authenticated {
            state.authenticated.record(1.0, now);
        }
    }

    pub(crate) fn closed(&self, now: Instant) {
        let mut state = self.lock();
        state.connections = state.connections.saturating_sub(1);
        state.closed.record(1.0, now);
    }

    /// Records that the broker did not accept our credentials.
    pub(crate) fn refused(&self, now: Instant) {
        self.lock().refused.record(1.0, now);
    }

    /// Records an authentication whose session cannot be renewed.
    pub(crate) fn authenticated_for_ever(&self, now: Instant) {
        self.lock().without_end.record(1.0, now);
    }

    pub(crate) fn reauthenticated(&self, latency: Duration, now: Instant) {
        let latency_ms = latency.as_secs_f64() * 1e3;
        self.lock().reauthenticated.record(latency_ms, now);
    }

    pub(crate) fn reauthentication_failed(&self, now: Instant) {
        self.lock().reauthentication_failed.record(1.0, now);
    }

    pub(crate) fn metadata_updated(&self, now: Instant) {
        self.lock().metadata_at = Some(now);
    }

    /// Returns all metrics. `kind` is the prefix of Kafka's group names: `producer` or `consumer`.
    pub fn snapshot(&self, kind: &str, now: Instant) -> Vec<MetricGroup> {
        let mut state = self.lock();
        let mut values = state.client_values(now);
        if kind == "producer" {
            // Kafka's consumers do not have it.
            values.push(("metadata-age", state.metadata_age(now)));
        }
        let name = format!("{kind}-metrics");
        let mut groups = vec![MetricGroup { name, values }];
        for (id, node) in &mut state.nodes {
            let mut values = node.traffic.values(now);
            values.push(("request-latency-avg", node.latency.avg(now)));
            values.push(("request-latency-max", node.latency.max(now)));
            groups.push(MetricGroup {
                name: format!("{kind}-node-metrics.node-{id}"),
                values,
            });
        }
        groups
    }
}

impl State {
    fn node(&mut self, id: NodeId, now: Instant) -> &mut Node {
        let config = self.config;
        if !self.nodes.contains_key(&id) {
            self.nodes
                .retain(|_, node| now.saturating_duration_since(node.last_used) < NODE_IDLE_MAX);
        }
        let node = self.nodes.entry(id).or_insert_with(|| Node {
            traffic: Traffic::new(config),
            latency: Sampled::new(config),
            last_used: now,
        });
        node.last_used = now;
        node
    }

    fn metadata_age(&self, now: Instant) -> f64 {
        self.metadata_at
            .map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64())
    }

    fn client_values(&mut self, now: Instant) -> Vec<Metric> {
        let mut values = self.all.values(now);
        let network_io = self.all.outgoing.count_rate(now) + self.all.incoming.count_rate(now);
        let network_ios = self.all.outgoing.count() + self.all.incoming.count();
        values.extend([
            ("network-io-rate", network_io),
            ("network-io-total", network_ios as f64),
            ("connection-count", self.connections as f64),
            ("connection-creation-rate", self.created.rate(now)),
            ("connection-creation-total", self.created.total()),
            ("connection-close-rate", self.closed.rate(now)),
            ("connection-close-total", self.closed.total()),
            (
                "successful-authentication-rate",
                self.authenticated.rate(now),
            ),
            (
                "successful-authentication-total",
                self.authenticated.total(),
            ),
            ("failed-authentication-rate", self.refused.rate(now)),
            ("failed-authentication-total", self.refused.total()),
        ]);
        values.extend(self.reauthentication_values(now));
        values
    }

    fn reauthentication_values(&mut self, now: Instant) -> [Metric; 7] {
        let succeeded = &mut self.reauthenticated;
        let failed = &mut self.reauthentication_failed;
        [
            (
                "successful-reauthentication-rate",
                succeeded.count_rate(now),
            ),
            (
                "successful-reauthentication-total",
                succeeded.count() as f64,
            ),
            ("reauthentication-latency-avg", succeeded.avg(now)),
            ("reauthentication-latency-max", succeeded.max(now)),
            ("failed-reauthentication-rate", failed.rate(now)),
            ("failed-reauthentication-total", failed.total()),
            (
                "successful-authentication-no-reauth-total",
                self.without_end.total(),
            ),
        ]
    }
}
