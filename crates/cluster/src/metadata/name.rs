//! The rule for topic names, so that a bad one fails at once and without a broker.

use thiserror::Error;

const NAME_BYTES_MAX: usize = 249;

/// A name that no topic can have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name:?} is not a topic name: {reason}")]
pub struct InvalidTopic {
    pub name: String,
    pub reason: &'static str,
}

/// Kafka's rule: 1 to 249 of `[a-zA-Z0-9._-]`, and neither "." nor "..".
pub fn validate_topic_name(name: &str) -> Result<(), InvalidTopic> {
    let refuse = |reason| {
        Err(InvalidTopic {
            name: name.to_owned(),
            reason,
        })
    };
    if name.is_empty() {
        return refuse("it is empty");
    }
    if name == "." || name == ".." {
        return refuse("\".\" and \"..\" are reserved");
    }
    if name.len() > NAME_BYTES_MAX {
        return refuse("it is longer than 249 characters");
    }
    if !name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    {
        return refuse("only letters, digits, '.', '_' and '-' are allowed");
    }
    Ok(())
}
