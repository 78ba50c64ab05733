//! `OffsetDelete` // key 47

use thalweg_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::offsets::pending::Place;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

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
    let allowed = context
        .check_coordinator(&group)
        .and_then(|()| check_group(context.core, &group));
    if let Err(code) = allowed {
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
        let injected = context.refusal_for(&topic.name);
        let view = context.core.groups.table.get(&group);
        let is_subscribed = view.is_some_and(|view| view.is_subscribed(&topic.name));
        let partitions = topic.partitions.iter().map(|wish| {
            let index = wish.partition_index;
            let code = if let Some(code) = injected {
                code
            } else if !(0..count).contains(&index) {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            } else if is_subscribed {
                ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC
            } else {
                ErrorCode::NONE
            };
            if injected.is_none() && !is_subscribed {
                let place = Place {
                    group: group.clone(),
                    topic: topic.name.clone(),
                    partition: index,
                };
                context.core.offsets.delete(&place);
            }
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

fn check_group(core: &Core, group: &str) -> Result<(), ErrorCode> {
    match core.groups.table.get(group) {
        Some(view) => view.check_offset_delete(),
        None if core.offsets.has_group(group) => Ok(()),
        None => Err(ErrorCode::GROUP_ID_NOT_FOUND),
    }
}
