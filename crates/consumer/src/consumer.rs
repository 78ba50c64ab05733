//! The application's half of a consumer: any thread may call it, and every call returns at once.
//!
//! ```text
//! application thread                      I/O thread
//!   Consumer ---- Subscription ----------- Fetcher (a cluster::Role)
//!      |   \----- FetchBuffer  <-- data ----'  |
//!      |   \----- Requests     --- asks -----> |
//!      '--------- Notifier     --- wakes ----> |
//! ```
//! To wait for records, the caller loops: register a waker, drain, sleep until woken. The consumer
//! does not deserialize, wait or commit. The coordinator handles committed offsets and groups, and
//! passes the offsets that it finds to [`Consumer::set_committed`].

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
    /// The fetch that [`Self::step`] reads from. It is not in the buffer, and the subscription's
    /// position has not moved yet.
    in_hand: Mutex<Option<InHand>>,
    /// There is a fetch in hand. A running step may have taken it out of `in_hand`.
    pub(crate) stepping: AtomicBool,
    pub(crate) memory: Arc<FetchMemory>,
    pub(crate) metrics: ConsumerMetrics,
    /// Partitions may be assigned at any time, even if none is assigned now.
    subscribed: AtomicBool,
    lookups: Mutex<VecDeque<LookupRequest>>,
    /// Another thread changed something since the fetcher last looked.
    pub(crate) changed: AtomicBool,
    /// The fetcher wants to be woken when partitions are emptied.
    pub(crate) attentive: AtomicBool,
    /// A drain found nothing to take, so the bytes decoded by then do not count as decoded ahead.
    pub(crate) starved: AtomicBool,
    /// A drain that named some partitions found no records of them.
    pub(crate) passed_over: AtomicBool,
    /// Buffered data became stale, and jobs that wait for a codec may have too.
    pub(crate) discarded: AtomicBool,
    notifier: Arc<Notifier>,
}

impl Consumer {
    /// Creates both halves of a consumer. `notifier` wakes the actor that drives the fetcher.
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

    /// Returns the positions, watermarks and the assignment, for immediate use. Later steps do not
    /// move the positions that this reference shows.
    pub fn subscription(&self) -> &Subscription {
        self.settle();
        &self.subscription
    }

    /// Returns the counters. An iteration adds its records at the end of each batch, and whenever
    /// [`Self::metrics_snapshot`] or [`Self::records_handed_out`] is called.
    pub fn metrics(&self) -> &ConsumerMetrics {
        &self.metrics
    }

    /// Returns all metrics under Kafka's names.
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

    /// Whether an assigned partition has been missing from the cluster for some time.
    pub(crate) fn is_absent(&self, partition: &TopicPartition) -> bool {
        self.subscription.is_absent(partition)
    }

    /// Returns the bytes held for undrained records: now, and the maximum so far.
    pub fn buffered_bytes(&self) -> (usize, usize) {
        (self.memory.used(), self.memory.peak())
    }

    /// Returns the partitions with undrained records, in the order in which they will be served. A
    /// partition that was also fetched ahead is listed twice.
    pub fn buffered(&self) -> Vec<TopicPartition> {
        self.settle();
        self.buffer.buffered()
    }

    /// Stores the waker of the polling thread, see [`FetchBuffer::register`]. Register first, then
    /// drain (or read a position), then sleep.
    pub fn register(&self, waker: &Waker) {
        self.buffer.register(waker);
    }

    /// Makes a waiting poll check again, for `wakeup` or a rebalance.
    pub fn wake(&self) {
        self.buffer.wake();
    }

    /// Passes at most `records_max` buffered records to the sink, starting with those left over
    /// from the last drain. Returns an error only if it passed no record. No position has moved
    /// then, and a later call can continue.
    pub fn drain<S: RecordSink>(
        &self,
        records_max: usize,
        sink: &mut S,
    ) -> Result<Drained, ConsumerError> {
        self.drain_only(&[], records_max, sink)
    }

