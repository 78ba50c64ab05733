//! Decides which batches of one fetch response `read_committed` must hide.
//!
//! ```text
//! aborted list of the response: (producer, first offset of the aborted transaction)
//! batches in order:  data p=1 | data p=2 | ABORT p=1 | data p=1 ...
//!                    hidden     shown      hidden      shown
//! ```
//! A producer's batches are hidden from the listed offset until its abort marker. Control batches
//! are never returned to any reader. The filter sorts the list, because some brokers send it
//! unsorted, and then aborted records would be returned.

use std::collections::{BTreeSet, VecDeque};

use thalweg_protocol::messages::fetch::AbortedTransaction;
use thalweg_protocol::planted::{Bug, is_planted};
use thalweg_records::control::ControlRecord;

#[derive(Debug, Default)]
pub(crate) struct AbortedFilter {
    /// (first offset, producer ID), ascending: transactions that have not started yet.
    ahead: VecDeque<(i64, i64)>,
    /// Producers with an open transaction that will be aborted.
    open: BTreeSet<i64>,
}

impl AbortedFilter {
    pub(crate) fn new(aborted: &[AbortedTransaction]) -> Self {
        let mut ahead: Vec<_> = aborted
            .iter()
            .map(|t| (t.first_offset, t.producer_id))
            .collect();
        ahead.sort_unstable();
        Self {
            ahead: ahead.into(),
            open: BTreeSet::new(),
        }
    }

    /// Whether a data batch belongs to an aborted transaction. Pass batches in offset order.
    pub(crate) fn hides(
        &mut self,
        last_offset: i64,
        producer_id: i64,
        is_transactional: bool,
    ) -> bool {
        self.begin_until(last_offset);
        is_transactional && self.open.contains(&producer_id)
    }

    /// Processes a control batch, which may end an aborted transaction.
    pub(crate) fn control(
        &mut self,
        last_offset: i64,
        producer_id: i64,
        record: Option<ControlRecord>,
    ) {
        self.begin_until(last_offset);
        // Only an abort ends an aborted transaction. A marker of a transaction without data has no
        // entry in the list, so removing nothing is correct.
        if let Some(ControlRecord::Abort { .. }) = record {
            self.open.remove(&producer_id);
        }
    }

    fn begin_until(&mut self, last_offset: i64) {
        while let Some(&(first_offset, producer_id)) = self.ahead.front() {
            if first_offset > last_offset - i64::from(is_planted(Bug::AbortedLeak)) {
                break;
            }
            self.ahead.pop_front();
            self.open.insert(producer_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aborted(list: &[(i64, i64)]) -> AbortedFilter {
        let list: Vec<_> = list
            .iter()
            .map(|&(producer_id, first_offset)| AbortedTransaction {
                producer_id,
                first_offset,
            })
            .collect();
        AbortedFilter::new(&list)
    }

    const ABORT: Option<ControlRecord> = Some(ControlRecord::Abort {
        coordinator_epoch: 0,
    });
    const COMMIT: Option<ControlRecord> = Some(ControlRecord::Commit {
        coordinator_epoch: 0,
    });

    #[test]
    fn hides_from_the_first_offset_until_the_abort_marker() {
        let mut filter = aborted(&[(1, 10)]);
        assert!(!filter.hides(9, 1, true));
        assert!(filter.hides(12, 1, true));
        assert!(!filter.hides(14, 2, true));
        assert!(!filter.hides(15, 1, false));
        filter.control(16, 1, ABORT);
        assert!(!filter.hides(18, 1, true));
    }

    #[test]
    fn takes_an_unsorted_list() {
        let mut filter = aborted(&[(2, 50), (1, 10), (1, 30)]);
        assert!(filter.hides(10, 1, true));
        filter.control(11, 1, ABORT);
        assert!(!filter.hides(20, 1, true));
        assert!(filter.hides(30, 1, true));
        assert!(filter.hides(50, 2, true));
    }

    #[test]
    fn a_commit_or_a_marker_without_data_hides_nothing_more() {
        let mut filter = aborted(&[(1, 10)]);
        filter.control(5, 7, ABORT);
        filter.control(6, 1, COMMIT);
        assert!(!filter.hides(8, 7, true));
        assert!(filter.hides(10, 1, true));
    }
}
