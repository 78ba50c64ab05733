//! Authenticates connections again before their sessions end (KIP-368).
//!
//! ```text
//!   held: no new requests ─▶ nothing left in flight ─▶ Reauthenticate ─▶ Authenticated ─▶ requests
//!                                                          └─▶ Disconnected, or too late: closed
//! ```
//! Roles hold their own requests: to them the connection is not ready for a moment. After a failure
//! the connection opens again as after any other loss. Only if that fails too do calls fail.

use std::time::Instant;

use super::{Change, Connections, Key};
use crate::connection::Connection;
use crate::error::{ConnectionError, SetupStep};
use crate::event::{Action, ConnectionId};
use crate::session::{Reauthentication, SaslSession, Session};

impl Connections {
    /// Starts to authenticate a connection again, if that is due and nothing is in flight.
    pub(super) fn reauthenticate(&mut self, key: Key, now: Instant) {
        let Some(connection) = self.by_key.get_mut(&key) else {
            return;
        };
        let Some(conn) = connection.conn() else {
            return;
        };
        if !connection.may_reauthenticate(now) {
            return;
        }
        connection.reauthentication = Some(Reauthentication {
            since: now,
            deadline: now + self.request_timeout,
            step: SetupStep::Authentication,
        });
        self.actions.push_back(Action::Reauthenticate { conn });
    }

    /// Takes the session of a connection that is being opened, or that has authenticated again.
    pub(super) fn authenticated(
        &mut self,
        conn: ConnectionId,
        session: &SaslSession,
        now: Instant,
    ) {
        let Some(connection) = self
            .keys
            .get(&conn)
            .and_then(|key| self.by_key.get_mut(key))
        else {
            return;
        };
        connection.session = Session::new(session, self.random.unit());
        let Some(reauthentication) = connection.reauthentication.take() else {
            if !session.can_be_renewed {
                self.metrics.authenticated_for_ever(now);
            }
            return;
        };
        connection.wanted = false;
        connection.last_used = now;
        let latency = now.saturating_duration_since(reauthentication.since);
        self.metrics.reauthenticated(latency, now);
        self.changes.push_back(Change::Up);
    }

    /// Closes a connection whose broker has not responded in time.
    pub(super) fn reauthentication_is_late(&mut self, key: Key, address: String, now: Instant) {
        let started = self.by_key.get(&key).and_then(|c| c.reauthentication);
        if let Some(Reauthentication { step, .. }) = started {
            let late = ConnectionError::StepTimedOut {
                address,
                step,
                timeout: self.request_timeout,
            };
            self.close(key, ConnectionError::Reauthentication(Box::new(late)), now);
        }
    }
}

impl Connection {
    /// Whether the session is so close to its end that no request may be written.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        let session = self.session.as_ref();
        self.reauthentication.is_some() || session.is_some_and(|session| now >= session.held_from)
    }

    /// Returns since when the connection has held back requests, or `now` if it can authenticate
    /// again at once.
    pub(crate) fn held_since(&self, now: Instant) -> Instant {
        match (&self.reauthentication, &self.session) {
            (Some(started), _) => started.since,
            (None, Some(session)) if self.in_flight_count() > 0 => session.held_from,
            _ => now,
        }
    }

    fn may_reauthenticate(&self, now: Instant) -> bool {
        let session = self.session.as_ref();
        self.is_ready()
            && self.reauthentication.is_none()
            && self.in_flight_count() == 0
            && !self.is_throttled(now)
            && session.is_some_and(|session| now >= session.due)
    }

    /// Returns when something must be done about the session: when a re-authentication times out,
    /// or when one may begin because a request waits for it.
    pub(crate) fn session_deadline(&self, now: Instant) -> Option<Instant> {
        if let Some(reauthentication) = &self.reauthentication {
            return Some(reauthentication.deadline);
        }
        let session = self.session.as_ref()?;
        let waits = self.wanted && self.is_ready() && self.in_flight_count() == 0;
        (waits && now >= session.held_from && now < session.due).then_some(session.due)
    }
}
