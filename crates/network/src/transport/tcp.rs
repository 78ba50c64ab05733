//! TCP with no delay, keep-alive, and buffer sizes if they are configured.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::TcpSocket;

use super::{BoxFuture, BoxStream, Transport};

/// The operating system's sockets.
#[derive(Debug, Clone, Default)]
pub struct Tcp {
    /// `None` leaves the system's own sizes, which grow with the connection.
    pub send_buffer_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
}

impl Transport for Tcp {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move {
            let mut found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), port))
                .await?
                .collect();
            found.dedup();
            Ok(found)
        })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<io::Result<BoxStream>> {
        let settings = self.clone();
        Box::pin(async move {
            let socket = if address.is_ipv4() {
                TcpSocket::new_v4()?
            } else {
                TcpSocket::new_v6()?
            };
            // Before connecting, because the window is agreed in the handshake.
            if let Some(bytes) = settings.send_buffer_bytes {
                socket.set_send_buffer_size(bytes)?;
            }
            if let Some(bytes) = settings.receive_buffer_bytes {
                socket.set_recv_buffer_size(bytes)?;
            }
            let stream = socket.connect(address).await?;
            stream.set_nodelay(true)?;
            SockRef::from(&stream).set_keepalive(true)?;
            Ok(Box::new(stream) as BoxStream)
        })
    }
}
