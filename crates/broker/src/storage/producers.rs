//! The state of idempotent producers on a partition, like Kafka's `ProducerStateManager` and
//! `ProducerAppendInfo`.
//!
//! ```text
//! batch (producer id, epoch, first sequence) --check--> Append | Duplicate(offset) | error
//! marker (producer id, epoch) --check_marker--> ends the open transaction, or error
//! ```
//! The last five batches of each producer are remembered, so that a batch that is sent again after
//! a lost response is found and not written twice. An unknown producer may start with any sequence,
//! because its records may have been deleted.

use std::collections::{BTreeMap, VecDeque};

use thalweg_protocol::ErrorCode;
use thalweg_records::BatchHeader;
use thalweg_records::control::EndTransactionMarker;

use super::transaction_index::{Aborted, TransactionIndex};

/// The number of batches that a producer may have in flight
/// (`max.in.flight.requests.per.connection`).
const BATCHES_MAX: usize = 5;

/// What to do with a batch that has a sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sequenced {
    Append,
    /// It was written before.
    Duplicate {
        base_offset: i64,
        timestamp: i64,
    },
    Refused {
        code: ErrorCode,
        message: String,
    },
}

#[derive(Debug, Clone, Copy)]
struct Written {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    timestamp: i64,
}

#[derive(Debug)]
pub(crate) struct ProducerEntry {
    pub(crate) epoch: i16,
    batches: VecDeque<Written>,
    pub(crate) last_timestamp: i64,
    /// The coordinator epoch of the last marker, or -1 if there was none.
    pub(crate) coordinator_epoch: i32,
    /// The offset at which its open transaction begins on this partition.
    pub(crate) transaction_start: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct ProducerStates {
    entries: BTreeMap<i64, ProducerEntry>,
    transactions: TransactionIndex,
}

impl ProducerStates {
    /// Decides what happens to a batch with a producer id. It changes nothing.
    pub(crate) fn check(&self, header: &BatchHeader) -> Sequenced {
        let Some(entry) = self.entries.get(&header.producer_id) else {
            return Sequenced::Append;
        };
        if let Some(twin) = entry.find(header) {
            return Sequenced::Duplicate {
                base_offset: twin.base_offset,
                timestamp: twin.timestamp,
            };
        }
        entry.check_order(header)
    }

    /// Remembers a batch that was appended.
    pub(crate) fn appended(&mut self, header: &BatchHeader, base_offset: i64, timestamp: i64) {
        let entry = self
            .entries
            .entry(header.producer_id)
            .or_insert_with(|| ProducerEntry::new(header.producer_epoch));
        entry.set_epoch(header.producer_epoch);
        if entry.batches.len() == BATCHES_MAX {
            entry.batches.pop_front();
        }
        entry.last_timestamp = header.max_timestamp;
        entry.batches.push_back(Written {
            first_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
            base_offset,
            timestamp,
        });
        if header.attributes.is_transactional() && entry.transaction_start.is_none() {
            entry.transaction_start = Some(base_offset);
            self.transactions.begin(header.producer_id, base_offset);
        }
    }

    /// Applies a broker restart: Kafka's snapshot contains only the last batch of each producer.
    pub(crate) fn restart(&mut self) {
        for entry in self.entries.values_mut() {
            entry.batches.drain(..entry.batches.len().saturating_sub(1));
        }
    }

    /// Whether the producer began a transaction here with this epoch that no marker has ended.
    pub(crate) fn has_open_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        let entry = self.entries.get(&producer_id);
        entry.is_some_and(|entry| entry.epoch == epoch && entry.transaction_start.is_some())
    }

    /// Whether any transaction of the producer is open here.
    pub(crate) fn is_in_transaction(&self, producer_id: i64) -> bool {
        let entry = self.entries.get(&producer_id);
        entry.is_some_and(|entry| entry.transaction_start.is_some())
    }

    /// Whether the partition has seen a later epoch of the producer.
    pub(crate) fn is_fenced(&self, producer_id: i64, epoch: i16) -> bool {
        let entry = self.entries.get(&producer_id);
        entry.is_some_and(|entry| epoch < entry.epoch)
    }

    pub(crate) fn knows(&self, producer_id: i64) -> bool {
        self.entries.contains_key(&producer_id)
    }

    /// Checks a marker. It changes nothing. Since KIP-890 a marker has a newer epoch than all
    /// batches of its transaction (`bumps_epoch`), so that a late one ends nothing.
    pub(crate) fn check_marker(
        &self,
        marker: &EndTransactionMarker,
        bumps_epoch: bool,
    ) -> Result<(), ErrorCode> {
        let Some(entry) = self.entries.get(&marker.producer_id) else {
            return Ok(());
        };
        let oldest = if bumps_epoch {
            entry.epoch.saturating_add(1)
        } else {
            entry.epoch
        };
        if marker.producer_epoch < oldest {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if marker.coordinator_epoch < entry.coordinator_epoch {
            return Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED);
        }
        Ok(())
    }

