//! Responses about topics, offsets and leader epochs.

use bytes::Bytes;
use thalweg_protocol::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use thalweg_protocol::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use thalweg_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
};
use thalweg_protocol::{ErrorCode, Request, frame};

use crate::broker::Broker;

impl Broker {
    pub(super) fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
        let named: Vec<String> = match &request.topics {
            None => self.topic_ids.keys().cloned().collect(),
            Some(topics) => topics
                .iter()
                .filter_map(|t| t.name.as_ref().map(ToString::to_string))
                .collect(),
        };
        let topics = named.iter().map(|name| self.metadata_topic(name)).collect();
        MetadataResponse {
            brokers: self
                .nodes
                .iter()
                .map(|&node_id| MetadataResponseBroker {
                    node_id,
                    host: "broker".into(),
                    port: 9000 + node_id,
                    ..Default::default()
                })
                .collect(),
            controller_id: self.nodes[0],
            topics,
            ..Default::default()
        }
    }

    fn metadata_topic(&self, name: &str) -> MetadataResponseTopic {
        let id = self.topic_ids.get(name);
        let error = self.topic_errors.get(name).copied().or_else(|| {
            id.is_none()
                .then_some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
        });
        if let Some(error) = error {
            return MetadataResponseTopic {
                error_code: error.0,
                name: Some(name.into()),
                ..Default::default()
            };
        }
        let partitions = self.logs.iter().filter(|((topic, _), _)| topic == name);
        MetadataResponseTopic {
            name: Some(name.into()),
            topic_id: self.stale_id.or(id.copied()).unwrap_or_default(),
            partitions: partitions
                .map(|((_, index), log)| {
                    let truth = (log.leader, log.leader_epoch);
                    let (leader_id, leader_epoch) = self.metadata_says.unwrap_or(truth);
                    MetadataResponsePartition {
                        partition_index: *index,
                        leader_id,
                        leader_epoch,
                        replica_nodes: self.nodes.clone(),
                        isr_nodes: self.nodes.clone(),
                        ..Default::default()
                    }
                })
                .collect(),
            ..Default::default()
        }
    }

    pub(super) fn list_offsets(
        &mut self,
        node: i32,
        request: &ListOffsetsRequest,
    ) -> ListOffsetsResponse {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for asked in &topic.partitions {
                let error = self.list_errors.pop_front();
                let place = (topic.name.to_string(), asked.partition_index);
                let Some(log) = self.logs.get(&place) else {
                    partitions.push(ListOffsetsPartitionResponse {
                        partition_index: asked.partition_index,
                        error_code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0,
                        offset: -1,
                        timestamp: -1,
                        leader_epoch: -1,
                    });
                    continue;
                };
                let end = if request.isolation_level == 1 {
                    log.last_stable
                } else {
                    log.high_watermark
                };
                let (offset, timestamp) = match asked.timestamp {
                    -2 => (log.log_start, -1),
                    -1 => (end, -1),
                    -4 => (log.local_start.max(log.log_start), -1),
                    -3 => log
                        .timestamps
                        .iter()
                        .map(|&(o, t)| (t, o))
                        .max()
                        .map_or((-1, -1), |(t, o)| (o, t)),
                    wanted => log
                        .timestamps
                        .iter()
                        .find(|(_, t)| *t >= wanted)
                        .copied()
                        .unwrap_or((-1, -1)),
                };
                let error = error
                    .or_else(|| (log.leader != node).then_some(ErrorCode::NOT_LEADER_OR_FOLLOWER));
                partitions.push(ListOffsetsPartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: error.unwrap_or_default().0,
                    offset,
                    timestamp,
                    leader_epoch: log.leader_epoch,
                });
            }
            topics.push(ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions,
            });
        }
        ListOffsetsResponse {
            topics,
            ..Default::default()
        }
    }

    pub(super) fn offset_for_leader_epoch(
        &mut self,
        request: &OffsetForLeaderEpochRequest,
    ) -> OffsetForLeaderEpochResponse {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for asked in &topic.partitions {
                let error = self.epoch_errors.pop_front().unwrap_or_default();
                let log = &self.logs[&(topic.topic.to_string(), asked.partition)];
                // A leader returns no end offset for an epoch that is newer than all epochs that it
                // knows.
                let newest = log.epochs.last().map(|(epoch, _)| *epoch);
                let is_known = newest.is_some_and(|newest| asked.leader_epoch <= newest);
                let known = log
                    .epochs
                    .iter()
                    .rev()
                    .find(|(epoch, _)| is_known && *epoch <= asked.leader_epoch);
                let (leader_epoch, end_offset) = match known {
                    Some(&(epoch, end)) => (epoch, end),
                    None if log.epochs.is_empty() => (asked.leader_epoch, log.end()),
                    None => (-1, -1),
                };
                partitions.push(EpochEndOffset {
                    error_code: error.0,
                    partition: asked.partition,
                    leader_epoch,
                    end_offset,
                });
            }
            topics.push(OffsetForLeaderTopicResult {
                topic: topic.topic.clone(),
                partitions,
            });
        }
        OffsetForLeaderEpochResponse {
            topics,
            ..Default::default()
        }
    }
}

pub(super) fn reply<R: Request>(
    version: i16,
    correlation_id: i32,
    response: &R::Response,
) -> Bytes {
    let framed = frame::encode_response(R::KEY, version, correlation_id, response)
        .expect("the response fits its version");
    Bytes::from(framed).slice(4..)
}
