//! Decides when the next heartbeat is due.
//!
//! ```text
//!   At(due) ── asked ──▶ Asked ── response ──▶ At(sent + interval, but not before now)
//!      ▲                   ├───── retry ─────▶ At(now + growing backoff)
//!      └───── start ───────┴───── pause ─────▶ Paused, until the next start
//! ```

use std::time::{Duration, Instant};

use thalweg_cluster::Backoff;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    At(Instant),
    /// A heartbeat is in flight, or waits for its broker.
    Asked,
    Paused,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    interval: Duration,
    next: Next,
    /// When the last one was sent, or was made if it was never sent.
    last: Option<Instant>,
    /// The number of failures in a row.
    failures: u32,
}

impl Schedule {
    /// Starts a schedule. The first heartbeat is due one interval from now, or one interval after
    /// the last one of the replaced schedule. A running backoff is kept, so that replacing one
    /// failing plan with another cannot make a busy loop.
    pub(crate) fn start(interval: Duration, replaced: Option<&Self>, now: Instant) -> Self {
        let last = replaced.and_then(|old| old.last);
        let due = last.unwrap_or(now) + interval;
        let retry = replaced.filter(|old| old.failures > 0);
        let retry = retry.and_then(Self::due_at);
        Self {
            interval,
            next: Next::At(retry.map_or(due, |at| at.min(due))),
            last,
            failures: replaced.map_or(0, |old| old.failures),
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        matches!(self.next, Next::At(at) if at <= now)
    }

    /// When the next heartbeat is due, or `None` while that depends on something else.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        match self.next {
            Next::At(at) => Some(at),
            Next::Asked | Next::Paused => None,
        }
    }

    pub(crate) fn asked(&mut self, now: Instant) {
        self.last = Some(now);
        self.next = Next::Asked;
    }

    /// Notes that the heartbeat was sent now.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// Notes that the coordinator accepted the heartbeat. It may have set another interval.
    pub(crate) fn answered(&mut self, interval: Option<Duration>, now: Instant) {
        self.failures = 0;
        self.interval = interval.unwrap_or(self.interval);
        let due = self.last.unwrap_or(now) + self.interval;
        self.next = Next::At(due.max(now));
    }

    /// Schedules another attempt after a backoff.
    pub(crate) fn retry(&mut self, backoff: &mut Backoff, now: Instant) {
        self.next = Next::At(now + backoff.after(self.failures));
        self.failures = self.failures.saturating_add(1);
    }

    pub(crate) fn pause(&mut self) {
        self.next = Next::Paused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(3);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_first_is_due_after_an_interval_and_the_next_one_after_the_last_was_sent() {
        let start = Instant::now();
        let mut schedule = Schedule::start(INTERVAL, None, start);
        assert!(!schedule.is_due(start + ms(2_999)));
        assert!(schedule.is_due(start + ms(3_000)));
        schedule.asked(start + ms(3_000));
        assert!(!schedule.is_due(start + ms(9_000)), "one at a time");
        schedule.sent(start + ms(3_100));
        schedule.answered(None, start + ms(3_500));
        assert_eq!(schedule.due_at(), Some(start + ms(6_100)));
    }

    #[test]
    fn a_late_response_lets_the_next_one_go_at_once_and_no_sooner() {
        let start = Instant::now();
        let mut schedule = Schedule::start(INTERVAL, None, start);
        schedule.asked(start + ms(3_000));
        schedule.sent(start + ms(3_000));
        schedule.answered(None, start + ms(20_000));
        assert_eq!(schedule.due_at(), Some(start + ms(20_000)));
    }

    #[test]
    fn the_coordinator_may_name_another_interval() {
        let start = Instant::now();
        let mut schedule = Schedule::start(INTERVAL, None, start);
        schedule.asked(start + ms(3_000));
        schedule.sent(start + ms(3_000));
        schedule.answered(Some(ms(500)), start + ms(3_010));
        assert_eq!(schedule.due_at(), Some(start + ms(3_500)));
    }

    #[test]
    fn what_replaces_others_keeps_their_step() {
        let start = Instant::now();
        let mut old = Schedule::start(INTERVAL, None, start);
        old.asked(start + ms(3_000));
        old.sent(start + ms(3_000));
        let new = Schedule::start(INTERVAL, Some(&old), start + ms(5_000));
        assert_eq!(new.due_at(), Some(start + ms(6_000)));
    }

    #[test]
    fn failures_in_a_row_wait_longer_and_a_response_ends_the_row() {
        let mut backoff = Backoff::new(ms(100), ms(1_000), 7);
        let start = Instant::now();
        let mut schedule = Schedule::start(INTERVAL, None, start);
        let mut waits = Vec::new();
        for _ in 0..8 {
            schedule.asked(start);
            schedule.retry(&mut backoff, start);
            waits.push(schedule.due_at().expect("it is tried again") - start);
        }
        assert!(waits[0] >= ms(80) && waits[2] > waits[0], "{waits:?}");
        assert!(waits[7] >= ms(790) && waits[7] <= ms(1_000), "{waits:?}");
        schedule.answered(None, start);
        schedule.retry(&mut backoff, start);
        assert!(schedule.due_at().expect("again") - start <= ms(120));
    }

    #[test]
    fn what_fails_is_not_hurried_by_being_replaced() {
        let mut backoff = Backoff::new(ms(100), ms(1_000), 7);
        let start = Instant::now();
        let mut paused = Schedule::start(INTERVAL, None, start);
        paused.asked(start + ms(3_000));
        paused.pause();
        let new = Schedule::start(INTERVAL, Some(&paused), start + ms(3_000));
        assert_eq!(new.due_at(), Some(start + ms(6_000)));
        let mut failing = new;
        failing.asked(start + ms(6_000));
        failing.retry(&mut backoff, start + ms(6_010));
        let new = Schedule::start(INTERVAL, Some(&failing), start + ms(6_010));
        assert_eq!(new.due_at(), failing.due_at());
    }

    #[test]
    fn after_a_pause_nothing_is_due() {
        let start = Instant::now();
        let mut schedule = Schedule::start(INTERVAL, None, start);
        schedule.pause();
        assert!(!schedule.is_due(start + Duration::from_secs(3600)));
        assert_eq!(schedule.due_at(), None);
    }
}
