//! [`BrokerConfig`]: what an embedded broker is started with.

use std::collections::BTreeMap;

/// How many nodes, where they listen, and Kafka's own broker options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerConfig {
    /// Nodes get the ids 1, 2, ... as in Kafka's own quick start.
    pub nodes: i32,
    /// Name or address to listen on and, unless `advertised_host` is set, to announce.
    pub host: String,
    /// Node 1 listens here, node 2 at the next port, and so on. 0: any free ports.
    pub port: u16,
    /// What clients are told to connect to. A wildcard address announces `localhost`.
    pub advertised_host: Option<String>,
    /// Kafka's broker options by their dotted names; an unknown one is an error. See
    /// [`BrokerOptions`](crate::options::BrokerOptions).
    pub options: BTreeMap<String, String>,
    /// Topic ids, the cluster id and session ids follow from it; `None`: another at each start.
    pub seed: Option<u64>,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            nodes: 1,
            host: "127.0.0.1".to_owned(),
            port: 0,
            advertised_host: None,
            options: BTreeMap::new(),
            seed: None,
        }
    }
}
