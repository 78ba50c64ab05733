//! The states of a transactional id, and the step that each event causes in each state: one table.

use thalweg_protocol::ErrorCode;

/// Kafka's `TransactionState`, without two that are never visible here: an expired id (`Dead`) is
/// removed, and a fenced one (`PrepareEpochFence`) is `PrepareAbort` at once.
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
    /// `InitProducerId`: from another producer, or from the same one again.
    Init,
    /// A partition or group is added.
    Add,
    /// `EndTxn` up to version 4, which keeps the epoch.
    Commit,
    Abort,
    /// `EndTxn` from version 5 on (KIP-890), which increases the epoch.
    CommitAndBump,
    AbortAndBump,
    /// `EndTxn` with the previous epoch: its first response was lost, or the request is late.
    CommitAgain,
    AbortAgain,
    /// The transaction is older than its timeout.
    Timeout,
    /// All markers are written.
    Written,
}

/// The step that an event causes in a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    To(State),
    /// It was done before: success without a change.
    Done,
    /// Not yet: `CONCURRENT_TRANSACTIONS`.
    Wait,
    /// `INVALID_TXN_STATE`.
    Refuse,
    /// `PRODUCER_FENCED`: a late request must not end the next transaction.
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

/// All state names that Kafka knows, for filters.
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
        row.expect("the table contains every event").1[self as usize]
    }

    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    pub(crate) fn is_name(name: &str) -> bool {
        NAMES.contains(&name)
    }

    /// Whether markers are being written.
    pub(crate) fn is_prepared(self) -> bool {
        matches!(self, PrepareCommit | PrepareAbort)
    }
}

impl Step {
    /// Returns the next state, or `None` if it was done before.
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
