//! [`Topic`]: its name, id, options and partitions, and which names are legal.

use std::collections::BTreeMap;

use thalweg_protocol::{Str, Uuid};

use crate::options::TopicOptions;
use crate::topology::partition::Partition;

pub(crate) const NAME_LEN_MAX: usize = 249;

/// Kafka's own topics, which clients leave out of `subscribe(pattern)`.
const INTERNAL_TOPICS: [&str; 3] = [
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
];

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) name: Str,
    pub(crate) id: Uuid,
    /// The options set for this topic, by Kafka's names.
    pub(crate) own_options: BTreeMap<String, String>,
    /// All options of the topic, with the broker's defaults, parsed.
    pub(crate) options: TopicOptions,
    pub(crate) partitions: Vec<Partition>,
}

impl Topic {
    pub(crate) fn is_internal(&self) -> bool {
        is_internal(&self.name)
    }

    pub(crate) fn partition(&self, index: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    pub(crate) fn partition_mut(&mut self, index: i32) -> Option<&mut Partition> {
        self.partitions.get_mut(usize::try_from(index).ok()?)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.partitions
            .iter()
            .map(|partition| partition.log.size_bytes())
            .sum()
    }

    pub(crate) fn replication_factor(&self) -> i16 {
        self.partitions
            .first()
            .map_or(0, |partition| partition.replicas.len() as i16)
    }
}

pub(crate) fn is_internal(name: &str) -> bool {
    INTERNAL_TOPICS.contains(&name)
}

/// Checks a name like Kafka's `Topic.validate`.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fault = if name.is_empty() {
        "the empty string is not allowed".to_owned()
    } else if name == "." || name == ".." {
        format!("'{name}' is not allowed")
    } else if name.len() > NAME_LEN_MAX {
        format!("the length of '{name}' is longer than the max allowed length {NAME_LEN_MAX}")
    } else if !name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    {
        format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    } else {
        return Ok(());
    };
    Err(format!("Topic name is invalid: {fault}"))
}

/// Returns the topic's name in metrics, where `.` and `_` are the same.
pub(crate) fn metric_name(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_kafka_does() {
        for good in ["a", "A.b_c-9", &"x".repeat(249)] {
            check_name(good).unwrap();
        }
        for bad in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(250)] {
            check_name(bad).unwrap_err();
        }
        assert_eq!(metric_name("a.b"), metric_name("a_b"));
        assert_ne!(metric_name("a.b"), metric_name("a-b"));
    }
}
