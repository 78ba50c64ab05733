//! Random ids from a seed. They differ but need not be secret.

use thalweg_protocol::{SplitMix64, Uuid};

#[derive(Debug, Clone)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Returns a version 4 UUID whose text form does not start with `-`. Kafka's `randomUuid`
    /// ensures this too, for command lines.
    pub(crate) fn uuid(&mut self) -> Uuid {
        loop {
            let high = self.0.next_u64() & !0xf000 | 0x4000;
            let low = self.0.next_u64() & !(0b11 << 62) | 0b10 << 62;
            let uuid = Uuid::from_u64_pair(high, low);
            if !uuid.to_string().starts_with('-') {
                return uuid;
            }
        }
    }

    /// Returns a number from 1 to `i32::MAX`.
    pub(crate) fn positive_i32(&mut self) -> i32 {
        ((self.0.next_u64() >> 33) as i32).max(1)
    }
}
