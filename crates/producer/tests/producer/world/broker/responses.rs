//! Connections, and responses to every request but Produce.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_cluster::{ApiVersions, ConnectionError, ConnectionId, Event, Frame, NodeId};
use thalweg_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey,
};
use thalweg_protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use thalweg_protocol::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use thalweg_protocol::messages::produce::ProduceRequest;
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader, Str, Uuid, frame};

use crate::world::broker::Brokers;
use crate::world::broker::reaction::Reaction;
use crate::world::broker::request::{Asked, Held, open};
use crate::world::coordinator::{Coordinator, Outcome, Values};

impl Brokers {
    pub(super) fn connect(&mut self, conn: ConnectionId, node: NodeId) {
        // Bootstrap addresses lead to the first node that is up.
        let node = if node < 0 {
            self.nodes.first().copied().unwrap_or(node)
        } else {
            node
        };
        if !self.nodes.contains(&node) || self.unreachable.contains(&node) {
            let error = ConnectionError::Connect {
                address: format!("n{node}:9092"),
                reason: "connection refused".to_owned(),
            };
            self.events.push_back(Event::ConnectFailed { conn, error });
            return;
        }
        let keys = [
            ApiKey::PRODUCE,
            ApiKey::METADATA,
            ApiKey::API_VERSIONS,
            ApiKey::INIT_PRODUCER_ID,
        ];
        let ranges = keys.into_iter().chain(Coordinator::KEYS).map(|key| {
            let valid = key.valid_versions().expect("these APIs exist");
            let max = self.caps.get(&key).copied().unwrap_or(*valid.end());
            ApiVersion {
                api_key: key.0,
                min_version: *valid.start(),
                max_version: max,
            }
        });
        let level = self
            .coordinator
            .level_told
            .unwrap_or(self.coordinator.level);
        let response = ApiVersionsResponse {
            api_keys: ranges.collect(),
            finalized_features: vec![FinalizedFeatureKey {
                name: Str::from("transaction.version"),
                min_version_level: 1,
                max_version_level: level,
            }],
            finalized_features_epoch: i64::from(level),
            ..Default::default()
        };
        let api_versions = Arc::new(ApiVersions::from_response(&response));
        self.conns.insert(conn, node);
        self.events
            .push_back(Event::Connected { conn, api_versions });
    }

    pub(super) fn read(&mut self, conn: ConnectionId, frame: &Frame) {
        let Some(&node) = self.conns.get(&conn) else {
            return;
        };
        let (header, mut reader) = open(frame);
        if let Some(request) = frame.notify {
            self.events.push_back(Event::Written { conn, request });
        }
        let (version, correlation_id) = (header.request_api_version, header.correlation_id);
        match ApiKey(header.request_api_key) {
            ApiKey::METADATA => {
                let request =
                    MetadataRequest::decode(&mut reader, version).expect("our own request");
                let response = self.metadata(&request);
                self.respond(conn, ApiKey::METADATA, version, correlation_id, &response);
            }
            key if Coordinator::KEYS.contains(&key) => {
                self.coordinate(conn, key, version, correlation_id, &mut reader);
            }
            ApiKey::INIT_PRODUCER_ID if self.transactional => {
                let key = ApiKey::INIT_PRODUCER_ID;
                self.coordinate(conn, key, version, correlation_id, &mut reader);
            }
            ApiKey::INIT_PRODUCER_ID => {
                InitProducerIdRequest::decode(&mut reader, version).expect("our own request");
                let response = self.init_producer_id();
                self.respond(
                    conn,
                    ApiKey::INIT_PRODUCER_ID,
                    version,
                    correlation_id,
                    &response,
                );
            }
            ApiKey::PRODUCE => {
                let asked = Asked::new(conn, node, &header, &mut reader);
                self.note(node, version, &asked.request);
                let reaction = self.script.pop_front().unwrap_or(Reaction::Usual);
                let hold = matches!(reaction, Reaction::Hold);
                if hold || self.held.iter().any(|held| held.conn == conn) {
                    self.held.push_back(Held {
                        conn,
                        node,
                        frame: frame.clone(),
                        reaction: (!hold).then_some(reaction),
                    });
                } else {
                    self.react(&asked, &reaction);
                }
            }
            other => panic!("nobody sends {other}"),
        }
    }

