//! A small seeded source of numbers (splitmix64), for ids that differ but need not be secret.

use thalweg_protocol::Uuid;

#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a version 4 UUID whose text form does not start with `-`. Kafka's `randomUuid`
    /// ensures this too, for command lines.
    pub(crate) fn uuid(&mut self) -> Uuid {
        loop {
            let high = self.next() & !0xf000 | 0x4000;
            let low = self.next() & !(0b11 << 62) | 0b10 << 62;
            let uuid = Uuid::from_u64_pair(high, low);
            if !uuid.to_string().starts_with('-') {
                return uuid;
            }
        }
    }

    /// Returns a number from 1 to `i32::MAX`.
    pub(crate) fn positive_i32(&mut self) -> i32 {
        ((self.next() >> 33) as i32).max(1)
    }
}
