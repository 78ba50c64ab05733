//! `DeleteTopics` // key 20
//!
//! Topics are given by name, or from version 6 on also by id.

use std::collections::BTreeSet;

use thalweg_protocol::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use thalweg_protocol::{ErrorCode, Str, Uuid};

use thalweg_security::acl::Operation;

use crate::Core;
use crate::error::ApiError;
use crate::requests::context::Context;
use crate::requests::subject::{Subject, topic_name};

/// The first version with the error for an exceeded quota (KIP-599).
const STRICT: i16 = 5;

impl Subject for DeleteTopicsRequest {
    fn topics(&self, core: &Core) -> Vec<Str> {
        let states = self.topics.iter().filter_map(|state| match &state.name {
            Some(name) => Some(name.clone()),
            None => topic_name(core, &Str::default(), state.topic_id),
        });
        self.topic_names.iter().cloned().chain(states).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DeleteTopicsRequest,
) -> DeleteTopicsResponse {
    let names = request.topic_names.into_iter();
    let by_name = names.map(|name| DeleteTopicState {
        name: Some(name),
        topic_id: Uuid::ZERO,
    });
    let wishes = by_name.chain(request.topics);
    let mut gone = BTreeSet::new();
    let responses: Vec<DeletableTopicResult> = wishes
        .map(|wish| {
            let deleted = delete(context, &wish);
            gone.extend(deleted.iter().map(|(name, _)| name.clone()));
            let deleted = deleted.map(|(name, id)| (Some(name), id));
            let (name, topic_id) = deleted.clone().unwrap_or((wish.name, wish.topic_id));
            let (error_code, error_message) = ApiError::fields(deleted.err());
            DeletableTopicResult {
                // Null is possible from version 6 on.
                name: name.or_else(|| (context.version < 6).then(Str::default)),
                topic_id,
                error_code,
                error_message,
            }
        })
        .collect();
    context.core.offsets.forget_topics(&gone);
    DeleteTopicsResponse {
        responses,
        throttle_time_ms: context.throttle_ms,
    }
}

fn delete(context: &mut Context<'_>, wish: &DeleteTopicState) -> Result<(Str, Uuid), ApiError> {
    if !context.core.options.delete_topic_enable {
        return Err(ApiError::of(ErrorCode::TOPIC_DELETION_DISABLED));
    }
    // A client that may not delete does not learn whether the name exists.
    let may_delete_all = context.allows_on_cluster(Operation::Delete);
    if let Some(name) = &wish.name
        && !may_delete_all
        && let Some(code) = context.denied_topic(name)
    {
        return Err(ApiError::of(code));
    }
    let topology = &context.core.topology;
    let topic = match &wish.name {
        Some(_) if !wish.topic_id.is_zero() => {
            let why = "You may not specify both topic name and topic id.";
            return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
        }
        Some(name) => topology.topic(name).ok_or_else(ApiError::unknown_topic)?,
        None if wish.topic_id.is_zero() => {
            let why = "Neither topic name nor id were specified.";
            return Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
        }
        None => topology
            .topic_by_id(wish.topic_id)
            .ok_or_else(|| ApiError::of(ErrorCode::UNKNOWN_TOPIC_ID))?,
    };
    let (name, id) = (topic.name.clone(), topic.id);
    let partitions = topic.partitions.len();
    let refusal = if may_delete_all {
        context.injected_for(&name)
    } else {
        context.refusal_for(&name)
    };
    if let Some(code) = refusal {
        return Err(ApiError::of(code));
    }
    context.spend_mutations(partitions, context.version >= STRICT)?;
    context.core.drop_topic(id);
    Ok((name, id))
}
