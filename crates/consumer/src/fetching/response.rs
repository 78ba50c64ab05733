//! Processes fetch responses, partition by partition.
//!
//! ```text
//! response --session ok?--> for each partition: still wanted? --no--> dropped
//!                                                  | yes
//!        error code: leader hint / metadata update / reset / raise     records: buffer
//! ```
//! Still wanted means that the partition is assigned and not paused, that its stamp is the same,
//! and that its next fetch still begins at the requested offset. The parts of the response become
//! [`CompletedFetch`]es here. Checksums of uncompressed batches are checked in place, and batches
//! that need a codec become jobs.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use thalweg_cluster::metadata::LeaderHint;
use thalweg_cluster::{Cluster, Node, NodeId, RequestError, ResponseBody};
use thalweg_protocol::messages::fetch::{
    FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use thalweg_protocol::{DecodeError, ErrorCode, Str, Uuid};

use crate::decoding::aborted::AbortedFilter;
use crate::decoding::completed_fetch::{Accepted, CompletedFetch, OpenContext};
use crate::decoding::job::DecodeLimits;
use crate::error::ConsumerError;
use crate::fetching::fetcher::{FetchInFlight, Fetcher};
use crate::fetching::memory::Charge;
use crate::fetching::request::QUIET;
use crate::offset_spec::{IsolationLevel, OffsetReset};
use crate::partitions::state::{Ahead, FetchPosition, PartitionState, Phase};
use crate::topic_partition::TopicPartition;

/// What remains to be done after checking a partition's state.
enum Outcome {
    Nothing,
    /// Its records go into the buffer.
    Open(Accepted),
    Raise(ConsumerError, u64),
    /// The position was read in a topic that was deleted and created again.
    LogGone(u64),
}

impl Fetcher {
    pub(crate) fn on_fetch(
        &mut self,
        node: NodeId,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let Some(sent) = self.nodes.get_mut(&node).and_then(|n| n.in_flight.take()) else {
            return;
        };
        self.reserved_bytes -= sent.reserved_bytes;
        let frame_bytes = result.as_ref().map_or(0, |body| body.reader.remaining());
        let response = match result.map(ResponseBody::decode::<FetchRequest>) {
            Ok(Ok(response)) => {
                if let Some(entry) = self.nodes.get_mut(&node) {
                    entry.unreadable = false;
                }
                response
            }
            unreadable => {
                if let Ok(Err(error)) = unreadable {
                    self.warn_of_unreadable(node, &error);
                }
                cluster.request_update();
                self.fetch_failed(node, now);
                return;
            }
        };
        self.note_latency(&sent, &response, now);
        let code = ErrorCode(response.error_code);
        if code != ErrorCode::NONE {
            if self.session_refused(node, code, now) {
                cluster.request_update();
            }
            return;
        }
        let empty = !has_news(&response);
        // While a quota is exceeded, responses are empty even if the log has records (KIP-219).
        if response.throttle_time_ms <= 0 {
            self.shared.metrics.fetch_answered_total.add(1);
            if empty {
                self.note_empty(node);
            }
        }
        if let Some(entry) = self.nodes.get_mut(&node) {
            entry.session.answered(response.session_id);
            entry.failures = 0;
            entry.retry_at = None;
            entry.quiet_until = (sent.probe && empty).then(|| now + QUIET);
        }
        self.closer_replica_answered(node);
        let frame = Arc::new(self.shared.memory.charge(frame_bytes));
        if self.take_response(node, response, &frame, cluster, now) {
            self.served(node);
            self.shared.partitions.wake();
        }
    }

    /// The node read all requested partitions, and found nothing.
    fn note_empty(&self, node: NodeId) {
        let mut assigned = self.shared.partitions.lock();
        let Some((handle, offset)) = assigned.watched.at(node) else {
            return;
        };
        let state = assigned.by_handle(handle);
        let wanted = state.and_then(|(_, state)| self.still_wanted(node, state));
        if wanted.is_some_and(|position| position.offset == offset) {
            assigned.watched.found_empty();
        }
    }

    /// Each extra fetch serves the drains that found nothing. They ask again if they still find
    /// nothing.
    fn served(&self, node: NodeId) {
        let entry = self.nodes.get(&node);
        if entry.is_some_and(|entry| entry.session.is_aside()) {
            self.shared.partitions.lock().serve_all();
        }
    }

    fn note_latency(&self, sent: &FetchInFlight, response: &FetchResponse, now: Instant) {
        let latency = now.saturating_duration_since(sent.sent_at);
        let metrics = &self.shared.metrics;
        metrics.answered(latency, response.throttle_time_ms, now);
    }

    /// Warns once until the node sends a readable response. Nothing else would explain why no
    /// records arrive.
    fn warn_of_unreadable(&mut self, node: NodeId, error: &DecodeError) {
        let Some(entry) = self.nodes.get_mut(&node) else {
            return;
        };
        if !std::mem::replace(&mut entry.unreadable, true) {
            self.warnings.push_back(format!(
                "a response of node {node} with records cannot be read ({error}). \
                 The client fetches again. If this continues, a proxy or the broker damages responses"
            ));
        }
    }

    /// There was no readable response, so the session's state is unknown.
    fn fetch_failed(&mut self, node: NodeId, now: Instant) {
        let Some(entry) = self.nodes.get_mut(&node) else {
            return;
        };
        entry.session.reopen();
        entry.retry_at = Some(now + self.backoff.after(entry.failures));
        entry.failures += 1;
        self.give_up_closer_replica(node, now);
    }

    /// Returns whether the metadata may be outdated: the node also refuses a full request, or it
    /// does not know a topic's ID.
    fn session_refused(&mut self, node: NodeId, code: ErrorCode, now: Instant) -> bool {
        let Some(entry) = self.nodes.get_mut(&node) else {
            return false;
        };
        entry.session.refused(code);
        self.shared.metrics.fetch_session_reopened_total.add(1);
        // After the first refusal, send a full request at once. After further ones, wait.
        if entry.failures > 0 {
            entry.retry_at = Some(now + self.backoff.after(entry.failures - 1));
        }
        entry.failures += 1;
        entry.failures > 1 || code.is_invalid_metadata()
    }

    /// Returns true if a poll would find something.
    fn take_response(
        &mut self,
        node: NodeId,
        response: FetchResponse,
        frame: &Arc<Charge>,
        cluster: &mut Cluster,
        now: Instant,
    ) -> bool {
        take_hints(&response, cluster);
        let mut found = false;
        for topic in response.responses {
            let Some(name) = topic_name(&topic, cluster) else {
                continue;
            };
            for data in topic.partitions {
                let partition = TopicPartition {
                    topic: name.clone(),
                    partition: data.partition_index,
                };
                found |= self.take_partition(node, partition, data, frame, cluster, now);
            }
        }
        found
    }

    fn take_partition(
        &mut self,
        node: NodeId,
        partition: TopicPartition,
        mut data: PartitionData,
        frame: &Arc<Charge>,
        cluster: &mut Cluster,
        now: Instant,
    ) -> bool {
        match self.judge(node, &partition, &data, cluster, now) {
            Outcome::Nothing => return false,
            Outcome::LogGone(stamp) => self.log_is_gone(&partition, stamp),
            Outcome::Raise(error, stamp) => {
                let about = vec![(partition, stamp)];
                self.shared.partitions.lock().push_error(error, about);
            }
            Outcome::Open(accepted) => {
                let records = data.records.take().unwrap_or_default();
                let (bytes, from) = (records.len(), accepted.from.offset);
                self.shared
                    .metrics
                    .bytes_consumed_total
                    .add(records.len() as u64);
                let filter = (self.shared.config.isolation_level == IsolationLevel::ReadCommitted)
                    .then(|| {
                        AbortedFilter::new(data.aborted_transactions.as_deref().unwrap_or(&[]))
                    });
                let config = &self.shared.config;
                let limits = DecodeLimits {
                    check_crcs: config.check_crcs,
                    batch_bytes_max: config.decompressed_batch_bytes_max,
                };
                let memory = &self.shared.memory;
                let context = OpenContext {
                    limits,
                    memory,
                    frame,
                    filter,
                };
                let jobs_before = self.decode.waiting.len();
                let fetch = CompletedFetch::open(
                    partition,
                    accepted,
                    records,
                    context,
                    &mut self.decode.waiting,
                );
                self.decode.number(jobs_before);
                let mut assigned = self.shared.partitions.lock();
                if let Some(end) = fetch.end {
                    assigned.note_size(fetch.handle, bytes, end.offset - from);
                }
                assigned.insert(Box::new(fetch));
            }
        }
        true
    }

    /// Returns the position of the fetch, if the partition is still as it was when the request was
    /// sent.
    fn still_wanted(&self, node: NodeId, state: &PartitionState) -> Option<FetchPosition> {
        let asked = self.nodes.get(&node)?.session.asked(state.handle)?;
        let position = state.fetch_position()?;
        let is_of_topic = asked.topic_id == state.topic_id || asked.topic_id == Uuid::ZERO;
        let is_current = is_of_topic
            && asked.stamp == state.stamp
            && !state.is_buffered()
            && !state.paused
            && position.offset == asked.fetch_offset;
        is_current.then_some(position)
    }

    /// Decides about a partition's response under the lock.
    fn judge(
        &mut self,
        node: NodeId,
        partition: &TopicPartition,
        data: &PartitionData,
        cluster: &mut Cluster,
        now: Instant,
    ) -> Outcome {
        let closer = self.named_closer_replica(node, data, cluster, now);
        let mut assigned = self.shared.partitions.lock();
        let Some(state) = assigned.edit(partition) else {
            return self.stale();
        };
        let Some(from) = self.still_wanted(node, state) else {
            return self.stale();
        };
        let stamp = state.stamp;
        let code = ErrorCode(data.error_code);
        if code == ErrorCode::NONE {
            let accepted = Accepted {
                handle: state.handle,
                stamp,
                from,
            };
            return self.accept(closer, state, data, accepted, now);
        }
        if !matches!(state.ahead, Ahead::No) {
            // The error does not concern the records before, which are being drained.
            state.give_up_ahead();
            if may_heal(code) {
                cluster.request_update();
            }
            return Outcome::Nothing;
        }
        let retry_at = now + self.backoff.after(state.attempts);
        let error = match code {
            // Only the current leader decides. A follower may be behind (KIP-392), and so may a
            // node that was the leader before an election.
            ErrorCode::OFFSET_OUT_OF_RANGE if state.leader.is_none_or(|l| l.node != node) => {
                state.preferred_replica = None;
                if state.leader.is_none() {
                    state.failed(retry_at);
                    cluster.request_update();
                }
                return Outcome::Nothing;
            }
            ErrorCode::OFFSET_OUT_OF_RANGE if state.is_of_former_topic() => {
                return Outcome::LogGone(stamp);
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => match self.shared.config.auto_offset_reset {
                OffsetReset::None => ConsumerError::OffsetOutOfRange {
                    partition: partition.clone(),
                    offset: from.offset,
                    log_start_offset: Some(data.log_start_offset).filter(|o| *o >= 0),
                },
                reset => {
                    self.shared.metrics.offset_resets_total.add(1);
                    assigned.enter(partition, Phase::AwaitReset(reset));
                    return Outcome::Nothing;
                }
            },
            code if may_heal(code) && code != ErrorCode::CORRUPT_MESSAGE => {
                state.preferred_replica = None;
                state.failed(retry_at);
                cluster.request_update();
                return Outcome::Nothing;
            }
            code => self.refusal(partition, code, from.offset),
        };
        state.blocked = true;
        Outcome::Raise(error, stamp)
    }

    fn accept(
        &self,
        closer: Option<NodeId>,
        state: &mut PartitionState,
        data: &PartitionData,
        accepted: Accepted,
        now: Instant,
    ) -> Outcome {
        if state.is_of_former_topic() {
            return Outcome::LogGone(accepted.stamp);
        }
        let known = |offset: i64| Some(offset).filter(|o| *o >= 0);
        state.fetched_at = Some(now);
        state.fetched_from = state.topic_id;
        if let Some(distances) = &mut state.distances {
            distances.settle(self.shared.config.metrics, now);
        }
        state.high_watermark = known(data.high_watermark).or(state.high_watermark);
        state.last_stable_offset = known(data.last_stable_offset).or(state.last_stable_offset);
        state.log_start_offset = known(data.log_start_offset).or(state.log_start_offset);
        if let Some(closer) = closer {
            let until = now + self.shared.config.metadata_max_age;
            state.preferred_replica = Some((closer, until));
        }
        state.succeeded();
        if data.records.as_ref().is_none_or(Bytes::is_empty) {
            return Outcome::Nothing;
        }
        Outcome::Open(accepted)
    }

    /// Returns the error of a refusal that no retry can change.
    fn refusal(&self, partition: &TopicPartition, code: ErrorCode, offset: i64) -> ConsumerError {
        match code {
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                self.shared.config.not_authorized(&partition.topic)
            }
            ErrorCode::CORRUPT_MESSAGE => ConsumerError::CorruptBatch {
                partition: partition.clone(),
                offset,
                reason: "the broker found it corrupt".to_owned(),
            },
            code => ConsumerError::Broker {
                api: "Fetch",
                code,
                context: partition.to_string(),
            },
        }
    }

    fn stale(&self) -> Outcome {
        self.shared.metrics.stale_results_total.add(1);
        Outcome::Nothing
    }
}

/// Whether a response has records or errors. Without a session it lists all requested partitions.
fn has_news(response: &FetchResponse) -> bool {
    let mut answered = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions);
    answered.any(|data| {
        data.error_code != 0 || data.records.as_ref().is_some_and(|bytes| !bytes.is_empty())
    })
}

