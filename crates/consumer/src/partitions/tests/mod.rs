//! Tests of the table, without the lock.

mod buffer;
mod positions;
mod random;

use super::state::FetchPosition;
use crate::topic_partition::TopicPartition;

fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn at(offset: i64, leader_epoch: i32) -> FetchPosition {
    FetchPosition {
        offset,
        leader_epoch,
    }
}
