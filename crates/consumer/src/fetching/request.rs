//! Builds fetch requests: for which node and partitions, how many bytes, and how long to wait.
//!
//! ```text
//! session of a node  --budget--> FetchRequest --> node (one in flight each)
//! ```
//! If records of a node's other partitions are undrained, the client asks that node without
//! waiting. Otherwise the broker would hold the request while the application empties those
//! partitions, and they could not be fetched in the meantime. If such a probe finds nothing, the
//! node rests until a partition is emptied or [`QUIET`] is over, and then waits as usual.
//!
//! If records that the application does not ask for fill the memory, the records that it asks for
//! are fetched anyway. They are fetched alone, by a request outside of the session, because within
//! the session the broker would serve other partitions first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use thalweg_cluster::{Cluster, NodeId, Outgoing, Purpose, RequestError};
use thalweg_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use thalweg_protocol::{ApiKey, Str, Uuid};

use crate::config::ConsumerConfig;
use crate::error::ConsumerError;
use crate::fetching::fetcher::{FetchInFlight, Fetcher, InFlight, NodeFetch};
use crate::fetching::session::Plan;

/// The first version with fetch sessions.
const SESSION_VERSION: i16 = 7;
/// The first version that names topics by ID.
const TOPIC_ID_VERSION: i16 = 13;
/// How long a node rests after a probe that found nothing.
pub(crate) const QUIET: Duration = Duration::from_millis(50);
/// The fetch memory has room for at least this many responses, unless one partition's share is
/// larger: one is drained while another is decoded and a third is in flight. A response of nearly
/// the full memory would be copied into memory that no CPU cache holds, and no part of it is
/// usable before all of it has arrived.
const RESPONSES_MIN: usize = 4;

/// The limits of the next fetch.
struct Share {
    max_bytes: usize,
    /// Handles of the partitions to fetch, or empty for all of the session.
    only: Vec<u32>,
}

impl Share {
    fn of_all(max_bytes: usize) -> Self {
        let only = Vec::new();
        Self { max_bytes, only }
    }
}

impl Fetcher {
    pub(crate) fn send_fetches(&mut self, cluster: &mut Cluster, now: Instant) {
        let eager = self.shared.config.fetch_min_bytes <= 1;
        let mut due: Vec<(NodeId, bool)> = self
            .nodes
            .iter_mut()
            .filter_map(|(&id, node)| {
                let probe = node.buffered > 0 && eager;
                node.is_due(probe, now).then_some((id, probe))
            })
            .collect();
        // If the memory is not enough for all nodes, the one that waited longest comes first.
        due.sort_by_key(|(id, _)| self.nodes.get(id).map(|node| node.last_fetch));
        let mut left = due.len();
        for (node, probe) in due {
            let share = self.budget_share(left, node);
            left -= 1;
            let Some(share) = share else { continue };
            if !cluster.is_ready(node, Purpose::Fetch, now) {
                if cluster.is_backing_off(node, Purpose::Fetch, now) {
                    self.give_up_closer_replica(node, now);
                    self.tell_fatal(node, Purpose::Fetch, cluster);
                }
                // The actor polls again while it connects.
                self.waiting = true;
                continue;
            }
            self.send_fetch(node, &share, probe, cluster, now);
        }
    }

    /// Reports a connection error that no retry can fix. Each failed attempt is reported once.
    pub(crate) fn tell_fatal(&mut self, node: NodeId, purpose: Purpose, cluster: &Cluster) {
        let error = cluster.connection_error(node, purpose);
        let Some(cause) = error.filter(|cause| cause.is_fatal()) else {
            return;
        };
        let told = &mut self.nodes.entry(node).or_default().told;
        let before = told.insert(purpose, Arc::clone(&cause));
        if before.is_some_and(|before| Arc::ptr_eq(&before, &cause)) {
            return;
        }
        let error = ConsumerError::Connection { node, cause };
        self.shared.partitions.lock().push_error(error, Vec::new());
        self.shared.partitions.wake();
    }

    /// Reports an error about all partitions that are fetched from a node.
    fn refuse(&mut self, node: NodeId, error: ConsumerError) {
        let mut assigned = self.shared.partitions.lock();
        let of_node = assigned
            .iter()
            .filter(|(_, state)| state.in_session == Some(node));
        let about = of_node.map(|(partition, state)| (partition.clone(), state.stamp));
        let about = about.collect();
        assigned.block(about, error);
        drop(assigned);
        self.dirty = true;
        self.shared.partitions.wake();
    }

    /// Returns how many bytes the next response may have: a fair share of the free memory. Returns
    /// `None` to wait until records are drained.
    fn budget_share(&self, nodes_left: usize, node: NodeId) -> Option<Share> {
        let config = &self.shared.config;
        let partition_max = config.max_partition_fetch_bytes.max(1) as usize;
        let wanted = self.nodes.get(&node).map_or(0, |n| n.session.wanted());
        let most = partition_max
            .saturating_mul(wanted)
            .min(config.fetch_max_bytes.max(1) as usize)
            .min((config.fetch_buffer_memory_bytes / RESPONSES_MIN).max(partition_max));
        let free = self
            .shared
            .memory
            .free()
            .saturating_sub(self.reserved_bytes);
        let share = most
            .min(free / nodes_left.max(1))
            .max(most.min(free).min(partition_max));
        if share >= most.min(partition_max) {
            return Some(Share::of_all(share));
        }
        let max_bytes = most.min(partition_max);
        if self.reserved_bytes > 0 || self.decode.running > 0 {
            return None;
        }
        // Too little is free. If nothing else can free memory (paused partitions hold all of it,
        // or the limit is smaller than one partition's fetch), allow one fetch.
        if !self.shared.has_drainable() && !self.has_job() {
            return Some(Share::of_all(max_bytes));
        }
        // Also allow one fetch for each drain that found nothing: the application may never take
        // the records that fill the memory.
        let only = self.asked_for(node);
        (!only.is_empty()).then_some(Share { max_bytes, only })
    }

