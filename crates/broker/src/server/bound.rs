//! [`BoundPort`]: the address of a stopped node, kept for it.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// Connections that wait to be accepted, as std has it for its listeners.
const BACKLOG: i32 = 128;

/// Bound as by a listener, but it refuses connections.
pub(crate) struct BoundPort(Socket);

impl BoundPort {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        // Closed connections may linger. Elsewhere the option would let others take the port.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        Ok(Self(socket))
    }

    pub(crate) fn listen(self) -> io::Result<TcpListener> {
        self.0.listen(BACKLOG)?;
        Ok(self.0.into())
    }
}
