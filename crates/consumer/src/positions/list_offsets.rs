//! `ListOffsets` requests, for resets and for the application's lookups.
//!
//! ```text
//! Consumer::list_offsets --> Lookups: one Lookup per call --(per leader)--> ListOffsets
//!      Pending <-- offsets of all partitions, fatal error, or deadline   --'  | retriable:
//!                                                         metadata update, backoff, again
//! ```
//! Resets send the same request but keep no state here: their state is the partition's phase.

use std::collections::BTreeMap;
use std::time::Instant;

use thalweg_cluster::{Backoff, Cluster, NodeId, Outgoing, Purpose, RequestId, UnsupportedVersion};
use thalweg_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopic,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str, versions};

use crate::config::ConsumerConfig;
use crate::error::ConsumerError;
use crate::offset_spec::{IsolationLevel, OffsetSpec};
use crate::pending::Completer;
use crate::topic_partition::TopicPartition;

/// The offset of one partition, -1 if no record matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedOffset {
    pub partition: TopicPartition,
    pub offset: i64,
    /// Timestamp of the record at that offset, -1 for earliest and latest.
    pub timestamp: i64,
    pub leader_epoch: i32,
}

/// A lookup of the application, passed to the fetcher.
#[derive(Debug)]
pub(crate) struct LookupRequest {
    pub(crate) targets: Vec<(TopicPartition, OffsetSpec)>,
    pub(crate) deadline: Instant,
    pub(crate) completer: Completer<Vec<ListedOffset>>,
}

/// One partition of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListTarget {
    pub(crate) partition: TopicPartition,
    pub(crate) leader_epoch: i32,
    pub(crate) timestamp: i64,
}

/// Returns the version of `ListOffsets` to use with a node that is ready.
pub(crate) fn version(
    node: NodeId,
    isolation: IsolationLevel,
    cluster: &Cluster,
) -> Result<i16, UnsupportedVersion> {
    let oldest = oldest_version(isolation);
    let known = cluster.api_versions(node);
    let theirs = known.and_then(|versions| versions.range(ApiKey::LIST_OFFSETS));
    let newest = cluster.api_version(node, ApiKey::LIST_OFFSETS);
    newest.filter(|version| *version >= oldest).ok_or_else(|| {
        let ours = versions::client_versions(ApiKey::LIST_OFFSETS);
        UnsupportedVersion {
            node,
            api: ApiKey::LIST_OFFSETS,
            ours: ours.map(|range| oldest.max(*range.start())..=*range.end()),
            theirs,
        }
    })
}

/// Version 1 has no field for the isolation level.
fn oldest_version(isolation: IsolationLevel) -> i16 {
    match isolation {
        IsolationLevel::ReadUncommitted => 1,
        IsolationLevel::ReadCommitted => 2,
    }
}

pub(crate) fn request(config: &ConsumerConfig, targets: &[ListTarget]) -> ListOffsetsRequest {
    let mut topics: Vec<ListOffsetsTopic> = Vec::new();
    let mut by_name: BTreeMap<Str, usize> = BTreeMap::new();
    for target in targets {
        let name = &target.partition.topic;
        let index = *by_name.entry(name.clone()).or_insert_with(|| {
            topics.push(ListOffsetsTopic {
                name: name.clone(),
                ..Default::default()
            });
            topics.len() - 1
        });
        topics[index].partitions.push(ListOffsetsPartition {
            partition_index: target.partition.partition,
            current_leader_epoch: target.leader_epoch,
            timestamp: target.timestamp,
        });
    }
    ListOffsetsRequest {
        replica_id: -1,
        isolation_level: config.isolation_level.wire(),
        topics,
        timeout_ms: i32::try_from(config.request_timeout.as_millis()).unwrap_or(i32::MAX),
    }
}

/// Returns the partitions of the response by name.
pub(crate) fn rows(
    response: ListOffsetsResponse,
) -> BTreeMap<TopicPartition, ListOffsetsPartitionResponse> {
    let mut rows = BTreeMap::new();
    for topic in response.topics {
        // Detached, so that the name does not keep the frame in memory.
        let name = topic.name.detached();
        for row in topic.partitions {
            let partition = TopicPartition {
                topic: name.clone(),
                partition: row.partition_index,
            };
            rows.insert(partition, row);
        }
    }
    rows
}

