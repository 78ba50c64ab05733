//! [`Transaction`]: one transactional id and its transitions: Kafka's `TransactionMetadata`.
//!
//! ```text
//! init -> producer id, epoch | add -> partitions, deadline | end, fence -> epoch + 1, prepared
//! prepared -- markers are written (markers.rs) --> complete
//! ```
//! Each transition asks the table (states.rs) and changes nothing if it is refused.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use thalweg_protocol::{ErrorCode, Str};

use super::states::{Event, State};
use super::{NO_EPOCH, NO_PRODUCER, ProducerIdAndEpoch};

/// More partitions than this are in no single transaction.
const PARTITIONS_MAX: usize = 10_000;
/// At this epoch the next transaction gets another producer id: the marker takes the last one.
const EPOCH_EXHAUSTED: i16 = i16::MAX - 1;

/// A partition of a topic, or of `__consumer_offsets` for a group's.
pub(crate) type TopicPartition = (Str, i32);

/// Whether each end of a transaction has an epoch of its own (KIP-890).
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
    /// What a producer may still name that did not get the answer with the present one.
    previous: ProducerIdAndEpoch,
    /// Takes the place of an exhausted id once the markers are written.
    next_producer_id: Option<i64>,
    pub(crate) timeout_ms: i32,
    pub(crate) state: State,
    pub(crate) partitions: BTreeSet<TopicPartition>,
    /// -1: none began yet.
    pub(crate) start_ms: i64,
    pub(crate) updated_ms: i64,
    /// How the present end was asked for.
    pub(crate) level: Level,
    /// Of an open transaction: when it is over. Of a prepared one: when to write markers again.
    pub(super) deadline: Option<Instant>,
    coordinator: i32,
    pub(crate) coordinator_epoch: i32,
}

/// What `InitProducerId` came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Init {
    Ready(ProducerIdAndEpoch),
    /// The open transaction of the producer before must be rolled back first.
    Fenced,
}

/// A moment, in both ways of counting.
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
            coordinator,
            coordinator_epoch: 0,
        }
    }

    /// Another node coordinates with another epoch, so that markers of the one before are late.
    pub(crate) fn coordinated_by(&mut self, node: i32) {
        if self.coordinator != node {
            self.coordinator = node;
            self.coordinator_epoch += 1;
        }
    }

    /// `TransactionCoordinator.prepareInitProducerIdTransit`. `expected`: what the producer had,
    /// if it goes on after an error (KIP-360).
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

    /// Whether the producer may be this one: the present one, a new one, or one whose exhausted
    /// id was replaced without its knowing.
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
            // It did not get the answer to this very request.
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

    /// The producer of the next transaction waits for the markers of this one. It may have
    /// another id, which replaces an exhausted one only when they are written.
    fn check_markers(&self, producer: ProducerIdAndEpoch) -> Result<(), ErrorCode> {
        if self.state.is_prepared() && producer == self.next_producer() {
            return Err(ErrorCode::CONCURRENT_TRANSACTIONS);
        }
        Ok(())
    }

    /// Whether the partition is in the producer's open transaction.
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

    /// Adds partitions; the first ones begin the transaction.
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
            // Names from a frame would keep the whole frame alive.
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

    /// `TransactionCoordinator.endTransaction` of a client. The producer of the next transaction.
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

    /// Whether the present epoch comes from an end that this producer asked for.
    fn was_bumped_from(&self, producer: ProducerIdAndEpoch) -> bool {
        let bumped = producer.id == self.producer.id
            && producer.epoch.checked_add(1) == Some(self.producer.epoch);
        let replaced = producer.id == self.previous.id
            && producer.epoch == EPOCH_EXHAUSTED
            && self.producer.epoch == 0;
        bumped || replaced
    }

    /// Rolls back in spite of the producer, whose epoch is then an old one.
    fn fence(&mut self, level: Level, new_id: &mut dyn FnMut() -> i64, now: Now) {
        if level == Level::KeepsEpoch {
            self.producer.epoch = self.producer.epoch.saturating_add(1);
            self.previous.epoch = NO_EPOCH;
        }
        self.prepare(State::PrepareAbort, level, new_id, now);
    }

    /// The transaction is older than its timeout. False if there is none.
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
    }

    fn next_producer(&self) -> ProducerIdAndEpoch {
        match self.next_producer_id {
            Some(id) => ProducerIdAndEpoch { id, epoch: 0 },
            None => self.producer,
        }
    }

    /// All markers are there.
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

    /// Whether nothing would be lost with it.
    pub(crate) fn is_idle(&self) -> bool {
        self.state != State::Ongoing && !self.state.is_prepared()
    }
}
