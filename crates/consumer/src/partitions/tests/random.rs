//! Random sequences of what happens to a table: whatever the order, what is held begins at the
//! position, is listed exactly once, and is never fetched twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::{at, tp};
use crate::decoding::completed_fetch::{CompletedFetch, Fault, FetchedBatch};
use crate::decoding::job::DecodeCell;
use crate::fetching::memory::FetchMemory;
use crate::offset_spec::IsolationLevel;
use crate::partitions::state::{Ahead, Current, Leader, Phase};
use crate::partitions::table::Assigned;
use crate::partitions::{Rest, TakenFetch};

const PARTITIONS: i32 = 3;
const FETCH_LEN: i64 = 10;

#[derive(Clone, Debug)]
enum Step {
    /// A fetch from where the partition is fetched next is sent.
    Send(i32),
    /// The response of the oldest fetch in flight arrives, with its batch decoded or not.
    Arrive(i32, bool),
    Decode(i32),
    Take(Vec<i32>),
    /// What is out is given back after this number of records.
    GiveBack(i64, bool),
    GiveUp,
    RunAhead,
    Seek(i32, i64),
    /// A leader of another epoch.
    Elect(i32, i32),
    Confirm(i32),
    Pause(i32, bool),
    Assign(Vec<i32>),
    TakeBack,
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..PARTITIONS;
    prop_oneof![
        6 => partition.clone().prop_map(Step::Send),
        6 => (partition.clone(), any::<bool>()).prop_map(|(at, done)| Step::Arrive(at, done)),
        4 => partition.clone().prop_map(Step::Decode),
        6 => prop::collection::vec(partition.clone(), 0..2).prop_map(Step::Take),
        6 => (0..=FETCH_LEN, any::<bool>()).prop_map(|(n, last)| Step::GiveBack(n, last)),
        1 => Just(Step::GiveUp),
        3 => Just(Step::RunAhead),
        1 => (partition.clone(), 0..100_i64).prop_map(|(at, to)| Step::Seek(at, to)),
        1 => (partition.clone(), 2..5).prop_map(|(at, epoch)| Step::Elect(at, epoch)),
        2 => partition.clone().prop_map(Step::Confirm),
        1 => (partition.clone(), any::<bool>()).prop_map(|(at, paused)| Step::Pause(at, paused)),
        1 => prop::collection::vec(partition, 0..4).prop_map(Step::Assign),
        1 => Just(Step::TakeBack),
    ]
}

#[derive(Default)]
struct World {
    assigned: Assigned,
    in_flight: BTreeMap<i32, Vec<CompletedFetch>>,
    cells: Vec<(i32, u64, Arc<DecodeCell>)>,
    out: Vec<TakenFetch>,
}

impl World {
    fn send(&mut self, partition: i32) {
        let Some(state) = self.assigned.get(&tp(partition)) else {
            return;
        };
        let position = state.fetch_position().filter(|_| !state.is_buffered());
        let Some(from) = position else { return };
        let in_flight = self.in_flight.entry(partition).or_default();
        let twice = in_flight.iter().any(|fetch| fetch.stamp == state.stamp);
        // A partition has one fetch in flight.
        if twice {
            return;
        }
        in_flight.push(CompletedFetch {
            partition: tp(partition),
            handle: state.handle,
            stamp: state.stamp,
            rank: 0,
            next_offset: from.offset,
            leader_epoch: 1,
            batches: [].into(),
            end: Some(at(from.offset + FETCH_LEN, 1)),
            frame: Arc::new(FetchMemory::new(1).charge(1)),
        });
    }

    fn arrive(&mut self, partition: i32, decoded: bool) {
        let in_flight = self.in_flight.entry(partition).or_default();
        if in_flight.is_empty() {
            return;
        }
        let mut fetch = in_flight.remove(0);
        let cell = Arc::new(DecodeCell::default());
        if decoded {
            cell.fill(Err(Fault(String::new())));
        } else {
            self.cells.push((partition, fetch.stamp, Arc::clone(&cell)));
        }
        fetch.batches.push_back(FetchedBatch::Decoding(cell));
        if let Some(state) = self.assigned.edit(&tp(partition)) {
            state.high_watermark = Some(1_000);
        }
        self.assigned.insert(Box::new(fetch));
    }

    fn decode(&mut self, partition: i32) {
        let index = self.cells.iter().position(|(of, _, _)| *of == partition);
        let Some(index) = index else { return };
        let (_, stamp, cell) = self.cells.remove(index);
        cell.fill(Err(Fault(String::new())));
        if let Some(state) = self.assigned.get(&tp(partition)) {
            let handle = state.handle;
            self.assigned.decoded(handle, stamp);
        }
    }

