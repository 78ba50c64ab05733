//! The application's half of a consumer: everything here may be called from any thread, returns
//! at once, and never waits.
//!
//! ```text
//! application thread                      I/O thread
//!   Consumer ---- Subscription ----------- Fetcher (a cluster::Role)
//!      |   \----- FetchBuffer  <-- data ----'  |
//!      |   \----- Requests     --- asks -----> |
//!      '--------- Notifier     --- wakes ----> |
//! ```
//! Waiting is a loop around it: register a waker, drain, sleep until woken. What it does not do:
//! deserialize, wait, commit. Committed offsets and groups belong to the coordinator, which tells
//! what it found by [`Consumer::set_committed`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Instant;

use thalweg_cluster::metrics::MetricGroup;
use thalweg_cluster::{Metadata, Notifier};

use crate::absence::Absence;
use crate::config::ConsumerConfig;
use crate::drain::{Drained, drain};
use crate::error::ConsumerError;
use crate::fetch_buffer::FetchBuffer;
use crate::fetcher::Fetcher;
use crate::list_offsets::{ListedOffset, LookupRequest};
use crate::memory::FetchMemory;
use crate::metrics::{ConsumerMetrics, PartitionFigures};
use crate::offset_spec::{OffsetReset, OffsetSpec};
use crate::partition_state::{FetchPosition, PartitionState};
use crate::pending::{Pending, pending};
use crate::sink::RecordSink;
use crate::stepping::InHand;
use crate::subscription::Subscription;
use crate::sync;
use crate::topic_partition::TopicPartition;

#[derive(Debug)]
pub struct Consumer {
    pub(crate) config: ConsumerConfig,
    pub(crate) subscription: Subscription,
    pub(crate) buffer: Arc<FetchBuffer>,
    /// What steps are taken through: out of the buffer, its position not moved yet.
    in_hand: Mutex<Option<InHand>>,
    /// There is such a record set, though it may be with a step just now.
    pub(crate) stepping: AtomicBool,
    pub(crate) memory: Arc<FetchMemory>,
    pub(crate) metrics: ConsumerMetrics,
    /// Partitions may be assigned at any time, although none may be now.
    subscribed: AtomicBool,
    lookups: Mutex<VecDeque<LookupRequest>>,
    /// Something was changed from outside since the fetcher's last look.
    pub(crate) changed: AtomicBool,
    /// The fetcher wants to be woken when partitions are emptied.
    pub(crate) attentive: AtomicBool,
    /// A drain found nothing that it may take, whatever is decoded.
    pub(crate) starved: AtomicBool,
    /// A drain that named some partitions found nothing of them.
    pub(crate) passed_over: AtomicBool,
    /// What was buffered has lost its worth, and with it jobs for a codec.
    pub(crate) discarded: AtomicBool,
    notifier: Arc<Notifier>,
}

impl Consumer {
    /// Both halves. `notifier` wakes the actor that drives the fetcher.
    pub fn new(config: ConsumerConfig, notifier: Arc<Notifier>) -> (Arc<Self>, Fetcher) {
        let consumer = Arc::new(Self {
            memory: FetchMemory::new(config.fetch_buffer_memory_bytes),
            metrics: ConsumerMetrics::new(config.metrics),
            config,
            subscription: Subscription::default(),
            subscribed: AtomicBool::new(false),
            buffer: Arc::default(),
            in_hand: Mutex::default(),
            stepping: AtomicBool::new(false),
            lookups: Mutex::default(),
            changed: AtomicBool::new(false),
            attentive: AtomicBool::new(true),
            starved: AtomicBool::new(false),
            passed_over: AtomicBool::new(false),
            discarded: AtomicBool::new(false),
            notifier,
        });
        let fetcher = Fetcher::new(Arc::clone(&consumer));
        (consumer, fetcher)
    }

    pub fn config(&self) -> &ConsumerConfig {
        &self.config
    }

    /// Positions, watermarks and the assignment, for reading at once: later steps move no position
    /// that is read through what this gave.
    pub fn subscription(&self) -> &Subscription {
        self.settle();
        &self.subscription
    }

    /// Records of an iteration are counted at the end of their batch, or when somebody looks by
    /// [`Self::metrics_snapshot`] or [`Self::records_handed_out`].
    pub fn metrics(&self) -> &ConsumerMetrics {
        &self.metrics
    }

    /// All metrics by Kafka's names.
    pub fn metrics_snapshot(&self, now: Instant) -> Vec<MetricGroup> {
        self.settle();
        let (isolation, config) = (self.config.isolation_level, self.config.metrics);
        let figures = |partition: &TopicPartition, state: &mut PartitionState| {
            Some(PartitionFigures {
                partition: partition.clone(),
                distance: state.distance(isolation),
                over_time: state.distances.as_mut().map(|all| all.values(config, now)),
                closer_replica: state.closer_replica(now),
            })
        };
        let (_, of_partitions) = self.subscription.collect(figures);
        self.metrics.snapshot(of_partitions, now)
    }

