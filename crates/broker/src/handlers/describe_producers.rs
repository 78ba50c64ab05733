//! `DescribeProducers` // key 61

use thalweg_protocol::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState,
    TopicResponse,
};
use thalweg_protocol::{ErrorCode, Str};

use super::repeats::SeenPartitions;
use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for DescribeProducersRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let mut seen = SeenPartitions::new();
    let topics = request.topics.iter().map(|topic| {
        let place = seen.topic(&topic.name);
        let name = topic.name.as_str();
        let partitions = topic.partition_indexes.iter().filter_map(|index| {
            // A partition that is named twice is in the response once.
            if !seen.is_new(place, *index) {
                return None;
            }
            let found = producers(context, name, *index);
            Some(PartitionResponse {
                partition_index: *index,
                error_code: found.as_ref().err().map_or(0, |code| code.0),
                error_message: None,
                active_producers: found.unwrap_or_default(),
            })
        });
        TopicResponse {
            partitions: partitions.collect(),
            name: topic.name.clone(),
        }
    });
    DescribeProducersResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

fn producers(
    context: &Context<'_>,
    topic: &str,
    index: i32,
) -> Result<Vec<ProducerState>, ErrorCode> {
    if let Some(code) = context.refusal_for(topic) {
        return Err(code);
    }
    let topic = context.core.topology.topic(topic);
    let partition = topic
        .and_then(|topic| topic.partition(index))
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(context.node, -1)?;
    let state = |(producer_id, entry): (i64, &crate::storage::ProducerEntry)| ProducerState {
        producer_id,
        producer_epoch: i32::from(entry.epoch),
        last_sequence: entry.last_sequence(),
        last_timestamp: entry.last_timestamp,
        coordinator_epoch: entry.coordinator_epoch,
        current_txn_start_offset: entry.transaction_start.unwrap_or(-1),
    };
    Ok(partition.producers.iter().map(state).collect())
}
