//! The name of one partition, the key of everything a consumer keeps.

use std::fmt;

use thalweg_protocol::Str;

/// A topic and the number of one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    pub topic: Str,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: impl Into<Str>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Writes a list of partitions as `a-0, a-1` for error messages.
pub(crate) struct Listed<'a>(pub(crate) &'a [TopicPartition]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, tp) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{tp}")?;
        }
        Ok(())
    }
}
