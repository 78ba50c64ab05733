//! Fetch requests: to whom, for which partitions, for how many bytes, and how long to wait there.
//!
//! ```text
//! survey.fetch {node: wanted}  --budget, session--> FetchRequest --> node (one in flight each)
//! ```
//! A node with undrained records of other partitions is asked without waiting: the broker would
//! sit on the request while the application empties those partitions, and they could not be
//! fetched meanwhile. If that look finds nothing, the node rests until a partition is emptied or
//! the rest is over, and is then asked to wait as usual.

use std::time::{Duration, Instant};

use indexmap::IndexMap;
use thalweg_cluster::{Cluster, NodeId, Outgoing, Purpose};
use thalweg_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use thalweg_protocol::{ApiKey, Str, Uuid};

use crate::config::ConsumerConfig;
use crate::fetch_session::{Plan, Wanted};
use crate::fetcher::{FetchInFlight, Fetcher, InFlight};
use crate::survey::Survey;

/// Topics are named by id from this version on.
const TOPIC_ID_VERSION: i16 = 13;
/// How long a node rests after a look in vain.
pub(crate) const QUIET: Duration = Duration::from_millis(50);

impl Fetcher {
    pub(crate) fn send_fetches(
        &mut self,
        survey: &mut Survey,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let mut left = survey.fetch.len();
        for (node, wanted) in std::mem::take(&mut survey.fetch) {
            let share = self.budget_share(left, &wanted);
            left -= 1;
            let entry = self.nodes.entry(node).or_default();
            debug_assert!(
                entry.in_flight.is_none(),
                "a node in flight is not surveyed"
            );
            if entry.retry_at.is_some_and(|at| at > now) {
                continue;
            }
            let probe = survey.buffered.contains(&node) && self.shared.config.fetch_min_bytes <= 1;
            if probe && entry.quiet_until.is_some_and(|at| at > now) {
                continue;
            }
            let Some(max_bytes) = share else { continue };
            if !cluster.is_ready(node, Purpose::Fetch, now) {
                // The actor's turns while it connects ask again.
                self.dirty = true;
                continue;
            }
            self.send_fetch(node, wanted, max_bytes, probe, cluster, now);
        }
    }

    /// How many bytes the next answer may bring: a fair part of what the budget has left. None:
    /// wait until records were drained.
    fn budget_share(&self, nodes_left: usize, wanted: &[Wanted]) -> Option<usize> {
        let config = &self.shared.config;
        let partition_max = config.max_partition_fetch_bytes.max(1) as usize;
        let most = partition_max
            .saturating_mul(wanted.len())
            .min(config.fetch_max_bytes.max(1) as usize);
        let free = self
            .shared
            .memory
            .free()
            .saturating_sub(self.reserved_bytes);
        let share = most
            .min(free / nodes_left.max(1))
            .max(most.min(free).min(partition_max));
        if share >= most.min(partition_max) {
            return Some(share);
        }
        // Too little. If nothing else can free memory (all of it is held by paused partitions,
        // or the budget is smaller than one partition's fetch), one fetch is let through.
        let stuck = self.reserved_bytes == 0
            && self.jobs_running == 0
            && !self.shared.has_drainable()
            && !self.has_runnable_job();
        stuck.then_some(most.min(partition_max))
    }

    fn has_runnable_job(&self) -> bool {
        let assigned = self.shared.subscription.lock();
        self.jobs.iter().any(|job| {
            assigned
                .get(&job.partition)
                .is_some_and(|s| s.stamp == job.stamp && !s.paused)
        })
    }

    fn send_fetch(
        &mut self,
        node: NodeId,
        wanted: Vec<Wanted>,
        max_bytes: usize,
        probe: bool,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let Some(negotiated) = cluster.api_version(node, ApiKey::FETCH) else {
            return;
        };
        let config = &self.shared.config;
        let by_topic_id =
            negotiated >= TOPIC_ID_VERSION && wanted.iter().all(|w| w.topic_id != Uuid::ZERO);
        let version = if by_topic_id {
            negotiated
        } else {
            negotiated.min(TOPIC_ID_VERSION - 1)
        };
        let entry = self.nodes.entry(node).or_default();
        let plan = entry.session.plan(
            wanted,
            by_topic_id,
            config.enable_incremental_fetch_sessions,
        );
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
        let request = request(config, plan, max_bytes, max_wait);
        let timeout = config.request_timeout + max_wait;
        let outgoing = Outgoing::new(&request, version, timeout)
            .expect("the request has no field beyond the negotiated version");
        let id = cluster.send(node, Purpose::Fetch, outgoing, now);
        entry.in_flight = Some(FetchInFlight {
            reserved_bytes: max_bytes,
            sent_at: now,
            probe,
        });
        entry.quiet_until = None;
        self.reserved_bytes += max_bytes;
        self.in_flight.insert(id, InFlight::Fetch(node));
        metrics.fetch_total.add(1);
    }
}

fn request(
    config: &ConsumerConfig,
    plan: Plan,
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
            partition_max_bytes: config.max_partition_fetch_bytes,
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
        rack_id: config.client_rack.clone(),
        ..Default::default()
    }
}
