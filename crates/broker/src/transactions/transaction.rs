//! [`Transaction`]: one transactional id and its transitions, like Kafka's `TransactionMetadata`.
//!
//! ```text
//! init -> producer id, epoch | add -> partitions, deadline | end, fence -> epoch + 1, prepared
//! prepared -- markers are written (markers.rs) --> complete
//! ```
//! Each transition consults the table (states.rs), and changes nothing if it is refused.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use thalweg_protocol::{ErrorCode, Str};

use super::states::{Event, State};
use super::{NO_EPOCH, NO_PRODUCER, ProducerIdAndEpoch};

/// The limit on partitions in one transaction.
const PARTITIONS_MAX: usize = 10_000;
/// At this epoch the next transaction gets another producer id, because the marker takes the last
/// epoch.
const EPOCH_EXHAUSTED: i16 = i16::MAX - 1;

/// A topic partition, or the partition of `__consumer_offsets` for a group's offsets.
pub(crate) type TopicPartition = (Str, i32);

/// Whether each end of a transaction increases the epoch (KIP-890).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// `transaction.version` 0 and 1.
    KeepsEpoch,
    /// `transaction.version` 2.
    BumpsEpoch,
}

#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) producer: ProducerIdAndEpoch,
    /// The previous id and epoch, which a producer may still use if it did not get the response
    /// with the current ones.
    previous: ProducerIdAndEpoch,
    /// Replaces an exhausted id once the markers are written.
    next_producer_id: Option<i64>,
    pub(crate) timeout_ms: i32,
    pub(crate) state: State,
    pub(crate) partitions: BTreeSet<TopicPartition>,
    /// -1 means that none has begun.
    pub(crate) start_ms: i64,
    pub(crate) updated_ms: i64,
    /// The level with which the current end was requested.
    pub(crate) level: Level,
    /// For an open transaction: when it times out. For a prepared one: when to try to write markers
    /// again.
    pub(super) deadline: Option<Instant>,
    /// Whether a fault has delayed the markers of the present end.
    pub(super) was_delayed: bool,
    coordinator: i32,
    pub(crate) coordinator_epoch: i32,
}

/// The result of `InitProducerId`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Init {
    Ready(ProducerIdAndEpoch),
    /// The open transaction of the previous producer must be rolled back first.
    Fenced,
}

/// A moment on both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) ms: i64,
}

impl Transaction {
    pub(crate) fn new(producer_id: i64, coordinator: i32) -> Self {
        Self {
            producer: ProducerIdAndEpoch {
                id: producer_id,
                epoch: NO_EPOCH,
            },
            previous: NO_PRODUCER,
            next_producer_id: None,
            timeout_ms: 0,
            state: State::Empty,
            partitions: BTreeSet::new(),
            start_ms: -1,
            updated_ms: -1,
            level: Level::KeepsEpoch,
            deadline: None,
            was_delayed: false,
            coordinator,
            coordinator_epoch: 0,
        }
    }

    /// Sets the coordinator. Another node gets a higher coordinator epoch, so that late markers of
    /// the previous one are refused.
    pub(crate) fn coordinated_by(&mut self, node: i32) {
        if self.coordinator != node {
            self.coordinator = node;
            self.coordinator_epoch += 1;
        }
    }

    /// Kafka's `TransactionCoordinator.prepareInitProducerIdTransit`. `expected` is the producer's
    /// previous id and epoch, if it recovers from an error (KIP-360).
    pub(crate) fn init(
        &mut self,
        expected: Option<ProducerIdAndEpoch>,
        timeout_ms: i32,
        level: Level,
        new_id: &mut dyn FnMut() -> i64,
        now: Now,
    ) -> Result<Init, ErrorCode> {
        if expected.is_some_and(|expected| !self.may_be(expected)) {
            return Err(ErrorCode::PRODUCER_FENCED);
        }
        let Some(state) = self.state.on(Event::Init).next()? else {
            return Ok(Init::Ready(self.producer));
        };
        if state == State::PrepareAbort {
            self.fence(level, new_id, now);
            return Ok(Init::Fenced);
        }
        let is_current = expected.is_none_or(|expected| expected.epoch == self.producer.epoch);
        if self.is_exhausted() && is_current {
            self.rotate(new_id(), expected.is_some());
        } else {
            self.bump(expected)?;
        }
        self.state = state;
        self.timeout_ms = timeout_ms;
        self.start_ms = -1;
        self.updated_ms = now.ms;
        Ok(Init::Ready(self.producer))
    }

