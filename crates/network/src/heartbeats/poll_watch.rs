//! Whether the application polls, and when it last did: one atomic that the polling thread writes
//! and the I/O thread reads.
//!
//! An iterating thread passes here once for each record. So it takes no lock, and reads the clock
//! only while the polls are watched. "Inside a poll" is stored as a mark, not as a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock;

/// The polls have not been watched since the last one ended.
const UNWATCHED: u64 = 0;
const INSIDE: u64 = u64::MAX;

/// The last poll of a consumer.
#[derive(Debug)]
pub struct PollWatch {
    base: Instant,
    /// `UNWATCHED`, `INSIDE`, or nanoseconds since `base`, plus one. No other data depends on its
    /// value, so it needs no memory ordering.
    last: AtomicU64,
    watched: AtomicBool,
}

/// Its thread is inside a poll until this is dropped. A rebalance listener or a commit callback may
/// poll again, but only the end of the outer poll counts.
#[derive(Debug)]
pub struct Polling<'a> {
    watch: &'a PollWatch,
    is_outer: bool,
}

impl PollWatch {
    pub(crate) fn new() -> Self {
        Self {
            base: clock::now(),
            last: AtomicU64::new(UNWATCHED),
            watched: AtomicBool::new(false),
        }
    }

    pub fn enter(&self) -> Polling<'_> {
        let before = self.last.swap(INSIDE, Ordering::Relaxed);
        Polling {
            watch: self,
            is_outer: before != INSIDE,
        }
    }

    /// Marks the beginning of a poll that no scope encloses, such as a sleeping task. Otherwise use
    /// [`Self::enter`].
    pub fn begin(&self) {
        self.last.store(INSIDE, Ordering::Relaxed);
    }

    /// Marks the end of the last poll that was inside.
    pub fn end(&self) {
        if self.is_watched() {
            self.note(clock::now());
        } else {
            self.last.store(UNWATCHED, Ordering::Relaxed);
        }
    }

    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    /// Notes a poll that took almost no time. It may be inside another poll.
    pub fn passed(&self, now: Instant) {
        if self.is_watched() && self.last.load(Ordering::Relaxed) != INSIDE {
            self.note(now);
        }
    }

    /// Starts to note the end of each poll. The polling thread calls it, mostly during a poll.
    pub(crate) fn watch(&self, now: Instant) {
        let began = !self.watched.swap(true, Ordering::Relaxed);
        if began && self.last.load(Ordering::Relaxed) != INSIDE {
            self.note(now);
        }
    }

    pub(crate) fn unwatch(&self) {
        self.watched.store(false, Ordering::Relaxed);
    }

    /// Returns the earliest time at which the application can have stayed away from poll for
    /// `limit`. While a poll is running, that is `limit` from now.
    pub(crate) fn overdue_at(&self, limit: Duration, now: Instant) -> Instant {
        let since = match self.last.load(Ordering::Relaxed) {
            UNWATCHED | INSIDE => now,
            nanos => self.base + Duration::from_nanos(nanos - 1),
        };
        since + limit
    }

    fn note(&self, now: Instant) {
        let nanos = now.saturating_duration_since(self.base).as_nanos();
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        self.last
            .store(nanos.saturating_add(1).min(INSIDE - 1), Ordering::Relaxed);
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        if self.is_outer {
            self.watch.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);

    /// Tokio's clock stands still until it is advanced.
    async fn pass(seconds: u64) -> Instant {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        clock::now()
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_counts_from_the_end_of_the_last_poll() {
        let watch = PollWatch::new();
        watch.watch(clock::now());
        let polling = watch.enter();
        let returned = pass(1_000).await;
        drop(polling);
        let now = pass(299).await;
        assert_eq!(watch.overdue_at(LIMIT, now), returned + LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_that_only_passed_counts_if_polls_are_watched() {
        let watch = PollWatch::new();
        watch.watch(clock::now());
        let passed = pass(200).await;
        watch.passed(passed);
        let now = pass(200).await;
        assert_eq!(watch.overdue_at(LIMIT, now), passed + LIMIT);
        watch.unwatch();
        watch.passed(now);
        assert_eq!(watch.overdue_at(LIMIT, now), passed + LIMIT, "not noted");
    }

    #[tokio::test(start_paused = true)]
    async fn inside_of_a_poll_it_is_never_overdue() {
        let watch = PollWatch::new();
        let _polling = watch.enter();
        watch.watch(clock::now());
        let now = pass(1_000).await;
        assert_eq!(watch.overdue_at(LIMIT, now), now + LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_inside_of_a_poll_does_not_end_it() {
        let watch = PollWatch::new();
        watch.watch(clock::now());
        let outer = watch.enter();
        drop(watch.enter());
        watch.passed(pass(10).await);
        let now = pass(1_000).await;
        assert_eq!(watch.overdue_at(LIMIT, now), now + LIMIT);
        drop(outer);
        assert_eq!(watch.overdue_at(LIMIT, pass(100).await), now + LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn outside_of_a_poll_it_counts_from_when_the_watch_began() {
        let watch = PollWatch::new();
        drop(watch.enter());
        let began = pass(1_000).await;
        watch.watch(began);
        watch.watch(pass(10).await);
        assert_eq!(watch.overdue_at(LIMIT, began), began + LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_watch_forgets_what_an_old_one_saw() {
        let watch = PollWatch::new();
        watch.watch(clock::now());
        drop(watch.enter());
        watch.unwatch();
        let began = pass(1_000).await;
        watch.watch(began);
        assert_eq!(watch.overdue_at(LIMIT, began), began + LIMIT);
    }
}
