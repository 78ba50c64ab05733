//! The fetcher, the consumer's I/O half: drives positions, fetch requests and decoding.
//!
//! ```text
//! poll:  application's requests -> leaders -> survey -> reset / validate / fetch requests
//! on_response:  offsets -> positions        records -> batches + jobs -> Partitions -> wake
//! poll_job: decode jobs within the memory budget, oldest first
//! ```
//! It is a [`Role`], without a socket or a clock. `positions` and `response` interpret
//! responses, `request` builds requests, and this file only runs the turns.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::{
    Backoff, Cluster, ConnectionError, NodeId, Purpose, RequestError, RequestId, ResponseBody, Role,
};
use thalweg_protocol::Request;

use crate::consumer::Consumer;
use crate::decoding::job::{DecodeDone, DecodeJob};
use crate::decoding::queue::DecodeQueue;
use crate::fetching::session::FetchSession;
use crate::fetching::survey::{FetchChange, Look, ResetTarget, Survey, Timers, ValidationTarget};
use crate::positions::leaders::Leaders;
use crate::positions::list_offsets::Lookups;

/// A round may make another one possible (a policy applied, a position confirmed), at most twice.
/// Anything left then waits for the actor's next turn.
const ROUNDS_MAX: usize = 4;

/// The state of fetching from one node.
#[derive(Debug, Default)]
pub(crate) struct NodeFetch {
    pub(crate) session: FetchSession,
    pub(crate) in_flight: Option<FetchInFlight>,
    /// The number of its last fetch, counted over all nodes.
    pub(crate) last_fetch: u64,
    /// Set after a failure: nothing is sent before this time.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) failures: u32,
    /// The application was warned that the node's responses cannot be read.
    pub(crate) unreadable: bool,
    /// Set after a probe found nothing: no new probe is sent before this time.
    pub(crate) quiet_until: Option<Instant>,
    /// Number of partitions with undrained records that are not paused.
    pub(crate) buffered: usize,
    /// A leader has named this node as the closer replica of a partition.
    pub(crate) is_closer: bool,
    /// The last connection error of each purpose that was reported to the application.
    pub(crate) told: BTreeMap<Purpose, Arc<ConnectionError>>,
}

impl NodeFetch {
    /// Whether something of this node is in flight, wanted or buffered.
    pub(crate) fn is_used(&self) -> bool {
        self.in_flight.is_some() || self.session.wanted() > 0 || self.buffered > 0
    }
}

#[derive(Debug)]
pub(crate) struct FetchInFlight {
    pub(crate) reserved_bytes: usize,
    pub(crate) sent_at: Instant,
    /// The request asked the broker not to wait for data.
    pub(crate) probe: bool,
}

/// A request that waits for its response.
#[derive(Debug)]
pub(crate) enum InFlight {
    Fetch(NodeId),
    Reset(Vec<ResetTarget>),
    Validate(Vec<ValidationTarget>),
}

#[derive(Debug)]
pub struct Fetcher {
    pub(crate) shared: Arc<Consumer>,
    pub(crate) nodes: BTreeMap<NodeId, NodeFetch>,
    pub(crate) in_flight: BTreeMap<RequestId, InFlight>,
    pub(crate) lookups: Lookups,
    pub(crate) decode: DecodeQueue,
    /// The maximum bytes that the responses in flight may have.
    pub(crate) reserved_bytes: usize,
    /// Number of fetches sent.
    pub(crate) fetches: u64,
    pub(crate) backoff: Backoff,
    /// Set when a closer replica could not be reached.
    pub(crate) rack_hidden_until: Option<Instant>,
    /// How often that happened in a row.
    pub(crate) rack_hidden_times: u32,
    pub(crate) seen_assignment: u64,
    pub(crate) seen_metadata: u64,
    pub(crate) leaders: Leaders,
    /// Something may be possible now that was not before: check at once.
    pub(crate) dirty: bool,
    /// Something waits for a connection: check at the actor's next turn.
    pub(crate) waiting: bool,
    timers: Timers,
    pub(crate) warnings: VecDeque<String>,
    pub(crate) closed: bool,
}

impl Fetcher {
    pub(crate) fn new(shared: Arc<Consumer>) -> Self {
        let config = &shared.config;
        Self {
            backoff: Backoff::new(config.retry_backoff, config.retry_backoff_max, config.seed),
            shared,
            nodes: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            lookups: Lookups::default(),
            decode: DecodeQueue::default(),
            reserved_bytes: 0,
            fetches: 0,
            rack_hidden_until: None,
            rack_hidden_times: 0,
            seen_assignment: 0,
            seen_metadata: 0,
            leaders: Leaders::default(),
            dirty: true,
            waiting: false,
            timers: Timers::new(),
            warnings: VecDeque::new(),
            closed: false,
        }
    }

    /// Returns the application's half.
    pub fn consumer(&self) -> &Arc<Consumer> {
        &self.shared
    }

