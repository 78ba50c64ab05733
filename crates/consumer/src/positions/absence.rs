//! Describes assigned partitions that the cluster does not have.
//!
//! A consumer waits for such partitions, because a topic may be created or get more partitions. So
//! absence is not an error. It causes a warning, and explains why a position is not known in time.

use std::fmt;
use std::time::{Duration, Instant};

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

/// A cluster may need this long to create the topic that a consumer asks for. Only then is its
/// absence worth a warning.
const WARN_AFTER: Duration = Duration::from_secs(1);

/// Whether the absence of an assigned partition is confirmed and reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AbsenceNote {
    #[default]
    Present,
    /// Absent in this version of the metadata. That response may be older than the partition, or
    /// be the one that creates the topic. So only a later response confirms the absence.
    Since { version: u64, at: Instant },
    /// Absent since `at` in at least two responses.
    Confirmed { at: Instant },
    /// Confirmed, and the application was warned.
    Told,
}

impl AbsenceNote {
    /// Updates the note from new metadata. Returns true if the application must be warned.
    pub(crate) fn look(&mut self, absent: bool, version: u64, now: Instant) -> bool {
        let absent_since = match *self {
            _ if !absent => {
                *self = Self::Present;
                return false;
            }
            Self::Present => {
                *self = Self::Since { version, at: now };
                return false;
            }
            Self::Since { version: first, .. } if version <= first => return false,
            Self::Told => return false,
            Self::Since { at, .. } | Self::Confirmed { at } => at,
        };
        let warns = now.saturating_duration_since(absent_since) >= WARN_AFTER;
        *self = if warns {
            Self::Told
        } else {
            Self::Confirmed { at: absent_since }
        };
        warns
    }

    pub(crate) fn is_confirmed(self) -> bool {
        matches!(self, Self::Confirmed { .. } | Self::Told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absence_is_told_once_and_again_after_a_presence() {
        let mut note = AbsenceNote::default();
        let now = Instant::now();
        let late = now + WARN_AFTER;
        assert!(
            !note.look(true, 3, now),
            "it may be older than the partition"
        );
        assert!(!note.look(true, 3, late), "the same response");
        assert!(!note.is_confirmed());
        assert!(note.look(true, 4, late) && note.is_confirmed());
        assert!(!note.look(true, 5, late), "once");
        assert!(!note.look(false, 6, late) && !note.is_confirmed());
        assert!(!note.look(true, 7, late));
        assert!(note.look(true, 8, late + WARN_AFTER), "it went again");
    }

    #[test]
    fn an_absence_is_confirmed_at_once_and_told_later() {
        let mut note = AbsenceNote::default();
        let now = Instant::now();
        assert!(!note.look(true, 1, now));
        let soon = now + Duration::from_millis(100);
        assert!(!note.look(true, 2, soon) && note.is_confirmed());
        assert!(!note.look(true, 3, soon), "the topic may be created now");
        assert!(note.look(true, 4, now + WARN_AFTER) && note.is_confirmed());
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
