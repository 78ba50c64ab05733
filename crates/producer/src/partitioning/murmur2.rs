//! The hash by which Kafka's clients choose partitions: Java's `Utils.murmur2`.

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;
const R: u32 = 24;

/// Returns the 32-bit murmur2 hash, bit for bit as Java does.
pub fn murmur2(data: &[u8]) -> i32 {
    let mut hash = SEED ^ data.len() as u32;
    let (words, tail) = data.as_chunks::<4>();
    for &word in words {
        let mut k = u32::from_le_bytes(word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (index, &byte) in tail.iter().enumerate() {
            hash ^= u32::from(byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    (hash ^ (hash >> 15)).cast_signed()
}

/// Clears the sign bit like Java's `Utils.toPositive`. The result is not the absolute value.
pub fn to_positive(hash: i32) -> i32 {
    hash & i32::MAX
}
