//! Where bytes come from: TCP, or pipes in memory for tests and the simulation. TLS runs on top.

mod memory;
mod tcp;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

pub use memory::{MemoryListener, MemoryNetwork};
pub use tcp::Tcp;

/// A connected byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub type BoxStream = Box<dyn Stream>;
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Resolves names and opens streams.
pub trait Transport: Send + Sync {
    /// Returns all addresses of a host, in the order in which to try them.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>>;

    fn connect(&self, address: SocketAddr) -> BoxFuture<io::Result<BoxStream>>;
}
