//! `OffsetDelete` // key 47

use thalweg_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::context::Context;
use crate::subject::Subject;

impl Subject for OffsetDeleteRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: OffsetDeleteRequest,
) -> OffsetDeleteResponse {
    let group = request.group_id;
    let known = match context.check_coordinator(&group) {
        Ok(()) if !context.core.offsets.has_group(&group) => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        other => other,
    };
    if let Err(code) = known {
        return OffsetDeleteResponse {
            error_code: code.0,
            ..OffsetDeleteResponse::default()
        };
    }
    let topics = request.topics.into_iter().map(|topic| {
        let topology = &context.core.topology;
        let count = topology
            .topic(&topic.name)
            .map_or(0, |topic| topic.partitions.len()) as i32;
        let partitions = topic.partitions.iter().map(|wish| {
            let index = wish.partition_index;
            let code = if (0..count).contains(&index) {
                ErrorCode::NONE
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            };
            context.core.offsets.delete(&group, &topic.name, index);
            OffsetDeleteResponsePartition {
                partition_index: index,
                error_code: code.0,
            }
        });
        OffsetDeleteResponseTopic {
            partitions: partitions.collect(),
            name: topic.name,
        }
    });
    OffsetDeleteResponse {
        topics: topics.collect(),
        ..OffsetDeleteResponse::default()
    }
}
