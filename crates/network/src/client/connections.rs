//! [`Connections`]: starts a task for each connection of a client, and passes frames to it.
//!
//! ```text
//!   open ─▶ task: addresses of the host ─▶ socket, TLS, SASL ─▶ frames, until one side closes
//!             └─ events ─▶ the actor's inbox                      ▲
//!   write, close ─▶ outbox ───────────────────────────────────────┘
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_cluster::{Address, ConnectionError, ConnectionId, Event, Frame};

use super::failing::ConnectionGuard;
use super::inbox::Inbox;
use crate::connection::{self, EventSink as _, Opener, Outbox};

type Addresses = BTreeMap<(String, u16), Arc<Vec<SocketAddr>>>;

pub(super) struct Connections {
    inbox: Arc<Inbox>,
    opener: Arc<Opener>,
    /// What each host name resolved to, for attempts at its other addresses.
    addresses: Arc<Mutex<Addresses>>,
    outboxes: BTreeMap<ConnectionId, Arc<Outbox>>,
}

impl Connections {
    pub(super) fn new(inbox: Arc<Inbox>, opener: Opener) -> Self {
        Self {
            inbox,
            opener: Arc::new(opener),
            addresses: Arc::default(),
            outboxes: BTreeMap::new(),
        }
    }

    /// Returns the client's ID, for the log.
    pub(super) fn client_id(&self) -> &str {
        let id = self.opener.client_id.as_deref();
        id.unwrap_or("without client_id")
    }

    /// Opens a connection to one of the addresses that the host has. Its task reports each step to
    /// the inbox.
    pub(super) fn open(&mut self, conn: ConnectionId, address: Address, index: usize) {
        let outbox = Arc::new(Outbox::default());
        self.outboxes.insert(conn, Arc::clone(&outbox));
        let inbox = Arc::clone(&self.inbox);
        let opener = Arc::clone(&self.opener);
        let addresses = Arc::clone(&self.addresses);
        tokio::spawn(async move {
            let mut guard = ConnectionGuard::new(&*inbox, conn);
            let opening = async {
                let found = lookup(&opener, &addresses, &address, index).await?;
                inbox.push(Event::Resolved {
                    conn,
                    addresses: found.len(),
                });
                let socket = found[index % found.len()];
                let awaiting = |step| inbox.push(Event::Awaiting { conn, step });
                opener.open(&address, socket, &awaiting).await
            };
            // Closed while it was being opened: drop everything, as nothing waits for an event.
            let Some(opened) = outbox.until_closed(opening).await else {
                return;
            };
            match opened {
                Ok(opened) => {
                    if let Some(session) = opened.session {
                        inbox.push(Event::Authenticated { conn, session });
                    }
                    inbox.push(Event::Connected {
                        conn,
                        api_versions: Arc::clone(&opened.versions),
                    });
                    guard.is_connected = true;
                    connection::run(conn, opened, outbox, &*inbox, &opener).await;
                }
                Err(error) => inbox.push(Event::ConnectFailed { conn, error }),
            }
        });
    }

    pub(super) fn write(&self, conn: ConnectionId, frame: Frame) {
        if let Some(outbox) = self.outboxes.get(&conn) {
            outbox.push(frame);
        }
    }

    pub(super) fn reauthenticate(&self, conn: ConnectionId) {
        if let Some(outbox) = self.outboxes.get(&conn) {
            outbox.reauthenticate();
        }
    }

    pub(super) fn close(&mut self, conn: ConnectionId) {
        if let Some(outbox) = self.outboxes.remove(&conn) {
            outbox.close();
        }
    }

    /// Closes all connections. The kernel has the written frames. The tasks drop their sockets at
    /// their next poll.
    pub(super) fn close_all(&mut self) {
        for outbox in std::mem::take(&mut self.outboxes).into_values() {
            outbox.close();
        }
    }

    /// Drops the outbox of a connection whose task has ended.
    pub(super) fn forget(&mut self, conn: ConnectionId) {
        self.outboxes.remove(&conn);
    }
}

/// Looks up the host's addresses. It resolves the name for index 0, and remembers the result for
/// the others.
async fn lookup(
    opener: &Opener,
    known: &Mutex<Addresses>,
    address: &Address,
    index: usize,
) -> Result<Arc<Vec<SocketAddr>>, ConnectionError> {
    let key = (address.host.clone(), address.port);
    let remembered = {
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).cloned()
    };
    if let Some(found) = remembered.filter(|_| index > 0) {
        return Ok(found);
    }
    let found = connection::resolve(&*opener.transport, &address.host, address.port).await?;
    let found = Arc::new(found);
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.insert(key, Arc::clone(&found));
    Ok(found)
}
