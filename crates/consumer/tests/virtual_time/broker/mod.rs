//! A scripted broker: typed requests in, typed responses out. It has no clock.
//!
//! It implements fetch sessions (KIP-227) and refuses requests that violate them, holds a fetch
//! without data until its wait is over, and records the requests that it gets.

mod fetching;
mod responses;
mod sessions;

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use thalweg_cluster::ConnectionError;
use thalweg_protocol::messages::fetch::FetchRequest;
use thalweg_protocol::messages::list_offsets::ListOffsetsRequest;
use thalweg_protocol::messages::metadata::MetadataRequest;
use thalweg_protocol::messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest;
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader, Uuid, frame};

use crate::broker::fetching::has_news;
use crate::broker::responses::reply;
use crate::broker::sessions::{Session, SessionPartition};

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
    /// Records before it are in tiered storage, which is so slow that fetches return nothing.
    pub(crate) local_start: i64,
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
    /// The follower's high watermark, if it is behind the leader's.
    pub(crate) follower_end: Option<i64>,
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
    topics_created: u8,
    /// The IDs that deleted topics had.
    pub(crate) deleted_ids: BTreeMap<String, Uuid>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) held: Vec<Held>,
    pub(crate) max_versions: BTreeMap<i16, i16>,
    /// Opens no sessions.
    pub(crate) sessionless: bool,
    /// Cuts the records of a response after this many bytes, within a batch.
    pub(crate) cut_at: Option<usize>,
    /// Sends the list of aborted transactions in reverse order.
    pub(crate) unsorted_aborted: bool,
    /// The broker that responds to requests for metadata lags behind, and reports this ID for every
    /// topic. Once a fetch has named it, another broker responds.
    pub(crate) stale_id: Option<Uuid>,
    pub(crate) topic_errors: BTreeMap<String, ErrorCode>,
    pub(crate) list_errors: VecDeque<ErrorCode>,
    pub(crate) epoch_errors: VecDeque<ErrorCode>,
    /// The leader and epoch that metadata reports for all partitions, instead of the real ones.
    pub(crate) metadata_says: Option<(i32, i32)>,
    /// Truncates this many of the next responses with records after their header.
    pub(crate) unreadable: usize,
    /// Sends no responses.
    pub(crate) silent: bool,
    /// This node sends none.
    pub(crate) silent_node: Option<i32>,
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
            topics_created: 0,
            deleted_ids: BTreeMap::new(),
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
            stale_id: None,
            unreadable: 0,
            silent: false,
            silent_node: None,
            sessions: BTreeMap::new(),
            next_session: 100,
        }
    }

    pub(crate) fn create(&mut self, topic: &str, partitions: i32, leader: i32) {
        self.topics_created += 1;
        let id = Uuid([self.topics_created; 16]);
        self.topic_ids.insert(topic.to_owned(), id);
        for partition in 0..partitions {
            let log = PartitionLog {
                leader,
                leader_epoch: 1,
                batches: Vec::new(),
                log_start: 0,
                local_start: 0,
                high_watermark: 0,
                last_stable: 0,
                aborted: Vec::new(),
                epochs: Vec::new(),
                timestamps: Vec::new(),
                preferred_replica: -1,
                errors: VecDeque::new(),
                follower: None,
                follower_end: None,
            };
            self.logs.insert((topic.to_owned(), partition), log);
        }
    }

    pub(crate) fn delete(&mut self, topic: &str) {
        if let Some(id) = self.topic_ids.remove(topic) {
            self.deleted_ids.insert(topic.to_owned(), id);
        }
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
    pub(crate) fn respond(&mut self, node: i32, frame: Bytes, now: Instant) -> Option<Bytes> {
        let mut reader = Reader::new(frame);
        let header = frame::decode_request_header(&mut reader).expect("our own header");
        let (key, version) = (ApiKey(header.request_api_key), header.request_api_version);
        let id = header.correlation_id;
        if self.silent || self.silent_node == Some(node) {
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
}
