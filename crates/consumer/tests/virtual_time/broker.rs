//! A scripted broker: typed requests in, typed responses out. It has no clock.
//!
//! It implements fetch sessions (KIP-227) and refuses requests that violate them, holds a fetch
//! without data until its wait is over, and records the requests that it gets.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_cluster::ConnectionError;
use thalweg_protocol::messages::fetch::{
    AbortedTransaction, FetchPartition, FetchRequest, FetchResponse, FetchableTopicResponse,
    LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
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
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader, Request, Uuid, frame};

/// One stored batch.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) next_offset: i64,
    pub(crate) bytes: Bytes,
}

#[derive(Debug)]
pub(crate) struct PartitionLog {
    pub(crate) leader: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) batches: Vec<Stored>,
    pub(crate) log_start: i64,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable: i64,
    pub(crate) aborted: Vec<(i64, i64)>,
    /// (epoch, end offset), ascending.
    pub(crate) epochs: Vec<(i32, i64)>,
    pub(crate) timestamps: Vec<(i64, i64)>,
    pub(crate) preferred_replica: i32,
    /// Errors for the next fetches.
    pub(crate) errors: VecDeque<ErrorCode>,
    /// A follower that serves fetches too.
    pub(crate) follower: Option<i32>,
}

impl PartitionLog {
    pub(crate) fn end(&self) -> i64 {
        self.batches
            .last()
            .map_or(self.log_start, |b| b.next_offset)
    }
}

/// A request that arrived.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Fetch {
        node: i32,
        version: i16,
        request: FetchRequest,
    },
    ListOffsets {
        request: ListOffsetsRequest,
    },
    OffsetForLeaderEpoch,
}

/// A partition by name, and its part of a fetch request.
type SessionPartition = ((String, i32), FetchPartition);

#[derive(Debug, Default)]
struct Session {
    epoch: i32,
    /// In the broker's order: partitions that were served move to the end.
    partitions: Vec<SessionPartition>,
}

/// A fetch that waits for data.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) node: i32,
    pub(crate) correlation_id: i32,
    pub(crate) version: i16,
    pub(crate) until: Instant,
    request: FetchRequest,
    session_id: i32,
    partitions: Vec<SessionPartition>,
}

#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) nodes: Vec<i32>,
    /// Nodes that refuse connections, and the error.
    pub(crate) down: BTreeMap<i32, ConnectionError>,
    pub(crate) logs: BTreeMap<(String, i32), PartitionLog>,
    pub(crate) topic_ids: BTreeMap<String, Uuid>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) held: Vec<Held>,
    pub(crate) max_versions: BTreeMap<i16, i16>,
    /// Opens no sessions.
    pub(crate) sessionless: bool,
    /// Cuts the records of a response after this many bytes, within a batch.
    pub(crate) cut_at: Option<usize>,
    /// Sends the list of aborted transactions in reverse order.
    pub(crate) unsorted_aborted: bool,
    pub(crate) topic_errors: BTreeMap<String, ErrorCode>,
    pub(crate) list_errors: VecDeque<ErrorCode>,
    pub(crate) epoch_errors: VecDeque<ErrorCode>,
    /// The leader and epoch that metadata reports for all partitions, instead of the real ones.
    pub(crate) metadata_says: Option<(i32, i32)>,
    /// Truncates this many of the next responses with records after their header.
    pub(crate) unreadable: usize,
    /// Sends no responses.
    pub(crate) silent: bool,
    sessions: BTreeMap<(i32, i32), Session>,
    next_session: i32,
}

impl Broker {
    pub(crate) fn new(nodes: &[i32]) -> Self {
        Self {
            nodes: nodes.to_vec(),
            down: BTreeMap::new(),
            logs: BTreeMap::new(),
            topic_ids: BTreeMap::new(),
            seen: Vec::new(),
            held: Vec::new(),
            max_versions: BTreeMap::new(),
            sessionless: false,
            cut_at: None,
            unsorted_aborted: false,
            topic_errors: BTreeMap::new(),
            list_errors: VecDeque::new(),
            epoch_errors: VecDeque::new(),
            metadata_says: None,
            unreadable: 0,
            silent: false,
            sessions: BTreeMap::new(),
            next_session: 100,
        }
    }

    pub(crate) fn create(&mut self, topic: &str, partitions: i32, leader: i32) {
        let id = Uuid([self.topic_ids.len() as u8 + 1; 16]);
        self.topic_ids.insert(topic.to_owned(), id);
        for partition in 0..partitions {
            let log = PartitionLog {
                leader,
                leader_epoch: 1,
                batches: Vec::new(),
                log_start: 0,
                high_watermark: 0,
                last_stable: 0,
                aborted: Vec::new(),
                epochs: Vec::new(),
                timestamps: Vec::new(),
                preferred_replica: -1,
                errors: VecDeque::new(),
                follower: None,
            };
            self.logs.insert((topic.to_owned(), partition), log);
        }
    }

