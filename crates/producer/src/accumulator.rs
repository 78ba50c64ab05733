//! Kafka's `RecordAccumulator`: where application threads leave records and the sender finds them.
//!
//! ```text
//!   append ── choose partition ── lock its queue ── into the open batch ──▶ (completion, index)
//!                                     │ no open batch, or full
//!                                     ▼
//!                   unlock, get memory, lock, try again, else open a batch ──▶ wake the sender
//! ```
//! Everything is checked again after each lock: somebody else may have opened a batch, the sticky
//! partition may have moved on, the producer may have been closed. An append that got past the check
//! for `closed` under a partition's lock is in a batch before whoever closes gets that lock, so a
//! close misses none and the fast path needs no count of appends in progress.
//!
//! Deliberately not here: waiting. What cannot be appended now is refused, with the reason as a
//! value; for memory that is a place in the queue. Nor what becomes of batches: see `sender`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use thalweg_cluster::{NodeId, Notifier, SharedMetadata};
use thalweg_protocol::Str;
use thalweg_records::{BATCH_HEADER_LEN, Compression};

use crate::batch_completion::{BatchCompletion, CompletionListener};
use crate::buffer_pool::{BufferPool, BufferWait};
use crate::bulk::Group;
use crate::chunk::Reservation;
use crate::config::ProducerConfig;
use crate::error::ProducerError;
use crate::incomplete::{FlushTicket, Incomplete};
use crate::metrics::ProducerMetrics;
use crate::open_batch::OpenBatch;
use crate::partition_queue::{PartitionQueue, TryAppend};
use crate::partition_table::PartitionEntry;
use crate::partitioner::{Choice, Partitioner};
use crate::ready_queue::{Arrival, ReadyQueue};
use crate::record::Record;
use crate::sync::{lock, try_lock};
use crate::topic::{Sticky, StickyRules, TopicEntry};

/// Of the buffer memory at most this part is set aside for the codec threads' outputs.
const CODEC_SHARE_MAX: usize = 4;

/// A record that is in a batch.
#[derive(Debug)]
pub struct Appended {
    pub completion: Arc<BatchCompletion>,
    /// The record's place in the batch.
    pub index: u32,
}

/// A record that is not in a batch. The caller still has it.
#[derive(Debug)]
pub enum AppendRefusal {
    /// Wait for the memory (as long as `max_block_ms` allows), then `append_reserved`.
    BufferExhausted(BufferWait),
    /// It could never be sent.
    TooLarge {
        size: usize,
        limit: usize,
        option: &'static str,
    },
    /// The topic has only this many partitions (0: it is not known yet): wait for metadata.
    UnknownPartition { partitions: u32 },
    /// The partition's lock is taken: only from `try_append`. Release what others may need, then
    /// `append`.
    Contended,
    /// A new batch would be opened: only from `append_to_open_batch`.
    NewBatch,
    /// The producer is closed, or failed for good.
    Closed(ProducerError),
}

/// What a caller of `append` can put up with.
#[derive(Debug, Clone, Copy, Default)]
struct Mode {
    try_lock: bool,
    refuse_new_batch: bool,
}

