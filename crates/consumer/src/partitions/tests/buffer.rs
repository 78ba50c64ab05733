//! What the partitions hold, and the order in which it is served.

use std::sync::Arc;

use super::{at, tp};
use crate::decoding::completed_fetch::{CompletedFetch, Fault, FetchedBatch};
use crate::decoding::job::DecodeCell;
use crate::fetching::memory::FetchMemory;
use crate::offset_spec::IsolationLevel;
use crate::partitions::state::{FetchPosition, Phase};
use crate::partitions::table::Assigned;
use crate::partitions::{Rest, TakenFetch};
use crate::topic_partition::TopicPartition;

type Cell = Arc<DecodeCell>;

/// Some assigned partitions that are read from offset 0.
#[derive(Default)]
struct Bench {
    assigned: Assigned,
}

impl Bench {
    fn new(partitions: i32) -> Self {
        let mut bench = Self::default();
        let all: Vec<_> = (0..partitions).map(tp).collect();
        bench.assigned.assign(&all);
        for partition in &all {
            bench.assigned.enter(partition, Phase::Fetching(at(0, -1)));
        }
        bench
    }

    /// Returns a fetch as it arrives, with these batches being decoded. It covers the offsets
    /// from `start` to `end`.
    fn fetched(
        &self,
        partition: i32,
        cells: &[&Cell],
        start: i64,
        end: i64,
    ) -> Box<CompletedFetch> {
        let state = self.assigned.get(&tp(partition)).expect("it is assigned");
        let batches = cells
            .iter()
            .map(|cell| FetchedBatch::Decoding(Arc::clone(cell)));
        Box::new(CompletedFetch {
            partition: tp(partition),
            handle: state.handle,
            stamp: state.stamp,
            rank: 0,
            next_offset: start,
            leader_epoch: -1,
            batches: batches.collect(),
            end: Some(at(end, -1)),
            frame: Arc::new(FetchMemory::new(1).charge(1)),
        })
    }

    /// A fetch arrives that covers the offsets 0 to 10.
    fn arrives(&mut self, partition: i32, cells: &[&Cell]) {
        let fetch = self.fetched(partition, cells, 0, 10);
        self.assigned.insert(fetch);
    }

    /// One fetch arrives for each partition, each with one batch that is being decoded.
    fn all_arrive<const N: usize>(&mut self) -> [Cell; N] {
        std::array::from_fn(|partition| {
            let cell = Cell::default();
            self.arrives(i32::try_from(partition).expect("few"), &[&cell]);
            cell
        })
    }

    fn decode(&mut self, partition: i32, cell: &Cell) {
        cell.fill(Err(Fault(String::new())));
        let state = self.assigned.get(&tp(partition)).expect("it is assigned");
        let (handle, stamp) = (state.handle, state.stamp);
        self.assigned.decoded(handle, stamp);
    }

    fn take(&mut self) -> Option<TakenFetch> {
        let scope = self.assigned.scope(&[]);
        self.assigned.take_next(&scope)
    }

    fn next(&mut self) -> Option<i32> {
        self.take().map(|taken| taken.fetch.partition.partition)
    }

    /// Gives a fetch back after records up to `to` were taken from it.
    fn give_back(&mut self, mut taken: TakenFetch, to: i64, rest: Rest) -> bool {
        taken.fetch.next_offset = to;
        taken.records = 1;
        self.assigned.give_back(taken, rest)
    }

    fn phase(&self, partition: i32) -> Option<Phase> {
        self.assigned.get(&tp(partition)).map(|state| state.phase)
    }

    fn next_fetch(&self, partition: i32) -> Option<i64> {
        let state = self.assigned.get(&tp(partition))?;
        let position = state.fetch_position().filter(|_| !state.is_buffered());
        position.map(|FetchPosition { offset, .. }| offset)
    }

    /// The application iterates, and the log continues.
    fn run_ahead(&mut self, partition: i32) -> bool {
        if let Some(state) = self.assigned.edit(&tp(partition)) {
            state.high_watermark = Some(1_000);
        }
        self.assigned.run_ahead(IsolationLevel::ReadUncommitted)
    }
}

fn names(partitions: &[i32]) -> Vec<TopicPartition> {
    partitions.iter().map(|at| tp(*at)).collect()
}

#[test]
fn what_is_decoded_late_has_its_place_by_its_arrival() {
    let mut bench = Bench::new(3);
    let cells: [Cell; 3] = bench.all_arrive();
    assert_eq!(bench.next(), None);
    bench.decode(2, &cells[2]);
    bench.decode(0, &cells[0]);
    assert_eq!(bench.assigned.buffered(), names(&[0, 1, 2]));
    assert_eq!((bench.next(), bench.next()), (Some(0), Some(2)));
    bench.decode(1, &cells[1]);
    assert_eq!(bench.next(), Some(1));
}