    /// Whether the cluster lacks an assigned partition, and has done so for a while.
    pub(crate) fn is_absent(&self, partition: &TopicPartition) -> bool {
        self.subscription.is_absent(partition)
    }

    /// Bytes held for undrained records now, and at most so far.
    pub fn buffered_bytes(&self) -> (usize, usize) {
        (self.memory.used(), self.memory.peak())
    }

    /// Partitions with undrained records, in the order in which they will be served; one of which more
    /// was fetched ahead is named twice.
    pub fn buffered(&self) -> Vec<TopicPartition> {
        self.settle();
        self.buffer.buffered()
    }

    /// Leaves the polling thread's waker; see [`FetchBuffer::register`]. Register, then drain (or
    /// read a position), then sleep.
    pub fn register(&self, waker: &Waker) {
        self.buffer.register(waker);
    }

    /// Makes a waiting poll look again: `wakeup`, a rebalance.
    pub fn wake(&self) {
        self.buffer.wake();
    }

    /// Hands out at most `records_max` buffered records, leftovers first. It returns an error
    /// only if no record was handed out; then nothing has moved, and a later call goes on.
    pub fn drain<S: RecordSink>(
        &self,
        records_max: usize,
        sink: &mut S,
    ) -> Result<Drained, ConsumerError> {
        self.drain_only(&[], records_max, sink)
    }

    /// The same of some partitions only; of all if none is named. What is buffered of the others
    /// stays where it is.
    pub fn drain_only<S: RecordSink>(
        &self,
        only: &[TopicPartition],
        records_max: usize,
        sink: &mut S,
    ) -> Result<Drained, ConsumerError> {
        self.settle();
        self.drain_settled(only, records_max, sink)
    }

    /// [`Self::drain_only`] where nothing is in hand.
    pub(crate) fn drain_settled<S: RecordSink>(
        &self,
        only: &[TopicPartition],
        records_max: usize,
        sink: &mut S,
    ) -> Result<Drained, ConsumerError> {
        let (buffer, subscription) = (&self.buffer, &self.subscription);
        let isolation = self.config.isolation_level;
        let emptied = || self.emptied();
        let drained = drain(
            buffer,
            subscription,
            isolation,
            only,
            records_max,
            sink,
            emptied,
        );
        match &drained {
            Ok(drained) => {
                self.metrics
                    .records_consumed_total
                    .add(drained.records as u64);
                if drained.freed {
                    self.emptied();
                }
                if drained.records == 0 {
                    self.found_nothing(only);
                }
            }
            Err(error) => {
                if matches!(error, ConsumerError::CorruptBatch { .. }) {
                    self.metrics.corrupt_batches_total.add(1);
                }
                // Its partitions are tried again from now on, whether or not an answer is to come.
                self.notify();
            }
        }
        drained
    }

    /// Takes the last drain back, as its records did not reach the application: they are fetched and
    /// handed out again. Partitions that the application has moved since stay where they are.
    pub fn take_back(&self) {
        self.settle();
        self.subscription.lock().take_back();
        self.moved();
    }

    /// Whether a drain would find something now.
    pub fn has_drainable(&self) -> bool {
        self.stepping.load(Ordering::SeqCst) || self.buffer.has_drainable(&self.subscription)
    }

    /// Replaces the assignment; partitions that stay keep position, buffer and pause.
    pub fn assign(&self, partitions: &[TopicPartition]) {
        self.settle();
        self.subscription.assign(partitions);
        self.moved();
    }

