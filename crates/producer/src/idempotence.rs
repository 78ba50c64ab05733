//! Numbers the batches of an idempotent producer (KIP-98, KIP-360). Each partition's batches carry
//! a producer id, an epoch and consecutive sequences, so a broker recognizes a retry and refuses a
//! batch that skips sequences.
//!
//! ```text
//!            a batch was given up, outcome unknown          it was written
//!   Whole ────────────────────────────────────▶ Unresolved ─────────────────────────▶ Whole
//!     │  a batch is certainly not written          │ it was not
//!     └──────────────▶ Gap ◀───────────────────────┘
//!                       │ nothing in flight: epoch + 1, sequences from 0
//!                       └──────────────▶ Whole
//! ```
//! A broker that does not know a producer accepts any sequence from it. So the first batch under an
//! id and epoch is sent alone, and so is the first one after a long pause (brokers forget
//! producers). If that batch were refused while others follow it, the broker would accept the
//! second one as the first.
//!
//! Each partition counts its epochs separately. A broker keeps its state per partition, so a gap in
//! one partition does not affect the others. A batch gets a new sequence only if it is certainly
//! not in the log: either all its attempts were refused, or it comes after a gap, which the broker
//! lets no batch pass. `sender/search.rs` finds out whether a doubtful batch is in the log. If that
//! is impossible because the broker has forgotten the producer, the batch fails with an error that
//! says so.
//!
//! A new leader may know less about the producer than the old one. So it first gets the batches
//! that the old leader left unanswered, and then its first new batch alone.
//!
//! A transactional producer gets its epochs from the coordinator, one for all partitions. There a
//! gap ends the transaction: it is aborted, and every partition starts again from 0 under the next
//! epoch.

use std::time::{Duration, Instant};

use thalweg_cluster::RequestId;
use thalweg_protocol::ErrorCode;
use thalweg_protocol::planted::{Bug, is_planted};

use crate::batch::order::Order;

/// The identity of a producer as brokers know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdAndEpoch {
    pub id: i64,
    pub epoch: i16,
}

/// The sequence of a batch: that of its first record, and the producer that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) producer: ProducerIdAndEpoch,
    pub(crate) base: i32,
    /// Number of batches numbered before this one under the same epoch.
    pub(crate) number: u64,
}

/// Adds to a sequence. Sequences wrap from `i32::MAX` to 0.
pub(crate) fn increment(sequence: i32, by: u32) -> i32 {
    sequence.wrapping_add(by.cast_signed()) & i32::MAX
}

/// Number of batches that a broker remembers for each producer and partition.
const BATCHES_REMEMBERED: u64 = 5;
/// Time without an acknowledgement after which a broker may have forgotten the producer.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Continuity {
    #[default]
    Whole,
    /// A batch was given up, and it is unknown whether it is in the log.
    Unresolved,
    /// A sequence that was assigned is missing in the log.
    Gap,
}

/// The sequence numbers of one partition.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    producer: Option<ProducerIdAndEpoch>,
    next: i32,
    /// Number of batches numbered under this epoch.
    numbered: u64,
    /// The newest acknowledged batch.
    acknowledged_order: Option<Order>,
    /// The sequence after the newest acknowledged batch.
    acknowledged: i32,
    acknowledged_at: Option<Instant>,
    /// The offset after the newest acknowledged batch, if the broker reported one.
    acknowledged_end: Option<i64>,
    /// The oldest batch that was acknowledged after the log was truncated.
    cut_at: Option<Order>,
    /// The newest batch that was given up with an unknown outcome.
    lost: Option<Order>,
    continuity: Continuity,
}

impl Sequences {
    pub(crate) fn producer(&self) -> Option<ProducerIdAndEpoch> {
        self.producer
    }

    pub(crate) fn continuity(&self) -> Continuity {
        self.continuity
    }

    /// Assigns the next sequence to a batch. `current` becomes the partition's producer if it has
    /// none.
    pub(crate) fn assign(&mut self, current: ProducerIdAndEpoch, records: u32) -> Sequence {
        debug_assert_eq!(
            self.continuity,
            Continuity::Whole,
            "a new number is assigned only if the earlier ones are complete"
        );
        let producer = *self.producer.get_or_insert(current);
        let (base, number) = (self.next, self.numbered);
        self.next = increment(base, records);
        self.numbered += 1;
        Sequence {
            producer,
            base,
            number,
        }
    }

