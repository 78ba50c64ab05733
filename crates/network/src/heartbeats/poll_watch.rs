//! Who polls, and when: one atomic that the polling thread writes and the I/O thread reads.
//!
//! The polling thread passes here once a record when it iterates. So it takes no lock, and looks at
//! the clock only while somebody watches: being inside is a mark, not a time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock;

/// Nobody has watched since the last poll ended.
const UNWATCHED: u64 = 0;
const INSIDE: u64 = u64::MAX;

/// The last poll of a consumer.
#[derive(Debug)]
pub struct PollWatch {
    base: Instant,
    /// `UNWATCHED`, `INSIDE`, or nanoseconds since `base`, plus one. Nothing else is read by what
    /// it says, so no order among memory accesses hangs on it.
    last: AtomicU64,
    watched: AtomicBool,
}

/// While it lives its thread is inside of a poll.
#[derive(Debug)]
pub struct Polling<'a>(&'a PollWatch);

impl PollWatch {
    pub(crate) fn new() -> Self {
        Self {
            base: clock::now(),
            last: AtomicU64::new(UNWATCHED),
            watched: AtomicBool::new(false),
        }
    }

    pub fn enter(&self) -> Polling<'_> {
        self.begin();
        Polling(self)
    }

    /// A poll begins. For polls that no scope encloses, such as tasks that sleep; else [`Self::enter`].
    pub fn begin(&self) {
        self.last.store(INSIDE, Ordering::Relaxed);
    }

    /// The last poll that was inside has ended.
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

    /// A poll that took no time worth the name.
    pub fn passed(&self, now: Instant) {
        if self.is_watched() {
            self.note(now);
        }
    }

    /// From now on the end of each poll is noted. Called by the polling thread, mostly from within
    /// a poll.
    pub(crate) fn watch(&self, now: Instant) {
        let began = !self.watched.swap(true, Ordering::Relaxed);
        if began && self.last.load(Ordering::Relaxed) != INSIDE {
            self.note(now);
        }
    }

    pub(crate) fn unwatch(&self) {
        self.watched.store(false, Ordering::Relaxed);
    }

    /// When the application will have stayed away from poll for `limit`, at the earliest: while it
    /// is inside, that is never before `limit` from now.
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
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(300);

    /// Tokio's clock stands still unless it is told otherwise.
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
