//! [`PendingOffsets`]: offsets that groups committed in open transactions (KIP-98, KIP-447).
//!
//! A second transaction may write the same offset while the first is open. Each keeps its own
//! value.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::{ErrorCode, Str};

use crate::offsets::CommittedOffset;

/// At most this many offsets wait for the end of their transactions.
const OFFSETS_MAX: usize = 100_000;

/// Names one offset of one group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) group: Str,
    pub(crate) topic: Str,
    pub(crate) partition: i32,
}

/// An offset, and its position in the order in which all offsets were written.
type PendingOffset = (u64, CommittedOffset);

#[derive(Debug)]
struct Entry {
    /// The partition of `__consumer_offsets` that the group belongs to.
    home: i32,
    pending: PendingOffset,
}

#[derive(Debug, Default)]
pub(crate) struct PendingOffsets {
    by_place: BTreeMap<Place, BTreeMap<i64, Entry>>,
    /// By producer id and home partition, so that a marker ends a transaction without going through
    /// all others.
    by_producer: BTreeMap<(i64, i32), BTreeSet<Place>>,
    count: usize,
}

impl PendingOffsets {
    pub(crate) fn put(
        &mut self,
        (producer_id, home): (i64, i32),
        place: Place,
        pending: PendingOffset,
    ) -> Result<(), ErrorCode> {
        if self.count >= OFFSETS_MAX {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        let places = self.by_producer.entry((producer_id, home)).or_default();
        places.insert(place.clone());
        let producers = self.by_place.entry(place).or_default();
        let entry = Entry { home, pending };
        if producers.insert(producer_id, entry).is_none() {
            self.count += 1;
        }
        Ok(())
    }

    pub(crate) fn contains(&self, place: &Place) -> bool {
        self.by_place.contains_key(place)
    }

    pub(crate) fn has_group(&self, group: &Str) -> bool {
        self.of_group(group).next().is_some()
    }

    fn of_group(&self, group: &Str) -> impl Iterator<Item = &Place> {
        let first = Place {
            group: group.clone(),
            topic: Str::default(),
            partition: i32::MIN,
        };
        let places = self.by_place.range(first..).map(|(place, _)| place);
        places.take_while(move |place| place.group == *group)
    }

    /// Takes out what the producer wrote for the groups of this home partition.
    pub(crate) fn take(&mut self, producer_id: i64, home: i32) -> Vec<(Place, PendingOffset)> {
        let places = self.by_producer.remove(&(producer_id, home));
        let mut taken = Vec::new();
        for place in places.unwrap_or_default() {
            let Some(producers) = self.by_place.get_mut(&place) else {
                continue;
            };
            let entry = producers.remove(&producer_id);
            if producers.is_empty() {
                self.by_place.remove(&place);
            }
            if let Some(entry) = entry {
                taken.push((place, entry.pending));
            }
        }
        self.count -= taken.len();
        taken
    }

    pub(crate) fn forget_group(&mut self, group: &Str) {
        let places: Vec<Place> = self.of_group(group).cloned().collect();
        for place in places {
            self.forget(&place);
        }
    }

    pub(crate) fn forget_topics(&mut self, topics: &BTreeSet<Str>) {
        let places = self.by_place.keys();
        let places: Vec<Place> = places
            .filter(|place| topics.contains(&place.topic))
            .cloned()
            .collect();
        for place in places {
            self.forget(&place);
        }
    }

    pub(crate) fn forget(&mut self, place: &Place) {
        let Some(producers) = self.by_place.remove(place) else {
            return;
        };
        self.count -= producers.len();
        for (producer_id, entry) in producers {
            let key = (producer_id, entry.home);
            if let Some(places) = self.by_producer.get_mut(&key) {
                places.remove(place);
                if places.is_empty() {
                    self.by_producer.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: i32 = 3;

    fn place(partition: i32) -> Place {
        Place {
            group: "g".into(),
            topic: "t".into(),
            partition,
        }
    }

    fn pend(
        pending: &mut PendingOffsets,
        producer_id: i64,
        partition: i32,
    ) -> Result<(), ErrorCode> {
        let place = place(partition);
        let committed = CommittedOffset {
            offset: 1,
            leader_epoch: -1,
            metadata: Str::default(),
            committed_ms: 0,
            expires_ms: None,
        };
        pending.put((producer_id, HOME), place, (0, committed))
    }

    #[test]
    fn there_is_an_end_to_what_waits_and_all_of_it_is_counted() {
        let mut pending = PendingOffsets::default();
        for partition in 0..OFFSETS_MAX as i32 {
            pend(&mut pending, 7, partition).unwrap();
        }
        let refused = pend(&mut pending, 8, 0);
        assert_eq!(refused, Err(ErrorCode::POLICY_VIOLATION));
        assert_eq!(pending.take(7, HOME + 1).len(), 0);
        assert_eq!(pending.take(7, HOME).len(), OFFSETS_MAX);
        assert_eq!((pending.count, pending.has_group(&"g".into())), (0, false));
        pend(&mut pending, 7, 1).unwrap();
        pend(&mut pending, 8, 1).unwrap();
        pend(&mut pending, 8, 1).unwrap();
        assert_eq!(pending.count, 2);
        pending.forget(&place(1));
        assert_eq!(pending.count, 0);
        assert!(pending.by_producer.is_empty());
        for forget in [
            (|pending| pending.forget_group(&"g".into())) as fn(&mut PendingOffsets),
            |pending| pending.forget_topics(&BTreeSet::from(["t".into()])),
        ] {
            pend(&mut pending, 7, 1).unwrap();
            pend(&mut pending, 8, 2).unwrap();
            forget(&mut pending);
            assert_eq!((pending.count, pending.by_producer.len()), (0, 0));
        }
    }
}
