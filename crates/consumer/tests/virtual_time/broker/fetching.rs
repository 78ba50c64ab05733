//! Responses to fetches: what a partition has for a position, within the request's limits.

use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_protocol::messages::fetch::{
    AbortedTransaction, FetchPartition, FetchRequest, FetchResponse, FetchableTopicResponse,
    LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use thalweg_protocol::{ErrorCode, Uuid};

use crate::broker::responses::reply;
use crate::broker::sessions::SessionPartition;
use crate::broker::{Broker, Held, PartitionLog};

impl Broker {
    pub(super) fn fetch(
        &mut self,
        node: i32,
        version: i16,
        id: i32,
        request: FetchRequest,
        now: Instant,
    ) -> Option<Bytes> {
        let (session_id, partitions) = match self.enter_session(node, version, &request) {
            Ok(entered) => entered,
            Err(code) => {
                self.stale_id = None;
                let response = FetchResponse {
                    error_code: code.0,
                    ..Default::default()
                };
                return Some(reply::<FetchRequest>(version, id, &response));
            }
        };
        let response = self.read(node, version, &request, session_id, &partitions);
        if has_news(&response) || request.max_wait_ms == 0 {
            self.served(node, session_id, &response);
            return Some(self.fetch_reply(version, id, &response));
        }
        let until = now + Duration::from_millis(request.max_wait_ms as u64);
        self.held.push(Held {
            node,
            correlation_id: id,
            version,
            until,
            request,
            session_id,
            partitions,
        });
        None
    }

    pub(super) fn fetch_reply(&mut self, version: i16, id: i32, response: &FetchResponse) -> Bytes {
        let mut frame = reply::<FetchRequest>(version, id, response);
        if self.unreadable > 0 {
            self.unreadable -= 1;
            frame.truncate(20);
        }
        frame
    }

    pub(super) fn read(
        &mut self,
        node: i32,
        version: i16,
        request: &FetchRequest,
        session_id: i32,
        partitions: &[SessionPartition],
    ) -> FetchResponse {
        let mut left = request.max_bytes.max(0) as usize;
        let mut first = true;
        let mut responses: Vec<FetchableTopicResponse> = Vec::new();
        for ((name, index), asked) in partitions {
            let topic_id = self.topic_ids.get(name);
            let topic_id = topic_id.or_else(|| self.deleted_ids.get(name));
            let topic_id = topic_id.copied().unwrap_or_default();
            let mut data = match self.logs.get_mut(&(name.clone(), *index)) {
                Some(log) => read_partition(log, node, asked, request, &mut left, &mut first),
                None => unknown(asked.partition, version),
            };
            if let (Some(cut), Some(records)) = (self.cut_at, &mut data.records) {
                records.truncate(cut);
            }
            if self.unsorted_aborted
                && let Some(aborted) = &mut data.aborted_transactions
            {
                aborted.reverse();
            }
            let quiet =
                data.error_code == 0 && data.records.is_none() && data.preferred_read_replica < 0;
            if quiet && request.session_epoch > 0 {
                continue;
            }
            let entry = responses.iter_mut().find(|t| {
                if version >= 13 {
                    t.topic_id == topic_id
                } else {
                    *t.topic == **name
                }
            });
            match entry {
                Some(topic) => topic.partitions.push(data),
                None => responses.push(FetchableTopicResponse {
                    topic: if version >= 13 {
                        "".into()
                    } else {
                        name.as_str().into()
                    },
                    topic_id: if version >= 13 { topic_id } else { Uuid::ZERO },
                    partitions: vec![data],
                }),
            }
        }
        let answered = responses.iter().flat_map(|topic| &topic.partitions);
        let leaders = answered.map(|data| data.current_leader.leader_id);
        let node_endpoints = leaders
            .filter(|leader| *leader >= 0 && version >= 16)
            .map(|node_id| NodeEndpoint {
                node_id,
                host: "broker".into(),
                port: 9000 + node_id,
                ..Default::default()
            })
            .collect();
        FetchResponse {
            session_id,
            responses,
            node_endpoints,
            ..Default::default()
        }
    }
}

/// A session may still contain partitions of a deleted topic.
fn unknown(partition_index: i32, version: i16) -> PartitionData {
    let error = if version >= 13 {
        ErrorCode::UNKNOWN_TOPIC_ID
    } else {
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    };
    PartitionData {
        partition_index,
        error_code: error.0,
        high_watermark: -1,
        ..Default::default()
    }
}

#[expect(clippy::too_many_lines, reason = "one response, field by field")]
fn read_partition(
    log: &mut PartitionLog,
    node: i32,
    asked: &FetchPartition,
    request: &FetchRequest,
    left: &mut usize,
    first: &mut bool,
) -> PartitionData {
    let committed = request.isolation_level == 1;
    let of_follower = log.follower_end.filter(|_| log.follower == Some(node));
    let high_watermark = of_follower.unwrap_or(log.high_watermark);
    let mut data = PartitionData {
        partition_index: asked.partition,
        high_watermark,
        last_stable_offset: log.last_stable,
        log_start_offset: log.log_start,
        aborted_transactions: Some(Vec::new()),
        ..Default::default()
    };
    let refuse = |code: ErrorCode| PartitionData {
        partition_index: asked.partition,
        error_code: code.0,
        log_start_offset: log.log_start,
        ..Default::default()
    };
    if log.leader != node && log.follower != Some(node) {
        let mut data = refuse(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        data.current_leader = LeaderIdAndEpoch {
            leader_id: log.leader,
            leader_epoch: log.leader_epoch,
        };
        return data;
    }
    if asked.current_leader_epoch >= 0 && asked.current_leader_epoch < log.leader_epoch {
        return refuse(ErrorCode::FENCED_LEADER_EPOCH);
    }
    if let Some(code) = log.errors.front().copied() {
        let data = refuse(code);
        log.errors.pop_front();
        return data;
    }
    if asked.fetch_offset < log.log_start || asked.fetch_offset > log.end() {
        return refuse(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    let has_rack = !request.rack_id.is_empty();
    if has_rack && log.preferred_replica >= 0 && log.preferred_replica != node {
        data.preferred_read_replica = log.preferred_replica;
        return data;
    }
    let limit = if committed {
        log.last_stable
    } else {
        high_watermark
    };
    if asked.fetch_offset < log.local_start {
        return data;
    }
    let mut records = Vec::new();
    let room = (*left).min(asked.partition_max_bytes.max(0) as usize);
    for batch in &log.batches {
        if batch.next_offset <= asked.fetch_offset || batch.next_offset > limit {
            continue;
        }
        if records.len() + batch.bytes.len() > room && !(*first && records.is_empty()) {
            break;
        }
        records.extend_from_slice(&batch.bytes);
        if records.len() >= room {
            break;
        }
    }
    if !records.is_empty() {
        *first = false;
        *left = left.saturating_sub(records.len());
        data.records = Some(records.into());
    }
    if committed {
        data.aborted_transactions = Some(
            log.aborted
                .iter()
                .map(|&(producer_id, first_offset)| AbortedTransaction {
                    producer_id,
                    first_offset,
                })
                .collect(),
        );
    }
    data
}

pub(super) fn has_news(response: &FetchResponse) -> bool {
    response
        .responses
        .iter()
        .flat_map(|t| &t.partitions)
        .any(|data| {
            data.error_code != 0 || data.records.is_some() || data.preferred_read_replica >= 0
        })
}
