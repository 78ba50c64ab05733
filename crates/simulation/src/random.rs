//! The only source of randomness in a run: numbers from the run's seed.

use std::time::Duration;

use thalweg_protocol::SplitMix64;

/// A random number generator. Each draw depends only on the seed and the number of earlier draws.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Returns an independent generator, for a part whose draws must not shift those of the others.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.draw())
    }

    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number in `[0, bound)`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.below(bound) }
    }

    /// Returns a duration of at most `longest`.
    pub fn up_to(&mut self, longest: Duration) -> Duration {
        Duration::from_micros(self.below(longest.as_micros() as u64 + 1))
    }

    /// Returns true `per_mille` times in a thousand.
    pub fn happens(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }
}
