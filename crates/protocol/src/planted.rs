//! Known defects that the simulation plants, one at a time, to prove that it would find them.
//!
//! Without the feature `planted-bugs`, [`is_planted`] is a constant `false` and the defects are not
//! compiled. Only the simulation's dev-dependencies enable the feature, and a release build refuses
//! it, so no wheel can contain them. The function is in this crate because every core depends on
//! it.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("planted bugs are for tests: an optimised build must not contain them");

/// A defect that can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An error that equals a queued one is dropped, and its partition stays blocked for ever.
    SilentPartition,
    /// A drain moves the position for the records it handed out, although the application has
    /// sought meanwhile.
    LostSeek,
    /// A late committed offset replaces the position that the application sought.
    LateCommitted,
    /// A commit includes records that are only fetched.
    CommitUnreceived,
    /// Records fetched for an earlier assignment or position are handed out.
    StalePrefetch,
    /// The consumer retries without backoff.
    NoBackoff,
    /// The first batch of an aborted transaction is visible if it has one record.
    AbortedLeak,
    /// The consumer does not notice that the log it read was truncated.
    TruncationIgnored,
    /// A batch refused as out of order gets a new sequence although it may be written.
    Renumbered,
    /// After a change of leader, new batches overtake those that the old leader left unanswered,
    /// and count as proof of them even if they are in another log.
    UnansweredTaken,
    /// Batches that get new sequences after a gap change their order.
    OrderAfterGap,
    /// Without idempotence, a second batch of a partition is sent while the first is in flight.
    NotMuted,
    /// Only the first record of a batch keeps its headers.
    HeadersLost,
    /// The leader epochs of a deleted topic override those of the topic created in its place.
    EpochsOfDeleted,
}

#[cfg(feature = "planted-bugs")]
mod enabled {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug for all clients that run in this thread. `None` removes it.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub fn is_planted(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub use enabled::{is_planted, plant};

/// Returns whether a test has planted this defect in the current thread.
#[cfg(not(feature = "planted-bugs"))]
pub const fn is_planted(_: Bug) -> bool {
    false
}
