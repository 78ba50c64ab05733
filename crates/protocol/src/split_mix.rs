//! [`SplitMix64`]: random numbers from a seed, so that a seed reproduces a run.
//!
//! The cores may not use a random source of the system. All crates draw from this generator.

/// Sebastiano Vigna's `SplitMix64`. Its numbers are not secret.
///
/// Each number depends only on the seed and on the count of earlier ones. Tests and simulations
/// record seeds, so neither the algorithm nor how a number becomes a range may change.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `[0, bound)`. `bound` must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Returns a number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_reference_implementation() {
        let mut random = SplitMix64::new(1_234_567);
        let numbers = [(); 3].map(|()| random.next_u64());
        assert_eq!(
            numbers,
            [
                0x599e_d017_fb08_fc85,
                0x2c73_f084_5854_0fa5,
                0x883e_bce5_a3f2_7c77
            ]
        );
    }
}
