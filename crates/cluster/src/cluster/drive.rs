//! The network's half of the cluster: events and time go in, actions and responses come out.

use std::sync::Arc;
use std::time::Instant;

use super::{Cluster, Internal};
use crate::connections::{Change, Completed};
use crate::error::ConnectionError;
use crate::event::{Action, Event};
use crate::metadata::Due;

impl Cluster {
    /// Handles an event from the network.
    pub fn handle(&mut self, event: Event, now: Instant) {
        self.connections.handle(event, &self.nodes, now);
        self.settle(now);
    }

    /// Does what is due: timeouts, reconnects, metadata and coordinator requests.
    pub fn poll(&mut self, now: Instant) {
        if self.closed {
            return;
        }
        let (topics, update) = self.shared.take_requests();
        for topic in topics {
            let known = self.metadata.topic(&topic).is_some();
            self.requests.add_topic(&topic, known, now);
        }
        self.requests.request_update_numbered(update);
        self.connections.tick(&self.nodes, now);
        self.settle(now);
        self.rebootstrap_if_due(now);
        self.request_metadata(now);
        self.find_coordinators(now);
        self.settle(now);
    }

    /// Returns the next action for the network.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.connections.actions.pop_front()
    }

    /// Returns the next response to a role's request. The cluster handles responses to its own
    /// requests.
    pub fn poll_response(&mut self) -> Option<Completed> {
        if self.responses.is_empty() {
            // A send that failed at once. The cluster's own requests never fail there.
            return self.connections.completed.pop_front();
        }
        self.responses.pop_front()
    }

    /// Whether [`Self::poll_response`] has something to return.
    pub fn has_responses(&self) -> bool {
        !self.responses.is_empty() || !self.connections.completed.is_empty()
    }

    /// When [`Self::poll`] must be called at the latest.
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let metadata = match self.requests.due() {
            Some(Due::At(at)) if at > now => Some(at),
            // Due but not sent: it needs a connection first, which has its own deadline.
            _ => None,
        };
        let trigger = self
            .requests
            .failing_since()
            .filter(|_| self.config.rebootstrap)
            .map(|since| since + self.config.metadata_recovery_rebootstrap_trigger);
        let hedge = self.hedge_at.filter(|&at| at > now);
        [
            self.connections.next_deadline(now),
            metadata,
            trigger,
            hedge,
            self.coordinators.next_deadline(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Closes all connections. Requests in flight fail, and nothing is sent after it.
    pub fn close(&mut self, now: Instant) {
        self.closed = true;
        self.connections
            .close_all(&ConnectionError::ClientClosed, now);
        self.settle(now);
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Passes on completed requests, and handles those that the cluster itself sent.
    fn settle(&mut self, now: Instant) {
        while let Some(change) = self.connections.changes.pop_front() {
            self.connection_changed(change, now);
        }
        while let Some((id, result)) = self.connections.completed.pop_front() {
            match self.internal.remove(&id) {
                None => self.responses.push_back((id, result)),
                Some(Internal::Metadata(query)) => self.metadata_answered(&query, result, now),
                Some(Internal::FindCoordinator(key)) => {
                    self.coordinator_answered(&key, result, now);
                }
            }
        }
    }

    fn connection_changed(&mut self, change: Change, now: Instant) {
        match change {
            Change::Up => self.forget_fatal(),
            Change::Lost { key, cause } => {
                if !matches!(
                    *cause,
                    ConnectionError::Idle | ConnectionError::ClientClosed
                ) {
                    self.requests.request_update();
                    self.coordinators.invalidate_node(key.0, now);
                }
            }
            Change::Failed { key, error } => {
                self.requests.request_update();
                self.coordinators.invalidate_node(key.0, now);
                // Without credentials for this connection, the others still work.
                if error.is_fatal() || (error.fails_calls() && !self.connections.any_ready()) {
                    self.fatal = Some(Arc::clone(&error));
                    self.shared.publish_fatal(error);
                }
            }
        }
    }
}