/// One lookup of the application.
#[derive(Debug)]
struct Lookup {
    targets: Vec<(TopicPartition, OffsetSpec)>,
    /// By index into `targets`.
    found: BTreeMap<usize, ListedOffset>,
    in_flight: BTreeMap<RequestId, Vec<usize>>,
    retry_at: Option<Instant>,
    attempts: u32,
    deadline: Instant,
    last_problem: Option<String>,
    /// The version of the metadata when the lookup began. A topic that they do not show may have
    /// become visible since.
    began_with: Option<u64>,
    /// The brokers do not let the client know about a topic.
    refused: Option<ConsumerError>,
    completer: Completer<Vec<ListedOffset>>,
}

impl Lookup {
    fn open_targets(&self) -> Vec<usize> {
        let mut is_open = vec![true; self.targets.len()];
        for &index in self.found.keys().chain(self.in_flight.values().flatten()) {
            is_open[index] = false;
        }
        (0..is_open.len()).filter(|&index| is_open[index]).collect()
    }

    fn retry(&mut self, problem: String, backoff: &mut Backoff, now: Instant) {
        self.last_problem = Some(problem);
        self.retry_at = Some(now + backoff.after(self.attempts));
        self.attempts += 1;
    }
}

/// All running lookups of the application.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    open: Vec<Lookup>,
}

