//! Lanes: all partitions of all topics of a world, numbered through.

use thalweg_consumer::TopicPartition;

const TOPIC: &str = "simulated";

/// How many topics, of how many partitions each.
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

    /// Topic and partition of a lane.
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
