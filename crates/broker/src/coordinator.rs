//! Which partition of `__consumer_offsets` a group belongs to: its leader coordinates the group.

/// Kafka's `Utils.abs(groupId.hashCode()) % partitions`.
pub(crate) fn partition_for(key: &str, partitions: i32) -> i32 {
    // The smallest integer has no absolute value: Kafka takes 0.
    let hash = java_hash(key).checked_abs().unwrap_or(0);
    hash % partitions
}

/// Java's `String.hashCode`: over UTF-16 code units, in 32 bits.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_javas() {
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("hello"), 99_162_322);
        assert_eq!(
            java_hash("grüße"),
            "grüße".chars().fold(0, |h, c| h * 31 + c as i32)
        );
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(partition_for("polygenelubricants", 50), 0);
        assert_eq!(partition_for("hello", 50), 22);
    }
}
