//! [`EmbeddedBroker`]: a broker with sockets, which the program that it runs in starts and
//! controls.
//!
//! ```text
//! program --create_topic, move_leader, faults--> Core (behind a mutex) <-- broker's thread
//!         --stop_node, start_node, close-------> Server ----------------------^
//! ```
//! Calls that concern sockets go through the broker's thread, all others straight to the core.

#![allow(clippy::disallowed_methods)] // reads the broker's start time and opens its listeners

pub(crate) mod faults;
mod security;

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use thalweg_protocol::ApiKey;

use crate::core::NodeAddress;
use crate::error::ApiError;
use crate::options::BrokerOptions;
use crate::server::authority::Authority;
use crate::server::{BoundPort, Server, SharedCore, Tls, lock};
use crate::topology::NewTopic;
use crate::topology::assignment::NewReplicas;
use crate::{BrokerConfig, BrokerError, Core, GroupService, SecurityConfig, handlers};
use faults::Faults;
use security::{check_user, random_bytes, tls_of};

/// A running broker. Dropping it closes it.
pub struct EmbeddedBroker {
    host: String,
    /// The addresses of all nodes, in the order of their IDs.
    addresses: Vec<SocketAddr>,
    /// The ports of stopped nodes. They stay bound, so that a node gets its old address when it
    /// starts again. Otherwise, another program could take the port, or a client that connects to
    /// it could get it as its own port, and connect to itself.
    reserved: Mutex<BTreeMap<i32, BoundPort>>,
    core: SharedCore,
    server: Server,
    is_closed: AtomicBool,
    /// The broker's own authority. None without TLS, or with given certificates.
    authority: Option<Authority>,
    tls: Option<Arc<Tls>>,
}

impl EmbeddedBroker {
    /// Starts a broker. Returns when all nodes accept connections.
    pub fn start(config: BrokerConfig) -> Result<Self, BrokerError> {
        if config.nodes < 1 {
            let why = format!("nodes must be at least 1, got {}", config.nodes);
            return Err(BrokerError::Config(why));
        }
        let options = BrokerOptions::parse(&config.options)?;
        for (user, password) in &config.security.users {
            check_user(user, password)?;
        }
        let listeners = listen_all(&config)?;
        let addresses: Vec<SocketAddr> = listeners.iter().map(|(_, at, _)| *at).collect();
        let advertised = advertised_host(&config);
        let advertise = |address: &SocketAddr| NodeAddress {
            host: advertised.clone(),
            port: address.port(),
        };
        let nodes: Vec<NodeAddress> = addresses.iter().map(advertise).collect();
        let seed = config.seed.unwrap_or_else(any_seed);
        let (tls, authority) = tls_of(&config, &advertised, options.ssl_client_auth)?;
        let mut core = Core::new(&nodes, options, seed, Instant::now());
        core.secure(&SecurityConfig {
            seed: random_bytes()?,
            ..config.security
        });
        let core = Arc::new(Mutex::new(core));
        let listeners = listeners
            .into_iter()
            .map(|(node, _, listener)| (node, listener));
        let server = Server::start(Arc::clone(&core), listeners.collect(), tls.clone())?;
        Ok(Self {
            host: config.host,
            addresses,
            reserved: Mutex::default(),
            core,
            server,
            is_closed: AtomicBool::new(false),
            authority,
            tls,
        })
    }

    /// Returns `host:port` of all nodes, including stopped ones, separated by commas.
    pub fn bootstrap_servers(&self) -> String {
        let core = lock(&self.core);
        let nodes = core.topology.nodes();
        let addresses: Vec<String> = nodes
            .map(|node| join_address(&node.host, node.port))
            .collect();
        addresses.join(",")
    }

    /// Returns the host that it listens on, as configured.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the ids of all nodes: 1, 2, ...
    pub fn node_ids(&self) -> Vec<i32> {
        (1..).take(self.addresses.len()).collect()
    }

