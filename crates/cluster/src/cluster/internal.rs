//! The requests that the cluster itself sends, and how it uses the responses.

use std::sync::Arc;
use std::time::Instant;

use thalweg_protocol::messages::find_coordinator::FindCoordinatorRequest;
use thalweg_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse,
};
use thalweg_protocol::{ApiKey, ErrorCode, Request, Str};

use super::{Cluster, Internal};
use crate::address::Address;
use crate::coordinators::{self, CoordinatorKey};
use crate::error::{ConnectionError, RequestError};
use crate::metadata::{Metadata, MetadataQuery, merge};
use crate::request::{NodeId, Outgoing, Purpose, ResponseBody};

impl Cluster {
    /// Forgets that brokers refused the old credentials, and lets connections try the new ones now.
    pub fn credentials_changed(&mut self) {
        self.connections.credentials_changed();
        self.forget_fatal();
    }

    pub(super) fn forget_fatal(&mut self) {
        if self.fatal.take().is_some() {
            self.shared.forget_fatal();
        }
    }

    pub(super) fn rebootstrap_if_due(&mut self, now: Instant) {
        let overdue = self
            .requests
            .failing_since()
            .is_some_and(|since| now >= since + self.config.metadata_recovery_rebootstrap_trigger);
        if self.config.rebootstrap && overdue {
            self.rebootstrap(now);
        }
    }

    fn rebootstrap(&mut self, now: Instant) {
        self.requests.restart(now);
        self.nodes.rebootstrap();
        self.connections
            .close_all(&ConnectionError::Rebootstrap, now);
    }

    pub(super) fn request_metadata(&mut self, now: Instant) {
        if !self.requests.due().is_some_and(|due| due.is_over(now)) {
            return;
        }
        // Also if no node can take the request: a client that reaches none for long must
        // rebootstrap.
        self.requests.want(now);
        if self.config.rebootstrap && !self.nodes.is_bootstrapping() && self.all_nodes_down(now) {
            // KIP-899. The roles keep their connections. Only the metadata request goes elsewhere.
            self.nodes.rebootstrap();
        }
        let Some(node) = self.least_loaded_node(now) else {
            return;
        };
        let Some(version) = self.internal_version(node, ApiKey::METADATA) else {
            return;
        };
        let query = self.requests.start(now);
        let request = metadata_request(&query, self.config.allow_auto_create_topics);
        if !self.send_internal(node, &request, version, Internal::Metadata(query), now) {
            self.requests.failed(now);
        }
    }

    /// Whether no candidate is connected, being connected, or free to be connected.
    fn all_nodes_down(&mut self, now: Instant) -> bool {
        self.nodes.candidates().into_iter().all(|node| {
            self.connections
                .get((node, Purpose::General))
                .is_some_and(|c| c.conn().is_none() && !c.may_connect(now))
        })
    }

    fn internal_version(&mut self, node: NodeId, key: ApiKey) -> Option<i16> {
        match self.require_version(node, key) {
            Ok(version) => Some(version),
            Err(error) => {
                self.note_unsupported(node, error.to_string());
                None
            }
        }
    }

    /// Notes that a node is too old for this client.
    fn note_unsupported(&mut self, node: NodeId, reason: String) {
        let address = self
            .nodes
            .address(node)
            .map_or_else(String::new, Address::to_string);
        let error = Arc::new(ConnectionError::Unsupported { address, reason });
        if self.fatal.as_ref() != Some(&error) {
            self.fatal = Some(Arc::clone(&error));
            self.shared.publish_fatal(error);
        }
    }

    /// Sends a request. Returns false if a field is not part of the node's version: old versions
    /// of `Metadata` cannot forbid that topics are created, for example.
    fn send_internal<R: Request>(
        &mut self,
        node: NodeId,
        request: &R,
        version: i16,
        internal: Internal,
        now: Instant,
    ) -> bool {
        let outgoing = match Outgoing::new(request, version, self.config.request_timeout) {
            Ok(outgoing) => outgoing,
            Err(error) => {
                self.note_unsupported(node, format!("{}: {error}", R::KEY));
                return false;
            }
        };
        let id = self
            .connections
            .send((node, Purpose::General), outgoing, now);
        self.internal.insert(id, internal);
        true
    }