    /// Applies an appended marker: it ends the producer's open transaction, if there is one.
    pub(crate) fn marked(&mut self, marker: &EndTransactionMarker, offset: i64) {
        let entry = self
            .entries
            .entry(marker.producer_id)
            .or_insert_with(|| ProducerEntry::new(marker.producer_epoch));
        entry.set_epoch(marker.producer_epoch);
        entry.coordinator_epoch = marker.coordinator_epoch;
        entry.last_timestamp = marker.timestamp;
        if let Some(first_offset) = entry.transaction_start.take() {
            self.transactions.end(first_offset, offset, marker.commit);
        }
    }

    /// Returns the offset at which the oldest open transaction begins.
    pub(crate) fn first_open_offset(&self) -> Option<i64> {
        self.transactions.first_open_offset()
    }

    pub(crate) fn aborted_between(&self, start: i64, end: i64) -> impl Iterator<Item = &Aborted> {
        self.transactions.aborted_between(start, end)
    }

    /// Drops aborted transactions before `start`, because those records are deleted.
    pub(crate) fn forget_before(&mut self, start: i64) {
        self.transactions.forget_before(start);
    }

    /// Forgets producers without an open transaction that wrote nothing for `expiration_ms`, by the
    /// time of their records.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.entries.retain(|_, entry| {
            entry.transaction_start.is_some() || now_ms - entry.last_timestamp < expiration_ms
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &ProducerEntry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }
}

impl ProducerEntry {
    fn new(epoch: i16) -> Self {
        Self {
            epoch,
            batches: VecDeque::new(),
            last_timestamp: -1,
            coordinator_epoch: -1,
            transaction_start: None,
        }
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }

    pub(crate) fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(-1, |last| last.last_sequence)
    }

    fn find(&self, header: &BatchHeader) -> Option<&Written> {
        if self.epoch != header.producer_epoch {
            return None;
        }
        self.batches.iter().find(|written| {
            written.first_sequence == header.base_sequence
                && written.last_sequence == header.last_sequence()
        })
    }

    fn check_order(&self, header: &BatchHeader) -> Sequenced {
        let (id, epoch, sequence) = (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        );
        if epoch < self.epoch {
            return refused(
                ErrorCode::INVALID_PRODUCER_EPOCH,
                format!(
                    "Epoch of producer {id} is {epoch}, which is smaller than the last seen epoch {}",
                    self.epoch
                ),
            );
        }
        if epoch > self.epoch {
            if sequence == 0 {
                return self.check_transactional(header);
            }
            return refused(
                ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
                format!(
                    "Invalid sequence number for new epoch of producer {id}: {epoch} (request epoch), {sequence} (seq. number), {} (current producer epoch)",
                    self.epoch
                ),
            );
        }
        let last = self.last_sequence();
        if sequence == next_sequence(last) {
            return self.check_transactional(header);
        }
        refused(
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            format!(
                "Out of order sequence number for producer {id}: {sequence} (incoming seq. number), {last} (current end sequence number)"
            ),
        )
    }

    fn check_transactional(&self, header: &BatchHeader) -> Sequenced {
        if self.transaction_start.is_none() || header.attributes.is_transactional() {
            return Sequenced::Append;
        }
        let id = header.producer_id;
        refused(
            ErrorCode::INVALID_TXN_STATE,
            format!("Expected transactional write from producer {id}: its transaction is open"),
        )
    }
}

fn refused(code: ErrorCode, message: String) -> Sequenced {
    Sequenced::Refused { code, message }
}

