//! The completed fetches of the buffer, in the order in which they are served.
//!
//! ```text
//! push -----> ready [leftovers, P1, P3, ...]  --take_front()-->
//!   |           ^ decoded()
//!   '------> undecoded {P2, P4, ...}
//! ```
//! Fetches that wait for a codec thread are stored separately. With a thousand of them, each
//! search for a ready one would otherwise pass nearly all of them.
//!
//! Whether a batch is decoded is checked under the buffer's lock: when its fetch is added, and
//! when a codec thread reports it ([`RecordSets::decoded`], after it filled the batch's cell).
//! Whichever comes first, the other one finds it.

use std::collections::{BTreeMap, VecDeque};

use thalweg_protocol::planted::{Bug, is_planted};

use crate::assigned::Assigned;
use crate::completed_fetch::CompletedFetch;
use crate::partition_state::{Ahead, PartitionState, Phase};
use crate::topic_partition::TopicPartition;

type Fetches = VecDeque<Box<CompletedFetch>>;

#[derive(Debug, Default)]
pub(crate) struct RecordSets {
    /// The first slot of each can be processed now. Sorted by rank.
    ready: Fetches,
    /// The first batch of each is at a codec thread, or will be. The key is the stamp, which no
    /// two partitions share, and the rank, because a partition may have one fetch that is being
    /// drained and one that was fetched ahead. A job may outlive its fetch and report a later one
    /// of the same stamp.
    undecoded: BTreeMap<(u64, i64), Box<CompletedFetch>>,
    first_rank: i64,
    last_rank: i64,
    /// While this is the last stamp that exists, nothing in `undecoded` is stale. If that is not
    /// known, it is smaller.
    checked_at: u64,
}

impl RecordSets {
    pub(crate) fn push_last(&mut self, mut fetch: Box<CompletedFetch>) {
        self.last_rank += 1;
        fetch.rank = self.last_rank;
        self.add(fetch);
    }

    pub(crate) fn push_first(&mut self, mut fetch: Box<CompletedFetch>) {
        self.first_rank -= 1;
        fetch.rank = self.first_rank;
        self.add(fetch);
    }

    fn add(&mut self, fetch: Box<CompletedFetch>) {
        if fetch.is_ready() {
            self.add_ready(fetch);
            return;
        }
        // A seek may have checked the buffer after this fetch was found to be wanted.
        self.checked_at = self.checked_at.min(fetch.checked_at);
        self.undecoded.insert((fetch.stamp, fetch.rank), fetch);
    }

    fn add_ready(&mut self, fetch: Box<CompletedFetch>) {
        let rank = fetch.rank;
        let index = self.ready.partition_point(|other| other.rank < rank);
        self.ready.insert(index, fetch);
    }

    /// Notes that batches of the partition with this stamp were decoded, not necessarily the
    /// first.
    pub(crate) fn decoded(&mut self, stamp: u64) {
        let of_stamp = self.undecoded.range((stamp, i64::MIN)..=(stamp, i64::MAX));
        let ready = of_stamp.filter(|(_, fetch)| fetch.is_ready());
        let ready: Vec<_> = ready.map(|(key, _)| *key).collect();
        for key in ready {
            if let Some(fetch) = self.undecoded.remove(&key) {
                self.add_ready(fetch);
            }
        }
    }

    /// Returns the rank of the last fetch. Fetches pushed last from now on are beyond it,
    /// leftovers are not.
    pub(crate) fn horizon(&self) -> i64 {
        self.last_rank
    }

