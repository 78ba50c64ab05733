//! The only source of randomness in a run: splitmix64 from the run's seed.

use std::time::Duration;

/// A random number generator. Each draw depends only on the seed and the number of earlier draws.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns an independent generator, for a part whose draws must not shift those of the others.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.draw())
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `[0, bound)`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.draw() % bound }
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
