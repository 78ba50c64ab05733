//! Assigned partitions that the cluster does not have, in words.
//!
//! A consumer waits for them, as they may come: a topic may be created, or get more partitions.
//! So absence is no error; it is what a warning tells, and why a position is not known in time.

use std::fmt;

use thalweg_cluster::Metadata;
use thalweg_protocol::{ErrorCode, Str};

use crate::topic_partition::TopicPartition;

/// What the brokers' answers lack.
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
    /// `None` if the partition is there, or nothing is known of its topic yet.
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

/// How far an assigned partition's absence has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AbsenceNote {
    #[default]
    Present,
    /// Absent in the metadata of this version. It may be older than the partition, or the answer
    /// that has the topic created: only the next one counts.
    Since(u64),
    Told,
}

impl AbsenceNote {
    /// What follows from another look at the metadata; true if the application is to be told.
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