    /// Takes out the first fetch that can be drained now: not stale (stale ones are moved to
    /// `stale`), not paused (those stay), its first batch decoded, not beyond `horizon`, and of a
    /// partition in `only` (of any if it is empty).
    pub(crate) fn take_front(
        &mut self,
        assigned: &Assigned,
        only: &[TopicPartition],
        horizon: i64,
        stale: &mut Fetches,
    ) -> Option<Box<CompletedFetch>> {
        if self.checked_at == assigned.last_stamp() {
            debug_assert!(
                self.undecoded
                    .values()
                    .all(|fetch| standing(assigned, fetch) != Standing::Stale),
                "what makes a record set stale gives out a stamp"
            );
        } else {
            self.take_stale_undecoded(assigned, stale);
        }
        let mut index = 0;
        loop {
            let fetch = self.ready.get_mut(index)?;
            if fetch.rank > horizon {
                return None;
            }
            match find(assigned, fetch) {
                Standing::Stale => stale.extend(self.ready.remove(index)),
                Standing::Current if only.is_empty() || only.contains(&fetch.partition) => {
                    return self.ready.remove(index);
                }
                _ => index += 1,
            }
        }
    }

    /// Returns the fetch that is served next, if it can be drained.
    pub(crate) fn front(&mut self, assigned: &Assigned) -> Option<&CompletedFetch> {
        let fetch = self.ready.front_mut()?;
        (find(assigned, fetch) == Standing::Current).then_some(fetch)
    }

    pub(crate) fn pop_front(&mut self) -> Option<Box<CompletedFetch>> {
        self.ready.pop_front()
    }

    /// Takes out the fetches that an assignment or a seek has made stale.
    pub(crate) fn take_stale(&mut self, assigned: &Assigned) -> Fetches {
        let mut stale = Fetches::new();
        for mut fetch in std::mem::take(&mut self.ready) {
            if find(assigned, &mut fetch) == Standing::Stale {
                stale.push_back(fetch);
            } else {
                self.ready.push_back(fetch);
            }
        }
        self.take_stale_undecoded(assigned, &mut stale);
        stale
    }

    /// Takes out stale fetches that wait for a codec. They are never decoded, so they would stay
    /// forever.
    fn take_stale_undecoded(&mut self, assigned: &Assigned, stale: &mut Fetches) {
        let mut gone = Vec::new();
        for (key, fetch) in &mut self.undecoded {
            if find(assigned, fetch) == Standing::Stale {
                gone.push(*key);
            }
        }
        stale.extend(gone.iter().filter_map(|key| self.undecoded.remove(key)));
        self.checked_at = assigned.last_stamp();
    }

    /// Whether a drain would find records now.
    pub(crate) fn has_drainable(&self, assigned: &Assigned) -> bool {
        let mut ready = self.ready.iter();
        ready.any(|fetch| standing(assigned, fetch) == Standing::Current)
    }

    /// Returns the fetches of paused partitions, or all that are ready.
    pub(crate) fn idle_mut<'a>(
        &'a mut self,
        assigned: &'a Assigned,
        all: bool,
    ) -> impl Iterator<Item = &'a mut Box<CompletedFetch>> {
        let ready = self.ready.iter_mut();
        ready.filter(move |fetch| all || standing(assigned, fetch) == Standing::Paused)
    }

    /// Returns the order in which they will be served, if each is decoded in time.
    pub(crate) fn partitions(&self) -> Vec<TopicPartition> {
        let mut all: Vec<_> = self.ready.iter().chain(self.undecoded.values()).collect();
        all.sort_by_key(|fetch| fetch.rank);
        all.iter().map(|fetch| fetch.partition.clone()).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Current,
    Paused,
    /// Fetched ahead, while the fetch before it is being drained.
    Ahead,
    Stale,
}

/// Works like [`standing`], and stores the index so that the next call need not hash a name.
fn find(assigned: &Assigned, fetch: &mut CompletedFetch) -> Standing {
    fetch.index = assigned.index_of(fetch.index, &fetch.partition, fetch.stamp);
    standing(assigned, fetch)
}