    fn coordinate(
        &mut self,
        conn: ConnectionId,
        key: ApiKey,
        version: i16,
        correlation_id: i32,
        reader: &mut Reader,
    ) {
        let values = self.all_values();
        match self.coordinator.handle(key, version, reader, &values) {
            Outcome::Break => self.break_connection(conn),
            Outcome::Nothing => {}
            Outcome::Response(response) => {
                let frame = response.frame(key, version, correlation_id);
                let frame = Bytes::from(frame).slice(4..);
                self.events.push_back(Event::Frame { conn, frame });
            }
        }
    }

    /// Returns the values of every log.
    pub(crate) fn all_values(&self) -> Values {
        let logs = self.logs.iter();
        logs.map(|(place, log)| (place.clone(), log.values()))
            .collect()
    }

    fn note(&mut self, node: NodeId, version: i16, request: &ProduceRequest) {
        let mut partitions = Vec::new();
        let mut bytes = 0;
        for topic in &request.topic_data {
            let name = self.topic_name(version, &topic.name, topic.topic_id);
            for partition in &topic.partition_data {
                partitions.push((name.clone().unwrap_or_default(), partition.index));
                bytes += partition.records.as_ref().map_or(0, Bytes::len);
            }
        }
        self.requests.push((node, partitions));
        self.versions.push(version);
        self.request_bytes.push(bytes);
    }

    pub(super) fn topic_name(&self, version: i16, name: &str, id: Uuid) -> Option<String> {
        if version < 13 {
            return Some(name.to_owned());
        }
        self.topics
            .iter()
            .find(|(_, topic)| topic.id == id)
            .map(|(name, _)| name.clone())
    }

    pub(super) fn respond<M: Message>(
        &mut self,
        conn: ConnectionId,
        key: ApiKey,
        version: i16,
        correlation_id: i32,
        response: &M,
    ) {
        let bytes = frame::encode_response(key, version, correlation_id, response)
            .expect("a valid response");
        self.events.push_back(Event::Frame {
            conn,
            frame: Bytes::from(bytes).slice(4..),
        });
    }

    fn metadata(&mut self, request: &MetadataRequest) -> MetadataResponse {
        self.metadata_requests += 1;
        let broker = |&id: &NodeId| MetadataResponseBroker {
            node_id: id,
            host: Str::from(format!("n{id}")),
            port: 9092,
            ..Default::default()
        };
        let names: Vec<String> = match &request.topics {
            None => self.topics.keys().cloned().collect(),
            Some(asked) => asked
                .iter()
                .filter_map(|t| t.name.as_deref().map(str::to_owned))
                .collect(),
        };
        MetadataResponse {
            brokers: self.nodes.iter().map(broker).collect(),
            controller_id: 1,
            cluster_id: Some(Str::from("cluster")),
            topics: names.iter().map(|name| self.describe(name)).collect(),
            ..Default::default()
        }
    }

    fn describe(&self, name: &str) -> MetadataResponseTopic {
        let mut told = MetadataResponseTopic {
            name: Some(Str::from(name)),
            ..Default::default()
        };
        let Some(topic) = self.topics.get(name) else {
            told.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
            return told;
        };
        if self
            .caps
            .get(&ApiKey::METADATA)
            .is_none_or(|&cap| cap >= 10)
        {
            told.topic_id = topic.id;
        }
        told.partitions = topic
            .leaders
            .iter()
            .enumerate()
            .map(|(index, &(leader, epoch))| MetadataResponsePartition {
                partition_index: index as i32,
                leader_id: leader,
                leader_epoch: epoch,
                replica_nodes: vec![leader],
                isr_nodes: vec![leader],
                ..Default::default()
            })
            .collect();
        told
    }

    fn init_producer_id(&mut self) -> InitProducerIdResponse {
        let error = self.producer_id_errors.pop_front();
        if let Some(code) = error {
            return InitProducerIdResponse {
                error_code: code.0,
                ..Default::default()
            };
        }
        self.producer_ids += 1;
        InitProducerIdResponse {
            producer_id: 1000 + self.producer_ids,
            producer_epoch: self.first_epoch,
            ..Default::default()
        }
    }
}
