//! [`EmbeddedBroker`]: a broker with sockets, which the program that it runs in starts and
//! controls.
//!
//! ```text
//! program --create_topic, move_leader, faults--> Core (behind a mutex) <-- broker's thread
//!         --stop_node, start_node, close-------> Server ----------------------^
//! ```
//! Calls that concern sockets go through the broker's thread, all others straight to the core.

#![allow(clippy::disallowed_methods)] // reads the broker's start time and opens its listeners

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use ring::rand::SecureRandom as _;
use thalweg_protocol::ApiKey;
use thalweg_security::acl::Acl;
use thalweg_security::{SEED_BYTES, Secret};

use crate::core::NodeAddress;
use crate::error::ApiError;
use crate::faults::builder::Faults;
use crate::options::{BrokerOptions, ClientAuth};
use crate::security::users;
use crate::server::authority::Authority;
use crate::server::{BoundPort, Server, SharedCore, TlsAcceptor, lock, tls};
use crate::topology::NewTopic;
use crate::topology::assignment::NewReplicas;
use crate::{BrokerConfig, BrokerError, Core, GroupService, SecurityConfig, TlsFiles, handlers};

/// A running broker. Dropping it closes it.
pub struct EmbeddedBroker {
    host: String,
    /// Of all nodes, in the order of their ids.
    addresses: Vec<SocketAddr>,
    /// The addresses of stopped nodes, which they are to find again. A free port could go to
    /// another program, or to a client that connects to it: to itself, then.
    reserved: Mutex<BTreeMap<i32, BoundPort>>,
    core: SharedCore,
    server: Server,
    is_closed: AtomicBool,
    /// With TLS, unless the certificates were given.
    authority: Option<Authority>,
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
        let (acceptor, authority) = tls_of(&config, &advertised, options.ssl_client_auth)?;
        let mut core = Core::new(&nodes, options, seed, Instant::now());
        core.secure(&SecurityConfig {
            seed: random_bytes()?,
            ..config.security
        });
        let core = Arc::new(Mutex::new(core));
        let listeners = listeners
            .into_iter()
            .map(|(node, _, listener)| (node, listener));
        let server = Server::start(Arc::clone(&core), listeners.collect(), acceptor)?;
        Ok(Self {
            host: config.host,
            addresses,
            reserved: Mutex::default(),
            core,
            server,
            is_closed: AtomicBool::new(false),
            authority,
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
    /// node is live. Their offsets and transactions are kept. Other nodes answer `NOT_COORDINATOR`.
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

    /// Of a node that exists.
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

    /// Adds a user of PLAIN and SCRAM, or changes the password of one.
    pub fn set_user(&self, user: &str, password: &Secret) -> Result<(), BrokerError> {
        self.check_open()?;
        check_user(user, password)?;
        let (mechanisms, salts) = lock(&self.core).security.for_deriving();
        // Without the lock, because this takes milliseconds.
        let derived = users::derive(user, password, &mechanisms, &salts);
        lock(&self.core).security.users.set(user, derived);
        Ok(())
    }

    /// Removes a user. Returns whether it existed. Its connections stay until their sessions end.
    pub fn remove_user(&self, user: &str) -> Result<bool, BrokerError> {
        self.check_open()?;
        Ok(lock(&self.core).security.users.remove(user))
    }

    /// Creates an ACL. Fails without an authorizer.
    pub fn create_acl(&self, acl: Acl) -> Result<(), BrokerError> {
        self.check_open()?;
        let mut core = lock(&self.core);
        let Some(acls) = &mut core.acls else {
            let problem = "the broker has no authorizer: start it with authorizer=True";
            return Err(BrokerError::Config(problem.to_owned()));
        };
        if acls.create(acl) {
            return Ok(());
        }
        Err(BrokerError::Config(
            "the broker has too many ACLs".to_owned(),
        ))
    }

    /// Returns the certificate of the authority that this broker has made, as PEM text.
    pub fn authority_pem(&self) -> Option<String> {
        self.authority.as_ref().map(Authority::pem)
    }

    /// Returns a certificate and its key for a client, as PEM texts. The user is `User:CN=name`.
    pub fn client_certificate(&self, name: &str) -> Result<(String, Secret), BrokerError> {
        let Some(authority) = &self.authority else {
            let problem = "only a broker with TLS that makes its own certificates can sign one";
            return Err(BrokerError::Config(problem.to_owned()));
        };
        let signed = authority.client(name)?;
        Ok((signed.certificate, Secret::new(signed.key)))
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

/// Returns what accepts connections with TLS, and the authority that the broker has made for it.
fn tls_of(
    config: &BrokerConfig,
    advertised: &str,
    client_auth: ClientAuth,
) -> Result<(Option<TlsAcceptor>, Option<Authority>), BrokerError> {
    if !config.security.protocol.has_tls() {
        return Ok((None, None));
    }
    if let Some(files) = &config.security.tls {
        return Ok((Some(tls::acceptor(files, client_auth)?), None));
    }
    let authority = Authority::new()?;
    let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1", &config.host, advertised]
        .map(|host| host.trim_matches(['[', ']']).to_owned())
        .into();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.retain(|host| !host.is_empty());
    let signed = authority.broker(hosts)?;
    let files = TlsFiles {
        chain: signed.certificate,
        key: Secret::new(signed.key),
        client_authorities: Some(authority.pem()),
    };
    Ok((Some(tls::acceptor(&files, client_auth)?), Some(authority)))
}

/// Refuses names and passwords with which nobody could log in.
fn check_user(user: &str, password: &Secret) -> Result<(), BrokerError> {
    let problem = if user.is_empty() {
        "the name of a user must not be empty".to_owned()
    } else if user.contains('\0') || password.reveal().contains('\0') {
        format!("the name or the password of user {user:?} contains a NUL character")
    } else if password.reveal().is_empty() {
        format!("the password of user {user:?} is empty")
    } else {
        return Ok(());
    };
    Err(BrokerError::Config(problem))
}

/// Returns bytes that nobody can guess.
fn random_bytes() -> Result<[u8; SEED_BYTES], BrokerError> {
    let mut bytes = [0; SEED_BYTES];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    let problem = |_| BrokerError::Config("the system has no random bytes for nonces".to_owned());
    filled.map_err(problem).map(|()| bytes)
}

fn any_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.map_or(0, |time| time.as_nanos() as u64);
    nanos ^ u64::from(std::process::id()).rotate_left(32)
}