    /// Drains only the partitions in `only`, or all if it is empty. Buffered records of other
    /// partitions stay in the buffer.
    pub fn drain_only<S: RecordSink>(
        &self,
        only: &[TopicPartition],
        records_max: usize,
        sink: &mut S,
    ) -> Result<Drained, ConsumerError> {
        self.settle();
        self.drain_settled(only, records_max, sink)
    }

    /// Works like [`Self::drain_only`], but requires that no fetch is in hand.
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
                // The drain unblocked the partitions of the error. Retry them now: no response may
                // be due.
                self.notify();
            }
        }
        drained
    }

    /// Undoes the last drain, because its records did not reach the application. They are fetched
    /// and returned again. Partitions that the application has moved since then keep their
    /// position.
    pub fn take_back(&self) {
        self.settle();
        self.subscription.lock().take_back();
        self.moved();
    }

    /// Whether a drain would find something now.
    pub fn has_drainable(&self) -> bool {
        self.stepping.load(Ordering::SeqCst) || self.buffer.has_drainable(&self.subscription)
    }

    /// Replaces the assignment. Partitions that stay keep their position, buffer and pause.
    pub fn assign(&self, partitions: &[TopicPartition]) {
        self.settle();
        self.subscription.assign(partitions);
        self.moved();
    }

    /// Says whether the consumer subscribes to topics. `assign` says which partitions result from
    /// it.
    pub fn set_subscribed(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::SeqCst);
    }

    /// Returns an error if no records can ever arrive, because a wait for them would never end.
    pub fn check_subscribed(&self) -> Result<(), ConsumerError> {
        if self.subscribed.load(Ordering::SeqCst) || self.subscription.has_assignment() {
            Ok(())
        } else {
            Err(ConsumerError::NotSubscribed)
        }
    }

    /// Moves the position to `offset`. If the leader epoch of the record before it is known (not
    /// -1), the leader must first confirm that its log is still the one that was read (KIP-320).
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

    /// Requests an offset lookup for `seek_to_beginning`, `seek_to_end` and similar calls. The I/O
    /// thread does the lookup.
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

    /// Stops returning and fetching records of these partitions. Buffered records stay.
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

    /// Returns the next offset to read, or `None` while the lookup runs. An error that prevents
    /// the lookup is returned once per attempt, as by a drain.
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

    /// Returns an error that says, as far as the metadata shows, why the position is still
    /// unknown.
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
                Some("the group's coordinator has not reported its committed offset".to_owned())
            }
            None => None,
        };
        let partition = partition.clone();
        ConsumerError::PositionTimeout { partition, why }
    }

    /// Returns the partitions that wait for their committed offset. Empty without a group ID.
    pub fn awaiting_committed(&self) -> Vec<TopicPartition> {
        if self.config.group_id.is_none() {
            return Vec::new();
        }
        self.subscription.awaiting_committed()
    }

    /// Sets the offsets that the coordinator found. For `None`, the reset policy applies.
    /// Partitions that were sought or revoked in the meantime are not changed.
    pub fn set_committed(&self, offsets: &[(TopicPartition, Option<FetchPosition>)]) {
        for (partition, committed) in offsets {
            self.subscription.set_committed(partition, *committed);
        }
        self.moved();
    }

    /// Looks up offsets at the leaders of the partitions, which need not be assigned.
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

    /// A position changed from outside, so records buffered for the old position are dropped.
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

    /// Works like `notify`, unless the fetcher cannot use the space before the next response. This
    /// thread stores first and then loads. The fetcher does the opposite (see its `poll`), so at
    /// least one of the two sees the other's change.
    pub(crate) fn emptied(&self) {
        self.changed.store(true, Ordering::SeqCst);
        if self.attentive.load(Ordering::SeqCst) {
            self.notifier.notify();
        }
    }

    /// Only decoding can help now, and the fetcher is attentive while anything waits for it. If
    /// the drain named partitions, a fetch may help too, because buffered records of others need
    /// not prevent it.
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
