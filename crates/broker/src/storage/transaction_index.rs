//! [`TransactionIndex`]: the transactions of one partition, like Kafka's `ongoingTxns` and its
//! `TransactionIndex` of aborted ones.
//!
//! ```text
//! offset   0   1   2   3   4        7: open at 0, 8: open at 1
//! batch    7   8   7   A7  8        A7 is 7's abort marker: 7 aborted from 0 to 3
//! last stable offset    0 before A7, 1 after it
//! ```

use std::collections::{BTreeMap, VecDeque};

/// A transaction that a marker has rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    /// The offset of the marker.
    last_offset: i64,
    /// The last stable offset after the marker. Later aborted transactions begin here or after it.
    last_stable_offset: i64,
}

/// The open and aborted transactions of a partition. An aborted transaction takes less memory than
/// its marker does in the log, so the log's limits bound these too.
#[derive(Debug, Default)]
pub(crate) struct TransactionIndex {
    /// Producer ids by the first offset of their open transaction.
    open: BTreeMap<i64, i64>,
    /// In the order of their markers.
    aborted: VecDeque<Aborted>,
}

impl TransactionIndex {
    pub(crate) fn begin(&mut self, producer_id: i64, first_offset: i64) {
        self.open.insert(first_offset, producer_id);
    }

    /// Ends the transaction that began at `first_offset` with the marker at `marker_offset`.
    pub(crate) fn end(&mut self, first_offset: i64, marker_offset: i64, commit: bool) {
        let Some(producer_id) = self.open.remove(&first_offset) else {
            return;
        };
        if commit {
            return;
        }
        self.aborted.push_back(Aborted {
            producer_id,
            first_offset,
            last_offset: marker_offset,
            last_stable_offset: self.first_open_offset().unwrap_or(marker_offset + 1),
        });
    }

    pub(crate) fn first_open_offset(&self) -> Option<i64> {
        self.open.keys().next().copied()
    }

    /// Returns the aborted transactions that a reader of the offsets from `start` up to `end` must
    /// skip.
    pub(crate) fn aborted_between(&self, start: i64, end: i64) -> impl Iterator<Item = &Aborted> {
        let from = self
            .aborted
            .partition_point(|aborted| aborted.last_offset < start);
        let mut is_last = false;
        self.aborted
            .range(from..)
            .take_while(move |aborted| {
                !std::mem::replace(&mut is_last, aborted.last_stable_offset >= end)
            })
            .filter(move |aborted| aborted.first_offset < end)
    }

    /// Drops aborted transactions before `start`, because those records are deleted.
    pub(crate) fn forget_before(&mut self, start: i64) {
        while self
            .aborted
            .front()
            .is_some_and(|oldest| oldest.last_offset < start)
        {
            self.aborted.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firsts(index: &TransactionIndex, start: i64, end: i64) -> Vec<i64> {
        index
            .aborted_between(start, end)
            .map(|aborted| aborted.first_offset)
            .collect()
    }

    #[test]
    fn the_oldest_open_transaction_holds_all_later_ones_back() {
        let mut index = TransactionIndex::default();
        index.begin(7, 0);
        index.begin(8, 1);
        index.end(1, 2, true);
        assert_eq!(index.first_open_offset(), Some(0));
        index.end(0, 3, true);
        assert_eq!(index.first_open_offset(), None);
        assert!(firsts(&index, 0, 9).is_empty());
    }

    #[test]
    fn what_was_aborted_is_told_to_readers_of_its_offsets_only() {
        let mut index = TransactionIndex::default();
        index.begin(7, 0);
        index.begin(8, 1);
        index.end(1, 5, false);
        index.end(0, 6, false);
        index.begin(7, 7);
        index.end(7, 9, false);
        assert_eq!(firsts(&index, 0, 10), [1, 0, 7]);
        assert_eq!(firsts(&index, 6, 10), [0, 7]);
        assert_eq!(firsts(&index, 0, 1), [0]);
        assert_eq!(firsts(&index, 0, 7), [1, 0]);
        index.forget_before(7);
        assert_eq!(firsts(&index, 0, 10), [7]);
    }
}
