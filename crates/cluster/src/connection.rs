//! The life of one connection: to one node, for one purpose.
//!
//! ```text
//!                  is_ready                Connected
//!   Disconnected ───────────▶ Connecting ───────────▶ Ready
//!     ▲  ▲ backoff               │ failed:              │ lost, timed out, wrong response
//!     │  └───────────────────────┘ next address, else   │
//!     └─────────────────────────────────────────────────┘ all in flight fails as retriable
//! ```
//! A ready connection whose SASL session ends soon takes no requests until it has authenticated
//! again: see `connections/reauthentication.rs`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_protocol::ApiKey;

use crate::api_versions::ApiVersions;
use crate::error::{ConnectionError, SetupStep};
use crate::event::ConnectionId;
use crate::request::RequestId;
use crate::session::{Reauthentication, Session};

/// A request that was written (or is being written) and waits for its response.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) id: RequestId,
    pub(crate) correlation_id: i32,
    pub(crate) api_key: ApiKey,
    pub(crate) version: i16,
    pub(crate) deadline: Instant,
    pub(crate) timeout: Duration,
}

#[derive(Debug)]
pub(crate) enum State {
    Disconnected,
    Connecting {
        conn: ConnectionId,
        /// Which of the host's addresses is tried, and how many there are (0 = not resolved yet).
        address: usize,
        addresses: usize,
        since: Instant,
        deadline: Instant,
        timeout: Duration,
        /// The step that the connection waits for since it was accepted.
        step: Option<SetupStep>,
    },
    Ready {
        conn: ConnectionId,
        api_versions: Arc<ApiVersions>,
    },
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) state: State,
    /// Attempts in a row that failed on all addresses, or broke before any response.
    pub(crate) failures: u32,
    /// No attempt starts before this time.
    pub(crate) retry_at: Option<Instant>,
    /// A caller asked for it while it was not ready: connect as soon as the backoff is over.
    pub(crate) wanted: bool,
    pub(crate) throttled_until: Option<Instant>,
    /// In the order of writing. Responses come in the same order.
    pub(crate) in_flight: VecDeque<InFlight>,
    /// Requests that expect no response and are not completely written yet.
    pub(crate) unwritten: VecDeque<InFlight>,
    pub(crate) last_used: Instant,
    /// Kept until a response arrives: a broker that accepts and then closes is not a success.
    pub(crate) last_error: Option<Arc<ConnectionError>>,
    /// The SASL session, if it has an end.
    pub(crate) session: Option<Session>,
    pub(crate) reauthentication: Option<Reauthentication>,
    next_correlation_id: i32,
}

impl Connection {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            state: State::Disconnected,
            failures: 0,
            retry_at: None,
            wanted: false,
            throttled_until: None,
            in_flight: VecDeque::new(),
            unwritten: VecDeque::new(),
            last_used: now,
            last_error: None,
            session: None,
            reauthentication: None,
            next_correlation_id: 0,
        }
    }

    pub(crate) fn conn(&self) -> Option<ConnectionId> {
        match self.state {
            State::Disconnected => None,
            State::Connecting { conn, .. } | State::Ready { conn, .. } => Some(conn),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready { .. })
    }

    pub(crate) fn is_throttled(&self, now: Instant) -> bool {
        self.throttled_until.is_some_and(|until| now < until)
    }

    pub(crate) fn in_flight_count(&self) -> usize {
        self.in_flight.len() + self.unwritten.len()
    }

    /// Whether nothing is in flight, and the connection does not authenticate again.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight_count() == 0 && self.reauthentication.is_none()
    }

    /// Whether an attempt may start: none is in progress, and no backoff is running.
    pub(crate) fn may_connect(&self, now: Instant) -> bool {
        matches!(self.state, State::Disconnected) && self.retry_at.is_none_or(|at| now >= at)
    }

    pub(crate) fn is_backing_off(&self, now: Instant) -> bool {
        matches!(self.state, State::Disconnected) && self.retry_at.is_some_and(|at| now < at)
    }

    /// Returns the next correlation id. Ids are not negative and wrap around. Brokers send them
    /// back unchanged.
    pub(crate) fn next_correlation_id(&mut self) -> i32 {
        let id = self.next_correlation_id;
        self.next_correlation_id = if id == i32::MAX { 0 } else { id + 1 };
        id
    }

    /// Returns the earliest deadline of this connection.
    pub(crate) fn next_deadline(&self, now: Instant, max_idle: Duration) -> Option<Instant> {
        let requests = self
            .in_flight
            .iter()
            .chain(&self.unwritten)
            .map(|r| r.deadline)
            .min();
        let state = match &self.state {
            State::Disconnected => self.retry_at.filter(|_| self.wanted),
            State::Connecting { deadline, .. } => Some(*deadline),
            State::Ready { .. } if self.is_idle() => Some(self.last_used + max_idle),
            State::Ready { .. } => None,
        };
        let throttle = self
            .throttled_until
            .filter(|&until| self.wanted && until > now);
        let session = self.session_deadline(now);
        [requests, state, throttle, session]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns the first request whose deadline has passed.
    pub(crate) fn overdue(&self, now: Instant) -> Option<&InFlight> {
        self.in_flight
            .iter()
            .chain(&self.unwritten)
            .find(|r| now >= r.deadline)
    }
}