    fn take(&mut self, only: &[i32]) {
        let only: Vec<_> = only.iter().map(|at| tp(*at)).collect();
        // One thread takes one at a time.
        if self.out.is_empty() {
            self.assigned.begin_drain();
            let scope = self.assigned.scope(&only);
            self.out.extend(self.assigned.take_next(&scope));
        }
    }

    fn give_back(&mut self, records: i64, last: bool) {
        let Some(mut taken) = self.out.pop() else {
            return;
        };
        let fetch = &mut taken.fetch;
        let end = fetch.end.map_or(i64::MAX, |end| end.offset);
        fetch.next_offset = (fetch.next_offset + records).min(end);
        let rest = match (fetch.next_offset == end, last) {
            (true, _) => Rest::Empty,
            (false, true) => Rest::Last,
            (false, false) => Rest::First,
        };
        if rest == Rest::Empty {
            fetch.batches.clear();
        }
        taken.records = records as usize;
        let (handle, stamp, from) = (fetch.handle, fetch.stamp, taken.from);
        self.assigned.note_taken(handle, stamp, from, taken.records);
        self.assigned.give_back(taken, rest);
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Send(partition) => self.send(*partition),
            Step::Arrive(partition, decoded) => self.arrive(*partition, *decoded),
            Step::Decode(partition) => self.decode(*partition),
            Step::Take(only) => self.take(only),
            Step::GiveBack(records, last) => self.give_back(*records, *last),
            Step::GiveUp => {
                if let Some(taken) = self.out.pop() {
                    self.assigned.give_up(taken);
                }
            }
            Step::RunAhead => {
                self.assigned.run_ahead(IsolationLevel::ReadUncommitted);
            }
            Step::Seek(partition, to) => {
                self.assigned
                    .enter(&tp(*partition), Phase::Fetching(at(*to, -1)));
            }
            Step::Elect(partition, epoch) => {
                let leader = Leader {
                    node: *epoch,
                    epoch: *epoch,
                };
                self.assigned.set_leader(&tp(*partition), Some(leader));
            }
            Step::Confirm(partition) => {
                let phase = self.assigned.get(&tp(*partition)).map(|state| state.phase);
                if let Some(Phase::AwaitValidation(position)) = phase {
                    self.assigned
                        .enter_unmoved(&tp(*partition), Phase::Fetching(position));
                }
            }
            Step::Pause(partition, paused) => {
                self.assigned.set_paused(&tp(*partition), *paused);
            }
            Step::Assign(partitions) => {
                let wanted: Vec<_> = partitions.iter().map(|at| tp(*at)).collect();
                self.assigned.assign(&wanted);
                for partition in &wanted {
                    let is_new = self
                        .assigned
                        .get(partition)
                        .is_some_and(|state| state.phase == Phase::Initializing);
                    if is_new {
                        self.assigned.enter(partition, Phase::Fetching(at(0, 1)));
                    }
                }
            }
            Step::TakeBack => {
                if self.out.is_empty() {
                    self.assigned.take_back();
                }
            }
        }
    }

    fn check(&self) {
        let mut listed = self.assigned.buffered();
        let ready = self.assigned.order.ready();
        let ready: BTreeMap<i64, u32> = ready.collect();
        for (partition, state) in self.assigned.iter() {
            let mut held = 0;
            if let Current::Held(fetch) = &state.current {
                held += 1;
                assert_eq!(fetch.stamp, state.stamp, "{partition} holds what is stale");
                let position = state.valid_position().map(|at| at.offset);
                assert_eq!(position, Some(fetch.next_offset), "{partition}");
                let is_ready = fetch.is_ready() && !state.paused;
                assert_eq!(ready.contains_key(&fetch.rank), is_ready, "{partition}");
            }
            if let Ahead::Held(fetch) = &state.ahead {
                held += 1;
                assert_eq!(fetch.stamp, state.stamp, "{partition} holds what is stale");
                assert!(!ready.contains_key(&fetch.rank), "{partition}");
            }
            if !matches!(state.ahead, Ahead::No) {
                let has_current = !matches!(state.current, Current::None);
                assert!(has_current, "{partition} reads ahead of nothing");
            }
            if matches!(state.current, Current::Out) {
                let is_out = |taken: &TakenFetch| taken.fetch.handle == state.handle;
                assert!(self.out.iter().any(is_out), "{partition} stays silent");
            }
            let before = listed.len();
            listed.retain(|of| of != partition);
            assert_eq!(
                before - listed.len(),
                held,
                "{partition} is listed as often"
            );
        }
        assert!(listed.is_empty(), "revoked ones are listed: {listed:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_held_begins_at_the_position_and_is_listed_once(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut world = World::default();
        world.run(&Step::Assign((0..PARTITIONS).collect()));
        for step in &steps {
            world.run(step);
            world.check();
        }
    }
}
