//! The options that a client needs to reach its brokers, by Kafka's names.

use std::time::{Duration, Instant};

use thalweg_cluster::metrics::MetricsConfig;
use thalweg_cluster::{Address, AllowedHosts, ClusterConfig, Principal};

use crate::clock::WallClock;
use crate::error::ClientError;
use crate::sasl::{PasswordSource, SaslConfig};
use crate::tls::{Prepared, TlsConfig};

/// Kafka's `security.protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SecurityProtocol {
    #[default]
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl SecurityProtocol {
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "PLAINTEXT" => Self::Plaintext,
            "SSL" => Self::Ssl,
            "SASL_PLAINTEXT" => Self::SaslPlaintext,
            "SASL_SSL" => Self::SaslSsl,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    pub fn uses_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    pub fn uses_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// Options common to all clients. The defaults are Kafka's own.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Parsed addresses, see [`Address::parse_list`].
    pub bootstrap_servers: Vec<Address>,
    /// The hosts that brokers may advertise, besides those of `bootstrap_servers`. `None`: any.
    pub advertised_hosts_allowed: Option<AllowedHosts>,
    pub client_id: Option<String>,
    pub security_protocol: SecurityProtocol,
    pub tls: TlsConfig,
    /// `tls` with its files, if they were read before.
    pub tls_prepared: Option<Prepared>,
    pub sasl: Option<SaslConfig>,
    /// Supplies the passwords of `sasl`, in place of the one in it.
    pub sasl_password: Option<PasswordSource>,
    pub request_timeout: Duration,
    pub bootstrap_timeout: Duration,
    pub retry_backoff: Duration,
    pub retry_backoff_max: Duration,
    pub reconnect_backoff: Duration,
    pub reconnect_backoff_max: Duration,
    pub socket_connection_setup_timeout: Duration,
    pub socket_connection_setup_timeout_max: Duration,
    pub connections_max_idle: Duration,
    pub max_in_flight_requests_per_connection: usize,
    pub metadata_max_age: Duration,
    pub metadata_max_idle: Duration,
    pub metadata_recovery_rebootstrap: bool,
    pub metadata_recovery_rebootstrap_trigger: Duration,
    pub allow_auto_create_topics: bool,
    pub receive_message_max_bytes: usize,
    pub metrics: MetricsConfig,
    pub send_buffer_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
    /// `None` means a random seed. Set it to replay a run.
    pub seed: Option<u64>,
    pub wall_clock: WallClock,
}

impl Default for ClientConfig {
    fn default() -> Self {
        let cluster = ClusterConfig::default();
        Self {
            bootstrap_servers: Vec::new(),
            advertised_hosts_allowed: None,
            client_id: None,
            security_protocol: SecurityProtocol::Plaintext,
            tls: TlsConfig::default(),
            tls_prepared: None,
            sasl: None,
            sasl_password: None,
            request_timeout: cluster.request_timeout,
            bootstrap_timeout: Duration::from_secs(30),
            retry_backoff: cluster.retry_backoff,
            retry_backoff_max: cluster.retry_backoff_max,
            reconnect_backoff: cluster.reconnect_backoff,
            reconnect_backoff_max: cluster.reconnect_backoff_max,
            socket_connection_setup_timeout: cluster.socket_connection_setup_timeout,
            socket_connection_setup_timeout_max: cluster.socket_connection_setup_timeout_max,
            connections_max_idle: cluster.connections_max_idle,
            max_in_flight_requests_per_connection: cluster.max_in_flight_requests_per_connection,
            metadata_max_age: cluster.metadata_max_age,
            metadata_max_idle: cluster.metadata_max_idle,
            metadata_recovery_rebootstrap: cluster.rebootstrap,
            metadata_recovery_rebootstrap_trigger: cluster.metadata_recovery_rebootstrap_trigger,
            allow_auto_create_topics: cluster.allow_auto_create_topics,
            receive_message_max_bytes: 100_000_000,
            metrics: cluster.metrics,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            seed: None,
            wall_clock: WallClock::System,
        }
    }
}