    /// Starts again from 0 under an epoch that a coordinator assigned. Returns false if this epoch
    /// is already in use.
    pub(crate) fn adopt(&mut self, producer: ProducerIdAndEpoch) -> bool {
        if self.producer == Some(producer) && self.numbered > 0 {
            return false;
        }
        // A broker that knows the id from an earlier epoch accepts only 0 as the first sequence, so
        // the first batch need not be sent alone.
        let same_id = self.producer.is_some_and(|old| old.id == producer.id);
        *self = Self {
            producer: Some(producer),
            acknowledged_at: self.acknowledged_at.filter(|_| same_id),
            ..Self::default()
        };
        true
    }

    /// Returns whether one more batch can be numbered while the broker still remembers `oldest`.
    /// Without that, the broker could not distinguish a late retry of it from a gap.
    pub(crate) fn is_remembered_with_one_more(&self, oldest: Sequence) -> bool {
        self.numbered - oldest.number < BATCHES_REMEMBERED
    }

    /// Returns whether a batch was numbered under this epoch.
    pub(crate) fn has_numbered(&self) -> bool {
        self.numbered > 0
    }

    /// Returns whether a later batch was acknowledged, which proves that this one is in the log
    /// too. The exceptions: all attempts of this batch were refused, or the log was truncated
    /// between the two.
    pub(crate) fn is_proven(&self, order: Order) -> bool {
        self.acknowledged_order.is_some_and(|newest| order < newest) && !self.is_cut_off(order)
    }

    /// Returns whether an unclean election truncated the log so that a later batch is the first one
    /// in the rest. It is then unknown whether this batch was written before.
    pub(crate) fn is_cut_off(&self, order: Order) -> bool {
        let is_cut_off = self.cut_at.is_some_and(|first| order < first);
        is_cut_off && !is_planted(Bug::UnansweredTaken)
    }

    /// Returns whether the broker knows this producer, so that it refuses a batch that skips
    /// sequences.
    pub(crate) fn is_known_to_broker(&self, now: Instant) -> bool {
        self.acknowledged_at
            .is_some_and(|at| now.duration_since(at) < FORGOTTEN_AFTER)
    }

    /// Notes that a batch is in the log, at `base_offset` if the broker reported it.
    ///
    /// This proves all earlier batches of the same epoch. There is one exception: if the offset is
    /// before the end of the batches acknowledged earlier, or leaves too little room for those in
    /// between, another log has replaced the old one. A leader that lost the producer with its log
    /// accepts any batch as the first.
    pub(crate) fn acknowledge(
        &mut self,
        sequence: Sequence,
        records: u32,
        order: Order,
        base_offset: Option<i64>,
        now: Instant,
    ) {
        if self.producer == Some(sequence.producer) {
            if self.acknowledged_order < Some(order) {
                let between = sequence.base.wrapping_sub(self.acknowledged) & i32::MAX;
                let earliest = self
                    .acknowledged_end
                    .map(|end| end.saturating_add(i64::from(between)));
                if base_offset
                    .zip(earliest)
                    .is_some_and(|(at, earliest)| at < earliest)
                {
                    self.cut_at = Some(order);
                }
                self.acknowledged_end = base_offset.map(|at| at.saturating_add(i64::from(records)));
                self.acknowledged = increment(sequence.base, records);
                self.acknowledged_order = Some(order);
            }
            self.acknowledged_at = Some(now);
        }
    }

    /// Forgets the last acknowledgement: a new leader may know less than the old one.
    pub(crate) fn meet_broker(&mut self) {
        self.acknowledged_at = None;
    }

    /// Returns whether a later batch was given up that is possibly the last one in the log.
    pub(crate) fn has_lost_behind(&self, order: Order) -> bool {
        self.lost.is_some_and(|lost| lost > order)
    }

    /// Notes that a numbered batch was given up with an unknown outcome.
    pub(crate) fn lose(&mut self, order: Order) {
        self.lost = self.lost.max(Some(order));
        if self.continuity == Continuity::Whole {
            self.continuity = Continuity::Unresolved;
        }
    }

    /// Notes that a numbered batch is certainly not in the log.
    pub(crate) fn break_off(&mut self) {
        self.continuity = Continuity::Gap;
    }

    /// Decides whether there is a gap. Call this when no batch is in flight or waits for a retry:
    /// the acknowledgements are then final.
    pub(crate) fn resolve(&mut self) {
        if self.continuity == Continuity::Unresolved {
            let whole = self.acknowledged == self.next;
            self.continuity = if whole {
                Continuity::Whole
            } else {
                Continuity::Gap
            };
        }
    }

