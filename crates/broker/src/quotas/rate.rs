//! [`Rate`]: an amount per second, over 11 windows of a second, as Kafka's `Rate` measures it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// `quota.window.num`
const WINDOWS: usize = 11;
/// `quota.window.size.seconds`
const WINDOW: Duration = Duration::from_secs(1);
/// The rate is the average of at least this number of windows, so a short burst is allowed.
pub(super) const FULL_WINDOWS: f64 = (WINDOWS - 1) as f64;

#[derive(Debug, Default)]
pub(super) struct Rate {
    /// The starts of the windows, and the amounts in them.
    windows: VecDeque<(Instant, f64)>,
}

impl Rate {
    pub(super) fn record(&mut self, amount: f64, now: Instant) {
        self.forget(now);
        match self.windows.back_mut() {
            Some((start, sum)) if now < *start + WINDOW => *sum += amount,
            _ => self.windows.push_back((now, amount)),
        }
    }

    /// Returns the time until the rate is down to the bound, if nothing is added.
    pub(super) fn wait(&mut self, bound: f64, now: Instant) -> Duration {
        self.forget(now);
        let Some((oldest, _)) = self.windows.front() else {
            return Duration::ZERO;
        };
        let elapsed = now.saturating_duration_since(*oldest).as_secs_f64();
        let missing = (FULL_WINDOWS - elapsed.floor()).max(0.0);
        let seconds = elapsed + missing;
        let sum: f64 = self.windows.iter().map(|(_, sum)| sum).sum();
        let rate = sum / seconds;
        if rate <= bound {
            return Duration::ZERO;
        }
        milliseconds((rate - bound) / bound * seconds)
    }

    /// Whether nothing was added for long.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let last = self.windows.back();
        last.is_none_or(|(start, _)| *start + WINDOW * WINDOWS as u32 <= now)
    }

    fn forget(&mut self, now: Instant) {
        while let Some((start, _)) = self.windows.front()
            && *start + WINDOW * WINDOWS as u32 <= now
        {
            self.windows.pop_front();
        }
    }
}

/// Rounds to milliseconds. A bound near 0 does not make a client wait for years.
pub(super) fn milliseconds(seconds: f64) -> Duration {
    let ms = (seconds * 1000.0).round();
    let day_ms = 86_400_000.0;
    Duration::from_millis(if ms.is_finite() {
        ms.clamp(0.0, day_ms)
    } else {
        day_ms
    } as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_ten_seconds_is_allowed_and_then_costs_its_time() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut rate = Rate::default();
        rate.record(1000.0, start);
        assert_eq!(rate.wait(100.0, start), Duration::ZERO);
        rate.record(500.0, at(500));
        // 1500 in 10 s and the half second that has passed.
        assert_eq!(rate.wait(100.0, at(500)), Duration::from_millis(4500));
        assert_eq!(rate.wait(100.0, at(5000)), Duration::from_secs(5));
        assert_eq!(rate.wait(100.0, at(10_999)), Duration::from_millis(4001));
        // The window is over, and forgotten.
        assert_eq!(rate.wait(100.0, at(11_000)), Duration::ZERO);
        assert!(rate.is_idle(at(11_000)));
    }

    #[test]
    fn a_steady_rate_waits_only_for_what_is_too_much() {
        let start = Instant::now();
        let mut rate = Rate::default();
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            rate.record(100.0, now);
            assert!(rate.wait(111.0, now).is_zero(), "second {second}");
        }
        let now = start + Duration::from_secs(60);
        rate.record(1000.0, now);
        assert!(!rate.wait(111.0, now).is_zero());
        rate.record(-1000.0, now);
        assert!(rate.wait(111.0, now).is_zero());
    }

    #[test]
    fn a_bound_of_nothing_has_a_finite_wait() {
        let now = Instant::now();
        let mut rate = Rate::default();
        rate.record(1.0, now);
        assert_eq!(rate.wait(0.0, now), Duration::from_secs(86_400));
    }
}
