//! Kafka's `RecordAccumulator`: where application threads leave records and the sender finds them.
//!
//! ```text
//!   application threads                                        the sender
//!     append (append.rs), bulk appends (follower.rs) ──▶ partition queues ──▶ drain
//!          │ first record, full batch                                ▲
//!          └────────────────────▶ ready queue ───────────────────────┘
//! ```
//! Everything here is shared. Topics are entries that callers keep; each partition has a queue with
//! a mutex of its own.
//!
//! Deliberately not here: waiting, and what becomes of batches: see `sender`.

mod append;
mod follower;

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

use crate::batch_completion::CompletionListener;
use crate::buffer_pool::BufferPool;
use crate::config::ProducerConfig;
use crate::error::ProducerError;
use crate::gate::Gate;
use crate::incomplete::{FlushTicket, Incomplete};
use crate::metrics::{Buffer, ProducerMetrics};
use crate::partitioner::Partitioner;
use crate::ready_queue::{Arrival, ReadyQueue};
use crate::sync::lock;
use crate::topic::TopicEntry;

/// Of the buffer memory at most this part is set aside for the codec threads' outputs.
const CODEC_SHARE_MAX: usize = 4;

/// Where the records of one producer wait to be sent. Shared by all threads.
pub struct Accumulator {
    /// What its batches know it by.
    this: Weak<Self>,
    batch_size: usize,
    linger: Duration,
    compression: Compression,
    max_request_size: usize,
    /// A record with a bound below this is within all limits.
    record_bytes_sure: usize,
    partitioner: Partitioner,
    ignore_keys: bool,
    adaptive: bool,
    seed: u64,
    pool: Arc<BufferPool>,
    topics: RwLock<IndexMap<Str, Arc<TopicEntry>>>,
    /// Topics that were ever listed.
    topics_made: AtomicUsize,
    /// Brokers that keyless records avoid.
    unavailable: Mutex<BTreeSet<NodeId>>,
    pub(crate) ready: ReadyQueue,
    pub(crate) incomplete: Arc<Incomplete>,
    pub(crate) gate: Gate,
    /// Only within transactions: a record that is in no batch, which only its future tells.
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

/// What is set aside for the outputs of codec threads, a batch each. How many there are must not
/// decide which records are taken: what leaves too little for the largest record is not set aside,
/// but for one thread's.
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
    /// `notifier` wakes the actor that drives the sender; `listener` hears of completed batches
    /// that have callbacks.
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

    /// The entry of a topic, made at first use. Every append wants it, so keep it, but weakly if it
    /// may not be used again: an entry that somebody holds is never freed.
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

    /// Frees the entry of a topic, unless somebody else holds it: then it is given back. While the
    /// list is locked nobody gets it by name, and who has a weak reference gets it or does not.
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

    /// Has the sender look at everything.
    pub(crate) fn nudge(&self) {
        if self.ready.nudge() {
            self.notifier.notify();
        }
    }

    /// Has the sender look at a partition.
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

    /// Done when all that was appended before is done; until it is dropped nothing lingers.
    pub fn flush(&self) -> FlushTicket {
        let ticket = self.incomplete.flush();
        self.nudge();
        ticket
    }

    /// Takes no more records; waits for memory end. What is appended stays and is sent.
    pub fn close(&self) {
        self.gate.close();
        self.pool.close();
        self.nudge();
        // Those that wait for a topic wait for metadata, of which none need come any more.
        self.metadata.wake();
    }

    /// Closes because nothing can be sent any more.
    pub(crate) fn fail(&self, error: ProducerError) {
        self.gate.fail(error);
        self.close();
    }

    pub fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Why no record is taken at the moment, if so.
    pub fn check_open(&self) -> Result<(), ProducerError> {
        if self.gate.is_shut() {
            return Err(self.gate.refusal());
        }
        Ok(())
    }

    /// A record could not be appended, and only its future says so: were that overlooked, a
    /// transaction would be committed without it. So it can only be aborted from here on.
    pub fn note_refused(&self, reason: &str) {
        if self.transactional {
            lock(&self.refused).get_or_insert_with(|| Arc::from(reason));
            self.nudge();
        }
    }

    /// What was refused since the last call.
    pub(crate) fn take_refused(&self) -> Option<Arc<str>> {
        lock(&self.refused).take()
    }

    /// Batches not done yet.
    pub fn incomplete_batches(&self) -> usize {
        self.incomplete.len()
    }

    pub fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }

    pub fn metrics(&self) -> &Arc<ProducerMetrics> {
        &self.metrics
    }

    /// All metrics by Kafka's names.
    pub fn metrics_snapshot(&self, now: Instant) -> Vec<MetricGroup> {
        // What is set aside for the codec threads counts as available, as they rest most of the time.
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

    /// All topics that are not freed.
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
