//! Kafka's `RecordAccumulator`: application threads put records here and the sender takes them.
//!
//! ```text
//!   application threads                                        the sender
//!     append (append.rs), bulk appends (bulk.rs) ──────▶ partition queues ──▶ drain
//!          │ first record, full batch                                ▲
//!          └────────────────────▶ ready queue ───────────────────────┘
//! ```
//! All threads share the accumulator. Each topic is an entry that callers keep, and each partition
//! has a queue with its own mutex.
//!
//! ```text
//! append.rs          one record. bulk.rs, locked_batch.rs: columns, a run of rows under one lock
//! place.rs           the partition that a record goes to, and when another becomes sticky
//! partition_queue.rs the batches of a partition
//! ready_queue.rs     partitions that have something to send
//! gate.rs            whether the producer accepts records
//! incomplete.rs      all batches that are not done, for flush and close
//! ```
//! This module neither waits nor decides what happens to a batch: see `sender` for that.

mod append;
pub(crate) mod bulk;
mod gate;
pub(crate) mod incomplete;
mod locked_batch;
pub(crate) mod partition_queue;
mod place;
pub(crate) mod ready_queue;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use thalweg_cluster::metrics::MetricGroup;
use thalweg_cluster::{NodeId, Notifier, SharedMetadata};
use thalweg_protocol::Str;
use thalweg_records::Compression;

pub use append::{AppendRefusal, Appended};

use crate::accumulator::gate::Gate;
use crate::accumulator::incomplete::{FlushTicket, Incomplete};
use crate::accumulator::ready_queue::{Arrival, ReadyQueue};
use crate::batch::buffer_pool::BufferPool;
use crate::batch::completion::CompletionListener;
use crate::config::ProducerConfig;
use crate::error::ProducerError;
use crate::metrics::{Buffer, ProducerMetrics};
use crate::partitioning::partitioner::Partitioner;
use crate::partitioning::topic::TopicEntry;
use crate::sync::lock;

/// At most this fraction (1/4) of the buffer memory is reserved for the output of the codec
/// threads.
const CODEC_SHARE_MAX: usize = 4;

/// Holds the records of one producer until they are sent. All threads share it.
pub struct Accumulator {
    /// Given to batches, so that they can report back without keeping the accumulator alive.
    this: Weak<Self>,
    batch_size: usize,
    linger: Duration,
    compression: Compression,
    max_request_size: usize,
    /// A record whose size bound is below this is within all limits.
    record_bytes_sure: usize,
    partitioner: Partitioner,
    ignore_keys: bool,
    adaptive: bool,
    seed: u64,
    pool: Arc<BufferPool>,
    topics: RwLock<IndexMap<Str, Arc<TopicEntry>>>,
    /// Number of topic entries ever created, including freed ones.
    topics_made: AtomicUsize,
    /// Brokers whose partitions get no keyless records.
    unavailable: Mutex<BTreeSet<NodeId>>,
    pub(crate) ready: ReadyQueue,
    pub(crate) incomplete: Arc<Incomplete>,
    pub(crate) gate: Gate,
    /// Why a record of the transaction was refused after `send` returned, so that only its future
    /// knows.
    refused: Mutex<Option<Arc<str>>>,
    transactional: bool,
    notifier: Arc<Notifier>,
    metadata: Arc<SharedMetadata>,
    listener: Option<Arc<dyn CompletionListener>>,
    metrics: Arc<ProducerMetrics>,
}

impl std::fmt::Debug for Accumulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accumulator")
            .field("pool", &self.pool)
            .field("incomplete", &self.incomplete.len())
            .finish_non_exhaustive()
    }
}

/// Returns the memory to reserve for codec output, one batch for each codec thread.
///
/// The number of threads must not decide which records are accepted. So beyond one thread's output,
/// this reserves only what leaves room for the largest record.
fn codec_outputs(config: &ProducerConfig) -> usize {
    if config.compression == Compression::None {
        return 0;
    }
    let total = config.buffer_memory;
    let most = total / CODEC_SHARE_MAX;
    let one = config.batch_size.min(most);
    let beside_largest = total.saturating_sub(config.request_bytes_max()).max(one);
    let all = config.batch_size.saturating_mul(config.codec_threads);
    all.min(most).min(beside_largest)
}

