//! Records that a cluster has lost by unclean elections and with deleted topics.

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;
use thalweg_records::{Decompressor, batches};

use crate::history::RecordId;
use crate::history::content::number_in;

/// The records that one event took, with their offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    at: Instant,
    records: BTreeSet<(RecordId, i64)>,
}

/// All losses of a run, in the order of time.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Losses(Vec<Loss>);

impl From<Vec<Loss>> for Losses {
    fn from(mut losses: Vec<Loss>) -> Self {
        losses.sort_by_key(|loss| loss.at);
        Self(losses)
    }
}

impl Losses {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a loss explains that an acknowledged record is not in the log.
    ///
    /// Without an offset (-1) the acknowledgement was inferred from that of a later record, which
    /// must have been in the same log. A log that got the later record after this one was lost
    /// proves nothing.
    pub(crate) fn excuse(&self, (lane, number): RecordId, offset: i64) -> bool {
        let mut had_later = false;
        self.0.iter().any(|loss| {
            if offset >= 0 {
                return loss.records.contains(&((lane, number), offset));
            }
            let later = ((lane, number + 1), i64::MIN)..((lane + 1, 0), i64::MIN);
            had_later |= loss.records.range(later).next().is_some();
            let this = ((lane, number), i64::MIN)..((lane, number + 1), i64::MIN);
            had_later && loss.records.range(this).next().is_some()
        })
    }
}

impl Loss {
    pub(crate) fn of(at: Instant, lane: i32, lost: &[Bytes]) -> Self {
        let mut records = BTreeSet::new();
        for bytes in lost {
            for batch in batches(bytes.clone()).flatten() {
                let decoded = batch.decode(&mut Decompressor::new(), usize::MAX);
                let decoded = decoded.expect("the broker has checked what it stored");
                for record in decoded.iter().flatten() {
                    let number = number_in(lane, &record).unwrap_or(u64::MAX);
                    records.insert(((lane, number), record.offset));
                }
            }
        }
        Self { at, records }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(events: &[&[(u64, i64)]]) -> Losses {
        // Any start time will do.
        let start = Instant::now();
        let of = |records: &[(u64, i64)]| {
            records
                .iter()
                .map(|&(n, offset)| ((0, n), offset))
                .collect()
        };
        let events: Vec<_> = (0..).zip(events).collect();
        let all = events.into_iter().map(|(second, records)| Loss {
            at: start + std::time::Duration::from_secs(second),
            records: of(records),
        });
        Losses::from(all.rev().collect::<Vec<_>>())
    }

    #[test]
    fn a_record_that_was_lost_where_it_was_acknowledged_is_excused() {
        let losses = losses(&[&[(7, 70)]]);
        assert!(losses.excuse((0, 7), 70));
        assert!(!losses.excuse((0, 7), 71) && !losses.excuse((1, 7), 70));
    }

    #[test]
    fn an_inferred_acknowledgement_needs_a_later_record_in_the_same_log() {
        assert!(losses(&[&[(7, 70), (8, 71)]]).excuse((0, 7), -1));
        assert!(losses(&[&[(8, 71)], &[(7, 70)]]).excuse((0, 7), -1));
        assert!(!losses(&[&[(7, 70)], &[(8, 70)]]).excuse((0, 7), -1));
        assert!(!losses(&[&[(7, 70)]]).excuse((0, 7), -1));
    }
}
