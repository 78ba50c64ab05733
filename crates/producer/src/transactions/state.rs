//! The states of a transactional producer as one table: Kafka's `TransactionManager.State`.

use std::fmt;

use State::{
    AbortableError, AbortingTransaction, CommittingTransaction, FatalError, InTransaction,
    Initializing, PreparedTransaction, PreparingTransaction, Ready, Uninitialized,
};

/// The states, under Kafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Uninitialized,
    Initializing,
    Ready,
    InTransaction,
    PreparingTransaction,
    PreparedTransaction,
    CommittingTransaction,
    AbortingTransaction,
    AbortableError,
    FatalError,
}

/// The calls of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Init,
    Begin,
    Send,
    SendOffsets,
    Prepare,
    Commit,
    Abort,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) state: State,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "only the test of the documentation reads it")
    )]
    pub(crate) meaning: &'static str,
    /// Calls that this state allows. A call in progress may also be repeated, and has the same
    /// outcome.
    pub(crate) calls: &'static [Call],
    /// States that may follow. `FatalError` may follow every state and is not listed.
    pub(crate) next: &'static [State],
}

/// All states. The table in docs/transactions.md shows the same, and a test compares them.
pub(crate) const TABLE: [Row; 10] = [
    Row {
        state: Uninitialized,
        meaning: "new: nothing was requested from the coordinator yet",
        calls: &[Call::Init],
        next: &[Initializing],
    },
    Row {
        state: Initializing,
        meaning: "requests a producer ID and a producer epoch (`InitProducerId`)",
        calls: &[],
        next: &[Ready],
    },
    Row {
        state: Ready,
        meaning: "no transaction is open",
        calls: &[Call::Begin],
        next: &[InTransaction],
    },
    Row {
        state: InTransaction,
        meaning: "records and offsets join the transaction",
        calls: &[
            Call::Send,
            Call::SendOffsets,
            Call::Prepare,
            Call::Commit,
            Call::Abort,
        ],
        next: &[
            PreparingTransaction,
            CommittingTransaction,
            AbortingTransaction,
            AbortableError,
        ],
    },
    Row {
        state: PreparingTransaction,
        meaning: "waits for the results of all records, and sends no `EndTxn`",
        calls: &[],
        next: &[PreparedTransaction, AbortableError],
    },
    Row {
        state: PreparedTransaction,
        meaning: "all records are in the log. This or another client ends the transaction",
        calls: &[Call::Commit, Call::Abort],
        next: &[CommittingTransaction, AbortingTransaction],
    },
    Row {
        state: CommittingTransaction,
        meaning: "waits for the results of all records, then commits with `EndTxn`",
        calls: &[],
        next: &[Ready, Initializing, AbortableError],
    },
    Row {
        state: AbortingTransaction,
        meaning: "drops unsent records, waits for the results of the others, then aborts with `EndTxn`",
        calls: &[],
        next: &[Ready, Initializing],
    },
    Row {
        state: AbortableError,
        meaning: "a record or a request failed: the transaction can only be aborted",
        calls: &[Call::Abort],
        next: &[AbortingTransaction],
    },
    Row {
        state: FatalError,
        meaning: "the producer cannot continue: close it",
        calls: &[],
        next: &[],
    },
];

impl State {
    pub(crate) fn row(self) -> &'static Row {
        TABLE
            .iter()
            .find(|row| row.state == self)
            .expect("every state has a row")
    }

    pub(crate) fn may_become(self, next: Self) -> bool {
        next == FatalError || self.row().next.contains(&next)
    }

    /// Returns whether a call waits until everything that was appended is sent.
    pub(crate) fn is_completing(self) -> bool {
        matches!(
            self,
            PreparingTransaction | CommittingTransaction | AbortingTransaction
        )
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Uninitialized => "UNINITIALIZED",
            Initializing => "INITIALIZING",
            Ready => "READY",
            InTransaction => "IN_TRANSACTION",
            PreparingTransaction => "PREPARING_TRANSACTION",
            PreparedTransaction => "PREPARED_TRANSACTION",
            CommittingTransaction => "COMMITTING_TRANSACTION",
            AbortingTransaction => "ABORTING_TRANSACTION",
            AbortableError => "ABORTABLE_ERROR",
            FatalError => "FATAL_ERROR",
        })
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init => "init_transactions",
            Self::Begin => "begin_transaction",
            Self::Send => "send",
            Self::SendOffsets => "send_offsets_to_transaction",
            Self::Prepare => "prepare_transaction",
            Self::Commit => "commit_transaction",
            Self::Abort => "abort_transaction",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Display, Write as _};

    use super::*;

    fn list<T: Display>(items: &[T], quote: &str) -> String {
        let names: Vec<String> = items.iter().map(|i| format!("{quote}{i}{quote}")).collect();
        names.join(", ")
    }

    #[test]
    fn the_documentation_shows_this_table() {
        let mut shown = String::from("| state | meaning | calls | next |\n|---|---|---|---|\n");
        for row in &TABLE {
            let calls = list(row.calls, "`");
            let next = list(row.next, "");
            writeln!(
                shown,
                "| {} | {} | {calls} | {next} |",
                row.state, row.meaning
            )
            .expect("text grows");
        }
        let page = include_str!("../../../../docs/transactions.md");
        assert!(
            page.contains(&shown),
            "docs/transactions.md should have:\n{shown}"
        );
    }

    #[test]
    fn every_state_has_its_row_in_its_place_and_is_reached() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.state as usize, at);
            assert!(row.state.may_become(FatalError));
            let reached = TABLE.iter().any(|from| from.next.contains(&row.state));
            assert!(reached || matches!(row.state, Uninitialized | FatalError));
        }
    }
}