    /// Whether the request may come from this producer: the current one, a new one, or one that
    /// does not know yet that its exhausted id was replaced.
    fn may_be(&self, expected: ProducerIdAndEpoch) -> bool {
        self.producer.epoch == NO_EPOCH
            || expected.id == self.producer.id
            || (expected.id == self.previous.id && expected.epoch >= EPOCH_EXHAUSTED)
    }

    fn is_exhausted(&self) -> bool {
        self.producer.epoch >= EPOCH_EXHAUSTED
    }

    fn rotate(&mut self, id: i64, keep_epoch: bool) {
        self.previous = ProducerIdAndEpoch {
            id: self.producer.id,
            epoch: if keep_epoch {
                self.producer.epoch
            } else {
                NO_EPOCH
            },
        };
        self.producer = ProducerIdAndEpoch { id, epoch: 0 };
    }

    fn bump(&mut self, expected: Option<ProducerIdAndEpoch>) -> Result<(), ErrorCode> {
        let present = self.producer.epoch;
        let previous = match expected {
            None => NO_EPOCH,
            Some(_) if present == NO_EPOCH => present,
            Some(expected) if expected.epoch == present => present,
            // The producer did not get the response to this same request.
            Some(expected) if expected.epoch == self.previous.epoch => return Ok(()),
            Some(_) => return Err(ErrorCode::PRODUCER_FENCED),
        };
        self.previous.epoch = previous;
        self.producer.epoch = present + 1;
        Ok(())
    }