#[test]
fn leftovers_come_before_what_arrived_earlier_and_was_decoded_later() {
    let mut bench = Bench::new(3);
    let cells: [Cell; 3] = bench.all_arrive();
    bench.decode(1, &cells[1]);
    let leftover = bench.take().expect("it is decoded");
    assert!(bench.give_back(leftover, 3, Rest::First));
    bench.decode(0, &cells[0]);
    bench.decode(2, &cells[2]);
    let order = [(); 3].map(|()| bench.next());
    assert_eq!(order, [Some(1), Some(0), Some(2)]);
}

#[test]
fn what_was_refused_comes_last() {
    let mut bench = Bench::new(2);
    bench.arrives(0, &[]);
    bench.arrives(1, &[]);
    let refused = bench.take().expect("it is ready");
    bench.assigned.give_back(refused, Rest::Last);
    assert_eq!((bench.next(), bench.next()), (Some(1), Some(0)));
}

#[test]
fn what_is_decoded_while_it_is_out_is_ready_when_it_is_given_back() {
    let mut bench = Bench::new(1);
    let cell = Cell::default();
    bench.arrives(0, &[]);
    let mut out = bench.take().expect("it is ready");
    out.fetch
        .batches
        .push_back(FetchedBatch::Decoding(Arc::clone(&cell)));
    bench.decode(0, &cell);
    assert!(bench.give_back(out, 3, Rest::First));
    assert_eq!(bench.next(), Some(0));
}

#[test]
fn a_drain_leaves_what_arrived_after_it_began() {
    let mut bench = Bench::new(2);
    bench.arrives(0, &[]);
    let scope = bench.assigned.scope(&[]);
    bench.arrives(1, &[]);
    let first = bench.assigned.take_next(&scope).expect("it is ready");
    assert!(bench.give_back(first, 10, Rest::Empty));
    assert!(bench.assigned.take_next(&scope).is_none());
    assert_eq!(bench.next(), Some(1));
}

#[test]
fn only_named_partitions_are_taken_and_paused_ones_stay() {
    let mut bench = Bench::new(3);
    for partition in 0..3 {
        bench.arrives(partition, &[]);
    }
    bench.assigned.set_paused(&tp(0), true);
    let scope = bench.assigned.scope(&[tp(0), tp(2)]);
    let found = bench.assigned.take_next(&scope);
    assert_eq!(found.map(|taken| taken.fetch.partition), Some(tp(2)));
    assert_eq!(bench.next(), Some(1));
    assert!(!bench.assigned.has_ready());
    bench.assigned.set_paused(&tp(0), false);
    assert_eq!(bench.next(), Some(0));
}

/// The seek came before the fetch arrived.
#[test]
fn a_fetch_that_was_overtaken_by_a_seek_goes_though_nobody_decodes_it() {
    let mut bench = Bench::new(2);
    let fetch = bench.fetched(1, &[&Cell::default()], 0, 10);
    bench.assigned.enter(&tp(1), Phase::Fetching(at(7, -1)));
    bench.assigned.insert(fetch);
    assert_eq!(bench.assigned.buffered(), []);
    assert_eq!(bench.assigned.take_dropped().len(), 1);
    assert!(bench.assigned.take_discarded());
    assert_eq!(bench.next_fetch(1), Some(7));
}

#[test]
fn a_seek_and_a_revocation_drop_what_is_held_at_once() {
    let mut bench = Bench::new(3);
    let _cells: [Cell; 3] = bench.all_arrive();
    bench.assigned.enter(&tp(1), Phase::Fetching(at(7, -1)));
    assert_eq!(bench.assigned.buffered(), names(&[0, 2]));
    bench.assigned.assign(&[tp(0)]);
    assert_eq!(bench.assigned.buffered(), names(&[0]));
    assert_eq!(bench.assigned.take_dropped().len(), 2);
}

#[test]
fn what_is_out_during_a_seek_is_dropped_when_it_is_given_back() {
    let mut bench = Bench::new(1);
    bench.arrives(0, &[]);
    let out = bench.take().expect("it is ready");
    assert_eq!(bench.next_fetch(0), None, "what is out counts as buffered");
    bench.assigned.enter(&tp(0), Phase::Fetching(at(7, -1)));
    assert_eq!(bench.next_fetch(0), Some(7));
    let fetch = bench.fetched(0, &[], 7, 20);
    bench.assigned.insert(fetch);
    assert!(!bench.give_back(out, 3, Rest::First));
    assert_eq!(bench.phase(0), Some(Phase::Fetching(at(7, -1))));
    let next = bench.take().expect("the new one is there");
    assert_eq!(next.fetch.next_offset, 7);
}

