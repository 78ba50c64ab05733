//! Positions, phases, stamps and what the fetcher must check.

use super::{at, tp};
use crate::offset_spec::OffsetReset;
use crate::partitions::state::{Leader, Phase};
use crate::partitions::table::Assigned;

fn handle(assigned: &Assigned, partition: i32) -> u32 {
    assigned.get(&tp(partition)).map_or(0, |state| state.handle)
}

fn fetching(partitions: i32) -> Assigned {
    let mut assigned = Assigned::default();
    assigned.assign(&(0..partitions).map(tp).collect::<Vec<_>>());
    for partition in 0..partitions {
        assigned.enter(&tp(partition), Phase::Fetching(at(0, 1)));
        assigned.set_leader(&tp(partition), Some(Leader { node: 1, epoch: 1 }));
    }
    assigned.take_touched();
    for partition in 0..partitions {
        let handle = assigned.get(&tp(partition)).map_or(0, |state| state.handle);
        if let Some((_, state)) = assigned.by_handle(handle) {
            state.touched = false;
        }
    }
    assigned
}

#[test]
fn only_what_was_changed_is_looked_at_and_once() {
    let mut assigned = fetching(1000);
    assigned.touch(&tp(7));
    assigned.set_paused(&tp(7), true);
    assigned.set_leader(&tp(8), Some(Leader { node: 1, epoch: 1 }));
    assert_eq!(assigned.take_touched().len(), 1);
}

#[test]
fn a_partition_that_stays_is_advanced_wherever_it_stands_now() {
    let mut assigned = fetching(2);
    let stamp = assigned.get(&tp(1)).map_or(0, |state| state.stamp);
    assigned.assign(&[tp(1)]);
    assert!(assigned.advance(handle(&assigned, 1), stamp, 0, at(10, 1), 1));
    let phase = assigned.get(&tp(1)).map(|state| state.phase);
    assert_eq!(phase, Some(Phase::Fetching(at(10, 1))));
}

#[test]
fn records_handed_out_while_a_validation_began_move_the_position_all_the_same() {
    let mut assigned = fetching(1);
    let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
    assigned.set_leader(&tp(0), Some(Leader { node: 2, epoch: 2 }));
    assert!(
        !assigned.advance(handle(&assigned, 0), stamp, 0, at(10, 1), 1),
        "the rest is worthless"
    );
    let phase = assigned.get(&tp(0)).map(|state| state.phase);
    assert_eq!(phase, Some(Phase::AwaitValidation(at(10, 1))));
}

#[test]
fn a_position_confirmed_while_records_were_out_is_not_the_one_they_lead_to() {
    for (epoch, expected) in [
        (1, Phase::AwaitValidation(at(10, 1))),
        (-1, Phase::Fetching(at(10, -1))),
    ] {
        let mut assigned = fetching(1);
        let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
        assigned.set_leader(&tp(0), Some(Leader { node: 2, epoch: 2 }));
        assigned.enter_unmoved(&tp(0), Phase::Fetching(at(0, 1)));
        assert!(!assigned.advance(handle(&assigned, 0), stamp, 0, at(10, epoch), 1));
        let phase = assigned.get(&tp(0)).map(|state| state.phase);
        assert_eq!(phase, Some(expected));
    }
}

/// The targets include the offset where the drain started, which is also the offset that a
/// validation would confirm.
#[test]
fn a_seek_while_records_are_out_counts_wherever_it_leads() {
    for sought in [
        Phase::Fetching(at(0, -1)),
        Phase::Fetching(at(3, -1)),
        Phase::AwaitValidation(at(0, 1)),
        Phase::AwaitReset(OffsetReset::Earliest),
    ] {
        let mut assigned = fetching(1);
        let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
        assigned.enter(&tp(0), sought);
        // A new leader does not turn the seek into a validated position.
        assigned.set_leader(&tp(0), Some(Leader { node: 2, epoch: 2 }));
        assert!(!assigned.advance(handle(&assigned, 0), stamp, 0, at(10, 1), 1));
        assert_eq!(assigned.get(&tp(0)).map(|state| state.phase), Some(sought));
    }
}

