//! The states of a transactional id, and what each event makes of each of them: one table.

use thalweg_protocol::ErrorCode;

/// Kafka's `TransactionState`, without those that no transaction is ever seen in here: an id
/// that expired (`Dead`) is gone, and one that is fenced (`PrepareEpochFence`) is at once
/// `PrepareAbort`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Empty,
    Ongoing,
    /// Markers are being written.
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

/// What happens to a transactional id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// `InitProducerId`: another producer, or the same one anew.
    Init,
    /// A partition or group is added.
    Add,
    /// `EndTxn` up to version 4, where the epoch stays.
    Commit,
    Abort,
    /// `EndTxn` from version 5 on (KIP-890): each end has an epoch of its own.
    CommitAndBump,
    AbortAndBump,
    /// The same with the epoch before: its answer was lost, or it was late.
    CommitAgain,
    AbortAgain,
    /// The transaction is older than its timeout.
    Timeout,
    /// All markers are there.
    Written,
}

/// What an event makes of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    To(State),
    /// It was done before: success, and nothing changes.
    Done,
    /// Not yet: `CONCURRENT_TRANSACTIONS`.
    Wait,
    /// `INVALID_TXN_STATE`.
    Refuse,
    /// A late request must not end the next transaction: `PRODUCER_FENCED`.
    Fence,
}

use State::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
use Step::{Done, Fence, Refuse, To, Wait};

#[rustfmt::skip]
const TABLE: [(Event, [Step; 6]); 10] = [
    //                      Empty             Ongoing            PrepareCommit       PrepareAbort       CompleteCommit    CompleteAbort
    (Event::Init,          [To(Empty),        To(PrepareAbort),  Wait,               Wait,              To(Empty),        To(Empty)]),
    (Event::Add,           [To(Ongoing),      To(Ongoing),       Wait,               Wait,              To(Ongoing),      To(Ongoing)]),
    (Event::Commit,        [Refuse,           To(PrepareCommit), Wait,               Refuse,            Done,             Refuse]),
    (Event::Abort,         [Refuse,           To(PrepareAbort),  Refuse,             Wait,              Refuse,           Done]),
    (Event::CommitAndBump, [Refuse,           To(PrepareCommit), Wait,               Refuse,            Refuse,           Refuse]),
    (Event::AbortAndBump,  [To(PrepareAbort), To(PrepareAbort),  Refuse,             Wait,              To(PrepareAbort), To(PrepareAbort)]),
    (Event::CommitAgain,   [Refuse,           Fence,             Wait,               Refuse,            Done,             Refuse]),
    (Event::AbortAgain,    [Refuse,           Fence,             Refuse,             Wait,              Refuse,           Done]),
    (Event::Timeout,       [Refuse,           To(PrepareAbort),  Refuse,             Refuse,            Refuse,           Refuse]),
    (Event::Written,       [Refuse,           Refuse,            To(CompleteCommit), To(CompleteAbort), Refuse,           Refuse]),
];

/// All names that Kafka knows, for filters.
const NAMES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];

impl State {
    pub(crate) fn on(self, event: Event) -> Step {
        let row = TABLE.iter().find(|row| row.0 == event);
        row.expect("the table has every event").1[self as usize]
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    pub(crate) fn is_name(name: &str) -> bool {
        NAMES.contains(&name)
    }

    /// Markers are being written.
    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, PrepareCommit | PrepareAbort)
    }
}

impl Step {
    /// The next state; `None`: all was done before.
    pub(crate) fn next(self) -> Result<Option<State>, ErrorCode> {
        match self {
            To(state) => Ok(Some(state)),
            Done => Ok(None),
            Wait => Err(ErrorCode::CONCURRENT_TRANSACTIONS),
            Refuse => Err(ErrorCode::INVALID_TXN_STATE),
            Fence => Err(ErrorCode::PRODUCER_FENCED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 6] = [
        Empty,
        Ongoing,
        PrepareCommit,
        PrepareAbort,
        CompleteCommit,
        CompleteAbort,
    ];

    #[test]
    fn columns_and_names_stand_in_the_order_of_the_states() {
        for (index, state) in STATES.into_iter().enumerate() {
            assert_eq!(state as usize, index);
            assert_eq!(state.name(), format!("{state:?}"));
        }
    }

    #[test]
    fn markers_decide_before_anything_else_happens() {
        for prepared in [PrepareCommit, PrepareAbort] {
            for (event, steps) in TABLE {
                let step = steps[prepared as usize];
                assert_eq!(matches!(step, To(_)), event == Event::Written, "{event:?}");
            }
        }
    }

    #[test]
    fn no_event_turns_a_commit_into_an_abort_or_back() {
        for (event, steps) in TABLE {
            assert_ne!(
                steps[PrepareCommit as usize],
                To(CompleteAbort),
                "{event:?}"
            );
            assert_ne!(
                steps[PrepareAbort as usize],
                To(CompleteCommit),
                "{event:?}"
            );
        }
    }
}