    pub(crate) fn delete(&mut self, topic: &str) {
        self.topic_ids.remove(topic);
        self.logs.retain(|(name, _), _| name != topic);
    }

    pub(crate) fn log(&mut self, topic: &str, partition: i32) -> &mut PartitionLog {
        self.logs
            .get_mut(&(topic.to_owned(), partition))
            .expect("the test made this topic")
    }

    pub(crate) fn append(&mut self, topic: &str, partition: i32, next_offset: i64, bytes: Vec<u8>) {
        let log = self.log(topic, partition);
        log.batches.push(Stored {
            next_offset,
            bytes: bytes.into(),
        });
        log.high_watermark = next_offset;
        log.last_stable = next_offset;
    }

    pub(crate) fn forget_sessions(&mut self) {
        self.sessions.clear();
    }

    pub(crate) fn session_epoch_skewed(&mut self) {
        for session in self.sessions.values_mut() {
            session.epoch += 5;
        }
    }

    pub(crate) fn fetches(&self) -> Vec<&FetchRequest> {
        self.seen
            .iter()
            .filter_map(|seen| match seen {
                Seen::Fetch { request, .. } => Some(request),
                _ => None,
            })
            .collect()
    }

    /// Returns the response to a frame (without length prefix), or holds the request.
    pub(crate) fn answer(&mut self, node: i32, frame: Bytes, now: Instant) -> Option<Bytes> {
        let mut reader = Reader::new(frame);
        let header = frame::decode_request_header(&mut reader).expect("our own header");
        let (key, version) = (ApiKey(header.request_api_key), header.request_api_version);
        let id = header.correlation_id;
        if self.silent {
            return None;
        }
        match key {
            ApiKey::METADATA => {
                let request = MetadataRequest::decode(&mut reader, version).expect("metadata");
                Some(reply::<MetadataRequest>(
                    version,
                    id,
                    &self.metadata(&request),
                ))
            }
            ApiKey::LIST_OFFSETS => {
                let request = ListOffsetsRequest::decode(&mut reader, version).expect("list");
                let response = self.list_offsets(node, &request);
                self.seen.push(Seen::ListOffsets { request });
                Some(reply::<ListOffsetsRequest>(version, id, &response))
            }
            ApiKey::OFFSET_FOR_LEADER_EPOCH => {
                let request =
                    OffsetForLeaderEpochRequest::decode(&mut reader, version).expect("epochs");
                let response = self.offset_for_leader_epoch(&request);
                self.seen.push(Seen::OffsetForLeaderEpoch);
                Some(reply::<OffsetForLeaderEpochRequest>(version, id, &response))
            }
            ApiKey::FETCH => {
                let request = FetchRequest::decode(&mut reader, version).expect("fetch");
                self.seen.push(Seen::Fetch {
                    node,
                    version,
                    request: request.clone(),
                });
                self.fetch(node, version, id, request, now)
            }
            other => panic!("the consumer does not send {other:?}"),
        }
    }

    /// Returns the held fetches that have data now, or whose wait is over.
    pub(crate) fn release(&mut self, now: Instant) -> Vec<(i32, Bytes)> {
        let mut out = Vec::new();
        let mut index = 0;
        while index < self.held.len() {
            let held = &self.held[index];
            let (node, version, correlation_id) = (held.node, held.version, held.correlation_id);
            let (request, session_id, until) = (held.request.clone(), held.session_id, held.until);
            let partitions = held.partitions.clone();
            let response = self.read(node, version, &request, session_id, &partitions);
            if until <= now || has_news(&response) {
                self.held.remove(index);
                self.served(node, session_id, &response);
                out.push((node, self.fetch_reply(version, correlation_id, &response)));
            } else {
                index += 1;
            }
        }
        out
    }