/// Passes all new leaders that the response names to the cluster at once (KIP-951).
fn take_hints(response: &FetchResponse, cluster: &mut Cluster) {
    let mut hints = Vec::new();
    for topic in &response.responses {
        let named = topic.partitions.iter().filter(|data| {
            let leader = &data.current_leader;
            data.error_code != 0 && leader.leader_id >= 0 && leader.leader_epoch >= 0
        });
        for data in named {
            let Some(name) = topic_name(topic, cluster) else {
                break;
            };
            hints.push(LeaderHint {
                topic: name,
                partition: data.partition_index,
                leader: data.current_leader.leader_id,
                leader_epoch: data.current_leader.leader_epoch,
            });
        }
    }
    let endpoints = response.node_endpoints.iter().map(|e| Node {
        id: e.node_id,
        host: e.host.clone(),
        port: u16::try_from(e.port).unwrap_or(0),
        rack: e.rack.clone(),
    });
    cluster.update_leaders(&hints, &endpoints.collect::<Vec<_>>());
}

/// Returns the name of a response's topic. Returns `None` for an ID that the metadata no longer
/// has, because the topic was created again.
fn topic_name(topic: &FetchableTopicResponse, cluster: &Cluster) -> Option<Str> {
    let metadata = cluster.metadata();
    if topic.topic.is_empty() {
        return Some(metadata.topic_by_id(topic.topic_id)?.name.clone());
    }
    // Buffered fetches keep the name, which must not keep the complete response in memory.
    let known = metadata.topic(&topic.topic);
    Some(known.map_or_else(|| topic.topic.detached(), |known| known.name.clone()))
}

/// Whether fresh metadata or time can fix this error.
fn may_heal(code: ErrorCode) -> bool {
    code.is_retriable()
        || code.is_invalid_metadata()
        || matches!(
            code,
            ErrorCode::FENCED_LEADER_EPOCH
                | ErrorCode::UNKNOWN_LEADER_EPOCH
                | ErrorCode::UNKNOWN_TOPIC_ID
                | ErrorCode::INCONSISTENT_TOPIC_ID
                | ErrorCode::UNKNOWN_SERVER_ERROR
        )
}
