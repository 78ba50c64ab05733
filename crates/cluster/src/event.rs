//! Events that the network reports to the cluster, and actions that the cluster asks of the
//! network.

use std::sync::Arc;

use bytes::Bytes;

use crate::api_versions::ApiVersions;
use crate::error::{ConnectionError, SetupStep};
use crate::request::{Frame, NodeId, Purpose, RequestId};
use crate::session::SaslSession;

/// Names one connection attempt. Ids are never reused, so late events of old attempts are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// An action for the network, from [`Cluster::poll_action`](crate::Cluster::poll_action).
#[derive(Debug)]
pub enum Action {
    /// Resolve the name, connect and do the handshakes (TLS, `ApiVersions`, SASL), then report
    /// `Connected` or `ConnectFailed`. `address` is an index into the host's addresses. 0 resolves
    /// the name again (KIP-602).
    Connect {
        conn: ConnectionId,
        node: NodeId,
        purpose: Purpose,
        host: String,
        port: u16,
        address: usize,
    },
    Write {
        conn: ConnectionId,
        frame: Frame,
    },
    /// Authenticate again on this connection, then report `Authenticated` or `Disconnected`. No
    /// request is in flight, and none is written before the report.
    Reauthenticate {
        conn: ConnectionId,
    },
    /// Drop the connection at once, whatever its state. The cluster ignores later events of it.
    Close {
        conn: ConnectionId,
    },
}

/// An event that the network reports to [`Cluster::handle`](crate::Cluster::handle).
#[derive(Debug)]
pub enum Event {
    /// The host name resolved to this many addresses.
    Resolved {
        conn: ConnectionId,
        addresses: usize,
    },
    /// The other side accepted the connection, and this step has been sent or started. Also during
    /// a re-authentication.
    Awaiting { conn: ConnectionId, step: SetupStep },
    /// SASL has succeeded, on a connection that is being opened or one that authenticates again.
    Authenticated {
        conn: ConnectionId,
        session: SaslSession,
    },
    Connected {
        conn: ConnectionId,
        api_versions: Arc<ApiVersions>,
    },
    ConnectFailed {
        conn: ConnectionId,
        error: ConnectionError,
    },
    Disconnected {
        conn: ConnectionId,
        error: ConnectionError,
    },
    /// One frame without its length prefix.
    Frame { conn: ConnectionId, frame: Bytes },
    /// The socket has taken the last byte of the frame whose `notify` is this request.
    Written {
        conn: ConnectionId,
        request: RequestId,
    },
}
