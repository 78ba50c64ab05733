//! Describes assigned partitions that the cluster does not have.
//!
//! A consumer waits for such partitions, because a topic may be created or get more partitions. So
//! absence is not an error. It causes a warning, and explains why a position is not known in time.

use std::fmt;

use thalweg_cluster::Metadata;
use thalweg_protocol::{ErrorCode, Str};

use crate::topic_partition::TopicPartition;

/// What is missing from the brokers' metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absence {
    Topic {
        topic: Str,
    },
    Partition {
        partition: TopicPartition,
        partitions: usize,
    },
}

impl Absence {
    /// Returns `None` if the partition exists, or if its topic is not known yet.
    pub fn of(partition: &TopicPartition, metadata: &Metadata) -> Option<Self> {
        if let Some(topic) = metadata.topic(&partition.topic) {
            let there = topic.partition(partition.partition).is_some();
            return (!there).then(|| Self::Partition {
                partition: partition.clone(),
                partitions: topic.partitions.len(),
            });
        }
        let code = metadata.topic_error(&partition.topic)?;
        (code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION).then(|| Self::Topic {
            topic: partition.topic.clone(),
        })
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic { topic } => write!(f, "there is no topic {topic}"),
            Self::Partition {
                partition,
                partitions,
            } => {
                let TopicPartition { topic, partition } = partition;
                match partitions {
                    1 => write!(f, "topic {topic} has 1 partition (0)")?,
                    many => {
                        let last = many.saturating_sub(1);
                        write!(f, "topic {topic} has {many} partitions (0 to {last})")?;
                    }
                }
                write!(f, " and no partition {partition}")
            }
        }
    }
}

/// Whether the absence of an assigned partition is confirmed and reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AbsenceNote {
    #[default]
    Present,
    /// Absent in this version of the metadata. That response may be older than the partition, or
    /// be the one that creates the topic. So only a later response confirms the absence.
    Since(u64),
    Told,
}

impl AbsenceNote {
    /// Updates the note from new metadata. Returns true if the application must be warned.
    pub(crate) fn look(&mut self, absent: bool, version: u64) -> bool {
        let (next, told) = match *self {
            _ if !absent => (Self::Present, false),
            Self::Present => (Self::Since(version), false),
            Self::Since(first) if version > first => (Self::Told, true),
            same => (same, false),
        };
        *self = next;
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_is_told_once_and_again_after_a_presence() {
        let mut note = AbsenceNote::default();
        assert!(!note.look(true, 3), "it may be older than the partition");
        assert!(!note.look(true, 3), "the same answer");
        assert!(note.look(true, 4));
        assert!(!note.look(true, 5), "once");
        assert!(!note.look(false, 6));
        assert!(!note.look(true, 7));
        assert!(note.look(true, 8), "it went again");
    }

    #[test]
    fn its_words_name_what_there_is() {
        let of = |partitions| Absence::Partition {
            partition: TopicPartition::new("t", 7),
            partitions,
        };
        assert_eq!(
            of(3).to_string(),
            "topic t has 3 partitions (0 to 2) and no partition 7"
        );
        assert_eq!(
            of(1).to_string(),
            "topic t has 1 partition (0) and no partition 7"
        );
        let topic = Absence::Topic { topic: "t".into() };
        assert_eq!(topic.to_string(), "there is no topic t");
    }
}