    fn check_producer(&self, producer: ProducerIdAndEpoch) -> Result<(), ErrorCode> {
        if self.producer.id != producer.id {
            Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING)
        } else if self.producer.epoch != producer.epoch {
            Err(ErrorCode::PRODUCER_FENCED)
        } else {
            Ok(())
        }
    }

    /// Refuses the producer of the next transaction until the markers of this one are written. It
    /// may have a new id, which replaces an exhausted one only then.
    fn check_markers(&self, producer: ProducerIdAndEpoch) -> Result<(), ErrorCode> {
        if self.state.is_prepared() && producer == self.next_producer() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        Ok(())
    }

    /// Checks that the partition is in the producer's open transaction.
    pub(crate) fn verify(
        &self,
        producer: ProducerIdAndEpoch,
        partition: &TopicPartition,
    ) -> Result<(), ErrorCode> {
        self.check_markers(producer)?;
        self.check_producer(producer)?;
        self.state.on(Event::Add).next()?;
        if self.partitions.contains(partition) {
            Ok(())
        } else {
            Err(ErrorCode::TRANSACTION_ABORTABLE)
        }
    }

    /// Adds partitions. The first ones begin the transaction.
    pub(crate) fn add(
        &mut self,
        producer: ProducerIdAndEpoch,
        partitions: &[TopicPartition],
        now: Now,
    ) -> Result<(), ErrorCode> {
        self.check_markers(producer)?;
        self.check_producer(producer)?;
        let next = self.state.on(Event::Add).next()?;
        let is_new = |partition: &&TopicPartition| !self.partitions.contains(*partition);
        let added: Vec<&TopicPartition> = partitions.iter().filter(is_new).collect();
        if self.partitions.len() + added.len() > PARTITIONS_MAX {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        for (topic, partition) in added {
            // Detached, because names from a frame would keep the complete frame alive.
            self.partitions.insert((topic.detached(), *partition));
        }
        if self.state != State::Ongoing {
            self.start_ms = now.ms;
            self.deadline =
                Some(now.instant + Duration::from_millis(self.timeout_ms.max(0) as u64));
        }
        self.state = next.unwrap_or(self.state);
        self.updated_ms = now.ms;
        Ok(())
    }

    /// Kafka's `TransactionCoordinator.endTransaction` for a client. Returns the producer of the
    /// next transaction.
    pub(crate) fn end(
        &mut self,
        producer: ProducerIdAndEpoch,
        commit: bool,
        level: Level,
        new_id: &mut dyn FnMut() -> i64,
        now: Now,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let is_again = level == Level::BumpsEpoch && self.was_bumped_from(producer);
        if !is_again {
            self.check_producer(producer)?;
        }
        let event = match (level, is_again, commit) {
            (_, true, true) => Event::CommitAgain,
            (_, true, false) => Event::AbortAgain,
            (Level::KeepsEpoch, _, true) => Event::Commit,
            (Level::KeepsEpoch, _, false) => Event::Abort,
            (Level::BumpsEpoch, _, true) => Event::CommitAndBump,
            (Level::BumpsEpoch, _, false) => Event::AbortAndBump,
        };
        let Some(state) = self.state.on(event).next()? else {
            return Ok(self.producer);
        };
        if self.state != State::Ongoing {
            self.start_ms = now.ms;
        }
        self.prepare(state, level, new_id, now);
        Ok(self.next_producer())
    }

    /// Whether the current epoch comes from an end that this producer requested.
    fn was_bumped_from(&self, producer: ProducerIdAndEpoch) -> bool {
        let bumped = producer.id == self.producer.id
            && producer.epoch.checked_add(1) == Some(self.producer.epoch);
        let replaced = producer.id == self.previous.id
            && producer.epoch == EPOCH_EXHAUSTED
            && self.producer.epoch == 0;
        bumped || replaced
    }

    /// Rolls back without the producer, whose epoch is then an old one.
    fn fence(&mut self, level: Level, new_id: &mut dyn FnMut() -> i64, now: Now) {
        if level == Level::KeepsEpoch {
            self.producer.epoch = self.producer.epoch.saturating_add(1);
            self.previous.epoch = NO_EPOCH;
        }
        self.prepare(State::PrepareAbort, level, new_id, now);
    }

    /// Rolls back a transaction that has timed out. Returns false if none is open.
    pub(crate) fn time_out(
        &mut self,
        level: Level,
        new_id: &mut dyn FnMut() -> i64,
        now: Now,
    ) -> bool {
        let may = self.state.on(Event::Timeout).next().is_ok();
        if may {
            self.fence(level, new_id, now);
        }
        may
    }

    fn prepare(&mut self, state: State, level: Level, new_id: &mut dyn FnMut() -> i64, now: Now) {
        if level == Level::BumpsEpoch {
            self.next_producer_id = self.is_exhausted().then(new_id);
            self.previous.epoch = self.producer.epoch;
            self.producer.epoch = self.producer.epoch.saturating_add(1);
        }
        self.level = level;
        self.state = state;
        self.updated_ms = now.ms;
        // Markers are due.
        self.deadline = Some(now.instant);
        self.was_delayed = false;
    }

    fn next_producer(&self) -> ProducerIdAndEpoch {
        match self.next_producer_id {
            Some(id) => ProducerIdAndEpoch { id, epoch: 0 },
            None => self.producer,
        }
    }

    /// Completes the transaction, because all markers are written.
    pub(crate) fn complete(&mut self, now_ms: i64) {
        let Ok(Some(state)) = self.state.on(Event::Written).next() else {
            return;
        };
        if self.next_producer_id.is_some() {
            let next = self.next_producer();
            self.previous.id = self.producer.id;
            self.producer = next;
            self.next_producer_id = None;
        }
        self.state = state;
        self.partitions.clear();
        self.deadline = None;
        self.updated_ms = now_ms;
    }

    /// Whether the id can be forgotten: no transaction is open or prepared.
    pub(crate) fn is_idle(&self) -> bool {
        self.state != State::Ongoing && !self.state.is_prepared()
    }
}
