//! [`Bucket`]: Kafka's `TokenBucket`, for the quota of partitions (KIP-599).

use std::time::{Duration, Instant};

use super::rate::milliseconds;

/// The seconds of the bound that fit into a bucket: `controller.quota.window.num` windows.
const BURST_S: f64 = 11.0;

#[derive(Debug)]
pub(super) struct Bucket {
    /// Less than 0: the client must wait.
    tokens: f64,
    filled: Instant,
    /// The bound at that time, in tokens per second.
    bound: f64,
}

impl Bucket {
    pub(super) fn full(bound: f64, now: Instant) -> Self {
        Self {
            tokens: bound * BURST_S,
            filled: now,
            bound,
        }
    }

    pub(super) fn take(&mut self, tokens: f64, bound: f64, now: Instant) {
        self.fill(bound, now);
        self.tokens -= tokens;
    }

    /// Returns the time until the bucket is not in debt.
    pub(super) fn wait(&mut self, bound: f64, now: Instant) -> Duration {
        self.fill(bound, now);
        if self.tokens >= 0.0 {
            return Duration::ZERO;
        }
        milliseconds(-self.tokens / bound)
    }

    /// Whether a new bucket would be the same.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens + self.bound * seconds >= self.bound * BURST_S
    }

    fn fill(&mut self, bound: f64, now: Instant) {
        let seconds = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + bound * seconds).min(bound * BURST_S);
        self.filled = now;
        self.bound = bound;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_full_again_after_its_debt_and_its_burst() {
        let start = Instant::now();
        let mut bucket = Bucket::full(2.0, start);
        assert!(bucket.is_full(start));
        bucket.take(30.0, 2.0, start);
        assert!(!bucket.is_full(start + Duration::from_millis(14_999)));
        assert!(bucket.is_full(start + Duration::from_secs(15)));
    }

    #[test]
    fn a_bucket_goes_into_debt_and_fills_again() {
        let start = Instant::now();
        let mut bucket = Bucket::full(2.0, start);
        bucket.take(22.0, 2.0, start);
        assert_eq!(bucket.wait(2.0, start), Duration::ZERO);
        bucket.take(10.0, 2.0, start);
        assert_eq!(bucket.wait(2.0, start), Duration::from_secs(5));
        let later = start + Duration::from_secs(4);
        assert_eq!(bucket.wait(2.0, later), Duration::from_secs(1));
        let much_later = start + Duration::from_secs(1000);
        bucket.take(23.0, 2.0, much_later);
        assert_eq!(bucket.wait(2.0, much_later), Duration::from_millis(500));
    }
}
