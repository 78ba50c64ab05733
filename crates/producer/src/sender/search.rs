//! Which batches a leader has, when it refuses the oldest one as out of order although that one may
//! be written.
//!
//! A broker remembers a producer's last five batches and acknowledges a duplicate of each. After a
//! restart Kafka remembers only the last one. So when five batches were written, their answers were
//! lost and the broker restarted, it refuses the first four although they are in the log. Under new
//! numbers they would be there twice.
//!
//! ```text
//!                   the oldest is refused            acknowledged: all before it are written,
//!   oldest first ───────────────────▶ latest first ─────────────▶ oldest first, with what is behind it
//!        ▲                                │    │
//!        │ no answer, another leader      │    └─ all are refused: none is written, next epoch
//!        └────────────────────────────────┘
//! ```
//! A leader that refuses a batch as out of order remembers the producer, and its log ends with the
//! last batch that it remembers. So an acknowledged batch proves all before it: it is a duplicate, or
//! the leader has just taken it behind the one before it. And if it refuses each of them, its log
//! ends before the oldest.

use crate::sender::batch::{Order, ProducerBatch};
use crate::sender::slot::Slot;

impl Slot {
    /// The leader was asked by offering the latest batches first, and is not done.
    pub(super) fn is_searching(&self) -> bool {
        self.searching
    }

    /// Offers the batches behind this one, the latest first. False if the answers would prove
    /// nothing: a batch that may be the last one in the log can't be offered any more, or was split,
    /// and the leader would not recognise its pieces.
    pub(super) fn start_search(&mut self, oldest: &mut ProducerBatch) -> bool {
        let is_in_pieces = oldest.split_in_doubt || self.retry.iter().any(|b| b.split_in_doubt);
        if is_in_pieces || self.sequences.has_lost_behind(oldest.order) {
            return false;
        }
        self.searching = true;
        oldest.ruled_out = true;
        true
    }

    /// The place of the batch to offer next, among those that wait for a retry.
    pub(super) fn candidate(&self) -> Option<usize> {
        self.retry
            .iter()
            .rposition(|batch| batch.sequence.is_some() && batch.maybe_written && !batch.ruled_out)
    }

    /// The leader has this batch. Returns those before it, which it has as well.
    pub(super) fn found(&mut self, order: Order) -> Vec<ProducerBatch> {
        let at = self.retry.partition_point(|batch| batch.order < order);
        let written = self.retry.drain(..at).collect();
        for batch in &mut self.retry {
            // The leader refused it for its place while its log ended before it.
            batch.maybe_written &= !batch.ruled_out;
        }
        self.cancel_search();
        written
    }

    /// The leader's answers have told nothing; the next one is asked from the start.
    pub(super) fn cancel_search(&mut self) {
        if std::mem::take(&mut self.searching) {
            for batch in self.in_flight.iter_mut().chain(&mut self.retry) {
                batch.ruled_out = false;
            }
        }
    }

    /// Ends the search once the leader has refused all: then none is in its log.
    pub(super) fn conclude_search(&mut self) {
        if !self.searching || !self.in_flight.is_empty() || self.candidate().is_some() {
            return;
        }
        self.cancel_search();
        if let Some(oldest) = self.retry.front().map(|batch| batch.order) {
            self.break_off(oldest);
        }
    }
}