    /// Starts again from 0 under the next epoch. If the producer has no epoch left, returns it: a
    /// new producer id is then needed.
    pub(crate) fn bump(&mut self) -> Option<ProducerIdAndEpoch> {
        let old = self.producer.take();
        let next = old.and_then(|p| {
            Some(ProducerIdAndEpoch {
                epoch: p.epoch.checked_add(1)?,
                ..p
            })
        });
        *self = Self {
            producer: next,
            ..Self::default()
        };
        if next.is_some() { None } else { old }
    }
}

/// Returns whether an error proves that this attempt did not write the batch.
///
/// Leadership errors prove it only with the base offset -1. A leader that is deposed while it waits
/// for its followers has already appended the batch: Kafka's `DelayedProduce` changes only the
/// error code and keeps the base offset. A broker that refuses the batch before that reports -1.
/// Every error that is not listed here proves nothing.
pub(crate) fn means_not_written(code: ErrorCode, base_offset: i64) -> bool {
    let of_leadership = matches!(
        code,
        ErrorCode::NOT_LEADER_OR_FOLLOWER
            | ErrorCode::LEADER_NOT_AVAILABLE
            | ErrorCode::FENCED_LEADER_EPOCH
            | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode::UNKNOWN_TOPIC_ID
    );
    of_leadership && base_offset < 0
        || matches!(
            code,
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
                | ErrorCode::UNKNOWN_PRODUCER_ID
                | ErrorCode::INVALID_PRODUCER_EPOCH
                | ErrorCode::CORRUPT_MESSAGE
                | ErrorCode::MESSAGE_TOO_LARGE
                | ErrorCode::RECORD_LIST_TOO_LARGE
                | ErrorCode::INVALID_TOPIC_EXCEPTION
                | ErrorCode::NOT_ENOUGH_REPLICAS
                | ErrorCode::INVALID_REQUIRED_ACKS
                | ErrorCode::INVALID_TIMESTAMP
                | ErrorCode::INVALID_RECORD
                | ErrorCode::TOPIC_AUTHORIZATION_FAILED
                | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
                | ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT
                | ErrorCode::UNSUPPORTED_COMPRESSION_TYPE
                | ErrorCode::POLICY_VIOLATION
                | ErrorCode::PRODUCER_FENCED
                | ErrorCode::INVALID_TXN_STATE
                | ErrorCode::CONCURRENT_TRANSACTIONS
                | ErrorCode::TRANSACTION_ABORTABLE
        )
}

/// The producer id of the whole producer. The sender requests it once, before the first batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProducerIdState {
    /// The producer is not idempotent.
    Disabled,
    /// The id has to be requested, but not before the backoff is over.
    Wanted {
        failures: u32,
        not_before: Option<Instant>,
    },
    Requested {
        failures: u32,
        id: RequestId,
    },
    Known(ProducerIdAndEpoch),
    /// The coordinator of the transactional id assigns the id. `None` until it has.
    OfCoordinator(Option<ProducerIdAndEpoch>),
}

impl ProducerIdState {
    pub(crate) fn new(enabled: bool) -> Self {
        if enabled {
            Self::Wanted {
                failures: 0,
                not_before: None,
            }
        } else {
            Self::Disabled
        }
    }

    pub(crate) fn known(self) -> Option<ProducerIdAndEpoch> {
        match self {
            Self::Known(producer) | Self::OfCoordinator(Some(producer)) => Some(producer),
            _ => None,
        }
    }

    /// Stores the id that the coordinator assigned.
    pub(crate) fn set(&mut self, producer: ProducerIdAndEpoch) {
        *self = Self::OfCoordinator(Some(producer));
    }

    pub(crate) fn is_enabled(self) -> bool {
        self != Self::Disabled
    }

