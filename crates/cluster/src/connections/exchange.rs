//! Requests and responses on established connections.

use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_protocol::{Reader, frame};

use super::{Completed, Connections, Key};
use crate::connection::InFlight;
use crate::error::{ConnectionError, RequestError};
use crate::event::{Action, ConnectionId};
use crate::request::{Outgoing, Purpose, RequestId, ResponseBody, frame_request};
use crate::throttle;

/// The length before each frame.
const PREFIX_BYTES: usize = 4;

impl Connections {
    /// Writes a request if the connection is ready. Otherwise the request fails at once as
    /// retriable.
    pub(crate) fn send(&mut self, key: Key, outgoing: Outgoing, now: Instant) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let ready = match self.by_key.get_mut(&key) {
            Some(connection) if connection.is_ready() && !connection.is_held(now) => {
                Some(connection)
            }
            _ => None,
        };
        let Some((connection, conn)) = ready.and_then(|c| c.conn().map(|conn| (c, conn))) else {
            self.completed
                .push_back((id, Err(RequestError::NotReady { node: key.0 })));
            return id;
        };
        connection.last_used = now;
        let in_flight = InFlight {
            id,
            correlation_id: connection.next_correlation_id(),
            api_key: outgoing.api_key,
            version: outgoing.version,
            deadline: now + outgoing.timeout,
            timeout: outgoing.timeout,
        };
        let notify = (!outgoing.expects_response).then_some(id);
        let correlation_id = in_flight.correlation_id;
        if outgoing.expects_response {
            connection.in_flight.push_back(in_flight);
        } else {
            connection.unwritten.push_back(in_flight);
        }
        let frame = frame_request(outgoing, correlation_id, self.client_id.as_deref(), notify);
        self.metrics.sent(key.0, frame.len(), now);
        self.actions.push_back(Action::Write { conn, frame });
        id
    }

    pub(super) fn frame(&mut self, conn: ConnectionId, frame: Bytes, now: Instant) {
        let Some(&key) = self.keys.get(&conn) else {
            return;
        };
        match self.take_response(key, frame, now) {
            Ok(completed) => self.completed.push_back(completed),
            Err(error) => self.close(key, error, now),
        }
    }

    fn take_response(
        &mut self,
        key: Key,
        frame: Bytes,
        now: Instant,
    ) -> Result<Completed, ConnectionError> {
        let malformed =
            |error: &dyn std::fmt::Display| ConnectionError::Malformed(error.to_string());
        let bytes = PREFIX_BYTES + frame.len();
        let mut reader = Reader::new(frame);
        let connection = self
            .by_key
            .get_mut(&key)
            .expect("`keys` only names entries of `by_key`");
        let Some(request) = connection.in_flight.front() else {
            let got = reader.i32().map_err(|error| malformed(&error))?;
            return Err(ConnectionError::Unsolicited(got));
        };
        let (api_key, version, expected) =
            (request.api_key, request.version, request.correlation_id);
        let got = frame::decode_response_header(&mut reader, api_key, version)
            .map_err(|error| malformed(&error))?;
        if got != expected {
            return Err(ConnectionError::WrongCorrelationId { expected, got });
        }
        let id = request.id;
        let sent_at = request.deadline.checked_sub(request.timeout);
        let latency = sent_at.map(|at| now.saturating_duration_since(at));
        let of_role = matches!(key.1, Purpose::Produce | Purpose::Fetch);
        self.metrics
            .answered(key.0, bytes, latency.filter(|_| of_role), now);
        connection.in_flight.pop_front();
        connection.last_used = now;
        connection.failures = 0;
        connection.last_error = None;
        let wait = throttle::throttle_time(api_key, version, &reader);
        if !wait.is_zero() {
            connection.throttled_until = connection.throttled_until.max(Some(now + wait));
        }
        let body = ResponseBody {
            node: key.0,
            purpose: key.1,
            api_key,
            version,
            reader,
        };
        Ok((id, Ok(body)))
    }

    pub(super) fn written(&mut self, conn: ConnectionId, id: RequestId, now: Instant) {
        let Some(&key) = self.keys.get(&conn) else {
            return;
        };
        let Some(connection) = self.by_key.get_mut(&key) else {
            return;
        };
        let Some(at) = connection.unwritten.iter().position(|r| r.id == id) else {
            return;
        };
        let Some(request) = connection.unwritten.remove(at) else {
            return;
        };
        connection.last_used = now;
        let body = ResponseBody {
            node: key.0,
            purpose: key.1,
            api_key: request.api_key,
            version: request.version,
            reader: Reader::new(Bytes::new()),
        };
        self.completed.push_back((id, Ok(body)));
    }

    pub(crate) fn throttle(&mut self, key: Key, wait: Duration, now: Instant) {
        if let Some(connection) = self.by_key.get_mut(&key) {
            connection.throttled_until = connection.throttled_until.max(Some(now + wait));
        }
    }
}
