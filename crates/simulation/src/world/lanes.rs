//! Lanes: all partitions of all topics of a world, with consecutive numbers.

use thalweg_consumer::TopicPartition;

const TOPIC: &str = "simulated";

/// The number of topics, and of partitions of each topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    pub(crate) topics: i32,
    pub(crate) partitions: i32,
}

impl Lanes {
    pub(crate) fn count(self) -> i32 {
        self.topics * self.partitions
    }

    pub(crate) fn all(self) -> Vec<TopicPartition> {
        (0..self.count()).map(|lane| self.partition(lane)).collect()
    }

    /// Returns the topic and the partition of a lane.
    pub(crate) fn place(self, lane: i32) -> (i32, i32) {
        (lane / self.partitions, lane % self.partitions)
    }

    pub(crate) fn partition(self, lane: i32) -> TopicPartition {
        let (topic, partition) = self.place(lane);
        TopicPartition::new(topic_name(topic), partition)
    }

    pub(crate) fn of(self, partition: &TopicPartition) -> i32 {
        let number = partition.topic.strip_prefix(TOPIC).unwrap_or_default();
        let topic: i32 = number.trim_start_matches('-').parse().unwrap_or(0);
        topic * self.partitions + partition.partition
    }
}

pub(crate) fn topic_name(topic: i32) -> String {
    if topic == 0 {
        TOPIC.to_owned()
    } else {
        format!("{TOPIC}-{topic}")
    }
}
