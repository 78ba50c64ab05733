//! Exponential backoff with jitter (KIP-580), reproducible from a seed.
//!
//! Requests that Python sends again (of groups, offsets and administrators) have their own backoff:
//! `coordinator/backoff.py`.

use std::time::Duration;

use thalweg_protocol::SplitMix64;

/// Kafka's constants: each failure doubles the wait, and jitter changes it by up to 20%.
const MULTIPLIER: u32 = 2;
const JITTER: f64 = 0.2;

/// A wait that grows with the number of failures, up to a limit.
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    random: SplitMix64,
}

impl Backoff {
    pub fn new(initial: Duration, max: Duration, seed: u64) -> Self {
        Self {
            initial: initial.min(max),
            max,
            random: SplitMix64::new(seed),
        }
    }

    /// Returns the wait after `failures` failures in a row (0 = none yet, which gives the first
    /// wait).
    pub fn after(&mut self, failures: u32) -> Duration {
        let factor = f64::from(MULTIPLIER).powi(i32::try_from(failures.min(32)).unwrap_or(32));
        let term = (self.initial.as_secs_f64() * factor).min(self.max.as_secs_f64());
        self.jittered(term)
    }

    /// Returns the wait that [`Self::after`] reaches in the end.
    pub fn longest(&mut self) -> Duration {
        self.jittered(self.max.as_secs_f64())
    }

    fn jittered(&mut self, term: f64) -> Duration {
        // A fixed wait has no jitter: a user who sets initial = max asks for exactly that wait.
        let spread = if self.initial == self.max {
            0.0
        } else {
            JITTER
        };
        let jittered = term * (1.0 - spread + 2.0 * spread * self.random.unit());
        Duration::from_secs_f64(jittered.min(self.max.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_limit_within_the_jitter() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1), 7);
        for failures in 0..10 {
            let base = (50.0 * 2_f64.powi(failures)).min(1000.0);
            let wait = backoff.after(failures as u32).as_secs_f64() * 1000.0;
            assert!(
                wait >= base * 0.799 && wait <= (base * 1.201).min(1000.1),
                "{failures}: {wait}"
            );
        }
    }

    #[test]
    fn the_longest_wait_is_the_limit_whatever_the_first_one_is() {
        for initial in [0, 50, 1000] {
            let max = Duration::from_secs(1);
            let mut backoff = Backoff::new(Duration::from_millis(initial), max, 7);
            let wait = backoff.longest();
            assert!(
                wait >= Duration::from_millis(799) && wait <= max,
                "{initial}: {wait:?}"
            );
        }
    }

    #[test]
    fn a_fixed_wait_has_no_jitter() {
        let mut backoff = Backoff::new(Duration::from_millis(80), Duration::from_millis(80), 1);
        assert_eq!(backoff.after(0), Duration::from_millis(80));
        assert_eq!(backoff.after(30), Duration::from_millis(80));
    }

    #[test]
    fn the_seed_decides() {
        let waits = |seed| {
            let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1), seed);
            (0..8).map(|n| backoff.after(n)).collect::<Vec<_>>()
        };
        assert_eq!(waits(3), waits(3));
        assert_ne!(waits(3), waits(4));
    }
}
