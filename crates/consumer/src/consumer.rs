//! The application's half of a consumer: any thread may call it, and every call returns at once.
//!
//! ```text
//! application thread                      I/O thread
//!   Consumer ---- Partitions ------------- Fetcher (a cluster::Role)
//!      |   \----- Requests     --- asks -----> |
//!      '--------- Signals      --- wakes ----> |
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

use crate::config::ConsumerConfig;
use crate::draining::drain::{Demand, Drained, drain};
use crate::draining::sink::RecordSink;
use crate::error::ConsumerError;
use crate::fetching::fetcher::Fetcher;
use crate::fetching::memory::FetchMemory;
use crate::metrics::{ConsumerMetrics, PartitionFigures};
use crate::offset_spec::{OffsetReset, OffsetSpec};
use crate::partitions::Partitions;
use crate::partitions::state::{FetchPosition, PartitionState};
use crate::pending::{Pending, pending};
use crate::positions::absence::Absence;
use crate::positions::list_offsets::{ListedOffset, LookupRequest};
use crate::signals::Signals;
use crate::sync;
use crate::topic_partition::TopicPartition;

#[derive(Debug)]
pub struct Consumer {
    pub(crate) config: ConsumerConfig,
    pub(crate) partitions: Arc<Partitions>,
    pub(crate) memory: Arc<FetchMemory>,
    pub(crate) metrics: ConsumerMetrics,
    pub(crate) signals: Arc<Signals>,
    /// Partitions may be assigned at any time, even if none is assigned now.
    subscribed: AtomicBool,
    lookups: Mutex<VecDeque<LookupRequest>>,
}

impl Consumer {
    /// Creates both halves of a consumer. `notifier` wakes the actor that drives the fetcher.
    pub fn new(config: ConsumerConfig, notifier: Arc<Notifier>) -> (Arc<Self>, Fetcher) {
        let signals = Arc::new(Signals::new(notifier));
        let metrics = ConsumerMetrics::new(config.metrics);
        let records_consumed = Arc::clone(&metrics.records_consumed_total);
        let consumer = Arc::new(Self {
            memory: FetchMemory::new(config.fetch_buffer_memory_bytes),
            metrics,
            config,
            partitions: Arc::new(Partitions::new(Arc::clone(&signals), records_consumed)),
            signals,
            subscribed: AtomicBool::new(false),
            lookups: Mutex::default(),
        });
        let fetcher = Fetcher::new(Arc::clone(&consumer));
        (consumer, fetcher)
    }

    pub fn config(&self) -> &ConsumerConfig {
        &self.config
    }

    /// Returns the assignment, with the positions and watermarks.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// Returns the counters. An iteration adds its records at the end of each batch, and whenever
    /// [`Self::metrics_snapshot`] or [`Self::records_handed_out`] is called.
    pub fn metrics(&self) -> &ConsumerMetrics {
        &self.metrics
    }

    /// Returns all metrics under Kafka's names.
    pub fn metrics_snapshot(&self, now: Instant) -> Vec<MetricGroup> {
        let (isolation, config) = (self.config.isolation_level, self.config.metrics);
        let figures = |partition: &TopicPartition, state: &mut PartitionState| {
            Some(PartitionFigures {
                partition: partition.clone(),
                distance: state.distance(isolation),
                over_time: state.distances.as_mut().map(|all| all.values(config, now)),
                closer_replica: state.closer_replica(now),
            })
        };
        let (_, of_partitions) = self.partitions.collect(figures);
        self.metrics.snapshot(of_partitions, now)
    }

    /// Returns the bytes held for undrained records: now, and the maximum so far.
    pub fn buffered_bytes(&self) -> (usize, usize) {
        (self.memory.used(), self.memory.peak())
    }

    /// Returns the partitions with undrained records, in the order in which they will be served. A
    /// partition that was also fetched ahead is listed twice.
    pub fn buffered(&self) -> Vec<TopicPartition> {
        self.partitions.buffered()
    }

    /// Stores the waker of the polling thread or task. It is woken once, by the next change worth
    /// a check. Register first, then drain (or read a position), then sleep.
    pub fn register(&self, waker: &Waker) {
        self.partitions.register(waker);
    }

    /// Makes a waiting poll check again, for `wakeup` or a rebalance.
    pub fn wake(&self) {
        self.partitions.wake();
    }

