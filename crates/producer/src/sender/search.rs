//! Finds out which batches a leader has, after it refused the oldest one as out of order although
//! that batch may be written.
//!
//! A broker remembers a producer's last five batches and acknowledges a duplicate of any of them.
//! After a restart, Kafka remembers only the last one. Suppose five batches were written, their
//! responses were lost, and the broker restarted. It then refuses the first four although they are
//! in the log. If they got new sequences, they would be in the log twice.
//!
//! ```text
//!                   the oldest is refused            acknowledged: all before it are written,
//!   oldest first ───────────────────▶ latest first ─────────────▶ oldest first, later ones too
//!        ▲                                │    │
//!        │ no response, another leader    │    └─ all are refused: none is written, next epoch
//!        └────────────────────────────────┘
//! ```
//! A leader that refuses a batch as out of order remembers the producer, and the producer's last
//! batch in its log is the one that it remembers. So an acknowledged batch proves all batches
//! before it: it is a duplicate, or the leader has just accepted it after the one before it. If the
//! leader refuses every batch, its log ends before the oldest.

use crate::batch::order::Order;
use crate::sender::batch::ProducerBatch;
use crate::sender::partition::SenderPartition;

impl SenderPartition {
    /// Returns whether a search is in progress: the latest batches are offered first.
    pub(super) fn is_searching(&self) -> bool {
        self.searching
    }

    /// Starts offering the later batches, the latest first. Returns false if the responses would
    /// prove nothing. That is so if a batch that may be the last one in the log can no longer be
    /// offered, or if one was split: the leader would not recognize its pieces.
    pub(super) fn start_search(&mut self, oldest: &mut ProducerBatch) -> bool {
        let is_in_pieces = oldest.split_in_doubt || self.retry.iter().any(|b| b.split_in_doubt);
        if is_in_pieces || self.sequences.has_lost_behind(oldest.order) {
            return false;
        }
        self.searching = true;
        oldest.ruled_out = true;
        true
    }

    /// Returns the index of the batch to offer next, among the retries.
    pub(super) fn candidate(&self) -> Option<usize> {
        self.retry
            .iter()
            .rposition(|batch| batch.sequence.is_some() && batch.maybe_written && !batch.ruled_out)
    }

    /// Ends the search: the leader has this batch. Returns the batches before it, which it has as
    /// well.
    pub(super) fn found(&mut self, order: Order) -> Vec<ProducerBatch> {
        let at = self.retry.partition_point(|batch| batch.order < order);
        let written = self.retry.drain(..at).collect();
        for batch in &mut self.retry {
            // The leader refused it as out of order while its log ended before it.
            batch.maybe_written &= !batch.ruled_out;
        }
        self.cancel_search();
        written
    }

    /// Stops a search without a result. The next one starts from the beginning.
    pub(super) fn cancel_search(&mut self) {
        if std::mem::take(&mut self.searching) {
            for batch in self.in_flight.iter_mut().chain(&mut self.retry) {
                batch.ruled_out = false;
            }
        }
    }

    /// Ends the search if the leader has refused all batches: none of them is in its log.
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