#[test]
fn a_position_moves_with_what_is_given_back_and_a_drained_partition_is_fetched_again() {
    let mut bench = Bench::new(1);
    bench.arrives(0, &[]);
    bench.assigned.take_touched();
    let out = bench.take().expect("it is ready");
    assert!(bench.give_back(out, 3, Rest::First));
    assert_eq!(bench.phase(0), Some(Phase::Fetching(at(3, -1))));
    assert_eq!(bench.next_fetch(0), None);
    let out = bench.take().expect("its rest");
    assert!(bench.give_back(out, 10, Rest::Empty));
    assert_eq!(bench.next_fetch(0), Some(10));
    assert!(!bench.assigned.take_discarded(), "nothing was lost");
}

#[test]
fn what_was_fetched_ahead_is_served_once_the_fetch_before_is_drained() {
    let mut bench = Bench::new(1);
    bench.arrives(0, &[]);
    assert!(bench.run_ahead(0));
    assert!(!bench.run_ahead(0), "once");
    assert_eq!(bench.next_fetch(0), Some(10));
    let ahead = bench.fetched(0, &[], 10, 20);
    bench.assigned.insert(ahead);
    assert_eq!(bench.assigned.buffered(), names(&[0, 0]));
    assert_eq!(bench.next_fetch(0), None);
    let first = bench.take().expect("it is ready");
    assert!(bench.take().is_none(), "the second waits for the first");
    assert!(bench.give_back(first, 10, Rest::Empty));
    let second = bench.take().expect("it is its turn");
    assert_eq!(second.fetch.next_offset, 10);
    assert!(bench.give_back(second, 20, Rest::Empty));
    assert_eq!(bench.next_fetch(0), Some(20));
}

#[test]
fn a_fetch_ahead_that_is_still_in_flight_is_the_next_one() {
    let mut bench = Bench::new(1);
    bench.arrives(0, &[]);
    assert!(bench.run_ahead(0));
    let ahead = bench.fetched(0, &[], 10, 20);
    let first = bench.take().expect("it is ready");
    assert!(bench.give_back(first, 10, Rest::Empty));
    assert_eq!(bench.next_fetch(0), Some(10));
    bench.assigned.insert(ahead);
    assert_eq!(bench.next_fetch(0), None, "it is not fetched twice");
    assert_eq!(bench.take().map(|next| next.fetch.next_offset), Some(10));
}

/// Its last batch was corrupt, so it ended before its end.
#[test]
fn what_was_fetched_ahead_goes_if_the_fetch_before_ends_early() {
    let mut bench = Bench::new(1);
    bench.arrives(0, &[]);
    assert!(bench.run_ahead(0));
    let [held, late] = [(); 2].map(|()| bench.fetched(0, &[], 10, 20));
    bench.assigned.insert(held);
    let mut first = bench.take().expect("it is ready");
    first
        .fetch
        .batches
        .push_back(FetchedBatch::Failed(Fault("torn".to_owned())));
    first.fetch.next_offset = 4;
    assert!(bench.assigned.give_up(first).is_some());
    assert_eq!(bench.assigned.buffered(), []);
    assert_eq!(bench.next_fetch(0), Some(4));
    bench.assigned.insert(late);
    assert_eq!(
        bench.assigned.buffered(),
        [],
        "it is about another position"
    );
}

/// A fetch whose offsets decrease (nothing checks the base offset of a batch) may end at the offset
/// where it begins. Two fetches of one partition then begin with the same offset.
#[test]
fn two_of_one_partition_are_kept_apart_though_they_begin_alike() {
    let mut bench = Bench::new(1);
    let cells = [Cell::default(), Cell::default()];
    let first = bench.fetched(0, &[&cells[0]], 0, 0);
    bench.assigned.insert(first);
    bench.decode(0, &Cell::default());
    assert!(!bench.run_ahead(0), "the first is not decoded yet");
    bench.decode(0, &cells[0]);
    assert!(bench.run_ahead(0));
    let second = bench.fetched(0, &[&cells[1]], 0, 5);
    bench.assigned.insert(second);
    bench.decode(0, &cells[1]);
    assert_eq!(bench.assigned.buffered(), names(&[0, 0]));
    let first = bench.take().expect("it is decoded");
    assert_eq!(first.fetch.end, Some(at(0, -1)));
    assert!(bench.give_back(first, 0, Rest::Empty));
    let second = bench.take().expect("it is decoded, too");
    assert_eq!(second.fetch.end, Some(at(5, -1)));
}