    fn metadata(&self, request: &MetadataRequest) -> MetadataResponse {
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
            topic_id: id.copied().unwrap_or_default(),
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

    fn list_offsets(&mut self, node: i32, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for asked in &topic.partitions {
                let error = self.list_errors.pop_front();
                let log = &self.logs[&(topic.name.to_string(), asked.partition_index)];
                let end = if request.isolation_level == 1 {
                    log.last_stable
                } else {
                    log.high_watermark
                };
                let (offset, timestamp) = match asked.timestamp {
                    -2 => (log.log_start, -1),
                    -1 => (end, -1),
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

    fn offset_for_leader_epoch(
        &mut self,
        request: &OffsetForLeaderEpochRequest,
    ) -> OffsetForLeaderEpochResponse {
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for asked in &topic.partitions {
                let error = self.epoch_errors.pop_front().unwrap_or_default();
                let log = &self.logs[&(topic.topic.to_string(), asked.partition)];
                let known = log
                    .epochs
                    .iter()
                    .rev()
                    .find(|(epoch, _)| *epoch <= asked.leader_epoch);
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

    fn fetch(
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

    fn fetch_reply(&mut self, version: i16, id: i32, response: &FetchResponse) -> Bytes {
        let mut answer = reply::<FetchRequest>(version, id, response);
        if self.unreadable > 0 {
            self.unreadable -= 1;
            answer.truncate(20);
        }
        answer
    }

    fn enter_session(
        &mut self,
        node: i32,
        version: i16,
        request: &FetchRequest,
    ) -> Result<(i32, Vec<SessionPartition>), ErrorCode> {
        let named = |topic: &str, id: Uuid| {
            if version < 13 {
                return Ok(topic.to_owned());
            }
            let found = self.topic_ids.iter().find(|(_, known)| **known == id);
            found
                .map(|(name, _)| name.clone())
                .ok_or(ErrorCode::UNKNOWN_TOPIC_ID)
        };
        let mut asked = Vec::new();
        for topic in &request.topics {
            let name = named(&topic.topic, topic.topic_id)?;
            for partition in &topic.partitions {
                asked.push(((name.clone(), partition.partition), partition.clone()));
            }
        }
        let mut forgotten = Vec::new();
        for topic in &request.forgotten_topics_data {
            // The ID of a deleted topic is gone, so such a topic is skipped here.
            if let Ok(name) = named(&topic.topic, topic.topic_id) {
                forgotten.extend(topic.partitions.iter().map(|p| (name.clone(), *p)));
            }
        }
        if request.session_epoch <= 0 {
            assert!(forgotten.is_empty(), "a full request forgets nothing");
            self.sessions.remove(&(node, request.session_id));
            if request.session_epoch < 0 || self.sessionless {
                return Ok((0, asked));
            }
            self.next_session += 1;
            let session = Session {
                epoch: 1,
                partitions: asked.clone(),
            };
            self.sessions.insert((node, self.next_session), session);
            return Ok((self.next_session, asked));
        }
        let session = self
            .sessions
            .get_mut(&(node, request.session_id))
            .ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        session.epoch += 1;
        for (key, partition) in asked {
            match session
                .partitions
                .iter_mut()
                .find(|(known, _)| *known == key)
            {
                Some((_, known)) => *known = partition,
                None => session.partitions.push((key, partition)),
            }
        }
        // Kafka's brokers also remove partitions after they have added others.
        session
            .partitions
            .retain(|(key, _)| !forgotten.contains(key));
        Ok((request.session_id, session.partitions.clone()))
    }

    /// Moves the partitions that were served to the end of the session's order.
    fn served(&mut self, node: i32, session_id: i32, response: &FetchResponse) {
        let names = self.topic_ids.clone();
        let Some(session) = self.sessions.get_mut(&(node, session_id)) else {
            return;
        };
        for topic in &response.responses {
            for data in topic.partitions.iter().filter(|d| d.records.is_some()) {
                let at = session.partitions.iter().position(|((name, p), _)| {
                    *p == data.partition_index
                        && (**name == *topic.topic || names.get(name) == Some(&topic.topic_id))
                });
                if let Some(at) = at {
                    let served = session.partitions.remove(at);
                    session.partitions.push(served);
                }
            }
        }
    }

    fn read(
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
            let topic_id = self.topic_ids.get(name).copied().unwrap_or_default();
            let Some(log) = self.logs.get_mut(&(name.clone(), *index)) else {
                continue;
            };
            let mut data = read_partition(log, node, asked, request, &mut left, &mut first);
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

#[expect(clippy::too_many_lines, reason = "one answer, field by field")]
fn read_partition(
    log: &mut PartitionLog,
    node: i32,
    asked: &FetchPartition,
    request: &FetchRequest,
    left: &mut usize,
    first: &mut bool,
) -> PartitionData {
    let committed = request.isolation_level == 1;
    let mut data = PartitionData {
        partition_index: asked.partition,
        high_watermark: log.high_watermark,
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
        log.high_watermark
    };
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

fn has_news(response: &FetchResponse) -> bool {
    response
        .responses
        .iter()
        .flat_map(|t| &t.partitions)
        .any(|data| {
            data.error_code != 0 || data.records.is_some() || data.preferred_read_replica >= 0
        })
}

fn reply<R: Request>(version: i16, correlation_id: i32, response: &R::Response) -> Bytes {
    let framed = frame::encode_response(R::KEY, version, correlation_id, response)
        .expect("the answer fits its version");
    Bytes::from(framed).slice(4..)
}