    /// Returns the nodes' ports, in the order of their ids.
    pub fn ports(&self) -> Vec<u16> {
        self.addresses.iter().map(SocketAddr::port).collect()
    }

    /// Returns the ids of the nodes that are not stopped.
    pub fn live_nodes(&self) -> Vec<i32> {
        lock(&self.core)
            .topology
            .live_nodes()
            .map(|node| node.id)
            .collect()
    }

    pub fn is_running(&self) -> bool {
        !self.is_closed.load(Ordering::Acquire)
    }

    /// Creates a topic. -1 means the broker's default number.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        replication_factor: i16,
        configs: &BTreeMap<String, String>,
    ) -> Result<(), BrokerError> {
        self.check_open()?;
        for option in configs.keys() {
            handlers::describe_configs::check_topic_option(option)?;
        }
        let wish = NewTopic {
            name: name.to_owned(),
            replicas: NewReplicas::Counts {
                partitions,
                replication_factor,
            },
            options: configs.clone(),
        };
        let mut core = lock(&self.core);
        let Core {
            topology,
            options,
            random,
            ..
        } = &mut *core;
        topology.create_topic(wish, false, options, random)?;
        core.tell_of_topics(Instant::now());
        Ok(())
    }

    pub fn delete_topic(&self, name: &str) -> Result<(), BrokerError> {
        self.check_open()?;
        let mut core = lock(&self.core);
        let topic = core
            .topology
            .topic(name)
            .ok_or_else(ApiError::unknown_topic)?;
        let id = topic.id;
        core.delete_topic(id);
        core.tell_of_topics(Instant::now());
        Ok(())
    }

    /// Returns the names of all topics with their numbers of partitions.
    pub fn topics(&self) -> BTreeMap<String, i32> {
        let core = lock(&self.core);
        let count = |topic: &crate::topology::topic::Topic| topic.partitions.len() as i32;
        core.topology
            .topics()
            .map(|topic| (topic.name.to_string(), count(topic)))
            .collect()
    }

    /// Returns the node that leads a partition, or -1 if none does.
    pub fn leader(&self, topic: &str, partition: i32) -> Result<i32, BrokerError> {
        let core = lock(&self.core);
        let found = core
            .topology
            .topic(topic)
            .and_then(|topic| topic.partition(partition));
        Ok(found.ok_or_else(ApiError::unknown_topic)?.leader)
    }

    /// Makes a running node the leader of a partition, with the next leader epoch.
    pub fn move_leader(&self, topic: &str, partition: i32, node: i32) -> Result<(), BrokerError> {
        self.check_open()?;
        let mut core = lock(&self.core);
        core.check_node(node)?;
        core.topology.move_leader(topic, partition, node)?;
        Ok(())
    }

    /// Makes a node the coordinator of the group and the transactional id of this name, while the
    /// node is live. Their offsets and transactions are kept. Other nodes respond with
    /// `NOT_COORDINATOR`.
    pub fn move_coordinator(&self, key: &str, node: i32) -> Result<(), BrokerError> {
        self.check_open()?;
        lock(&self.core).move_coordinator(key, node, Instant::now())
    }

    /// Closes a node's listener and connections, and moves its partitions to other leaders. Does
    /// nothing if the node is already stopped.
    pub fn stop_node(&self, node: i32) -> Result<(), BrokerError> {
        self.check_open()?;
        lock(&self.core).check_node(node)?;
        self.server.stop_node(node)?;
        // If the port is gone already, only start_node can say so.
        if let Ok(port) = BoundPort::bind(self.address(node)) {
            self.reserved().insert(node, port);
        }
        Ok(())
    }

    /// Starts a stopped node again at its old address. Does nothing if it is running.
    pub fn start_node(&self, node: i32) -> Result<(), BrokerError> {
        self.check_open()?;
        {
            let core = lock(&self.core);
            core.check_node(node)?;
            if core.topology.is_live(node) {
                return Ok(());
            }
        }
        let address = self.address(node);
        let listener = match self.reserved().remove(&node) {
            Some(port) => port.listen(),
            None => TcpListener::bind(address),
        };
        let listener =
            listener.map_err(|source| listen_error(&self.host, node, address.port(), source))?;
        self.server.start_node(node, listener)
    }

    /// Returns the address of a node, which must exist.
    fn address(&self, node: i32) -> SocketAddr {
        self.addresses[(node - 1) as usize]
    }

    fn reserved(&self) -> MutexGuard<'_, BTreeMap<i32, BoundPort>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Faults on demand.
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.core))
    }

    /// Returns the number of requests received since the start, by API.
    pub fn requests(&self, api: Option<ApiKey>) -> BTreeMap<ApiKey, u64> {
        lock(&self.core).faults.seen(api)
    }

    /// Returns the bytes of all batches in memory.
    pub fn memory_bytes(&self) -> u64 {
        lock(&self.core).memory_bytes
    }

    /// Starts to serve consumer groups, for a coordinator that decides about their members.
    pub fn serve_groups(&self) -> Result<GroupService, BrokerError> {
        self.check_open()?;
        Ok(GroupService::start(Arc::clone(&self.core)))
    }

    /// Returns the values of all group options as text, including defaults.
    pub fn group_options(&self) -> BTreeMap<&'static str, String> {
        lock(&self.core).options.of_groups()
    }

    /// Closes all sockets and ends the broker's thread. It may be called repeatedly, and waits only
    /// for a limited time.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        lock(&self.core).close_groups();
        self.server.close();
        self.reserved().clear();
    }

    fn check_open(&self) -> Result<(), BrokerError> {
        if self.is_running() {
            Ok(())
        } else {
            Err(BrokerError::Closed)
        }
    }
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        self.close();
    }
}

