//! Chooses the partition of a record that does not name one.
//!
//! A record with a key goes by a hash of the key, the same hash that other clients use for the
//! topic: Java's murmur2, or librdkafka's CRC-32. A record without a key goes to the sticky
//! partition, see [`crate::partitioning::topic`]. Round robin ignores the key.

pub use crate::partitioning::murmur2::{murmur2, to_positive};

/// How partitions are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Partitioner {
    /// Java's default: murmur2 of the key, or the sticky partition if there is no key (KIP-794).
    #[default]
    BuiltIn,
    /// The partitions in turn, whether the records have keys or not.
    RoundRobin,
    /// librdkafka's `consistent_random`: CRC-32 of the key. Without a key, or with an empty one,
    /// the sticky partition.
    ConsistentRandom,
}

/// How the partition of one record is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A hash, to be taken modulo the number of partitions.
    Hash(u32),
    Sticky,
    Next,
}

impl Partitioner {
    #[inline(always)]
    pub(crate) fn choose(self, key: Option<&[u8]>, ignore_keys: bool) -> Choice {
        // The common case without a key is inlined, hashing is not.
        match key {
            None if self != Self::RoundRobin => Choice::Sticky,
            key => self.choose_by_key(key.filter(|_| !ignore_keys)),
        }
    }

    #[inline(never)]
    fn choose_by_key(self, key: Option<&[u8]>) -> Choice {
        match (self, key) {
            (Self::RoundRobin, _) => Choice::Next,
            (Self::BuiltIn, Some(key)) => Choice::Hash(to_positive(murmur2(key)).cast_unsigned()),
            (Self::ConsistentRandom, Some(key)) if !key.is_empty() => Choice::Hash(crc32(key)),
            _ => Choice::Sticky,
        }
    }
}

/// Returns the partition that Java's default partitioner chooses for a key.
pub fn partition_for_key(key: &[u8], partitions: u32) -> u32 {
    to_positive(murmur2(key)).cast_unsigned() % partitions
}

const CRC32_TABLE: [u32; 256] = crc32_table();

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 0 {
                value >> 1
            } else {
                (value >> 1) ^ 0xedb8_8320
            };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
}

/// Returns the CRC-32 (IEEE) of a key. Keys are short, so a table is fast enough.
pub fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc, &byte| {
        CRC32_TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ (crc >> 8)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32_is_the_one_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn each_partitioner_knows_its_keys() {
        let built_in = Partitioner::BuiltIn;
        assert_eq!(built_in.choose(Some(b""), false), Choice::Hash(275_646_681));
        assert_eq!(built_in.choose(Some(b"k"), true), Choice::Sticky);
        assert_eq!(built_in.choose(None, false), Choice::Sticky);
        let consistent = Partitioner::ConsistentRandom;
        assert_eq!(consistent.choose(Some(b""), false), Choice::Sticky);
        assert_eq!(
            consistent.choose(Some(b"123456789"), false),
            Choice::Hash(0xcbf4_3926)
        );
        assert_eq!(
            Partitioner::RoundRobin.choose(Some(b"k"), false),
            Choice::Next
        );
    }
}