    pub(super) fn metadata_answered(
        &mut self,
        query: &MetadataQuery,
        result: Result<ResponseBody, RequestError>,
        now: Instant,
    ) {
        let response = result
            .ok()
            .and_then(|body| body.decode::<MetadataRequest>().ok());
        let Some(response) = response else {
            return self.requests.failed(now);
        };
        if ErrorCode(response.error_code) == ErrorCode::REBOOTSTRAP_REQUIRED {
            self.requests.failed(now);
            if self.config.rebootstrap {
                self.rebootstrap(now);
            }
            return;
        }
        if response.brokers.is_empty() {
            // A broker that is starting up knows no brokers yet. Our own metadata is better.
            return self.requests.failed(now);
        }
        if let Some(error) = self.not_allowed(&response) {
            // The metadata before this response stays. No call waits for another response.
            self.requests.failed(now);
            let error = Arc::new(error);
            self.fatal = Some(Arc::clone(&error));
            self.shared.publish_fatal(error);
            return;
        }
        self.connections.metrics().metadata_updated(now);
        let outcome = merge(&self.metadata, &response, query.scope);
        for (name, error) in outcome.snapshot.topic_errors() {
            if error == ErrorCode::INVALID_TOPIC_EXCEPTION {
                self.requests.forget(name);
            }
        }
        self.requests
            .succeeded(outcome.changed, outcome.incomplete, now);
        self.shared.note_answered(query.settles_up_to);
        self.forget_fatal();
        self.install(Arc::new(outcome.snapshot));
    }

    /// Returns the first broker to whose host the options do not allow a connection.
    fn not_allowed(&self, response: &MetadataResponse) -> Option<ConnectionError> {
        let mut brokers = response.brokers.iter();
        brokers.find_map(|broker| {
            let port = u16::try_from(broker.port).unwrap_or(0);
            self.nodes
                .check_host(broker.node_id, &broker.host, port)
                .err()
        })
    }

    /// Makes a snapshot the current one.
    pub(super) fn install(&mut self, snapshot: Arc<Metadata>) {
        let bootstrapping = self.nodes.is_bootstrapping();
        for moved in self.nodes.update(&snapshot) {
            self.connections.moved(moved);
        }
        if bootstrapping {
            let ids: Vec<NodeId> = self.nodes.bootstrap_ids().map(|(id, _)| id).collect();
            for id in ids {
                if let Some(twin) = self.nodes.twin_of(id) {
                    self.connections.adopt(id, twin);
                }
            }
        }
        self.metadata = Arc::clone(&snapshot);
        self.shared.publish(snapshot);
    }

    pub(super) fn find_coordinators(&mut self, now: Instant) {
        for key in self.coordinators.due(now) {
            let Some(node) = self.least_loaded_node(now) else {
                return;
            };
            let Some(version) = self.internal_version(node, ApiKey::FIND_COORDINATOR) else {
                return;
            };
            self.coordinators.started(&key);
            let request = coordinators::request(&key, version);
            let internal = Internal::FindCoordinator(key.clone());
            if !self.send_internal(node, &request, version, internal, now) {
                self.coordinators.failed(&key, now);
            }
        }
    }

    pub(super) fn coordinator_answered(
        &mut self,
        key: &CoordinatorKey,
        result: Result<ResponseBody, RequestError>,
        now: Instant,
    ) {
        let response = result
            .ok()
            .and_then(|body| body.decode::<FindCoordinatorRequest>().ok());
        let Some(response) = response else {
            return self.coordinators.failed(key, now);
        };
        if let Some((node, address)) = self.coordinators.answered(key, &response, now)
            && self.nodes.address(node).is_none()
        {
            self.nodes.learn(node, address);
        }
    }
}

fn metadata_request(query: &MetadataQuery, allow_auto_topic_creation: bool) -> MetadataRequest {
    let topic = |name: &Str| MetadataRequestTopic {
        name: Some(name.clone()),
        ..Default::default()
    };
    MetadataRequest {
        topics: query
            .topics
            .as_ref()
            .map(|names| names.iter().map(topic).collect()),
        allow_auto_topic_creation,
        ..MetadataRequest::default()
    }
}
