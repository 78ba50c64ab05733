//! Kafka's `Sender`: takes batches from the accumulator and sees each one to its outcome.
//!
//! ```text
//!   one turn (poll):  metadata ─▶ arrivals, due timers ─▶ producer id, transaction
//!                     ─▶ drain: ready nodes, send ─▶ ask for unknown leaders
//!
//!   append ─▶ queue ─▶ [prepared: codec job] ─▶ in flight ─▶ response ─▶ outcome
//!                                                  ▲           │ retriable
//!                                                  └─ retry ◀──┘ (split: codec job)
//! ```
//! Batches that are too old fail before the drain, so that they are not sent as well. The cost of a
//! turn depends on what changed: arrivals, timers, responses. Partitions without data cost nothing.
//!
//! The I/O thread owns the sender. It has no sockets, threads or clock (`now` is an argument) and
//! no connections: the cluster decides which node accepts a request.

pub(crate) mod batch;
mod codec;
mod drain;
mod ending;
mod idle;
mod nodes;
mod outcome;
mod partition;
mod producer_id;
mod request;
mod response;
mod search;
mod split;
mod timers;
mod transactional;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_cluster::{Backoff, Cluster, NodeId, RequestError, RequestId, ResponseBody, Role};
use thalweg_records::Compression;

pub use codec::{CodecDone, CodecJob};

use crate::accumulator::Accumulator;
use crate::accumulator::partition_queue::Front;
use crate::accumulator::ready_queue::Arrival;
use crate::batch::open_batch::OpenBatch;
use crate::config::{Acks, ProducerConfig};
use crate::error::ProducerError;
use crate::idempotence::ProducerIdState;
use crate::partitioning::topic::TopicEntry;
use crate::sender::batch::ProducerBatch;
use crate::sender::codec::{CompressJob, Done, Work};
use crate::sender::idle::Idle;
use crate::sender::nodes::Nodes;
use crate::sender::outcome::Outcomes;
use crate::sender::partition::{Prepared, Readiness, Rules, SenderPartition};
use crate::sender::request::InFlightRequest;
use crate::sender::timers::{Reason, Timers};
use crate::sync::lock;
use crate::transactions::TransactionManager;

/// How many full batches of a partition are compressed ahead of time.
const PREPARED_MAX: usize = 2;
/// Separates the jitter of the backoff from other uses of the seed.
const SEED_OF_BACKOFF: u64 = 0x9e37;
/// How often the queue lengths are passed to the partitioner.
const LOAD_INTERVAL: Duration = Duration::from_millis(25);

/// The part of a producer that runs on the I/O thread.
#[derive(Debug)]
pub struct Sender {
    config: ProducerConfig,
    accumulator: Arc<Accumulator>,
    outcomes: Outcomes,
    partitions: Vec<SenderPartition>,
    idle: Idle,
    /// The topic of vacant entries of `partitions`.
    no_topic: Arc<TopicEntry>,
    /// Indexes of partitions with batches that are not done.
    active: BTreeSet<usize>,
    nodes: Nodes,
    timers: Timers,
    jobs: VecDeque<CodecJob>,
    requests: BTreeMap<RequestId, InFlightRequest>,
    producer_id: ProducerIdState,
    /// The brokers refused to assign a producer ID, so it is requested only for records.
    refused_producer_id: bool,
    transactions: Option<TransactionManager>,
    backoff: Backoff,
    metadata_version: u64,
    arrivals: Vec<Arrival>,
    /// Set if a partition with data has no leader.
    leader_unknown: bool,
    unavailable: BTreeSet<NodeId>,
    loads_due: Option<Instant>,
    /// Topics whose load was passed to the partitioner.
    loaded: BTreeMap<usize, Arc<TopicEntry>>,
    /// Set if something arrived while the last turn ended.
    again: bool,
    closing: bool,
    looks: u64,
}

