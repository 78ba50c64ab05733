//! Appends one record to an open batch of its partition.
//!
//! ```text
//!   append ── choose partition ── lock its queue ── into the open batch ──▶ (completion, index)
//!                                     │ no open batch, or full
//!                                     ▼
//!                   unlock, get memory, lock, try again, else open a batch ──▶ wake the sender
//! ```
//! An append checks everything again after it takes a lock: meanwhile another thread may have
//! opened a batch, switched the sticky partition, or closed the producer. A closing thread shuts
//! the gate and then takes each partition's lock once. An append that saw the gate open under that
//! lock has put its record into a batch by then. So a close misses no record, and the fast path
//! needs no count of appends in progress.
//!
//! An append never waits for memory or metadata. If it cannot continue it returns an
//! `AppendRefusal` with the reason. If memory is missing, the refusal holds a place in the pool's
//! queue.

use std::sync::{Arc, MutexGuard, Weak};
use std::time::Instant;

use thalweg_records::BATCH_HEADER_LEN;

use super::Accumulator;
use crate::accumulator::partition_queue::PartitionQueue;
use crate::accumulator::place::Place;
use crate::accumulator::ready_queue::Arrival;
use crate::batch::buffer_pool::BufferWait;
use crate::batch::chunk::Reservation;
use crate::batch::completion::BatchCompletion;
use crate::batch::open_batch::OpenBatch;
use crate::batch::record::Record;
use crate::error::ProducerError;
use crate::partitioning::partition_table::PartitionEntry;
use crate::partitioning::topic::TopicEntry;
use crate::sync::{lock, try_lock};

/// One wait reserves at most this fraction (1/8) of all memory, unless its record is larger.
const WAIT_SHARE: usize = 8;

/// A record that is now in a batch.
#[derive(Debug)]
pub struct Appended {
    pub completion: Arc<BatchCompletion>,
    /// The record's index within the batch.
    pub index: u32,
}

/// Why a record was not appended. The caller still owns the record.
#[derive(Debug)]
pub enum AppendRefusal {
    /// Memory is missing. Wait for it (at most `max_block_ms`), then call `append_reserved`.
    BufferExhausted(BufferWait),
    /// The record exceeds a limit, so it can never be sent.
    TooLarge {
        size: usize,
        limit: usize,
        option: &'static str,
    },
    /// The topic has only this many partitions (0 if the topic is not known yet). Wait for
    /// metadata.
    UnknownPartition { partitions: u32 },
    /// Another thread holds the partition's lock. Only the `try_` functions return this. Release
    /// whatever the other thread may need, then call `append`.
    Contended,
    /// The record needs a new batch. Only the `open_batch` functions return this.
    NewBatch,
    /// The producer is closed, has failed permanently, or has no transaction that accepts records.
    Closed(ProducerError),
}

/// How an append reacts to a taken lock and to a missing open batch.
#[derive(Debug, Clone, Copy, Default)]
struct Mode {
    try_lock: bool,
    refuse_new_batch: bool,
}

impl Accumulator {
    /// Appends a record, or returns why it could not. Calls `now` only when it opens a batch or
    /// reports a full one to the sender.
    #[inline]
    pub fn append(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
    ) -> Result<Appended, AppendRefusal> {
        self.append_with(topic, record, now, None, Mode::default())
    }

    /// Appends like `append`, but returns `Contended` instead of waiting for a lock. For callers
    /// that hold something that the thread with the lock might need.
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

    /// Appends like `append`, with the memory that a `BufferWait` granted.
    pub fn append_reserved(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        reservation: Reservation,
        now: impl Fn() -> Instant,
    ) -> Result<Appended, AppendRefusal> {
        self.append_with(topic, record, now, Some(reservation), Mode::default())
    }

    /// Appends like `append`, but returns `NewBatch` instead of opening a batch. A custom
    /// partitioner with `on_new_batch` then chooses a partition again (KIP-480).
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