/// Where the records of one producer wait to be sent. Shared by all threads.
pub struct Accumulator {
    batch_size: usize,
    linger: Duration,
    compression: Compression,
    max_request_size: usize,
    partitioner: Partitioner,
    ignore_keys: bool,
    adaptive: bool,
    seed: u64,
    pool: Arc<BufferPool>,
    topics: RwLock<IndexMap<Str, Arc<TopicEntry>>>,
    /// Brokers that keyless records avoid.
    unavailable: Mutex<BTreeSet<NodeId>>,
    pub(crate) ready: ReadyQueue,
    pub(crate) incomplete: Arc<Incomplete>,
    closed: AtomicBool,
    fatal: Mutex<Option<ProducerError>>,
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

impl Accumulator {
    /// `notifier` wakes the actor that drives the sender; `listener` hears of completed batches
    /// that have callbacks.
    pub fn new(
        config: &ProducerConfig,
        metadata: Arc<SharedMetadata>,
        notifier: Arc<Notifier>,
        listener: Option<Arc<dyn CompletionListener>>,
    ) -> Arc<Self> {
        let codec_outputs = match config.compression {
            Compression::None => 0,
            _ => (config.codec_threads * config.batch_size)
                .min(config.buffer_memory / CODEC_SHARE_MAX),
        };
        Arc::new(Self {
            batch_size: config.batch_size,
            linger: config.linger,
            compression: config.compression,
            max_request_size: config.max_request_size,
            partitioner: config.partitioner,
            ignore_keys: config.partitioner_ignore_keys,
            adaptive: config.partitioner_adaptive_partitioning,
            seed: config.seed,
            pool: BufferPool::new(config.buffer_memory, config.batch_size, codec_outputs),
            topics: RwLock::default(),
            unavailable: Mutex::default(),
            ready: ReadyQueue::default(),
            incomplete: Arc::default(),
            closed: AtomicBool::new(false),
            fatal: Mutex::default(),
            notifier,
            metadata,
            listener,
            metrics: Arc::default(),
        })
    }

    /// The entry of a topic, made at first use. Keep it: every append wants it.
    pub fn topic(&self, name: &str) -> Arc<TopicEntry> {
        let known = self
            .topics
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(name)
            .cloned();
        let entry = known.unwrap_or_else(|| {
            let mut topics = self
                .topics
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let index = topics.len();
            let seed = self.seed ^ index as u64;
            let make = || Arc::new(TopicEntry::new(Str::from(name), index, seed));
            Arc::clone(topics.entry(Str::from(name)).or_insert_with(make))
        });
        if entry.partition_count() == 0 {
            self.refresh(&entry);
        }
        entry
    }

    /// Appends a record, or says why not. `now` is asked for only if a batch is opened.
    #[inline]
    pub fn append(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
    ) -> Result<Appended, AppendRefusal> {
        self.append_with(topic, record, now, None, Mode::default())
    }

    /// As `append`, but refuses as `Contended` rather than wait for a lock: for callers that hold
    /// something which the lock's holder might need.
    #[inline]
    pub fn try_append(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
    ) -> Result<Appended, AppendRefusal> {
        self.append_with(
            topic,
            record,
            now,
            None,
            Mode {
                try_lock: true,
                ..Mode::default()
            },
        )
    }

    /// As `append`, with the memory that a `BufferWait` brought.
    pub fn append_reserved(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        reservation: Reservation,
        now: impl Fn() -> Instant,
    ) -> Result<Appended, AppendRefusal> {
        self.append_with(topic, record, now, Some(reservation), Mode::default())
    }

    /// As `append`, but refuses as `NewBatch` rather than open one: a custom partitioner with
    /// `on_new_batch` then chooses again (KIP-480).
    pub fn append_to_open_batch(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
    ) -> Result<Appended, AppendRefusal> {
        self.append_with(
            topic,
            record,
            now,
            None,
            Mode {
                refuse_new_batch: true,
                ..Mode::default()
            },
        )
    }

    /// For bulk appends, which go on with the same reservation.
    pub(crate) fn append_owned(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
        reservation: Option<Reservation>,
    ) -> Result<Appended, AppendRefusal> {
        self.append_with(topic, record, now, reservation, Mode::default())
    }