impl Lookups {
    pub(crate) fn add(&mut self, request: LookupRequest) {
        self.open.push(Lookup {
            targets: request.targets,
            found: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            retry_at: None,
            attempts: 0,
            deadline: request.deadline,
            last_problem: None,
            began_with: None,
            refused: None,
            completer: request.completer,
        });
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.open
            .iter()
            .flat_map(|l| [Some(l.deadline), l.retry_at])
            .flatten()
            .min()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Sends requests that are due, and completes lookups that are finished or out of time.
    pub(crate) fn poll(&mut self, config: &ConsumerConfig, cluster: &mut Cluster, now: Instant) {
        for lookup in &mut self.open {
            if lookup.retry_at.is_none_or(|at| at <= now) {
                lookup.retry_at = None;
                send(lookup, config, cluster, now);
            }
        }
        let mut index = 0;
        while index < self.open.len() {
            let lookup = &mut self.open[index];
            if let Some(error) = lookup.refused.take() {
                let lookup = self.open.swap_remove(index);
                lookup.completer.complete(Err(error));
            } else if lookup.found.len() == lookup.targets.len() {
                let lookup = self.open.swap_remove(index);
                lookup
                    .completer
                    .complete(Ok(lookup.found.into_values().collect()));
            } else if lookup.deadline <= now {
                let lookup = self.open.swap_remove(index);
                let error = ConsumerError::Timeout {
                    what: "list_offsets",
                    last: lookup.last_problem,
                };
                lookup.completer.complete(Err(error));
            } else {
                index += 1;
            }
        }
    }

    /// Whether the request belongs to a lookup.
    pub(crate) fn owns(&self, id: RequestId) -> bool {
        self.open
            .iter()
            .any(|lookup| lookup.in_flight.contains_key(&id))
    }

    pub(crate) fn on_response(
        &mut self,
        id: RequestId,
        result: Result<ListOffsetsResponse, String>,
        config: &ConsumerConfig,
        cluster: &mut Cluster,
        backoff: &mut Backoff,
        now: Instant,
    ) {
        let Some(at) = self.open.iter().position(|l| l.in_flight.contains_key(&id)) else {
            return;
        };
        let lookup = &mut self.open[at];
        let sent = lookup.in_flight.remove(&id).unwrap_or_default();
        let fatal = match result {
            Ok(response) => take(lookup, &sent, response, config, cluster, backoff, now),
            Err(problem) => {
                lookup.retry(problem, backoff, now);
                None
            }
        };
        if let Some(error) = fatal {
            self.open.swap_remove(at).completer.complete(Err(error));
        }
    }
}

/// Processes a response. If a partition can never be looked up, the complete lookup fails.
fn take(
    lookup: &mut Lookup,
    sent: &[usize],
    response: ListOffsetsResponse,
    config: &ConsumerConfig,
    cluster: &mut Cluster,
    backoff: &mut Backoff,
    now: Instant,
) -> Option<ConsumerError> {
    let rows = rows(response);
    let mut problem = None;
    for &index in sent {
        let partition = &lookup.targets[index].0;
        let Some(row) = rows.get(partition) else {
            problem = Some(format!("the response of the broker omits {partition}"));
            continue;
        };
        let code = ErrorCode(row.error_code);
        if code == ErrorCode::NONE {
            lookup.found.insert(
                index,
                ListedOffset {
                    partition: partition.clone(),
                    offset: row.offset,
                    timestamp: row.timestamp,
                    leader_epoch: row.leader_epoch,
                },
            );
        } else if is_retriable(code) {
            problem = Some(format!("{partition}: {}", code.name()));
            cluster.request_update();
        } else {
            return Some(refusal(partition, code, config));
        }
    }
    if let Some(problem) = problem {
        lookup.retry(problem, backoff, now);
    }
    None
}

/// Whether a retry with fresh metadata can succeed after this error.
pub(crate) fn is_retriable(code: ErrorCode) -> bool {
    code.is_retriable()
        || code.is_invalid_metadata()
        || matches!(
            code,
            ErrorCode::FENCED_LEADER_EPOCH | ErrorCode::UNKNOWN_LEADER_EPOCH
        )
}

pub(crate) fn refusal(
    partition: &TopicPartition,
    code: ErrorCode,
    config: &ConsumerConfig,
) -> ConsumerError {
    if code == ErrorCode::TOPIC_AUTHORIZATION_FAILED {
        return config.not_authorized(&partition.topic);
    }
    ConsumerError::Broker {
        api: "ListOffsets",
        code,
        context: partition.to_string(),
    }
}

/// Whether the brokers do not let the client know about the topic.
fn is_forbidden(cluster: &Cluster, topic: &str) -> bool {
    cluster.metadata().topic_error(topic) == Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
}

fn wire_target(
    partition: &TopicPartition,
    spec: OffsetSpec,
    version: i16,
    cluster: &Cluster,
) -> ListTarget {
    let known = cluster
        .metadata()
        .partition(&partition.topic, partition.partition);
    ListTarget {
        partition: partition.clone(),
        leader_epoch: known.map_or(-1, |p| p.leader_epoch),
        timestamp: spec.as_known_in(version).wire_timestamp(),
    }
}

fn send(lookup: &mut Lookup, config: &ConsumerConfig, cluster: &mut Cluster, now: Instant) {
    // A request may name a partition only once. If it is asked for twice, a second request is
    // sent.
    let mut by_node: BTreeMap<(NodeId, usize), Vec<usize>> = BTreeMap::new();
    let mut times: BTreeMap<&TopicPartition, usize> = BTreeMap::new();
    let mut unknown = None;
    let version = cluster.metadata().version;
    let is_news = version > *lookup.began_with.get_or_insert(version);
    for index in lookup.open_targets() {
        let partition = &lookup.targets[index].0;
        let _ = cluster.add_topic(&partition.topic, now);
        match cluster
            .metadata()
            .leader(&partition.topic, partition.partition)
        {
            Some(node) => {
                let time = times.entry(partition).or_default();
                by_node.entry((node, *time)).or_default().push(index);
                *time += 1;
            }
            None if is_news && is_forbidden(cluster, &partition.topic) => {
                lookup.refused = Some(config.not_authorized(&partition.topic));
                return;
            }
            None => unknown = Some(format!("the leader of {partition} is not known")),
        }
    }
    if unknown.is_some() {
        cluster.request_update();
        lookup.last_problem = unknown;
    }
    for ((node, _), indexes) in by_node {
        if !cluster.is_ready(node, Purpose::General, now) {
            let Some(cause) = cluster.connection_error(node, Purpose::General) else {
                continue;
            };
            lookup.last_problem = Some(cause.to_string());
            if cause.fails_calls() && cluster.is_backing_off(node, Purpose::General, now) {
                lookup.refused = Some(ConsumerError::Connection { node, cause });
                return;
            }
            continue;
        }
        let version = cluster.api_version(node, ApiKey::LIST_OFFSETS);
        let needed = indexes
            .iter()
            .map(|&i| lookup.targets[i].1.min_version())
            .chain([oldest_version(config.isolation_level)])
            .max()
            .unwrap_or(1);
        match version {
            Some(version) if version >= needed => {
                let targets = indexes.iter().map(|&index| {
                    let (partition, spec) = &lookup.targets[index];
                    wire_target(partition, *spec, version, cluster)
                });
                let targets: Vec<_> = targets.collect();
                let outgoing =
                    Outgoing::new(&request(config, &targets), version, config.request_timeout)
                        .expect("the request has no field beyond the negotiated version");
                let id = cluster.send(node, Purpose::General, outgoing, now);
                lookup.in_flight.insert(id, indexes);
            }
            version => {
                lookup.last_problem = Some(format!(
                    "node {node} supports ListOffsets up to version {}, version {needed} is needed",
                    version.unwrap_or(-1)
                ));
                // Another broker may lead the partition soon. Otherwise the deadline ends the
                // lookup.
                lookup.retry_at = Some(now + config.retry_backoff_max);
            }
        }
    }
}