    /// Says whether topics are subscribed to. Which partitions follow from that, `assign` tells.
    pub fn set_subscribed(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::SeqCst);
    }

    /// An error if nothing can ever come: who waits for records would wait for ever.
    pub fn check_subscribed(&self) -> Result<(), ConsumerError> {
        if self.subscribed.load(Ordering::SeqCst) || self.subscription.has_assignment() {
            Ok(())
        } else {
            Err(ConsumerError::NotSubscribed)
        }
    }

    /// Reads on from `offset`. With the leader epoch of the record before it (-1: unknown) the
    /// leader is asked first whether its log still is the one that was read (KIP-320).
    pub fn seek(
        &self,
        partition: &TopicPartition,
        offset: i64,
        leader_epoch: i32,
    ) -> Result<(), ConsumerError> {
        self.settle();
        self.subscription.seek(partition, offset, leader_epoch)?;
        self.moved();
        Ok(())
    }

    /// `seek_to_beginning`, `seek_to_end` and the like: lazy, looked up by the I/O thread.
    pub fn seek_to(
        &self,
        partitions: &[TopicPartition],
        reset: OffsetReset,
    ) -> Result<(), ConsumerError> {
        self.all_assigned(partitions)?;
        self.settle();
        for partition in partitions {
            self.subscription.request_reset(partition, reset)?;
        }
        self.moved();
        Ok(())
    }

    /// Stops handing out and fetching; what is buffered stays.
    pub fn pause(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.set_paused(partitions, true)
    }

    pub fn resume(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.set_paused(partitions, false)
    }

    fn set_paused(&self, partitions: &[TopicPartition], paused: bool) -> Result<(), ConsumerError> {
        self.all_assigned(partitions)?;
        self.settle();
        for partition in partitions {
            self.subscription.set_paused(partition, paused)?;
        }
        self.notify();
        self.buffer.wake();
        Ok(())
    }

    fn all_assigned(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        match partitions
            .iter()
            .find(|partition| !self.subscription.is_assigned(partition))
        {
            Some(partition) => Err(ConsumerError::NotAssigned {
                partition: partition.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The next offset to read, or `None` while it is being looked up. What keeps it from being
    /// known is raised, once for each try, as by a drain.
    pub fn find_position(
        &self,
        partition: &TopicPartition,
    ) -> Result<Option<FetchPosition>, ConsumerError> {
        let position = self.subscription().position(partition)?;
        if position.is_some() {
            return Ok(position);
        }
        match self.buffer.take_error_about(partition, &self.subscription) {
            Some(error) => {
                self.notify();
                Err(error)
            }
            None => Ok(None),
        }
    }

    /// Why a position that was waited for is not known, as far as the metadata tells.
    pub fn position_timeout(
        &self,
        partition: &TopicPartition,
        metadata: &Metadata,
    ) -> ConsumerError {
        let why = match Absence::of(partition, metadata) {
            Some(absence) => Some(absence.to_string()),
            None if metadata
                .leader(&partition.topic, partition.partition)
                .is_none() =>
            {
                Some("no leader of it is known".to_owned())
            }
            None if self.awaiting_committed().contains(partition) => {
                Some("the group's coordinator has not told its committed offset".to_owned())
            }
            None => None,
        };
        let partition = partition.clone();
        ConsumerError::PositionTimeout { partition, why }
    }

    /// Partitions that wait to be told their committed offset (only with a group id).
    pub fn awaiting_committed(&self) -> Vec<TopicPartition> {
        if self.config.group_id.is_none() {
            return Vec::new();
        }
        self.subscription.awaiting_committed()
    }

    /// What the coordinator found: an offset to go on from, or `None`, and then the reset policy
    /// applies. Partitions that have moved meanwhile (a seek, a revocation) are left alone.
    pub fn set_committed(&self, offsets: &[(TopicPartition, Option<FetchPosition>)]) {
        for (partition, committed) in offsets {
            self.subscription.set_committed(partition, *committed);
        }
        self.moved();
    }

    /// Looks offsets up at the partitions' leaders, whether or not they are assigned.
    pub fn list_offsets(
        &self,
        targets: Vec<(TopicPartition, OffsetSpec)>,
        deadline: Instant,
    ) -> Pending<Vec<ListedOffset>> {
        let (pending, completer) = pending();
        let request = LookupRequest {
            targets,
            deadline,
            completer,
        };
        self.lock_lookups().push_back(request);
        self.notify();
        pending
    }

    /// A position was changed from outside: what is buffered for the old one goes.
    fn moved(&self) {
        self.buffer.discard_stale(&self.subscription);
        self.discarded.store(true, Ordering::SeqCst);
        self.notify();
        self.buffer.wake();
    }

    fn notify(&self) {
        self.changed.store(true, Ordering::SeqCst);
        self.notifier.notify();
    }

    /// As `notify`, unless the fetcher has nothing to do about it before the next answer. Store
    /// first, then load; the fetcher does it the other way round (see its `poll`), so one of the
    /// two sees the other.
    pub(crate) fn emptied(&self) {
        self.changed.store(true, Ordering::SeqCst);
        if self.attentive.load(Ordering::SeqCst) {
            self.notifier.notify();
        }
    }

    /// Only what waits to be decoded may help, and then the fetcher is attentive. If some
    /// partitions were named, a fetch may help too: what others hold need not be in its way.
    fn found_nothing(&self, only: &[TopicPartition]) {
        self.starved.store(true, Ordering::SeqCst);
        if !only.is_empty() {
            self.subscription.lock().ask_for(only);
            self.passed_over.store(true, Ordering::SeqCst);
            self.changed.store(true, Ordering::SeqCst);
        }
        if self.attentive.load(Ordering::SeqCst) {
            self.notifier.notify();
        }
    }

    pub(crate) fn wake_fetcher(&self) {
        self.notifier.notify();
    }

    pub(crate) fn lock_in_hand(&self) -> MutexGuard<'_, Option<InHand>> {
        sync::lock(&self.in_hand)
    }

    pub(crate) fn lock_lookups(&self) -> MutexGuard<'_, VecDeque<LookupRequest>> {
        sync::lock(&self.lookups)
    }
}