impl Accumulator {
    /// Creates the accumulator. `notifier` wakes the actor that drives the sender. `listener` is
    /// called for completed batches that have callbacks.
    pub fn new(
        config: &ProducerConfig,
        metadata: Arc<SharedMetadata>,
        notifier: Arc<Notifier>,
        listener: Option<Arc<dyn CompletionListener>>,
    ) -> Arc<Self> {
        let pool = BufferPool::new(
            config.buffer_memory,
            config.batch_size,
            codec_outputs(config),
        );
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            batch_size: config.batch_size,
            linger: config.linger,
            compression: config.compression,
            max_request_size: config.request_bytes_max(),
            record_bytes_sure: config.request_bytes_max().min(pool.request_bytes_max()),
            partitioner: config.partitioner,
            ignore_keys: config.partitioner_ignore_keys,
            adaptive: config.partitioner_adaptive_partitioning,
            seed: config.seed,
            pool,
            topics: RwLock::default(),
            topics_made: AtomicUsize::new(0),
            unavailable: Mutex::default(),
            ready: ReadyQueue::default(),
            incomplete: Arc::default(),
            gate: Gate::default(),
            refused: Mutex::default(),
            transactional: config.transactional_id.is_some(),
            notifier,
            metadata,
            listener,
            metrics: Arc::new(ProducerMetrics::new(config.metrics)),
        })
    }

    /// Returns the entry of a topic, and creates it at first use.
    ///
    /// Keep the entry, as every append needs it. Keep only a weak reference if you will perhaps not
    /// use it again: an entry with a strong reference is never freed.
    pub fn topic(&self, name: &str) -> Arc<TopicEntry> {
        let known = self
            .topics
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned();
        let entry = known.unwrap_or_else(|| {
            let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
            let make = || {
                let index = self.topics_made.fetch_add(1, Ordering::Relaxed);
                let seed = self.seed ^ index as u64;
                Arc::new(TopicEntry::new(Str::from(name), index, seed))
            };
            Arc::clone(topics.entry(Str::from(name)).or_insert_with(make))
        });
        entry.note_used();
        if entry.partition_count() == 0 {
            self.refresh(&entry);
        }
        entry
    }

    /// Frees the entry of a topic. If another strong reference exists, keeps the entry and returns
    /// it as the error.
    ///
    /// While the list is locked, no thread can get the entry by name. An upgrade of a weak
    /// reference either happened before, and the entry stays, or fails.
    pub(crate) fn free(&self, topic: Arc<TopicEntry>) -> Result<(), Arc<TopicEntry>> {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        let name = topic.name().clone();
        topics.swap_remove(&name);
        Arc::try_unwrap(topic).map(drop).inspect_err(|held| {
            topics.insert(name, Arc::clone(held));
        })
    }

    fn refresh(&self, topic: &TopicEntry) {
        topic.update(&self.metadata.snapshot());
    }

    /// Wakes the sender to look at all partitions.
    pub(crate) fn nudge(&self) {
        if self.ready.nudge() {
            self.notifier.notify();
        }
    }

    /// Wakes the sender to look at one partition.
    pub(crate) fn look_at(&self, topic: &str, partition: i32) {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let Some(topic) = topics.get(topic).cloned() else {
            return;
        };
        drop(topics);
        if self.ready.push(Arrival { topic, partition }, None) {
            self.notifier.notify();
        }
    }

    /// Returns a ticket that completes when everything appended before is done. Nothing lingers
    /// until the ticket is dropped.
    pub fn flush(&self) -> FlushTicket {
        let ticket = self.incomplete.flush();
        self.nudge();
        ticket
    }

    /// Closes the accumulator: it accepts no more records, and waits for memory end with an error.
    /// The records that were appended before are still sent.
    pub fn close(&self) {
        self.gate.close();
        self.pool.close();
        self.nudge();
        // Appends that wait for a topic wait for metadata, which may never arrive now.
        self.metadata.wake();
    }

    /// Closes with an error because nothing can be sent any more.
    pub(crate) fn fail(&self, error: ProducerError) {
        self.gate.fail(error);
        self.close();
    }

    pub fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Returns the reason if no record is accepted at the moment.
    pub fn check_open(&self) -> Result<(), ProducerError> {
        if self.gate.is_shut() {
            return Err(self.gate.refusal());
        }
        Ok(())
    }

    /// Notes that a record could not be appended and that only its future reports it. If the
    /// application overlooked that, it would commit a transaction without the record. So the
    /// transaction can only be aborted now.
    pub fn note_refused(&self, reason: &str) {
        if self.transactional {
            lock(&self.refused).get_or_insert_with(|| Arc::from(reason));
            self.nudge();
        }
    }

    /// Takes the first refusal noted since the last call.
    pub(crate) fn take_refused(&self) -> Option<Arc<str>> {
        lock(&self.refused).take()
    }

    /// Returns the number of batches that are not done yet.
    pub fn incomplete_batches(&self) -> usize {
        self.incomplete.len()
    }

    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    pub fn metrics(&self) -> &Arc<ProducerMetrics> {
        &self.metrics
    }

    /// Returns all metrics under Kafka's names.
    pub fn metrics_snapshot(&self, now: Instant) -> Vec<MetricGroup> {
        // Memory reserved for codec threads counts as available: it is unused most of the time.
        let pool = &self.pool;
        let reserved = pool.total_bytes() - pool.request_bytes_max();
        let buffer = Buffer {
            total_bytes: pool.total_bytes(),
            available_bytes: pool.available_bytes() + reserved,
            waiting: pool.waiting(),
        };
        self.metrics.snapshot(buffer, now)
    }

    pub(crate) fn linger(&self) -> Duration {
        self.linger
    }

    /// Returns all topic entries that are not freed.
    pub(crate) fn topics(&self) -> Vec<Arc<TopicEntry>> {
        self.topics
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    pub(crate) fn set_unavailable(&self, nodes: BTreeSet<NodeId>) {
        *lock(&self.unavailable) = nodes;
    }
}
