//! [`PendingOffsets`]: what groups committed in transactions that are open (KIP-98, KIP-447).
//!
//! A second transaction may write the same offset while the first is open: each has its own.

use std::collections::BTreeMap;

use thalweg_protocol::{ErrorCode, Str};

use crate::offsets::CommittedOffset;

/// More offsets than this do not wait for their transactions' ends.
const OFFSETS_MAX: usize = 100_000;

/// Which offset of which group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) group: Str,
    pub(crate) topic: Str,
    pub(crate) partition: i32,
}

/// An offset, and when it was written among all others.
type Pending = (u64, CommittedOffset);

#[derive(Debug, Default)]
pub(crate) struct PendingOffsets {
    by_place: BTreeMap<Place, BTreeMap<i64, Pending>>,
    count: usize,
}

impl PendingOffsets {
    pub(crate) fn put(
        &mut self,
        producer_id: i64,
        place: Place,
        pending: Pending,
    ) -> Result<(), ErrorCode> {
        if self.count >= OFFSETS_MAX {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        let producers = self.by_place.entry(place).or_default();
        if producers.insert(producer_id, pending).is_none() {
            self.count += 1;
        }
        Ok(())
    }

    pub(crate) fn contains(&self, group: &str, topic: &str, partition: i32) -> bool {
        let place = Place {
            group: group.into(),
            topic: topic.into(),
            partition,
        };
        self.by_place.contains_key(&place)
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        let first = Place {
            group: group.into(),
            topic: Str::default(),
            partition: i32::MIN,
        };
        let next = self.by_place.range(first..).next();
        next.is_some_and(|(place, _)| place.group.as_str() == group)
    }

    /// Takes out what the producer wrote for the groups that `concerns`.
    pub(crate) fn take(
        &mut self,
        producer_id: i64,
        concerns: impl Fn(&str) -> bool,
    ) -> Vec<(Place, Pending)> {
        let mut taken = Vec::new();
        self.by_place.retain(|place, producers| {
            if concerns(&place.group)
                && let Some(pending) = producers.remove(&producer_id)
            {
                taken.push((place.clone(), pending));
            }
            !producers.is_empty()
        });
        self.count -= taken.len();
        taken
    }

    pub(crate) fn forget(&mut self, is_meant: impl Fn(&Place) -> bool) {
        self.by_place.retain(|place, producers| {
            let goes = is_meant(place);
            if goes {
                self.count -= producers.len();
            }
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pend(
        pending: &mut PendingOffsets,
        producer_id: i64,
        partition: i32,
    ) -> Result<(), ErrorCode> {
        let place = Place {
            group: "g".into(),
            topic: "t".into(),
            partition,
        };
        let committed = CommittedOffset {
            offset: 1,
            leader_epoch: -1,
            metadata: Str::default(),
            committed_ms: 0,
            expires_ms: None,
        };
        pending.put(producer_id, place, (0, committed))
    }

    #[test]
    fn there_is_an_end_to_what_waits_and_all_of_it_is_counted() {
        let mut pending = PendingOffsets::default();
        for partition in 0..OFFSETS_MAX as i32 {
            pend(&mut pending, 7, partition).unwrap();
        }
        let refused = pend(&mut pending, 8, 0);
        assert_eq!(refused, Err(ErrorCode::POLICY_VIOLATION));
        assert_eq!(pending.take(7, |_| false).len(), 0);
        assert_eq!(pending.take(7, |group| group == "g").len(), OFFSETS_MAX);
        assert_eq!((pending.count, pending.has_group("g")), (0, false));
        pend(&mut pending, 7, 1).unwrap();
        pend(&mut pending, 8, 1).unwrap();
        pend(&mut pending, 8, 1).unwrap();
        assert_eq!(pending.count, 2);
        pending.forget(|place| place.partition == 1);
        assert_eq!(pending.count, 0);
    }
}