    /// Passes the buffered records that `demand` asks for to the sink, first those that the last
    /// drain left over. Returns an error only if it passed no record. Then no position has moved,
    /// and a later call can continue.
    pub fn drain<S: RecordSink>(
        &self,
        demand: Demand,
        sink: &mut S,
    ) -> Result<Drained, ConsumerError> {
        if demand.is_step()
            && let Some(drained) = self.partitions.step(sink)
        {
            return Ok(drained);
        }
        let drained = drain(&self.partitions, self.config.isolation_level, demand, sink);
        match &drained {
            Ok(drained) => self.note_drained(demand, drained),
            Err(error) => {
                if matches!(error, ConsumerError::CorruptBatch { .. }) {
                    self.metrics.corrupt_batches_total.add(1);
                }
                // The drain unblocked the partitions of the error. Retry them now: no response may
                // be due.
                self.signals.notify();
            }
        }
        drained
    }

    fn note_drained(&self, demand: Demand, drained: &Drained) {
        self.metrics
            .records_consumed_total
            .add(drained.records as u64);
        if drained.freed {
            self.signals.emptied();
        }
        if drained.records == 0 {
            let only = demand.only();
            if !only.is_empty() {
                self.partitions.lock().ask_for(only);
            }
            self.signals.found_nothing(!only.is_empty());
        } else if demand.is_step() {
            self.partitions.take_in_hand();
        }
    }

    /// Returns the number of records that all calls together have returned so far.
    pub fn records_handed_out(&self) -> u64 {
        self.partitions.count_steps();
        self.metrics.records_consumed_total.get()
    }

    /// Undoes the last drain, because its records did not reach the application. They are fetched
    /// and returned again. Partitions that the application has moved since then keep their
    /// position.
    pub fn take_back(&self) {
        self.partitions.take_back();
        self.moved();
    }

    /// Whether a drain would find something now.
    pub fn has_drainable(&self) -> bool {
        self.partitions.has_drainable()
    }

    /// Replaces the assignment. Partitions that stay keep their position, buffer and pause.
    pub fn assign(&self, partitions: &[TopicPartition]) {
        self.partitions.assign(partitions);
        self.moved();
    }

    /// Replaces the assignment by ranges: a partition, its first offset, and its end.
    pub(crate) fn assign_ranges(&self, ranges: &[(TopicPartition, i64, i64)]) {
        self.partitions.assign_ranges(ranges);
        self.moved();
    }

    /// Says whether the consumer subscribes to topics. `assign` says which partitions result from
    /// it.
    pub fn set_subscribed(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::SeqCst);
    }

    /// Returns an error if no records can ever arrive, because a wait for them would never end.
    pub fn check_subscribed(&self) -> Result<(), ConsumerError> {
        if self.subscribed.load(Ordering::SeqCst) || self.partitions.has_assignment() {
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
        self.partitions.seek(partition, offset, leader_epoch)?;
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
        for partition in partitions {
            self.partitions.request_reset(partition, reset)?;
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
        for partition in partitions {
            self.partitions.set_paused(partition, paused)?;
        }
        self.signals.notify();
        self.partitions.wake();
        Ok(())
    }

    fn all_assigned(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        match partitions
            .iter()
            .find(|partition| !self.partitions.is_assigned(partition))
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
        let position = self.partitions.position(partition)?;
        if position.is_some() {
            return Ok(position);
        }
        match self.partitions.take_error_about(partition) {
            Some(error) => {
                self.signals.notify();
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
                Some("the partition has no known leader".to_owned())
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
        self.partitions.awaiting_committed()
    }

    /// Sets the offsets that the coordinator found. For `None`, the reset policy applies.
    /// Partitions that were sought or revoked in the meantime are not changed.
    pub fn set_committed(&self, offsets: &[(TopicPartition, Option<FetchPosition>)]) {
        for (partition, committed) in offsets {
            self.partitions.set_committed(partition, *committed);
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
        self.signals.notify();
        pending
    }

    /// A position changed from outside: the fetcher and a waiting poll look again.
    fn moved(&self) {
        self.partitions.drop_stale_errors();
        self.signals.notify();
        self.partitions.wake();
    }

    pub(crate) fn lock_lookups(&self) -> MutexGuard<'_, VecDeque<LookupRequest>> {
        sync::lock(&self.lookups)
    }
}
