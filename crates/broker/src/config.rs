//! [`BrokerConfig`]: the settings that an embedded broker starts with.

use std::collections::BTreeMap;
use std::fmt;

use crate::SecurityConfig;

/// The number of nodes, where they listen, and Kafka's own broker options.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerConfig {
    /// Nodes get the ids 1, 2, ... as in Kafka's own quick start.
    pub nodes: i32,
    /// The name or address to listen on. It is also advertised, unless `advertised_host` is set.
    pub host: String,
    /// Node 1 listens on this port, node 2 on the next one, and so on. 0 means any free ports.
    pub port: u16,
    /// The host that clients are told to connect to. A wildcard address advertises `localhost`.
    pub advertised_host: Option<String>,
    /// Kafka's broker options by their dotted names. An unknown name is an error. See
    /// [`BrokerOptions`](crate::options::BrokerOptions).
    pub options: BTreeMap<String, String>,
    /// How clients must connect. Its seed must come from a source of random bytes.
    pub security: SecurityConfig,
    /// Determines topic ids, the cluster id and session ids. `None` means a new seed at each start.
    pub seed: Option<u64>,
}

/// Shows the names of the options only: the value of one is a secret.
impl fmt::Debug for BrokerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options: Vec<&String> = self.options.keys().collect();
        f.debug_struct("BrokerConfig")
            .field("nodes", &self.nodes)
            .field("host", &self.host)
            .field("port", &self.port)
            .field("advertised_host", &self.advertised_host)
            .field("options", &options)
            .field("security", &self.security)
            .finish_non_exhaustive()
    }
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            nodes: 1,
            host: "127.0.0.1".to_owned(),
            port: 0,
            advertised_host: None,
            options: BTreeMap::new(),
            security: SecurityConfig::default(),
            seed: None,
        }
    }
}
