//! Checks topic names, so that an invalid name fails at once without asking a broker.

use thiserror::Error;

const NAME_BYTES_MAX: usize = 249;

/// A name that no topic can have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{name:?} is not a topic name: it must be 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_' \
     and '-', and not '.' or '..'"
)]
pub struct InvalidTopic {
    pub name: String,
}

/// Checks a topic name by Kafka's rule: 1 to 249 of `[a-zA-Z0-9._-]`, and neither "." nor "..".
pub fn validate_topic_name(name: &str) -> Result<(), InvalidTopic> {
    let is_legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name != "."
        && name != ".."
        && name.bytes().all(is_legal);
    if is_name {
        Ok(())
    } else {
        Err(InvalidTopic {
            name: name.to_owned(),
        })
    }
}
