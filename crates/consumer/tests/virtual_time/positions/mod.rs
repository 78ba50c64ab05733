//! `update_fetch_positions`: committed offsets, resets, out of range, truncation, new leaders.

mod committed;
mod lookups;
mod replicas;
mod reset_policy;
mod validation;

use thalweg_consumer::{ConsumerConfig, OffsetReset};

use crate::batches::plain;
use crate::broker::{Broker, Seen};
use crate::world::config;

fn with_reset(reset: OffsetReset) -> ConsumerConfig {
    ConsumerConfig {
        auto_offset_reset: reset,
        ..config()
    }
}

fn with_group(reset: OffsetReset) -> ConsumerConfig {
    ConsumerConfig {
        group_id: Some("g".into()),
        ..with_reset(reset)
    }
}

fn ten(broker: &mut Broker) {
    broker.append("t", 0, 10, plain(0, 10));
}

fn resets(broker: &Broker) -> Vec<i64> {
    broker
        .seen
        .iter()
        .filter_map(|seen| match seen {
            Seen::ListOffsets { request, .. } => Some(request.topics[0].partitions[0].timestamp),
            _ => None,
        })
        .collect()
}

fn validations(broker: &Broker) -> usize {
    broker
        .seen
        .iter()
        .filter(|s| matches!(s, Seen::OffsetForLeaderEpoch))
        .count()
}
