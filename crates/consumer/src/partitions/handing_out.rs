//! Positions move with the records that the application receives, and back if it did not get them.
//!
//! ```text
//! drain: take (from) --> records, without a lock --> give_back: advance(from, to)
//! take_back: the drain failed after that: back to `from`
//! ```
//! While records are passed on without a lock, the partition may be sought, revoked or validated.
//! The stamp shows it: see [`Assigned::advance`].

use std::collections::BTreeMap;

use thalweg_protocol::planted::{Bug, is_planted};

use crate::offset_spec::IsolationLevel;
use crate::partitions::state::{FetchPosition, HandedOut, Phase};
use crate::partitions::table::Assigned;

/// The records that a drain took from one fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenRecords {
    handle: u32,
    stamp: u64,
    from: FetchPosition,
    records: usize,
}

impl Assigned {
    /// Moves a position from `from` over the records that were drained. Returns false if the rest
    /// of that fetch is stale.
    ///
    /// The I/O thread may have started to validate the position while records were returned
    /// without a lock. The application has those records, so the position moves anyway. The new
    /// stamp makes the validation of the old position stale, and the new position is validated
    /// instead. But a seek during that time, from a deserializer or another thread, wins.
    pub(crate) fn advance(
        &mut self,
        handle: u32,
        stamp: u64,
        from: i64,
        to: FetchPosition,
        records: usize,
    ) -> bool {
        if let Some((_, state)) = self.by_handle(handle)
            && state.stamp == stamp
            && let Phase::Fetching(position) = &mut state.phase
        {
            debug_assert_eq!(position.offset, from, "fetch offset and position agree");
            *position = to;
            state.hand_out(from, to.offset, records);
            return true;
        }
        self.advance_stale(handle, stamp, from, to, records);
        false
    }

    /// A drain begins. The records that earlier drains took can no longer be taken back.
    pub(crate) fn begin_drain(&mut self) {
        self.taken.clear();
    }

    /// Notes that the drain took records of this partition, starting at this position.
    pub(crate) fn note_taken(
        &mut self,
        handle: u32,
        stamp: u64,
        from: FetchPosition,
        records: usize,
    ) {
        self.asked_for.remove(&handle);
        self.taken.push(TakenRecords {
            handle,
            stamp,
            from,
            records,
        });
    }

    /// Moves the positions back to where the last drain started. Positions that the application
    /// has moved since then, and positions in logs that no longer exist, do not change.
    pub(crate) fn take_back(&mut self) {
        for TakenRecords {
            handle,
            from,
            records,
            ..
        } in self.taken_by_partition()
        {
            let Some((partition, state)) = self.by_handle(handle) else {
                continue;
            };
            let phase = match state.phase {
                Phase::AwaitValidation(_) if from.leader_epoch >= 0 => Phase::AwaitValidation(from),
                Phase::Fetching(_) | Phase::AwaitValidation(_) => Phase::Fetching(from),
                _ => continue,
            };
            let partition = partition.clone();
            let handed_out = state.handed_out;
            self.enter_in_same_topic(&partition, phase);
            // The application keeps the records that it got before.
            if let Some((_, state)) = self.by_handle(handle) {
                state.handed_out = handed_out.map(|out| HandedOut {
                    to: from.offset,
                    records: out.records.saturating_sub(records as u64),
                    ..out
                });
            }
        }
    }

    /// Returns what the last drain took and may give back. Several fetches of one partition become one
    /// entry, which starts where the first of them does.
    fn taken_by_partition(&mut self) -> Vec<TakenRecords> {
        let mut found: Vec<TakenRecords> = Vec::new();
        let mut places: BTreeMap<u32, usize> = BTreeMap::new();
        for each in std::mem::take(&mut self.taken) {
            let state = self.by_handle(each.handle);
            if state.is_none_or(|(_, state)| state.moved_at > each.stamp) {
                continue;
            }
            if let Some(&place) = places.get(&each.handle) {
                found[place].records += each.records;
            } else {
                places.insert(each.handle, found.len());
                found.push(each);
            }
        }
        found
    }

    /// Records the position's distance from the ends of its log for the metrics.
    pub(crate) fn measure(&mut self, handle: u32, stamp: u64, isolation: IsolationLevel) {
        if let Some((_, state)) = self.by_handle(handle)
            && state.stamp == stamp
        {
            state.measure(isolation);
        }
    }

    /// Works like [`Self::advance`], for a partition whose stamp has changed.
    fn advance_stale(
        &mut self,
        handle: u32,
        stamp: u64,
        from: i64,
        to: FetchPosition,
        records: usize,
    ) {
        let Some(partition) = self.name_of(handle).cloned() else {
            return;
        };
        if is_planted(Bug::LostSeek) {
            self.enter_unmoved(&partition, Phase::Fetching(to));
        }
        let state = self.get(&partition);
        let Some(state) = state.filter(|state| state.moved_at <= stamp) else {
            return;
        };
        let moved = match &state.phase {
            // Without an epoch, the position cannot be validated.
            Phase::Fetching(position) if position.offset == from && to.leader_epoch < 0 => {
                Phase::Fetching(to)
            }
            // A validation that finished in the meantime confirmed the old position.
            Phase::Fetching(position) | Phase::AwaitValidation(position)
                if position.offset == from =>
            {
                Phase::AwaitValidation(to)
            }
            _ => return,
        };
        self.enter_unmoved(&partition, moved);
        if let Some((_, state)) = self.by_handle(handle) {
            state.hand_out(from, to.offset, records);
        }
    }
}