    /// Appends like `append_to_open_batch`, and returns `Contended` like `try_append`.
    pub fn try_append_to_open_batch(
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
                refuse_new_batch: true,
            },
        )
    }

    /// Appends with an optional reservation: a bulk append continues with the memory it waited for.
    pub(crate) fn append_owned(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
        reservation: Option<Reservation>,
    ) -> Result<Appended, AppendRefusal> {
        self.append_with(topic, record, now, reservation, Mode::default())
    }

    #[inline]
    fn append_with(
        &self,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
        reservation: Option<Reservation>,
        mode: Mode,
    ) -> Result<Appended, AppendRefusal> {
        // Cold functions build the refusals. The fast path only branches on whether there is one.
        if !self.surely_fits(record) {
            self.check_size(record)?;
        }
        let Some(place) = self.choose_place(topic, record) else {
            return Err(Place::unknown(topic));
        };
        self.append_at(place, record, now, reservation, mode)
    }

    /// Appends at `place`, which was chosen without a lock. If the sticky partition has changed
    /// since then, chooses again and appends there (the second check of KIP-794).
    #[inline(always)]
    fn append_at(
        &self,
        mut place: Place<'_>,
        record: &Record<'_>,
        now: impl Fn() -> Instant,
        mut reservation: Option<Reservation>,
        mode: Mode,
    ) -> Result<Appended, AppendRefusal> {
        let topic = place.topic;
        loop {
            let entry = topic.partition(place.partition);
            let Some(mut queue) = lock_queue(entry, mode.try_lock) else {
                return Err(AppendRefusal::Contended);
            };
            if self.gate.is_shut() {
                return Err(self.refuse_closed());
            }
            if place.has_moved_on() {
                drop(queue);
                let Some(other) = self.choose_place(topic, record) else {
                    return Err(Place::unknown(topic));
                };
                place = other;
                continue;
            }
            if let Some(index) = queue.try_append(record, &self.pool) {
                return Ok(self.appended(&place, record, &mut queue, index));
            }
            if mode.refuse_new_batch {
                self.list_full(&place, queue, &now);
                return Err(AppendRefusal::NewBatch);
            }
            if self.switch_if_due(&place, record, &mut queue) {
                self.list_full(&place, queue, &now);
                continue;
            }
            // The application may have changed the record while it waited for memory.
            let needed = record.len_bound().min(self.pool.request_bytes_max());
            let too_small = match reservation.take() {
                Some(reserved) if reserved.len() >= needed => {
                    return Ok(self.open_batch(&place, record, queue, reserved, now()));
                }
                other => other,
            };
            self.list_full(&place, queue, &now);
            drop(too_small);
            reservation = Some(self.reserve(topic, record)?);
        }
    }

    /// Returns whether the record is certainly below every size limit.
    #[inline]
    pub(crate) fn surely_fits(&self, record: &Record<'_>) -> bool {
        record.len_bound() + BATCH_HEADER_LEN <= self.record_bytes_sure
    }

    /// Refuses a record that exceeds a limit, so that it could not be sent even alone.
    #[cold]
    pub(crate) fn check_size(&self, record: &Record<'_>) -> Result<(), AppendRefusal> {
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

    #[cold]
    fn refuse_closed(&self) -> AppendRefusal {
        AppendRefusal::Closed(self.gate.refusal())
    }

    /// Finishes a successful append while the partition's lock is still held.
    #[inline]
    fn appended(
        &self,
        place: &Place<'_>,
        record: &Record<'_>,
        queue: &mut PartitionQueue,
        index: u32,
    ) -> Appended {
        let open = queue.open().expect("the record was just appended to it");
        let completion = Arc::clone(&open.completion);
        let bytes_max = open.bytes_max();
        if let Some(seen) = place.sticky {
            let bytes = queue.count_sticky(seen.generation(), record.len_bound());
            // Twice a batch was appended, and at no moment in between were all batches full.
            if bytes >= bytes_max.saturating_mul(2) {
                self.switch_if_due(place, record, queue);
            }
        }
        Appended { completion, index }
    }

    /// Reserves memory for a new batch with this record. The caller holds no lock.
    #[cold]
    fn reserve(
        &self,
        topic: &TopicEntry,
        record: &Record<'_>,
    ) -> Result<Reservation, AppendRefusal> {
        let len = record.len_bound().min(self.pool.request_bytes_max());
        // A batch opened with the last free memory could not grow, and would be sent with only a
        // few records. So this waits unless the pool has room for a whole batch.
        let raw = topic.ratio.raw_limit(self.compression, self.batch_size);
        let whole = len.max(raw.min(self.pool.request_bytes_max() / WAIT_SHARE));
        if let Some(reservation) = self.pool.try_acquire_of(len, whole) {
            return Ok(reservation);
        }
        if self.gate.is_shut() {
            return Err(self.refuse_closed());
        }
        let wait = self.pool.wait(whole);
        // Have the sender send everything that it can now: that frees memory.
        self.nudge();
        Err(AppendRefusal::BufferExhausted(wait))
    }

    /// Opens a batch with this record as its first.
    #[cold]
    fn open_batch(
        &self,
        place: &Place<'_>,
        record: &Record<'_>,
        mut queue: MutexGuard<'_, PartitionQueue>,
        reservation: Reservation,
        now: Instant,
    ) -> Appended {
        let completion = self.new_completion(place);
        let wire = self.batch_size.saturating_sub(BATCH_HEADER_LEN);
        let bytes_max = place.topic.ratio.raw_limit(self.compression, wire);
        let batch = OpenBatch::new(reservation, bytes_max, record.timestamp_ms, completion, now);
        queue.push_open(batch);
        let index = queue
            .try_append(record, &self.pool)
            .expect("an empty batch accepts the record that its memory was reserved for");
        let appended = self.appended(place, record, &mut queue, index);
        if queue.open().is_some_and(OpenBatch::is_full) {
            queue.close_open();
        }
        let depth = queue.len();
        place.topic.partition(place.partition).set_depth(depth);
        place.topic.raise_depth_max(depth);
        let full = queue.has_closed() && !queue.full_listed;
        if !queue.listed || full {
            queue.full_listed |= full;
            // Batches do not linger while other appends wait for memory.
            let at_once = full || self.pool.is_exhausted();
            let due = if at_once { now } else { now + self.linger };
            self.list(place, queue, due);
        }
        appended
    }

    fn new_completion(&self, place: &Place<'_>) -> Arc<BatchCompletion> {
        let name = place.topic.name().clone();
        let listener = self.listener.clone();
        let lingers = (!self.linger.is_zero()).then(|| Weak::clone(&self.this));
        let new = |id| BatchCompletion::new(name, place.partition, id, lingers, listener);
        self.incomplete.add(new)
    }

    /// Reports a full batch of the partition to the sender, once for each batch that fills up.
    #[cold]
    fn list_full(
        &self,
        place: &Place<'_>,
        mut queue: MutexGuard<'_, PartitionQueue>,
        now: &impl Fn() -> Instant,
    ) {
        if queue.has_closed() && !queue.full_listed {
            queue.full_listed = true;
            self.list(place, queue, now());
        }
    }

    /// Reports the partition to the sender, and wakes the sender if it would look too late.
    fn list(&self, place: &Place<'_>, mut queue: MutexGuard<'_, PartitionQueue>, due: Instant) {
        queue.listed = true;
        let topic = Arc::clone(place.topic);
        let partition = place.partition;
        let wake = self.ready.push(Arrival { topic, partition }, Some(due));
        drop(queue);
        if wake {
            self.notifier.notify();
        }
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

#[cfg(test)]
mod tests;