impl Sender {
    pub fn new(config: ProducerConfig, accumulator: Arc<Accumulator>) -> Self {
        let transactions = config
            .transactional_id
            .as_deref()
            .map(|id| TransactionManager::new(id, &config, &accumulator));
        let producer_id = match transactions {
            Some(_) => ProducerIdState::OfCoordinator(None),
            None => ProducerIdState::new(config.enable_idempotence && config.acks == Acks::All),
        };
        Self {
            outcomes: Outcomes::new(Arc::clone(&accumulator), config.delivery_timeout),
            accumulator,
            partitions: Vec::new(),
            idle: Idle::default(),
            no_topic: Arc::new(TopicEntry::nameless()),
            active: BTreeSet::new(),
            nodes: Nodes::default(),
            timers: Timers::default(),
            jobs: VecDeque::new(),
            requests: BTreeMap::new(),
            producer_id,
            refused_producer_id: false,
            transactions,
            backoff: Backoff::new(
                config.retry_backoff,
                config.retry_backoff_max,
                config.seed ^ SEED_OF_BACKOFF,
            ),
            metadata_version: 0,
            arrivals: Vec::new(),
            leader_unknown: false,
            unavailable: BTreeSet::new(),
            loads_due: None,
            loaded: BTreeMap::new(),
            again: false,
            closing: false,
            looks: 0,
            config,
        }
    }

    pub fn accumulator(&self) -> &Arc<Accumulator> {
        &self.accumulator
    }