impl ClientConfig {
    /// Returns a plaintext configuration for these addresses (`host:port,host:port`), with defaults
    /// for everything else.
    pub fn plaintext(bootstrap_servers: &str) -> Result<Self, ClientError> {
        let bootstrap_servers = Address::parse_list(bootstrap_servers)
            .map_err(|error| ClientError::Configuration(error.to_string()))?;
        Ok(Self {
            bootstrap_servers,
            ..Self::default()
        })
    }

    /// Reads the files of `tls`. It waits for the application's password at most as long as for the
    /// setup of a connection.
    pub(crate) fn prepare_tls(&self) -> Result<Prepared, ClientError> {
        let limit = self.socket_connection_setup_timeout_max;
        self.tls.prepare(&mut |source| {
            let deadline = Instant::now() + limit;
            match source.wait(deadline, &mut || false) {
                Ok(supplied) => supplied.map_err(|error| error.reason.clone()),
                Err(_) => Err(format!(
                    "the function returned no password within {} s",
                    limit.as_secs_f64()
                )),
            }
        })
    }

    /// Returns whom brokers take the client for by Kafka's default rules, as far as the client knows.
    fn principal(&self) -> String {
        match &self.sasl {
            Some(SaslConfig::Plain { username, .. }) => format!("User:{username}"),
            Some(SaslConfig::Scram(scram)) => format!("User:{}", scram.username),
            Some(SaslConfig::OAuthBearer(_)) => "the principal of the client's token".to_owned(),
            Some(SaslConfig::AwsMskIam(_)) => "the client's AWS identity".to_owned(),
            Some(SaslConfig::Gssapi(config)) => config.user().map_or_else(
                || "the client's Kerberos principal".to_owned(),
                |user| format!("User:{user}"),
            ),
            None if self.tls.cert.is_some() || self.tls.key.is_some() => {
                "the principal of the client's certificate".to_owned()
            }
            // Its certificate, if it has one, cannot be read.
            None if self.tls.from_context => "the client's principal".to_owned(),
            None => "User:ANONYMOUS".to_owned(),
        }
    }

    /// Returns the part of the configuration that the cluster core needs.
    pub fn cluster(&self) -> ClusterConfig {
        ClusterConfig {
            bootstrap_servers: self.bootstrap_servers.clone(),
            advertised_hosts_allowed: self.advertised_hosts_allowed.clone(),
            client_id: self.client_id.clone(),
            principal: Principal::new(&self.principal()),
            request_timeout: self.request_timeout,
            retry_backoff: self.retry_backoff,
            retry_backoff_max: self.retry_backoff_max,
            reconnect_backoff: self.reconnect_backoff,
            reconnect_backoff_max: self.reconnect_backoff_max,
            socket_connection_setup_timeout: self.socket_connection_setup_timeout,
            socket_connection_setup_timeout_max: self.socket_connection_setup_timeout_max,
            connections_max_idle: self.connections_max_idle,
            max_in_flight_requests_per_connection: self.max_in_flight_requests_per_connection,
            metadata_max_age: self.metadata_max_age,
            metadata_max_idle: self.metadata_max_idle,
            allow_auto_create_topics: self.allow_auto_create_topics,
            rebootstrap: self.metadata_recovery_rebootstrap,
            metadata_recovery_rebootstrap_trigger: self.metadata_recovery_rebootstrap_trigger,
            authenticates: self.sasl.is_some(),
            metrics: self.metrics,
            seed: self.seed.unwrap_or_else(random_seed),
        }
    }

    /// Checks the options against each other. One error lists all contradictions, by the names of
    /// the options.
    pub fn check(&self) -> Result<(), ClientError> {
        let mut problems = Vec::new();
        if self.bootstrap_servers.is_empty() {
            problems.push("bootstrap_servers is empty: name at least one host:port".to_owned());
        }
        let protocol = self.security_protocol.name();
        if self.security_protocol.uses_sasl() && self.sasl.is_none() {
            problems.push(format!(
                "security_protocol {protocol} needs sasl_mechanism: set it too"
            ));
        }
        if !self.security_protocol.uses_sasl() && self.sasl.is_some() {
            problems.push(format!(
                "sasl_mechanism is set, but security_protocol is {protocol}: set it to \
                 SASL_PLAINTEXT or SASL_SSL"
            ));
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(ClientError::Configuration(problems.join("; ")))
    }
}

/// Returns a seed that differs for each client of each process. It only spreads jitter, so it need
/// not be secret.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}
