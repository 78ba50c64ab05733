//! Returns one record at a time, for an iteration.
//!
//! ```text
//!  held by the partition        in hand                      sink
//!  [P0 1000]  --take-->         P0 1000  --step--> one record, one record, ...
//!      <--settled()--           P0 400     on any other call, the position moves over the 600
//! ```
//! Within a batch, a step does not take the table's lock. Between two steps, the fetch is in hand:
//! it is not in the table, and the position stays where the first step started, until
//! [`Partitions::settled`] moves it. Other threads may change something while a step's sink runs
//! and nothing can be settled. Such changes are counted ([`Partitions::changes`]) and end these
//! steps.
//!
//! An iteration needs a long time for one fetch, and nothing else would fetch its partition in the
//! meantime. So for fetching, the fetch that is served next counts as drained. If the log is known
//! to continue, the records after it are fetched *ahead* ([`super::state::Ahead`]), into a second
//! fetch that waits until the position reaches it. If the broker responds to that request with an
//! error, the error is ignored: the later fetch from the position will get it again.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::MutexGuard;

use super::{Guard, Partitions, Rest, State, TakenFetch};
use crate::draining::drain::{Drained, Stop, take};
use crate::draining::sink::RecordSink;
use crate::sync;

/// The fetch that steps are taken through.
#[derive(Debug, Default)]
pub(super) enum InHand {
    #[default]
    Nothing,
    Held(Steps),
    /// A step is running, and has taken it.
    Running,
}

#[derive(Debug)]
pub(super) struct Steps {
    taken: TakenFetch,
    /// The count of changes when the fetch was taken out of the table.
    changes: u64,
}

impl Partitions {
    /// Locks the table for the application. The positions include the steps of an iteration,
    /// except for one that is running in another thread now.
    pub(super) fn settled(&self) -> Guard<'_> {
        let mut guard = self.lock();
        if !guard.state().has_in_hand {
            return guard;
        }
        drop(guard);
        let (mut in_hand, mut guard) = self.lock_both();
        if matches!(*in_hand, InHand::Held(_))
            && let InHand::Held(steps) = std::mem::take(&mut *in_hand)
        {
            self.put_back(steps, Rest::First, &mut guard);
        }
        guard
    }

    /// Adds the steps so far to the counter of records.
    pub(crate) fn count_steps(&self) {
        drop(self.settled());
    }

    /// Takes both locks. While it waits for one, it does not hold the other.
    fn lock_both(&self) -> (MutexGuard<'_, InHand>, Guard<'_>) {
        loop {
            let in_hand = sync::lock(&self.in_hand);
            if let Some(state) = sync::try_lock(&self.state) {
                return (in_hand, self.guard(state));
            }
            drop(in_hand);
            sync::wait(&self.state);
        }
    }

    /// Nothing is in hand any more: moves the position over the steps. The caller holds both locks,
    /// and has emptied `in_hand`.
    fn put_back(&self, steps: Steps, rest: Rest, guard: &mut Guard<'_>) {
        guard.state().has_in_hand = false;
        self.records_consumed.add(steps.taken.records as u64);
        guard.give_back(steps.taken, rest);
    }

    /// Takes the fetch that is served next in hand, if steps can be taken through it.
    pub(crate) fn take_in_hand(&self) {
        let (mut in_hand, mut guard) = self.lock_both();
        let State {
            assigned,
            errors,
            has_in_hand,
            ..
        } = guard.state();
        if *has_in_hand || !errors.is_empty() {
            return;
        }
        if let Some(taken) = assigned.take_amid_batch() {
            *has_in_hand = true;
            *in_hand = InHand::Held(Steps {
                taken,
                changes: self.changes(),
            });
        }
    }

    /// Passes the next record in hand to the sink. Returns `None` if there is none, or if
    /// something has changed. Only one thread at a time may call it. The sink must not run foreign
    /// code, because a position that it reads would be that of an earlier step.
    pub(crate) fn step<S: RecordSink>(&self, sink: &mut S) -> Option<Drained> {
        // The fetch is taken out, so that no lock is held while the sink builds its record.
        let mut steps = {
            let mut in_hand = sync::lock(&self.in_hand);
            match std::mem::replace(&mut *in_hand, InHand::Running) {
                InHand::Held(steps) => steps,
                other => {
                    *in_hand = other;
                    return None;
                }
            }
        };
        if steps.changes != self.changes() || !steps.taken.fetch.is_amid_batch() {
            self.end(steps, Rest::First);
            return None;
        }
        let fetch = &mut steps.taken.fetch;
        let before = fetch.position();
        let (records, stop) = match catch_unwind(AssertUnwindSafe(|| take(fetch, 1, sink))) {
            Ok(took) => took,
            Err(panic) => {
                // The record did not reach the application: fetch it again.
                fetch.restart_at(before);
                self.end(steps, Rest::Empty);
                resume_unwind(panic);
            }
        };
        steps.taken.records += records;
        if stop == Stop::Refused {
            self.end(steps, Rest::Last);
            return Some(Drained {
                refused: true,
                ..Drained::default()
            });
        }
        // A change later than this check ends the next step.
        if stop == Stop::Full && steps.changes == self.changes() {
            *sync::lock(&self.in_hand) = InHand::Held(steps);
        } else {
            self.end(steps, Rest::First);
        }
        (records > 0).then_some(Drained {
            records,
            ..Drained::default()
        })
    }

    /// Ends the steps of the running step.
    fn end(&self, steps: Steps, rest: Rest) {
        let (mut in_hand, mut guard) = self.lock_both();
        *in_hand = InHand::Nothing;
        self.put_back(steps, rest, &mut guard);
        // The guard is dropped last, and frees fetches then.
        drop(in_hand);
    }
}
