//! The options that the cluster needs, by Kafka's names.

use std::time::Duration;

use crate::address::Address;
use crate::allowed_hosts::AllowedHosts;
use crate::metrics::MetricsConfig;
use crate::principal::Principal;

/// Options of one client. The defaults are Kafka's own.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    pub bootstrap_servers: Vec<Address>,
    /// The hosts that brokers may advertise, besides those of `bootstrap_servers`. `None`: any.
    pub advertised_hosts_allowed: Option<AllowedHosts>,
    pub client_id: Option<String>,
    /// Whom brokers take the client for, for errors.
    pub principal: Principal,
    pub request_timeout: Duration,
    pub retry_backoff: Duration,
    pub retry_backoff_max: Duration,
    pub reconnect_backoff: Duration,
    pub reconnect_backoff_max: Duration,
    pub socket_connection_setup_timeout: Duration,
    pub socket_connection_setup_timeout_max: Duration,
    pub connections_max_idle: Duration,
    /// The limit on a Produce connection. Roles limit their other connections themselves.
    pub max_in_flight_requests_per_connection: usize,
    pub metadata_max_age: Duration,
    pub metadata_max_idle: Duration,
    pub allow_auto_create_topics: bool,
    /// KIP-899: return to the bootstrap addresses when no known broker can be reached.
    pub rebootstrap: bool,
    /// KIP-1102: also do so when no metadata has arrived for this long.
    pub metadata_recovery_rebootstrap_trigger: Duration,
    /// Whether connections authenticate (SASL). Used only for metrics.
    pub authenticates: bool,
    pub metrics: MetricsConfig,
    /// The source of all randomness: jitter, rotation of bootstrap addresses, choice among equals.
    pub seed: u64,
}

/// Stands for "for ever": very long, but adding it to any instant cannot overflow.
const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
const DURATION_MIN: Duration = Duration::from_secs(1);

impl ClusterConfig {
    /// Limits every duration so that adding it to now cannot overflow.
    pub(crate) fn clamped(mut self) -> Self {
        for time in [
            &mut self.request_timeout,
            &mut self.retry_backoff,
            &mut self.retry_backoff_max,
            &mut self.reconnect_backoff,
            &mut self.reconnect_backoff_max,
            &mut self.socket_connection_setup_timeout,
            &mut self.socket_connection_setup_timeout_max,
            &mut self.connections_max_idle,
            &mut self.metadata_max_age,
            &mut self.metadata_max_idle,
            &mut self.metadata_recovery_rebootstrap_trigger,
        ] {
            *time = (*time).min(DURATION_MAX);
        }
        // With less, a connection or a response would have no time to arrive.
        for time in [
            &mut self.connections_max_idle,
            &mut self.metadata_recovery_rebootstrap_trigger,
        ] {
            *time = (*time).max(DURATION_MIN);
        }
        self
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            bootstrap_servers: Vec::new(),
            advertised_hosts_allowed: None,
            client_id: None,
            principal: Principal::default(),
            request_timeout: Duration::from_secs(30),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            reconnect_backoff: Duration::from_millis(50),
            reconnect_backoff_max: Duration::from_secs(1),
            socket_connection_setup_timeout: Duration::from_secs(10),
            socket_connection_setup_timeout_max: Duration::from_secs(30),
            connections_max_idle: Duration::from_secs(9 * 60),
            max_in_flight_requests_per_connection: 5,
            metadata_max_age: Duration::from_secs(5 * 60),
            metadata_max_idle: Duration::from_secs(5 * 60),
            allow_auto_create_topics: true,
            rebootstrap: true,
            metadata_recovery_rebootstrap_trigger: Duration::from_secs(5 * 60),
            authenticates: false,
            metrics: MetricsConfig::default(),
            seed: 0,
        }
    }
}