    /// Returns how often a partition was looked at so far. It measures the cost of turns without a
    /// clock.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    fn rules(&self, index: usize, now: Instant) -> Rules {
        Rules {
            now,
            linger: self.accumulator.linger(),
            mute: self.config.guarantees_order_by_muting(),
            idempotent: self.producer_id.is_enabled(),
            has_producer_id: self.producer_id.known().is_some(),
            held_back: self
                .transactions
                .as_ref()
                .is_some_and(|t| !t.lets_out(index)),
        }
    }

    fn compresses(&self) -> bool {
        self.config.compression != Compression::None
    }

    /// Returns whether nothing lingers: a thread waits for memory, for a flush, or for the end of a
    /// transaction or of the producer.
    fn is_everything_urgent(&self) -> bool {
        self.closing
            || self.accumulator.is_closed()
            || self.accumulator.incomplete.is_flushing()
            || self.accumulator.pool().is_exhausted()
            || self
                .transactions
                .as_ref()
                .is_some_and(TransactionManager::is_completing)
    }

    /// Applies newer metadata: leaders and topic ids of active partitions, partition counts of
    /// topics.
    fn take_metadata(&mut self, cluster: &Cluster, now: Instant) {
        let metadata = cluster.metadata();
        if metadata.version == self.metadata_version {
            return;
        }
        self.metadata_version = metadata.version;
        for topic in self.accumulator.topics() {
            topic.update(metadata);
        }
        for index in self.active.clone() {
            self.look_up_leader(index, cluster);
            self.fail_if_refused(index, metadata);
            self.reconsider(index, now);
        }
    }

    /// Requests metadata if a partition has no leader: its topic is unknown, or its leader is gone.
    fn ask_for_leaders(&mut self, cluster: &mut Cluster, now: Instant) {
        if !std::mem::take(&mut self.leader_unknown) {
            return;
        }
        for &index in &self.active {
            let state = &self.partitions[index];
            if state.leader.is_none() {
                // The only error is an invalid topic name, and no append succeeds for one.
                let _ = cluster.add_topic(state.topic.name(), now);
            }
        }
        cluster.request_update();
    }

    /// Applies the snapshot to a partition. If the topic is missing there, its sequences stay.
    fn look_up_leader(&mut self, index: usize, cluster: &Cluster) {
        let state = &mut self.partitions[index];
        let metadata = cluster.metadata();
        let leader = metadata.leader(state.topic.name(), state.partition);
        match leader {
            Some(node) if leader != state.leader => {
                state.follow_leader(node);
            }
            _ => state.leader = leader,
        }
        let Some(topic) = metadata.topic(state.topic.name()) else {
            return;
        };
        state.learn_topic_id(topic.id);
        if let Some(partition) = topic.partition(state.partition) {
            state.leader_epoch = partition.leader_epoch;
        }
    }

    fn take_arrivals(&mut self, cluster: &mut Cluster, now: Instant) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.accumulator.ready.take(&mut arrivals);
        for arrival in arrivals.drain(..) {
            arrival.topic.note_used();
            let index = self.index_of(&arrival);
            // This also marks the topic as used, so that the metadata keeps it.
            let _ = cluster.add_topic(self.partitions[index].topic.name(), now);
            if self.active.insert(index) {
                self.look_up_leader(index, cluster);
            }
            self.reconsider(index, now);
        }
        self.arrivals = arrivals;
    }

    /// Looks at one partition again: fails batches that are too old, repairs its sequences, and
    /// puts it into its leader's ring, into the timers, or into neither.
    fn reconsider(&mut self, index: usize, now: Instant) {
        self.looks += 1;
        let front = self.look_at_queue(index, now);
        if self.producer_id.is_enabled() {
            let state = &mut self.partitions[index];
            state.conclude_search();
            if self.transactions.is_some() {
                self.keep_in_transaction(index, front);
            } else if state.in_flight.is_empty() {
                self.outcomes.mend(state, &mut self.producer_id);
            }
        }
        let rules = self.rules(index, now);
        let state = &mut self.partitions[index];
        let readiness = state.readiness(&rules, front);
        let wanted = match (readiness, state.leader) {
            (Readiness::Urgent, Some(leader)) => Some((leader, true)),
            (Readiness::Lingering(_), Some(leader)) => Some((leader, false)),
            _ => None,
        };
        self.leader_unknown |= state.leader.is_none() && readiness != Readiness::Idle;
        self.nodes.place(index, state, wanted);
        if let Readiness::Lingering(at) | Readiness::BackingOff(at) = readiness {
            self.timers.set(index, state, Reason::Due, at);
        }
        if let Some(created) = state.oldest_created(front) {
            self.timers.set(
                index,
                state,
                Reason::Expiry,
                created + self.config.delivery_timeout,
            );
        }
        if front.is_some() || state.has_taken() {
            self.active.insert(index);
        } else {
            // Since the look, the last batches may have failed because of a gap. A record that was
            // appended meanwhile causes another look.
            state.entry().set_depth(0);
            self.active.remove(&index);
        }
    }

    /// Fails batches that are too old, and has a few full ones compressed before their turn.
    /// Returns the batch that is then at the front of the accumulator's queue.
    fn look_at_queue(&mut self, index: usize, now: Instant) -> Option<Front> {
        let compresses = self.compresses();
        let state = &mut self.partitions[index];
        let unreachable = self.nodes.error(state.leader);
        self.outcomes.expire(state, unreachable, now);
        let prepared_max = if compresses { PREPARED_MAX } else { 0 };
        let full_max = prepared_max.saturating_sub(state.prepared.len());
        let look = state.look(full_max, |created| self.outcomes.is_over(created, now));
        self.outcomes.expire_queued(look.expired, unreachable);
        for open in look.full {
            self.prepare(index, open);
        }
        look.front
    }

    /// Hands a batch to the codec threads.
    fn prepare(&mut self, index: usize, open: OpenBatch) {
        let (batch, chunks) = ProducerBatch::close(open);
        let job = Work::Compress(CompressJob {
            index,
            order: batch.order,
            chunks,
            codec: self.config.compression,
            level: self.config.compression_level,
            output_bytes_kept: self.config.batch_size,
        });
        self.jobs.push_back(CodecJob(job));
        self.partitions[index].prepared.push_back(Prepared {
            batch,
            is_ready: false,
        });
    }

    /// Tells each topic the length of its longest queue (KIP-794).
    fn publish_loads(&mut self, now: Instant) {
        if !self.config.partitioner_adaptive_partitioning
            || self.loads_due.is_some_and(|at| now < at)
        {
            return;
        }
        self.loads_due = Some(now + LOAD_INTERVAL);
        let mut loads: BTreeMap<usize, (u32, &SenderPartition)> = BTreeMap::new();
        for &index in &self.active {
            let state = &self.partitions[index];
            let load = loads.entry(state.topic.index()).or_insert((0, state));
            load.0 = load.0.max(state.entry().depth());
        }
        self.loaded.retain(|index, topic| {
            let still = loads.contains_key(index);
            if !still {
                topic.set_depth_max(0);
            }
            still
        });
        for (index, (depth, state)) in loads {
            state.topic.set_depth_max(depth);
            self.loaded
                .entry(index)
                .or_insert_with(|| Arc::clone(&state.topic));
        }
    }

    /// Returns when something is due next, arrivals aside.
    fn due(&self) -> Option<Instant> {
        let producer_id = match self.producer_id {
            ProducerIdState::Wanted { not_before, .. } => not_before,
            _ => None,
        };
        let transaction = self.transactions.as_ref().and_then(TransactionManager::due);
        [self.timers.next(), producer_id, transaction]
            .into_iter()
            .flatten()
            .min()
    }
}

