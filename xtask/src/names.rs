//! Converts Kafka's names to Rust's.

/// Converts `BaseOffset` to `base_offset`. A keyword gets an underscore at the end.
pub(crate) fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        if c.is_uppercase() && i > 0 {
            let after_lower = !chars[i - 1].is_uppercase();
            let before_lower = chars.get(i + 1).is_some_and(|next| next.is_lowercase());
            if after_lower || before_lower {
                out.push('_');
            }
        }
        out.extend(c.to_lowercase());
    }
    if KEYWORDS.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

/// Converts `OffsetForLeaderEpoch` to `OFFSET_FOR_LEADER_EPOCH`.
pub(crate) fn upper(name: &str) -> String {
    snake(name).trim_end_matches('_').to_uppercase()
}

const KEYWORDS: [&str; 12] = [
    "type", "match", "ref", "use", "move", "where", "loop", "in", "as", "final", "box", "static",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_rusts() {
        for (kafka, rust) in [
            ("BaseOffset", "base_offset"),
            ("Type", "type_"),
            ("Enable2Pc", "enable2_pc"),
            ("HMACKey", "hmac_key"),
        ] {
            assert_eq!(snake(kafka), rust);
        }
        assert_eq!(upper("OffsetForLeaderEpoch"), "OFFSET_FOR_LEADER_EPOCH");
    }
}