    /// Returns the number of nodes that the fetcher has state for.
    pub fn nodes_known(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the earliest end of the waits of nodes and partitions.
    fn next_wait(&self) -> Option<Instant> {
        let nodes = self.nodes.values().filter(|node| node.in_flight.is_none());
        let nodes = nodes
            .flat_map(|node| [node.retry_at, node.quiet_until])
            .flatten();
        nodes.chain(self.timers.first().map(|(at, _)| *at)).min()
    }

    /// Runs one round: check, then request offsets, validations and records.
    fn turn(&mut self, cluster: &mut Cluster, now: Instant, now_ms: i64) {
        let passed_over = self.shared.signals.take_passed_over();
        let all = passed_over && self.is_short_of_memory();
        self.shared
            .partitions
            .lock()
            .unpin(&self.shared.memory, all);
        let mut survey = self.look(now);
        self.settle_uncommitted(&survey);
        for (partition, stamp) in &survey.gone {
            self.log_is_gone(partition, *stamp);
        }
        self.send_resets(&mut survey, cluster, now, now_ms);
        self.send_validations(&mut survey, cluster, now);
        if survey.leaderless {
            cluster.request_update();
        }
        self.send_fetches(cluster, now);
    }

    fn take_requests(&mut self) {
        let mut requests = self.shared.lock_lookups();
        while let Some(request) = requests.pop_front() {
            self.lookups.add(request);
        }
    }

    /// Checks the touched partitions, and passes changes of what to fetch to the nodes' sessions.
    fn look(&mut self, now: Instant) -> Survey {
        let mut look = Look {
            has_group: self.shared.config.group_id.is_some(),
            partition_bytes_max: self.shared.config.max_partition_fetch_bytes,
            backoff: &mut self.backoff,
            timers: &mut self.timers,
            now,
        };
        let mut survey = look.at(&self.shared.partitions);
        for change in std::mem::take(&mut survey.fetch) {
            match change {
                FetchChange::Want(node, wanted) => {
                    self.nodes.entry(node).or_default().session.want(wanted);
                }
                FetchChange::Leave(node, handle) => {
                    self.nodes.entry(node).or_default().session.leave(handle);
                }
                FetchChange::Buffered(node, by) => {
                    let entry = self.nodes.entry(node).or_default();
                    entry.buffered = entry.buffered.saturating_add_signed(by);
                    // A partition was emptied, so the node can be probed again.
                    if by < 0 {
                        entry.quiet_until = None;
                    }
                }
            }
        }
        survey
    }

    /// Whether the application's thread must wake us when it has emptied a partition. This is not
    /// needed while every node has a fetch in flight, because its response wakes us anyway.
    fn is_attentive(&self) -> bool {
        !self.decode.waiting.is_empty() || self.nodes.values().any(|node| node.in_flight.is_none())
    }
}

impl Role for Fetcher {
    type Job = DecodeJob;

    const LOGGER: &'static str = "consumer";

    fn poll(&mut self, cluster: &mut Cluster, now: Instant, now_ms: i64) {
        if self.closed {
            return;
        }
        self.take_requests();
        if !self.lookups.is_empty() {
            self.lookups.poll(&self.shared.config, cluster, now);
        }
        self.dirty |= self.shared.signals.take_changed();
        self.dirty |= self.refresh_leaders(cluster, now);
        self.dirty |= self.next_wait().is_some_and(|at| at <= now);
        self.dirty |= std::mem::take(&mut self.waiting);
        for _ in 0..ROUNDS_MAX {
            if !std::mem::take(&mut self.dirty) {
                break;
            }
            self.turn(cluster, now, now_ms);
        }
        self.shared.signals.end_turn(self.is_attentive());
    }

    fn on_response(
        &mut self,
        id: RequestId,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
        _now_ms: i64,
    ) {
        self.dirty = true;
        if self.lookups.owns(id) {
            self.lookups.on_response(
                id,
                decoded::<ListOffsets>(result),
                &self.shared.config,
                cluster,
                &mut self.backoff,
                now,
            );
            return;
        }
        match self.in_flight.remove(&id) {
            None => {}
            Some(InFlight::Fetch(node)) => self.on_fetch(node, result, cluster, now),
            Some(InFlight::Reset(targets)) => {
                self.on_reset(&targets, decoded::<ListOffsets>(result), cluster, now);
            }
            Some(InFlight::Validate(targets)) => {
                self.on_validation(
                    &targets,
                    decoded::<OffsetForLeaderEpoch>(result),
                    cluster,
                    now,
                );
            }
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        if self.dirty && !self.closed {
            return Some(now);
        }
        let waits = [self.next_wait(), self.lookups.next_deadline()];
        // Work left over from this turn waits for a connection, which has its own deadline.
        waits.into_iter().flatten().filter(|at| *at > now).min()
    }

    fn poll_job(&mut self) -> Option<DecodeJob> {
        self.next_job()
    }

    fn job_done(&mut self, done: DecodeDone, _: &mut Cluster, _: Instant, _: i64) {
        self.decode.done(done);
        if self.closed {
            self.decode.waiting.clear();
        }
        self.dirty = true;
    }

    fn poll_warning(&mut self) -> Option<String> {
        self.warnings.pop_front()
    }

    fn close(&mut self, _deadline: Instant, _cluster: &mut Cluster, now: Instant) {
        // A reader has nothing to finish: the coordinator commits the positions.
        self.abort(now);
    }

    fn ended(&mut self) {
        self.shared.partitions.wake();
    }

    fn abort(&mut self, _now: Instant) {
        self.closed = true;
        self.lookups = Lookups::default();
        self.shared.lock_lookups().clear();
        self.decode.waiting.clear();
        self.in_flight.clear();
        self.nodes.clear();
        self.shared.partitions.clear();
        self.shared.partitions.wake();
    }
}

pub(crate) type ListOffsets = thalweg_protocol::messages::list_offsets::ListOffsetsRequest;
pub(crate) type OffsetForLeaderEpoch =
    thalweg_protocol::messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest;

/// Returns the response, or the problem in words. The request is retried in any case.
fn decoded<R: Request>(result: Result<ResponseBody, RequestError>) -> Result<R::Response, String> {
    let body = result.map_err(|error| error.to_string())?;
    body.decode::<R>().map_err(|error| error.to_string())
}