type Listening = (i32, SocketAddr, TcpListener);

fn listen_all(config: &BrokerConfig) -> Result<Vec<Listening>, BrokerError> {
    let last = i64::from(config.port) + i64::from(config.nodes) - 1;
    if config.port != 0 && last > i64::from(u16::MAX) {
        let why = format!(
            "{} nodes with ports from {} need port {last}, but the highest port is 65535",
            config.nodes, config.port
        );
        return Err(BrokerError::Config(why));
    }
    (1..=config.nodes)
        .map(|node| {
            let port = match config.port {
                0 => 0,
                first => first + (node - 1) as u16,
            };
            let listener = listen(&config.host, node, port)?;
            let address = listener.local_addr();
            let address =
                address.map_err(|source| listen_error(&config.host, node, port, source))?;
            Ok((node, address, listener))
        })
        .collect()
}

fn listen(host: &str, node: i32, port: u16) -> Result<TcpListener, BrokerError> {
    TcpListener::bind((host, port)).map_err(|source| listen_error(host, node, port, source))
}

fn listen_error(host: &str, node: i32, port: u16, source: io::Error) -> BrokerError {
    let host = host.to_owned();
    match source.kind() {
        io::ErrorKind::AddrInUse => BrokerError::PortTaken { node, host, port },
        _ => BrokerError::Listen {
            node,
            host,
            port,
            source,
        },
    }
}

/// Replaces a wildcard address, which clients cannot connect to.
fn advertised_host(config: &BrokerConfig) -> String {
    match (&config.advertised_host, config.host.as_str()) {
        (Some(host), _) => host.clone(),
        (None, "0.0.0.0" | "::" | "[::]" | "") => "localhost".to_owned(),
        (None, host) => host.to_owned(),
    }
}

fn join_address(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        return format!("[{host}]:{port}");
    }
    format!("{host}:{port}")
}

fn any_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.map_or(0, |time| time.as_nanos() as u64);
    nanos ^ u64::from(std::process::id()).rotate_left(32)
}