fn standing(assigned: &Assigned, fetch: &CompletedFetch) -> Standing {
    let state = assigned.stamped(fetch.index, &fetch.partition, fetch.stamp);
    let Some(PartitionState {
        phase: Phase::Fetching(position),
        paused,
        ahead,
        ..
    }) = state
    else {
        let is_kept = is_planted(Bug::StalePrefetch);
        return if is_kept {
            Standing::Paused
        } else {
            Standing::Stale
        };
    };
    let is_next = position.offset == fetch.next_offset || is_planted(Bug::StalePrefetch);
    let is_ahead = matches!(ahead, Ahead::From(end) if end.offset == fetch.next_offset);
    match (is_next, is_ahead, paused) {
        (false, false, _) => Standing::Stale,
        (_, _, true) => Standing::Paused,
        (true, _, false) => Standing::Current,
        (false, true, false) => Standing::Ahead,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::completed_fetch::{Fault, Slot};
    use crate::job::DecodeCell;
    use crate::memory::FetchMemory;
    use crate::partition_state::FetchPosition;

    /// Some assigned partitions that are read from offset 0.
    #[derive(Default)]
    struct Bench {
        sets: RecordSets,
        assigned: Assigned,
    }

    fn tp(partition: i32) -> TopicPartition {
        TopicPartition::new("t", partition)
    }

    fn at(offset: i64) -> Phase {
        Phase::Fetching(FetchPosition {
            offset,
            leader_epoch: -1,
        })
    }

    impl Bench {
        fn new(partitions: i32) -> Self {
            let mut bench = Self::default();
            let all: Vec<_> = (0..partitions).map(tp).collect();
            bench.assigned.assign(&all);
            for partition in &all {
                bench.assigned.enter(partition, at(0));
            }
            bench
        }

        /// Returns a fetch as it arrives, with these batches being decoded.
        fn fetched(&self, partition: i32, cells: &[&Cell]) -> CompletedFetch {
            let state = self.assigned.get(&tp(partition)).expect("it is assigned");
            let slots = cells.iter().map(|cell| Slot::Decoding(Arc::clone(cell)));
            CompletedFetch {
                partition: tp(partition),
                stamp: state.stamp,
                index: usize::MAX,
                checked_at: self.assigned.last_stamp(),
                rank: 0,
                next_offset: 0,
                leader_epoch: -1,
                slots: slots.collect(),
                end: None,
                frame: Arc::new(FetchMemory::new(1).charge(1)),
            }
        }

        /// Pushes one fetch per partition, each with one batch that is being decoded.
        fn push_all<const N: usize>(&mut self) -> [Cell; N] {
            std::array::from_fn(|partition| {
                let cell = Cell::default();
                let fetch = self.fetched(i32::try_from(partition).expect("few"), &[&cell]);
                self.sets.push_last(Box::new(fetch));
                cell
            })
        }

        fn decode(&mut self, partition: i32, cell: &Cell) {
            cell.fill(Err(Fault(String::new())));
            let stamp = self.assigned.get(&tp(partition)).map(|state| state.stamp);
            self.sets.decoded(stamp.expect("it is assigned"));
        }

        fn take(&mut self) -> Option<Box<CompletedFetch>> {
            let horizon = self.sets.horizon();
            let stale = &mut Fetches::new();
            self.sets.take_front(&self.assigned, &[], horizon, stale)
        }

        fn next(&mut self) -> Option<i32> {
            self.take().map(|fetch| fetch.partition.partition)
        }
    }

    type Cell = Arc<DecodeCell>;

    #[test]
    fn what_is_decoded_late_has_its_place_by_its_arrival() {
        let mut bench = Bench::new(3);
        let cells: [Cell; 3] = bench.push_all();
        assert_eq!(bench.next(), None);
        bench.decode(2, &cells[2]);
        bench.decode(0, &cells[0]);
        assert_eq!(bench.sets.partitions(), [tp(0), tp(1), tp(2)]);
        assert_eq!((bench.next(), bench.next()), (Some(0), Some(2)));
        bench.decode(1, &cells[1]);
        assert_eq!(bench.next(), Some(1));
    }

    #[test]
    fn leftovers_come_before_what_arrived_earlier_and_was_decoded_later() {
        let mut bench = Bench::new(3);
        let cells: [Cell; 3] = bench.push_all();
        bench.decode(1, &cells[1]);
        let leftover = bench.take().expect("it is decoded");
        bench.sets.push_first(leftover);
        bench.decode(0, &cells[0]);
        bench.decode(2, &cells[2]);
        let order = [(); 3].map(|()| bench.next());
        assert_eq!(order, [Some(1), Some(0), Some(2)]);
    }

    #[test]
    fn of_leftovers_the_last_is_the_first_whichever_is_decoded_first() {
        let mut bench = Bench::new(2);
        let cell = Cell::default();
        let in_work = bench.fetched(0, &[&cell]);
        bench.sets.push_first(Box::new(in_work));
        let ready = bench.fetched(1, &[]);
        bench.sets.push_first(Box::new(ready));
        assert_eq!(bench.sets.partitions(), [tp(1), tp(0)]);
        bench.decode(0, &cell);
        assert_eq!(bench.sets.partitions(), [tp(1), tp(0)]);
        assert_eq!((bench.next(), bench.next()), (Some(1), Some(0)));
    }

    #[test]
    fn what_is_decoded_while_it_is_out_is_ready_when_it_is_put_back() {
        let mut bench = Bench::new(1);
        let cell = Cell::default();
        let out = bench.fetched(0, &[&cell]);
        bench.decode(0, &cell);
        bench.sets.push_first(Box::new(out));
        assert_eq!(bench.next(), Some(0));
    }

    /// A fetch whose offsets decrease (nothing checks the base offset of a batch) may end at the
    /// offset where it begins. Two fetches of one partition then begin with the same offset.
    #[test]
    fn two_of_one_partition_in_work_are_kept_apart_though_they_begin_alike() {
        let mut bench = Bench::new(1);
        let cells = [Cell::default(), Cell::default()];
        let ahead = bench.fetched(0, &[&cells[1]]);
        bench.sets.push_last(Box::new(ahead));
        let leftover = bench.fetched(0, &[&cells[0]]);
        bench.sets.push_first(Box::new(leftover));
        assert_eq!(bench.sets.partitions(), [tp(0), tp(0)]);
        bench.decode(0, &cells[1]);
        bench.decode(0, &cells[0]);
        let order = [(); 2].map(|()| bench.take().map(|fetch| fetch.rank));
        assert_eq!(order, [Some(-1), Some(1)]);
    }

    /// The seek checked the buffer before the fetch arrived.
    #[test]
    fn a_fetch_that_was_overtaken_by_a_seek_goes_though_nobody_decodes_it() {
        let mut bench = Bench::new(2);
        let fetch = bench.fetched(1, &[&Cell::default()]);
        bench.assigned.enter(&tp(1), at(7));
        assert!(bench.sets.take_stale(&bench.assigned).is_empty());
        bench.sets.push_last(Box::new(fetch));
        assert_eq!(bench.sets.partitions(), [tp(1)]);
        assert_eq!(bench.next(), None);
        assert_eq!(bench.sets.partitions(), []);
    }

    #[test]
    fn what_is_in_work_for_a_partition_given_away_goes_though_nobody_decodes_it() {
        let mut bench = Bench::new(2);
        let _cells: [Cell; 2] = bench.push_all();
        assert_eq!(bench.next(), None);
        bench.assigned.assign(&[tp(0)]);
        assert_eq!(bench.next(), None);
        assert_eq!(bench.sets.partitions(), [tp(0)]);
    }

    #[test]
    fn what_is_in_work_is_looked_through_only_where_it_may_be_stale() {
        let mut bench = Bench::new(2);
        let cells = [Cell::default(), Cell::default()];
        let two = bench.fetched(0, &[&cells[0], &cells[1]]);
        bench.sets.push_last(Box::new(two));
        bench.assigned.enter(&tp(1), at(7));
        assert_eq!(bench.next(), None);
        let looked = |bench: &Bench| bench.sets.checked_at == bench.assigned.last_stamp();
        assert!(looked(&bench));
        bench.assigned.set_paused(&tp(1), true);
        assert!(looked(&bench), "a pause makes nothing stale");
        bench.decode(0, &cells[1]);
        assert!(
            looked(&bench),
            "nor does a batch that is decoded before the first"
        );
        assert_eq!(bench.next(), None);
        bench.decode(0, &cells[0]);
        assert_eq!(bench.next(), Some(0));
    }
}
