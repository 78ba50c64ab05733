//! Pipes in memory behind host names, for the clients and servers of one test or simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use super::{BoxFuture, BoxStream, Transport};

/// The bytes that one direction holds before its writer waits.
const PIPE_BYTES: usize = 64 * 1024;

/// A network in memory. Clones are the same network.
#[derive(Debug, Clone, Default)]
pub struct MemoryNetwork {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    hosts: BTreeMap<String, Vec<IpAddr>>,
    listeners: BTreeMap<SocketAddr, mpsc::UnboundedSender<DuplexStream>>,
    unreachable: BTreeSet<SocketAddr>,
    next_host: u32,
}

/// The server's end of an address. Connections are refused after it is dropped.
#[derive(Debug)]
pub struct MemoryListener {
    address: SocketAddr,
    accepted: mpsc::UnboundedReceiver<DuplexStream>,
}

impl MemoryNetwork {
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a host name these addresses. A name without addresses does not resolve.
    pub fn set_host(&self, host: &str, addresses: Vec<IpAddr>) {
        self.lock().hosts.insert(host.to_owned(), addresses);
    }

    /// Listens on a host's port. An unknown host gets a new address.
    pub fn listen(&self, host: &str, port: u16) -> MemoryListener {
        let mut inner = self.lock();
        if !inner.hosts.contains_key(host) {
            inner.next_host += 1;
            let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + inner.next_host));
            inner.hosts.insert(host.to_owned(), vec![address]);
        }
        let ip = inner.hosts[host]
            .first()
            .copied()
            .unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        drop(inner);
        self.listen_on(SocketAddr::new(ip, port))
    }

    /// Makes connections to this address hang: they get no response, not even a refusal.
    pub fn set_unreachable(&self, address: SocketAddr) {
        self.lock().unreachable.insert(address);
    }

    pub fn listen_on(&self, address: SocketAddr) -> MemoryListener {
        let (accept, accepted) = mpsc::unbounded_channel();
        self.lock().listeners.insert(address, accept);
        MemoryListener { address, accepted }
    }
}

impl MemoryListener {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the next client. It never returns `None` while the network exists.
    pub async fn accept(&mut self) -> Option<DuplexStream> {
        self.accepted.recv().await
    }
}

impl Transport for MemoryNetwork {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let found = self.lock().hosts.get(host).cloned();
        Box::pin(async move {
            match found {
                Some(ips) => Ok(ips
                    .into_iter()
                    .map(|ip| SocketAddr::new(ip, port))
                    .collect()),
                None => Err(io::Error::new(io::ErrorKind::NotFound, "no such host")),
            }
        })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<io::Result<BoxStream>> {
        let (listener, unreachable) = {
            let inner = self.lock();
            let listener = inner.listeners.get(&address).cloned();
            (listener, inner.unreachable.contains(&address))
        };
        Box::pin(async move {
            if unreachable {
                std::future::pending::<()>().await;
            }
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            listener
                .ok_or_else(refused)?
                .send(theirs)
                .map_err(|_| refused())?;
            Ok(Box::new(ours) as BoxStream)
        })
    }
}