    /// Notes that a partition has used all epochs of this producer. Requests a new id, unless a
    /// newer one is known already.
    pub(crate) fn exhausted(&mut self, producer: ProducerIdAndEpoch) {
        if self.known().is_some_and(|known| known.id == producer.id) {
            *self = Self::new(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instant at which the tests' virtual time starts.
    #[expect(clippy::disallowed_methods, reason = "see above")]
    fn start() -> Instant {
        Instant::now()
    }

    fn order(batch: u64) -> Order {
        Order {
            batch,
            first_index: 0,
        }
    }

    const PRODUCER: ProducerIdAndEpoch = ProducerIdAndEpoch { id: 7, epoch: 0 };

    #[test]
    fn sequences_follow_one_another_and_wrap() {
        let mut sequences = Sequences {
            next: i32::MAX - 1,
            ..Sequences::default()
        };
        assert_eq!(sequences.assign(PRODUCER, 2).base, i32::MAX - 1);
        assert_eq!(sequences.assign(PRODUCER, 5).base, 0);
        // Java's DefaultRecordBatch.incrementSequence.
        assert_eq!(increment(i32::MAX, 1), 0);
        assert_eq!(increment(i32::MAX - 2, 5), 2);
    }

    #[test]
    fn a_lost_batch_that_was_written_leaves_no_gap() {
        let mut sequences = Sequences::default();
        sequences.assign(PRODUCER, 3);
        let second = sequences.assign(PRODUCER, 4);
        sequences.lose(order(0));
        assert_eq!(sequences.continuity(), Continuity::Unresolved);
        sequences.acknowledge(second, 4, order(1), None, start());
        sequences.resolve();
        assert_eq!(sequences.continuity(), Continuity::Whole);
    }

    #[test]
    fn a_gap_is_closed_by_the_next_epoch() {
        let mut sequences = Sequences::default();
        let first = sequences.assign(PRODUCER, 3);
        sequences.acknowledge(first, 3, order(0), None, start());
        sequences.assign(PRODUCER, 4);
        sequences.lose(order(0));
        sequences.resolve();
        assert_eq!(sequences.continuity(), Continuity::Gap);
        assert_eq!(sequences.bump(), None);
        let next = sequences.assign(PRODUCER, 1);
        assert_eq!(
            next,
            Sequence {
                producer: ProducerIdAndEpoch { id: 7, epoch: 1 },
                base: 0,
                number: 0
            }
        );
    }

    #[test]
    fn an_acknowledgement_that_comes_late_takes_nothing_back() {
        let mut sequences = Sequences::default();
        let first = sequences.assign(PRODUCER, 3);
        let second = sequences.assign(PRODUCER, 4);
        sequences.acknowledge(second, 4, order(1), None, start());
        assert!(sequences.is_proven(order(0)) && !sequences.is_proven(order(1)));
        sequences.acknowledge(first, 3, order(0), None, start());
        sequences.lose(order(0));
        sequences.resolve();
        assert_eq!(sequences.continuity(), Continuity::Whole);
    }

    /// The first batch is at offset 10 with three records. Then follow a batch of two and one of
    /// one, so in the same log the last one cannot be before 15.
    #[test]
    fn an_acknowledgement_from_a_log_that_was_cut_proves_nothing() {
        for (at, is_cut) in [(0, true), (14, true), (15, false), (40, false)] {
            let mut sequences = Sequences::default();
            let first = sequences.assign(PRODUCER, 3);
            sequences.assign(PRODUCER, 2);
            let third = sequences.assign(PRODUCER, 1);
            sequences.acknowledge(first, 3, order(0), Some(10), start());
            sequences.acknowledge(third, 1, order(2), Some(at), start());
            assert_eq!(sequences.is_cut_off(order(1)), is_cut, "at {at}");
            assert_eq!(sequences.is_proven(order(1)), !is_cut, "at {at}");
        }
    }

    #[test]
    fn five_batches_are_remembered() {
        let mut sequences = Sequences::default();
        let first = sequences.assign(PRODUCER, 1);
        for _ in 0..4 {
            assert!(sequences.is_remembered_with_one_more(first));
            sequences.assign(PRODUCER, 1);
        }
        assert!(!sequences.is_remembered_with_one_more(first));
    }

    #[test]
    fn the_last_epoch_asks_for_a_new_id() {
        let last = ProducerIdAndEpoch {
            id: 7,
            epoch: i16::MAX,
        };
        let mut sequences = Sequences::default();
        sequences.assign(last, 1);
        assert_eq!(sequences.bump(), Some(last));
        assert_eq!(sequences.producer(), None);
        let mut state = ProducerIdState::Known(PRODUCER);
        state.exhausted(last);
        assert_eq!(state, ProducerIdState::new(true));
        let mut other = ProducerIdState::Known(ProducerIdAndEpoch { id: 8, epoch: 0 });
        other.exhausted(last);
        assert!(other.known().is_some());
    }
}
