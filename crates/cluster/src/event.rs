//! What the network tells the cluster, and what the cluster asks of the network.

use std::sync::Arc;

use bytes::Bytes;

use crate::api_versions::ApiVersions;
use crate::error::{ConnectionError, SetupStep};
use crate::request::{Frame, NodeId, Purpose, RequestId};

/// Names one attempt at a connection; never used twice, so late events of old ones fall away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Asked of the network by [`Cluster::poll_action`](crate::Cluster::poll_action).
#[derive(Debug)]
pub enum Action {
    /// Resolve, connect, shake hands (TLS, `ApiVersions`, SASL); then say `Connected` or
    /// `ConnectFailed`. `address` counts through the host's addresses; 0 resolves anew (KIP-602).
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
    /// Drop it at once, whatever state it is in. No event is expected for it any more.
    Close {
        conn: ConnectionId,
    },
}

/// Told by the network to [`Cluster::handle`](crate::Cluster::handle).
#[derive(Debug)]
pub enum Event {
    /// The host name has this many addresses.
    Resolved {
        conn: ConnectionId,
        addresses: usize,
    },
    /// The other side accepted the connection; this has been sent, or begun.
    Awaiting { conn: ConnectionId, step: SetupStep },
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
    /// The frame with `notify` = this request has gone to the socket completely.
    Written {
        conn: ConnectionId,
        request: RequestId,
    },
}
