//! `CreatePartitions` // key 37

use std::collections::BTreeSet;

use thalweg_protocol::Str;
use thalweg_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
    CreatePartitionsTopicResult,
};

use crate::Core;
use crate::error::ApiError;
use crate::handlers::create_topics::{self, PARTITIONS_PER_REQUEST_MAX};
use crate::handlers::repeats;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

/// The first version with the error for an exceeded quota (KIP-599).
const STRICT: i16 = 3;

impl Subject for CreatePartitionsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: CreatePartitionsRequest,
) -> CreatePartitionsResponse {
    let repeated = repeats::repeated(request.topics.iter().map(|topic| topic.name.clone()));
    let mut refused = BTreeSet::new();
    let mut left = PARTITIONS_PER_REQUEST_MAX;
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let is_repeated = repeated.contains(&topic.name);
        // A name that comes twice is refused once.
        if is_repeated && !refused.insert(topic.name.clone()) {
            continue;
        }
        let more = more_partitions(context.core, &topic);
        let lists = topic
            .assignments
            .map(|lists| lists.into_iter().map(|a| a.broker_ids).collect());
        let created = match context.refusal_for(&topic.name) {
            Some(code) => Err(ApiError::of(code)),
            None if is_repeated => Err(repeats::duplicate_topic()),
            None if more > left => Err(create_topics::too_many_partitions()),
            None => {
                let is_free = request.validate_only || more == 0;
                let is_strict = context.version >= STRICT;
                let paid = if is_free {
                    Ok(())
                } else {
                    context.spend_mutations(more as usize, is_strict)
                };
                paid.and_then(|()| {
                    context.core.topology.create_partitions(
                        &topic.name,
                        topic.count,
                        lists,
                        request.validate_only,
                    )
                })
            }
        };
        if created.is_ok() {
            left -= more;
        }
        let (error_code, error_message) = ApiError::fields(created.err());
        results.push(CreatePartitionsTopicResult {
            name: topic.name,
            error_code,
            error_message,
        });
    }
    CreatePartitionsResponse {
        results,
        throttle_time_ms: context.throttle_ms,
    }
}

/// Returns the number of partitions to add to a topic.
fn more_partitions(core: &Core, topic: &CreatePartitionsTopic) -> i64 {
    let Some(found) = core.topology.topic(&topic.name) else {
        return 0;
    };
    (i64::from(topic.count) - found.partitions.len() as i64).max(0)
}