impl Role for Sender {
    type Job = CodecJob;

    const LOGGER: &'static str = "producer";

    fn poll_warning(&mut self) -> Option<String> {
        None
    }

    fn poll(&mut self, cluster: &mut Cluster, now: Instant, _now_ms: i64) {
        self.outcomes.at(now);
        self.take_metadata(cluster, now);
        self.take_arrivals(cluster, now);
        while let Some(index) = self.timers.pop(&mut self.partitions, now) {
            self.reconsider(index, now);
        }
        self.request_producer_id(cluster, now);
        self.poll_transactions(cluster, now);
        self.drain(cluster, now);
        self.ask_for_leaders(cluster, now);
        self.publish_loads(now);
        self.free_idle_topics(cluster.config().metadata_max_idle, now);
        // The drain may have failed batches that the transaction does not know of yet.
        let transaction = self.transactions.as_ref();
        let unheard = transaction.is_some_and(TransactionManager::takes_batches)
            && self.outcomes.has_failed();
        self.again = !self.accumulator.ready.arm(self.due()) || unheard;
    }

    fn on_response(
        &mut self,
        id: RequestId,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
        _now_ms: i64,
    ) {
        self.outcomes.at(now);
        if matches!(self.producer_id, ProducerIdState::Requested { id: asked, .. } if asked == id) {
            self.producer_id_answered(result, now);
        } else if let Some(manager) = self.transactions.as_mut().filter(|t| t.is_mine(id)) {
            manager.answered(result, cluster, now);
            self.follow_manager(now);
        } else if let Some(request) = self.requests.remove(&id) {
            self.produce_answered(&request, result, cluster, now);
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        if self.again { Some(now) } else { self.due() }
    }

    fn poll_job(&mut self) -> Option<CodecJob> {
        self.jobs.pop_front()
    }

    fn job_done(&mut self, output: CodecDone, _: &mut Cluster, now: Instant, _now_ms: i64) {
        self.outcomes.at(now);
        match output.0 {
            Done::Compressed(done) => self.compressed(done, now),
            Done::Split(done) => self.was_split(done, now),
        }
    }

    fn close(&mut self, _deadline: Instant, _: &mut Cluster, now: Instant) {
        self.closing = true;
        self.accumulator.close();
        if let Some(manager) = &mut self.transactions {
            manager.close(now);
        }
        // An append that had passed the gate is in a batch once this has taken its lock.
        for topic in self.accumulator.topics() {
            topic.for_each_partition(|entry| drop(lock(&entry.queue)));
        }
    }

    fn is_closed(&self) -> bool {
        let settled = self
            .transactions
            .as_ref()
            .is_none_or(TransactionManager::is_settled);
        self.closing && settled && self.accumulator.incomplete.len() == 0
    }

    fn abort(&mut self, now: Instant) {
        self.outcomes.at(now);
        self.closing = true;
        self.accumulator.close();
        if let Some(manager) = &mut self.transactions {
            manager.give_up(&ProducerError::Closed);
        }
        self.fail_undelivered();
    }

    fn fail(&mut self, reason: &str, now: Instant) {
        self.outcomes.at(now);
        self.closing = true;
        self.fail_after_panic(reason);
    }
}
