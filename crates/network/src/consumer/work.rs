//! When a consumer must do the work of its group.
//!
//! The application's thread does this work (the member's steps, auto-commits, rebalance listeners)
//! inside its calls, never a thread of ours. A poll does all of it. Any other call that waits does
//! only the part that takes nothing away from the application.

use std::time::Instant;

/// The kind of a call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// The application asks for more records, so it has processed those that it has.
    Poll,
    /// The application still uses the records of the last poll.
    Other,
}

/// What the last calls of each kind have done.
#[derive(Debug, Default)]
pub struct GroupWork {
    polled: Done,
    between: Done,
}

#[derive(Debug, Default)]
struct Done {
    /// The number of reentries requested until then. There is always at least one, so the first
    /// call does the work.
    seen: u64,
    /// When it is due again.
    due: Option<Instant>,
}

impl GroupWork {
    /// Whether the work is due, at a time or because of one of `reentries`.
    pub fn is_due(&self, caller: Caller, reentries: u64, now: impl FnOnce() -> Instant) -> bool {
        let due = self.of(caller).due;
        self.has_news(caller, reentries) || due.is_some_and(|at| at <= now())
    }

    /// Whether something was reported since the work was last started.
    #[inline]
    pub fn has_news(&self, caller: Caller, reentries: u64) -> bool {
        self.of(caller).seen != reentries
    }

    /// Returns when the work is due again, if nothing is reported before.
    #[inline]
    pub fn due(&self, caller: Caller) -> Option<Instant> {
        self.of(caller).due
    }

    /// Notes that the work is done. `seen` is the number of reentries before it began.
    pub fn done(&mut self, caller: Caller, seen: u64, due: Option<Instant>) {
        let done = Done { seen, due };
        match caller {
            Caller::Poll => self.polled = done,
            Caller::Other => self.between = done,
        }
    }

    /// Makes the next call of either kind do all work again, because a call ends with an error.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    #[inline]
    fn of(&self, caller: Caller) -> &Done {
        match caller {
            Caller::Poll => &self.polled,
            Caller::Other => &self.between,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_call_of_each_kind_does_the_work() {
        let (mut work, now) = (GroupWork::default(), Instant::now());
        assert!(work.is_due(Caller::Poll, 1, || now));
        work.done(Caller::Poll, 1, None);
        assert!(!work.is_due(Caller::Poll, 1, || now));
        assert!(work.is_due(Caller::Other, 1, || now));
    }

    #[test]
    fn it_is_due_at_its_time_after_a_reentry_and_after_an_error() {
        let (mut work, now) = (GroupWork::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        work.done(Caller::Poll, 1, Some(later));
        assert!(!work.is_due(Caller::Poll, 1, || now));
        assert!(work.is_due(Caller::Poll, 1, || later));
        assert!(work.is_due(Caller::Poll, 2, || now));
        work.done(Caller::Poll, 2, None);
        work.restart();
        assert!(work.is_due(Caller::Poll, 2, || now));
    }
}
