//! `OffsetForLeaderEpoch` // key 23

use thalweg_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopicResult,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for OffsetForLeaderEpochRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics
            .iter()
            .map(|topic| topic.topic.clone())
            .collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let name = topic.topic.as_str();
        let partitions = topic.partitions.iter().map(|wish| {
            let found = find(context, name, wish);
            let (leader_epoch, end_offset) = found.unwrap_or((-1, -1));
            EpochEndOffset {
                error_code: found.err().unwrap_or_default().0,
                partition: wish.partition,
                leader_epoch,
                end_offset,
            }
        });
        OffsetForLeaderTopicResult {
            partitions: partitions.collect(),
            topic: topic.topic.clone(),
        }
    });
    OffsetForLeaderEpochResponse {
        topics: topics.collect(),
        ..Default::default()
    }
}

fn find(
    context: &Context<'_>,
    topic: &str,
    wish: &OffsetForLeaderPartition,
) -> Result<(i32, i64), ErrorCode> {
    if let Some(code) = context.refusal_for(topic) {
        return Err(code);
    }
    let topic = context.core.topology.topic(topic);
    let partition = topic
        .and_then(|topic| topic.partition(wish.partition))
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(context.node, wish.current_leader_epoch)?;
    let log = &partition.log;
    Ok(log
        .epochs
        .end_offset_for(wish.leader_epoch, log.end_offset()))
}
