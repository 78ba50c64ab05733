//! The consumer's owned half: drives positions, fetch requests and decoding on the I/O thread.
//!
//! ```text
//! poll:  application's asks -> leaders -> survey -> reset / validate / fetch requests
//! on_response:  offsets -> positions        records -> slots + jobs -> FetchBuffer -> wake
//! poll_job: decode jobs within the memory budget, oldest first
//! ```
//! It is a [`Role`]: no socket, no clock. What an answer means is in `positions` and
//! `fetch_response`, what is asked in `fetch_request`; here is only the turning of the crank.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use thalweg_cluster::{Backoff, Cluster, NodeId, RequestError, RequestId, ResponseBody, Role};
use thalweg_protocol::Request;

use crate::consumer::Consumer;
use crate::fetch_session::FetchSession;
use crate::job::{DecodeDone, DecodeJob};
use crate::list_offsets::Lookups;
use crate::survey::{ResetTarget, Survey, ValidationTarget, survey};

/// What is known of fetching from one node.
#[derive(Debug, Default)]
pub(crate) struct NodeFetch {
    pub(crate) session: FetchSession,
    pub(crate) in_flight: Option<FetchInFlight>,
    /// After a failure: nothing is sent before.
    pub(crate) retry_at: Option<Instant>,
    pub(crate) failures: u32,
    /// A look without waiting found nothing while other records are still undrained.
    pub(crate) quiet_until: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct FetchInFlight {
    pub(crate) reserved_bytes: usize,
    pub(crate) sent_at: Instant,
    /// It was told not to wait for data.
    pub(crate) probe: bool,
}

/// A request whose answer is awaited.
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
    pub(crate) jobs: VecDeque<DecodeJob>,
    pub(crate) jobs_running: usize,
    /// Bytes that answers in flight may bring.
    pub(crate) reserved_bytes: usize,
    pub(crate) backoff: Backoff,
    pub(crate) seen_assignment: u64,
    pub(crate) seen_metadata: u64,
    /// The assignment is worth another look.
    pub(crate) dirty: bool,
    next_look: Option<Instant>,
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
            jobs: VecDeque::new(),
            jobs_running: 0,
            reserved_bytes: 0,
            seen_assignment: 0,
            seen_metadata: 0,
            dirty: true,
            next_look: None,
            closed: false,
        }
    }

    /// The application's half.
    pub fn consumer(&self) -> &Arc<Consumer> {
        &self.shared
    }

    fn take_requests(&mut self) {
        let mut requests = self.shared.lock_lookups();
        while let Some(request) = requests.pop_front() {
            self.lookups.add(request);
        }
    }

    fn look(&mut self, now: Instant) -> Survey {
        let busy: BTreeSet<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.in_flight.is_some())
            .map(|(&id, _)| id)
            .collect();
        let has_group = self.shared.config.group_id.is_some();
        let mut assigned = self.shared.subscription.lock();
        survey(&mut assigned, &busy, has_group, &mut self.backoff, now)
    }

    /// Earliest of the waits of nodes and partitions.
    fn plan_next_look(&mut self, survey: &Survey, now: Instant) {
        let nodes = self
            .nodes
            .values()
            .flat_map(|n| [n.retry_at, n.quiet_until])
            .flatten();
        self.next_look = nodes.chain(survey.next_retry).filter(|at| *at > now).min();
    }
}

impl Role for Fetcher {
    type Job = DecodeJob;

    fn poll(&mut self, cluster: &mut Cluster, now: Instant, now_ms: i64) {
        if self.closed {
            return;
        }
        self.take_requests();
        if !self.lookups.is_empty() {
            self.lookups.poll(&self.shared.config, cluster, now);
        }
        self.dirty |= self.shared.changed.swap(false, Ordering::AcqRel);
        self.dirty |= self.refresh_leaders(cluster, now);
        self.dirty |= self.next_look.is_some_and(|at| at <= now);
        if !self.dirty {
            return;
        }
        self.dirty = false;
        self.shared
            .buffer
            .unpin_paused(&self.shared.subscription, &self.shared.memory);
        let mut survey = self.look(now);
        self.settle_uncommitted(&survey);
        self.send_resets(&mut survey, cluster, now, now_ms);
        self.send_validations(&mut survey, cluster, now);
        if survey.leaderless {
            cluster.request_update();
        }
        self.send_fetches(&mut survey, cluster, now);
        self.plan_next_look(&survey, now);
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

    fn next_deadline(&self, _now: Instant) -> Option<Instant> {
        self.next_look
            .into_iter()
            .chain(self.lookups.next_deadline())
            .min()
    }

    fn poll_job(&mut self) -> Option<DecodeJob> {
        let mut job = self.next_job()?;
        job.start(&self.shared.buffer);
        self.jobs_running += 1;
        Some(job)
    }

    fn job_done(&mut self, _: DecodeDone, _: &mut Cluster, _: Instant, _: i64) {
        self.jobs_running = self.jobs_running.saturating_sub(1);
        self.dirty = true;
    }

    fn close(&mut self, _deadline: Instant, _cluster: &mut Cluster, now: Instant) {
        // Nothing of a reader needs to be finished: positions are committed by who commits.
        self.abort(now);
    }

    fn abort(&mut self, _now: Instant) {
        self.closed = true;
        self.lookups = Lookups::default();
        self.shared.lock_lookups().clear();
        self.jobs.clear();
        self.in_flight.clear();
        self.nodes.clear();
        self.shared.buffer.clear();
        self.shared.buffer.wake();
    }
}

pub(crate) type ListOffsets = thalweg_protocol::messages::list_offsets::ListOffsetsRequest;
pub(crate) type OffsetForLeaderEpoch =
    thalweg_protocol::messages::offset_for_leader_epoch::OffsetForLeaderEpochRequest;

/// The answer, or what went wrong, in words: all of it is tried again.
fn decoded<R: Request>(result: Result<ResponseBody, RequestError>) -> Result<R::Response, String> {
    let body = result.map_err(|error| error.to_string())?;
    body.decode::<R>().map_err(|error| error.to_string())
}
