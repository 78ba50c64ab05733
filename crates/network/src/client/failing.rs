//! Handles a panic in one client's part of the I/O thread: it ends only that client.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thalweg_cluster::{ConnectionError, ConnectionId, Event};

use crate::connection::EventSink;

/// The payload that [`catch_unwind`] returns.
pub(crate) type Panic = Box<dyn Any + Send>;

/// Runs a client's code, whose state may be inconsistent after a panic.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(run))
}

/// Returns the message of a panic.
pub(crate) fn words(panic: &Panic) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Reports a panic in a connection's task to the actor. Otherwise the task would end silently.
pub(crate) struct ConnectionGuard<'a> {
    sink: &'a dyn EventSink,
    conn: ConnectionId,
    pub(crate) is_connected: bool,
}

impl<'a> ConnectionGuard<'a> {
    pub(crate) fn new(sink: &'a dyn EventSink, conn: ConnectionId) -> Self {
        Self {
            sink,
            conn,
            is_connected: false,
        }
    }
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let conn = self.conn;
        let error = ConnectionError::Io("the connection's task panicked".to_owned());
        self.sink.push(if self.is_connected {
            Event::Disconnected { conn, error }
        } else {
            Event::ConnectFailed { conn, error }
        });
    }
}