    /// Holds the lock of a batch's partition, for the records of a group that follow the last one
    /// appended. `None` if the batch takes no more of them.
    pub(crate) fn follow<'a>(
        &'a self,
        topic: &'a TopicEntry,
        completion: &Arc<BatchCompletion>,
        group: Group,
    ) -> Option<Follower<'a>> {
        let queue = lock(&topic.partition(completion.partition()).queue);
        let same = |open: &OpenBatch| Arc::ptr_eq(&open.completion, completion);
        if self.check_open().is_err() || !queue.open().is_some_and(same) {
            return None;
        }
        let sticky = match group {
            Group::Partition(_) => None,
            // It cannot move on while its lock is held.
            Group::Sticky => Some(
                topic
                    .sticky()
                    .filter(|s| s.partition() == completion.partition())?,
            ),
            Group::Single => return None,
        };
        Some(Follower {
            accumulator: self,
            queue,
            sticky,
        })
    }

    /// What rows are grouped by.
    pub(crate) fn group_of(&self, topic: &TopicEntry, record: &Record<'_>) -> Group {
        if let Some(partition) = record.partition {
            return Group::Partition(partition);
        }
        match self.partitioner.choose(record.key, self.ignore_keys) {
            Choice::Hash(hash) => match hash.checked_rem(topic.partition_count()) {
                Some(partition) => Group::Partition(partition as i32),
                None => Group::Single,
            },
            Choice::Sticky => Group::Sticky,
            Choice::Next => Group::Single,
        }
    }

    #[inline]
    fn append_with(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
        mut reservation: Option<Reservation>,
        mode: Mode,
    ) -> Result<Appended, AppendRefusal> {
        self.check_size(record)?;
        let (mut partition, mut sticky) = self.choose_partition(topic, record)?;
        loop {
            let entry = topic.partition(partition);
            let Some(mut queue) = lock_queue(entry, mode.try_lock) else {
                return Err(AppendRefusal::Contended);
            };
            self.check_open()?;
            if sticky.is_some_and(|seen| !topic.is_sticky(seen)) {
                drop(queue);
                (partition, sticky) = self.choose_partition(topic, record)?;
                continue;
            }
            if let TryAppend::Appended(index) = queue.try_append(record, &self.pool) {
                return Ok(self.appended(topic, record, &mut queue, sticky, index));
            }
            if mode.refuse_new_batch {
                self.list_full(topic, partition, queue, &now);
                return Err(AppendRefusal::NewBatch);
            }
            if sticky.is_some_and(|seen| self.switch_if_due(topic, record, &mut queue, seen)) {
                self.list_full(topic, partition, queue, &now);
                continue;
            }
            if let Some(reserved) = reservation.take() {
                return Ok(self.open_batch(
                    topic,
                    partition,
                    record,
                    queue,
                    sticky,
                    reserved,
                    now(),
                ));
            }
            self.list_full(topic, partition, queue, &now);
            reservation = Some(self.reserve(record)?);
        }
    }

    /// Fails what could never be sent, whatever else is queued.
    #[inline]
    pub(crate) fn check_size(&self, record: &Record<'_>) -> Result<(), AppendRefusal> {
        let limit = self.max_request_size.min(self.pool.request_bytes_max());
        if record.len_bound() + BATCH_HEADER_LEN <= limit {
            return Ok(());
        }
        self.check_exact_size(record)
    }

    #[cold]
    fn check_exact_size(&self, record: &Record<'_>) -> Result<(), AppendRefusal> {
        let size = record.size_in_batch();
        let limits = [
            (self.max_request_size, "max_request_size"),
            (self.pool.request_bytes_max(), "buffer_memory"),
        ];
        match limits.into_iter().find(|&(limit, _)| size > limit) {
            Some((limit, option)) => Err(AppendRefusal::TooLarge {
                size,
                limit,
                option,
            }),
            None => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<(), AppendRefusal> {
        // Relaxed: asked under a partition's lock, which whoever closes takes after setting it.
        if self.closed.load(Ordering::Relaxed) {
            Err(self.refuse_closed())
        } else {
            Ok(())
        }
    }

    #[cold]
    fn refuse_closed(&self) -> AppendRefusal {
        let fatal = lock(&self.fatal).clone();
        AppendRefusal::Closed(fatal.unwrap_or(ProducerError::Closed))
    }

    /// The record's partition, and whether it is so only as the sticky one.
    #[inline]
    pub(crate) fn choose_partition(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
    ) -> Result<(i32, Option<Sticky>), AppendRefusal> {
        let mut partitions = topic.partition_count();
        let known = match record.partition {
            Some(partition) => (0..partitions as i32).contains(&partition),
            None => partitions > 0,
        };
        if !known {
            partitions = self.refresh_for(topic, record.partition)?;
        }
        if let Some(partition) = record.partition {
            return Ok((partition, None));
        }
        match self.partitioner.choose(record.key, self.ignore_keys) {
            Choice::Hash(hash) => Ok(((hash % partitions) as i32, None)),
            Choice::Next => Ok((topic.next_in_turn(), None)),
            Choice::Sticky => {
                let sticky = topic
                    .sticky()
                    .unwrap_or_else(|| self.with_rules(|rules| topic.first_sticky(rules)));
                Ok((sticky.partition(), Some(sticky)))
            }
        }
    }

    /// Looks whether newer metadata has the partition.
    #[cold]
    fn refresh_for(
        &self,
        topic: &Arc<TopicEntry>,
        partition: Option<i32>,
    ) -> Result<u32, AppendRefusal> {
        self.refresh(topic);
        let partitions = topic.partition_count();
        if partitions > 0 && partition.is_none_or(|wanted| (0..partitions as i32).contains(&wanted))
        {
            return Ok(partitions);
        }
        Err(AppendRefusal::UnknownPartition { partitions })
    }

    fn refresh(&self, topic: &TopicEntry) {
        topic.update(&self.metadata.snapshot());
    }

    fn with_rules<T>(&self, f: impl FnOnce(StickyRules<'_>) -> T) -> T {
        let unavailable = lock(&self.unavailable);
        f(StickyRules {
            adaptive: self.adaptive,
            unavailable: &unavailable,
        })
    }

    /// The end of a successful append, still under the lock.
    #[inline]
    fn appended(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        queue: &mut PartitionQueue,
        sticky: Option<Sticky>,
        index: u32,
    ) -> Appended {
        let open = queue.open().expect("the record was just appended to it");
        let completion = Arc::clone(&open.completion);
        let bytes_max = open.bytes_max();
        if let Some(seen) = sticky {
            let bytes = queue.count_sticky(seen.generation(), record.len_bound());
            // More than twice the batch without a moment at which all batches were full.
            if bytes >= bytes_max.saturating_mul(2) {
                self.switch_if_due(topic, record, queue, seen);
            }
        }
        Appended { completion, index }
    }

    /// No batch is open for the record: moves the sticky partition on if it had its share. True if
    /// it moved, so that the record goes elsewhere.
    #[cold]
    fn switch_if_due(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        queue: &mut PartitionQueue,
        seen: Sticky,
    ) -> bool {
        // What an open batch takes raw, where it is compressed later.
        let share = topic.ratio.raw_limit(self.compression, self.batch_size);
        let bytes = queue.count_sticky(seen.generation(), 0);
        let all_full = queue.open().is_none();
        let due = if all_full {
            bytes > 0 && bytes + record.len_bound() >= share
        } else {
            bytes >= share.saturating_mul(2)
        };
        if due {
            self.with_rules(|rules| topic.switch_sticky(seen, rules));
        }
        due
    }

    /// Memory for a new batch with this record, without a lock held.
    #[cold]
    fn reserve(&self, record: &Record<'_>) -> Result<Reservation, AppendRefusal> {
        let len = record.len_bound().min(self.pool.request_bytes_max());
        if let Some(reservation) = self.pool.try_acquire(len) {
            return Ok(reservation);
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(self.refuse_closed());
        }
        self.metrics
            .buffer_exhausted_total
            .fetch_add(1, Ordering::Relaxed);
        let wait = self.pool.wait(len);
        // Whatever can be sent should be sent now.
        self.nudge();
        Err(AppendRefusal::BufferExhausted(wait))
    }

    /// Opens a batch with its first record.
    #[cold]
    #[expect(
        clippy::too_many_arguments,
        reason = "the locals of append, at its rare end"
    )]
    fn open_batch(
        &self,
        topic: &Arc<TopicEntry>,
        partition: i32,
        record: &Record<'_>,
        mut queue: MutexGuard<'_, PartitionQueue>,
        sticky: Option<Sticky>,
        reservation: Reservation,
        now: Instant,
    ) -> Appended {
        let name = topic.name().clone();
        let listener = self.listener.clone();
        let completion = self
            .incomplete
            .add(|id| BatchCompletion::new(name, partition, id, listener));
        let wire = self.batch_size.saturating_sub(BATCH_HEADER_LEN);
        let bytes_max = topic.ratio.raw_limit(self.compression, wire);
        let batch = OpenBatch::new(reservation, bytes_max, record.timestamp_ms, completion, now);
        queue.push_open(batch);
        let TryAppend::Appended(index) = queue.try_append(record, &self.pool) else {
            unreachable!("an empty batch takes any record that its memory was reserved for");
        };
        let appended = self.appended(topic, record, &mut queue, sticky, index);
        if queue.open().is_some_and(OpenBatch::is_full) {
            queue.close_open();
        }
        let depth = queue.len();
        topic.partition(partition).set_depth(depth);
        topic.raise_depth_max(depth);
        let full = queue.has_closed() && !queue.full_listed;
        let wake = (!queue.listed || full) && {
            queue.listed = true;
            queue.full_listed |= full;
            // While others wait for memory nothing lingers.
            let at_once = full || self.pool.is_exhausted();
            let due = if at_once { now } else { now + self.linger };
            self.ready.push(
                Arrival {
                    topic: Arc::clone(topic),
                    partition,
                },
                due,
            )
        };
        drop(queue);
        if wake {
            self.notifier.notify();
        }
        appended
    }

    /// The open batch was found full, if there was one: tells the sender, once.
    #[cold]
    fn list_full(
        &self,
        topic: &Arc<TopicEntry>,
        partition: i32,
        mut queue: MutexGuard<'_, PartitionQueue>,
        now: &impl Fn() -> Instant,
    ) {
        if !queue.has_closed() || queue.full_listed {
            return;
        }
        queue.full_listed = true;
        queue.listed = true;
        let wake = self.ready.push(
            Arrival {
                topic: Arc::clone(topic),
                partition,
            },
            now(),
        );
        drop(queue);
        if wake {
            self.notifier.notify();
        }
    }

    /// Has the sender look at everything.
    pub(crate) fn nudge(&self) {
        if self.ready.nudge() {
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
        self.closed.store(true, Ordering::Release);
        self.pool.close();
        self.nudge();
    }

    /// Closes because nothing can be sent any more.
    pub(crate) fn fail(&self, error: ProducerError) {
        lock(&self.fatal).get_or_insert(error);
        self.close();
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
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
    pub fn metrics_snapshot(&self) -> Vec<(&'static str, f64)> {
        let pool = &self.pool;
        self.metrics
            .snapshot((pool.total_bytes(), pool.available_bytes(), pool.waiting()))
    }

    pub(crate) fn linger(&self) -> Duration {
        self.linger
    }

    /// Topics that were ever used, in that order.
    pub(crate) fn topics(&self) -> Vec<Arc<TopicEntry>> {
        self.topics
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    pub(crate) fn set_unavailable(&self, nodes: BTreeSet<NodeId>) {
        *lock(&self.unavailable) = nodes;
    }
}

/// Appends to one open batch, the lock held.
#[derive(Debug)]
pub(crate) struct Follower<'a> {
    accumulator: &'a Accumulator,
    queue: MutexGuard<'a, PartitionQueue>,
    sticky: Option<Sticky>,
}

impl Follower<'_> {
    /// The record's index in the batch; `None` if it does not fit: the batch is closed then, and the
    /// next append lists it and opens another.
    #[inline]
    pub(crate) fn try_append(&mut self, record: &Record<'_>) -> Option<u32> {
        self.accumulator.check_size(record).ok()?;
        let TryAppend::Appended(index) = self.queue.try_append(record, &self.accumulator.pool)
        else {
            return None;
        };
        if let Some(seen) = self.sticky {
            self.queue
                .count_sticky(seen.generation(), record.len_bound());
        }
        Some(index)
    }
}

#[inline]
fn lock_queue(entry: &PartitionEntry, try_only: bool) -> Option<MutexGuard<'_, PartitionQueue>> {
    if try_only {
        try_lock(&entry.queue)
    } else {
        Some(lock(&entry.queue))
    }
}