    /// Returns the handles that a drain asked for in vain and that this node can serve.
    fn asked_for(&self, node: NodeId) -> Vec<u32> {
        let Some(entry) = self.nodes.get(&node) else {
            return Vec::new();
        };
        let assigned = self.shared.partitions.lock();
        let handles = assigned.asked_for().iter().copied();
        handles
            .filter(|&handle| entry.session.wants(handle))
            .collect()
    }

    /// Whether less memory is free than one partition's fetch needs.
    pub(crate) fn is_short_of_memory(&self) -> bool {
        let partition_max = self.shared.config.max_partition_fetch_bytes.max(1) as usize;
        self.shared.memory.free() < partition_max
    }

    fn send_fetch(
        &mut self,
        node: NodeId,
        share: &Share,
        probe: bool,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let negotiated = match cluster.require_version(node, ApiKey::FETCH) {
            Ok(version) => version,
            Err(RequestError::UnsupportedVersion(error)) => return self.refuse(node, error.into()),
            Err(_) => return,
        };
        let rack = self.rack(now);
        let Some(entry) = self.nodes.get_mut(&node) else {
            return;
        };
        let config = &self.shared.config;
        let by_topic_id = negotiated >= TOPIC_ID_VERSION && entry.session.knows_topic_ids();
        let version = if by_topic_id {
            negotiated
        } else {
            negotiated.min(TOPIC_ID_VERSION - 1)
        };
        let sessions = config.enable_incremental_fetch_sessions && version >= SESSION_VERSION;
        let plan = if share.only.is_empty() {
            entry.session.plan(by_topic_id, sessions)
        } else {
            entry.session.plan_aside(&share.only)
        };
        let max_bytes = share.max_bytes;
        let metrics = &self.shared.metrics;
        if plan.is_full() {
            metrics.fetch_session_full_total.add(1);
        } else {
            metrics.fetch_session_incremental_total.add(1);
        }
        let max_wait = if probe {
            Duration::ZERO
        } else {
            config.fetch_max_wait
        };
        let request = request(config, plan, rack, max_bytes, max_wait);
        let timeout = config.request_timeout + max_wait;
        let outgoing = Outgoing::new(&request, version, timeout)
            .expect("the request has no field beyond the negotiated version");
        let id = cluster.send(node, Purpose::Fetch, outgoing, now);
        self.fetches += 1;
        entry.last_fetch = self.fetches;
        entry.in_flight = Some(FetchInFlight {
            reserved_bytes: max_bytes,
            sent_at: now,
            probe,
        });
        entry.quiet_until = None;
        self.reserved_bytes += max_bytes;
        self.in_flight.insert(id, InFlight::Fetch(node));
    }
}

impl NodeFetch {
    /// Whether a fetch from this node is due.
    fn is_due(&mut self, probe: bool, now: Instant) -> bool {
        let is_over = |wait: Option<Instant>| wait.is_none_or(|at| at <= now);
        if is_over(self.retry_at) {
            self.retry_at = None;
        }
        if is_over(self.quiet_until) || !probe {
            self.quiet_until = None;
        }
        self.in_flight.is_none()
            && self.session.wanted() > 0
            && self.retry_at.is_none()
            && self.quiet_until.is_none()
    }
}

fn request(
    config: &ConsumerConfig,
    plan: Plan,
    rack: Str,
    max_bytes: usize,
    max_wait: Duration,
) -> FetchRequest {
    let mut topics: IndexMap<(Str, Uuid), Vec<FetchPartition>> = IndexMap::new();
    for wanted in plan.send {
        let key = (wanted.partition.topic, wanted.topic_id);
        topics.entry(key).or_default().push(FetchPartition {
            partition: wanted.partition.partition,
            current_leader_epoch: wanted.current_leader_epoch,
            fetch_offset: wanted.fetch_offset,
            partition_max_bytes: wanted.bytes_max,
            ..Default::default()
        });
    }
    let mut forgotten: IndexMap<(Str, Uuid), Vec<i32>> = IndexMap::new();
    for (partition, topic_id) in plan.forget {
        forgotten
            .entry((partition.topic, topic_id))
            .or_default()
            .push(partition.partition);
    }
    FetchRequest {
        max_wait_ms: i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: config.fetch_min_bytes,
        max_bytes: i32::try_from(max_bytes).unwrap_or(i32::MAX),
        isolation_level: config.isolation_level.wire(),
        session_id: plan.session_id,
        session_epoch: plan.session_epoch,
        topics: topics
            .into_iter()
            .map(|((topic, topic_id), partitions)| FetchTopic {
                topic,
                topic_id,
                partitions,
            })
            .collect(),
        forgotten_topics_data: forgotten
            .into_iter()
            .map(|((topic, topic_id), partitions)| ForgottenTopic {
                topic,
                topic_id,
                partitions,
            })
            .collect(),
        rack_id: rack,
        ..Default::default()
    }
}