#[test]
fn a_drain_is_taken_back_to_where_it_began() {
    let mut assigned = fetching(2);
    let stamp = |assigned: &Assigned, of| assigned.get(&tp(of)).map_or(0, |state| state.stamp);
    let phase = |assigned: &Assigned, of| assigned.get(&tp(of)).map(|state| state.phase);
    let (first, second) = (stamp(&assigned, 0), stamp(&assigned, 1));
    assigned.begin_drain();
    for (from, to) in [(0, 5), (5, 9)] {
        assigned.advance(handle(&assigned, 0), first, from, at(to, 1), 1);
        assigned.note_taken(handle(&assigned, 0), first, at(from, 1), 1);
    }
    assigned.advance(handle(&assigned, 1), second, 0, at(7, 1), 1);
    assigned.note_taken(handle(&assigned, 1), second, at(0, 1), 1);
    // The application has sought in partition 1, and a new leader must confirm partition 0.
    assigned.enter(&tp(1), Phase::Fetching(at(3, -1)));
    assigned.set_leader(&tp(0), Some(Leader { node: 2, epoch: 2 }));
    assigned.take_back();
    assert_eq!(phase(&assigned, 0), Some(Phase::AwaitValidation(at(0, 1))));
    assert_eq!(phase(&assigned, 1), Some(Phase::Fetching(at(3, -1))));
    assigned.enter(&tp(0), Phase::Fetching(at(5, 1)));
    assigned.take_back();
    assert_eq!(phase(&assigned, 0), Some(Phase::Fetching(at(5, 1))), "once");
}

#[test]
fn a_drain_of_several_fetches_is_taken_back_whole() {
    let mut assigned = fetching(1);
    let (handle, stamp) = assigned
        .get(&tp(0))
        .map_or((0, 0), |state| (state.handle, state.stamp));
    assigned.advance(handle, stamp, 0, at(3, 1), 3);
    assigned.begin_drain();
    for (from, to, records) in [(3, 5, 2), (5, 9, 4)] {
        assigned.advance(handle, stamp, from, at(to, 1), records);
        assigned.note_taken(handle, stamp, at(from, 1), records);
    }
    assigned.take_back();
    let state = assigned.get(&tp(0));
    assert_eq!(
        state.map(|state| state.phase),
        Some(Phase::Fetching(at(3, 1)))
    );
    let out = state.and_then(|state| state.handed_out);
    assert_eq!(
        out.map(|out| (out.from, out.to, out.records)),
        Some((0, 3, 3))
    );
}

#[test]
fn a_partition_given_away_and_back_while_records_are_out_begins_anew() {
    let mut assigned = fetching(1);
    let stamp = assigned.get(&tp(0)).map_or(0, |state| state.stamp);
    assigned.assign(&[]);
    assigned.assign(&[tp(0)]);
    assigned.enter(&tp(0), Phase::Fetching(at(0, 1)));
    assert!(!assigned.advance(handle(&assigned, 0), stamp, 0, at(10, 1), 1));
    let phase = assigned.get(&tp(0)).map(|state| state.phase);
    assert_eq!(phase, Some(Phase::Fetching(at(0, 1))));
}

#[test]
fn staying_partitions_keep_their_state_and_doubles_count_once() {
    let mut assigned = fetching(3);
    let handle = assigned.get(&tp(1)).map(|state| state.handle);
    assigned.assign(&[tp(1), tp(1), tp(9)]);
    assert_eq!(assigned.get(&tp(1)).map(|state| state.handle), handle);
    assert_eq!(assigned.iter().count(), 2);
    assert_eq!(assigned.take_removed().len(), 2);
}

#[test]
fn the_same_leader_after_a_gap_is_no_new_leader() {
    let mut assigned = fetching(1);
    assigned.set_leader(&tp(0), None);
    assigned.set_leader(&tp(0), Some(Leader { node: 1, epoch: 1 }));
    assert!(matches!(
        assigned.get(&tp(0)).map(|s| s.phase),
        Some(Phase::Fetching(_))
    ));
}