/// Returns the next sequence. Sequences wrap from `i32::MAX` to 0.
fn next_sequence(last: i32) -> i32 {
    last.checked_add(1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(epoch: i16, first: i32, count: i32) -> BatchHeader {
        BatchHeader {
            producer_id: 7,
            producer_epoch: epoch,
            base_sequence: first,
            last_offset_delta: count - 1,
            records_count: count,
            ..BatchHeader::default()
        }
    }

    fn code(outcome: &Sequenced) -> ErrorCode {
        match outcome {
            Sequenced::Refused { code, .. } => *code,
            other => panic!("not refused: {other:?}"),
        }
    }

    fn write(states: &mut ProducerStates, epoch: i16, first: i32, count: i32, offset: i64) {
        let header = header(epoch, first, count);
        assert_eq!(states.check(&header), Sequenced::Append);
        states.appended(&header, offset, 1);
    }

    #[test]
    fn the_last_five_batches_are_found_again_and_older_ones_are_out_of_order() {
        let mut states = ProducerStates::default();
        for index in 0..6 {
            write(&mut states, 0, index * 10, 10, i64::from(index) * 100);
        }
        for index in 1..6 {
            let again = states.check(&header(0, index * 10, 10));
            let base_offset = i64::from(index) * 100;
            assert_eq!(
                again,
                Sequenced::Duplicate {
                    base_offset,
                    timestamp: 1
                }
            );
        }
        let oldest = states.check(&header(0, 0, 10));
        assert_eq!(code(&oldest), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    }

    #[test]
    fn a_gap_and_a_different_length_are_out_of_order() {
        let mut states = ProducerStates::default();
        write(&mut states, 0, 0, 10, 0);
        for bad in [header(0, 11, 1), header(0, 5, 5), header(0, 0, 9)] {
            assert_eq!(
                code(&states.check(&bad)),
                ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER
            );
        }
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut states = ProducerStates::default();
        write(&mut states, 0, i32::MAX - 1, 2, 0);
        write(&mut states, 0, 0, 3, 2);
        let mut states = ProducerStates::default();
        write(&mut states, 0, i32::MAX, 3, 0);
        write(&mut states, 0, 2, 1, 3);
    }

    #[test]
    fn a_new_epoch_begins_at_zero_and_fences_the_old_one() {
        let mut states = ProducerStates::default();
        write(&mut states, 3, 40, 1, 0);
        let skipped = states.check(&header(4, 1, 1));
        assert_eq!(code(&skipped), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        write(&mut states, 4, 0, 1, 1);
        let fenced = states.check(&header(3, 41, 1));
        assert_eq!(code(&fenced), ErrorCode::INVALID_PRODUCER_EPOCH);
        let old_twin = states.check(&header(3, 40, 1));
        assert_eq!(code(&old_twin), ErrorCode::INVALID_PRODUCER_EPOCH);
    }

    fn transactional(epoch: i16, first: i32) -> BatchHeader {
        let mut header = header(epoch, first, 1);
        header.attributes = header.attributes.with_transactional(true);
        header
    }

    fn marker(epoch: i16, coordinator_epoch: i32) -> EndTransactionMarker {
        EndTransactionMarker {
            commit: false,
            coordinator_epoch,
            producer_id: 7,
            producer_epoch: epoch,
            timestamp: 1,
        }
    }

    #[test]
    fn a_transaction_is_open_from_its_first_batch_to_its_marker() {
        let mut states = ProducerStates::default();
        states.appended(&transactional(0, 0), 10, 1);
        states.appended(&transactional(0, 1), 11, 1);
        assert_eq!(states.first_open_offset(), Some(10));
        assert!(states.has_open_transaction(7, 0) && !states.has_open_transaction(7, 1));
        let plain = states.check(&header(0, 2, 1));
        assert_eq!(code(&plain), ErrorCode::INVALID_TXN_STATE);
        states.marked(&marker(0, 0), 12);
        assert_eq!(states.first_open_offset(), None);
        assert_eq!(states.aborted_between(0, 99).count(), 1);
        assert_eq!(states.check(&header(0, 2, 1)), Sequenced::Append);
    }

    #[test]
    fn a_marker_with_a_newer_epoch_begins_its_sequences_and_fences_the_older() {
        let mut states = ProducerStates::default();
        states.appended(&transactional(3, 0), 0, 1);
        assert_eq!(
            states.check_marker(&marker(3, 0), true),
            Err(ErrorCode::INVALID_PRODUCER_EPOCH)
        );
        assert_eq!(states.check_marker(&marker(3, 0), false), Ok(()));
        assert_eq!(states.check_marker(&marker(4, 0), true), Ok(()));
        states.marked(&marker(4, 0), 1);
        let late = states.check(&transactional(3, 1));
        assert_eq!(code(&late), ErrorCode::INVALID_PRODUCER_EPOCH);
        assert_eq!(states.check(&transactional(4, 0)), Sequenced::Append);
        let skipped = states.check(&transactional(4, 1));
        assert_eq!(code(&skipped), ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    }

    #[test]
    fn a_marker_of_an_older_coordinator_is_fenced() {
        let mut states = ProducerStates::default();
        states.marked(&marker(0, 2), 0);
        assert_eq!(
            states.check_marker(&marker(0, 1), false),
            Err(ErrorCode::TRANSACTION_COORDINATOR_FENCED)
        );
        assert_eq!(states.check_marker(&marker(0, 2), false), Ok(()));
    }

    #[test]
    fn a_producer_with_an_open_transaction_is_not_forgotten() {
        let mut states = ProducerStates::default();
        states.appended(&transactional(0, 0), 0, 1);
        states.expire(i64::MAX, 500);
        assert!(states.knows(7));
        states.marked(&marker(0, 0), 1);
        states.expire(i64::MAX, 500);
        assert!(!states.knows(7));
    }

    #[test]
    fn an_idle_producer_is_forgotten_and_may_go_on_anywhere() {
        let mut states = ProducerStates::default();
        write(&mut states, 0, 0, 1, 0);
        states.expire(1000, 500);
        assert_eq!(states.iter().count(), 0);
        write(&mut states, 0, 77, 1, 1);
    }
}
