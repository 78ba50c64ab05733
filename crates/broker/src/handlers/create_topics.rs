//! `CreateTopics` // key 19
//!
//! Any node handles it, because each can act as controller.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_security::acl::{Operation, ResourceType};

use crate::Core;
use crate::error::ApiError;
use crate::handlers::describe_configs::{self, ConfigValue};
use crate::handlers::repeats;
use crate::options::TopicOption;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::topology::NewTopic;
use crate::topology::assignment::NewReplicas;

/// The limit for one request, as in Kafka's controller (`MAX_PARTITIONS_PER_BATCH`).
pub(super) const PARTITIONS_PER_REQUEST_MAX: i64 = 10_000;

/// The first version with the error for an exceeded quota (KIP-599).
const STRICT: i16 = 6;

impl Subject for CreateTopicsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: CreateTopicsRequest,
) -> CreateTopicsResponse {
    let repeated = repeats::repeated(request.topics.iter().map(|topic| topic.name.clone()));
    let mut refused = BTreeSet::new();
    let counts = request.topics.iter().map(|t| count(t, context.core));
    let partitions: i64 = counts.sum();
    let mut topics: Vec<CreatableTopicResult> = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let name = topic.name.clone();
        let is_repeated = repeated.contains(&name);
        // A name that comes twice is refused once.
        if is_repeated && !refused.insert(name.clone()) {
            continue;
        }
        let partitions_of_topic = count(&topic, context.core).max(0) as usize;
        let refusal = context
            .refusal_for(&name)
            .or_else(|| denied(context, &name));
        let created = match refusal {
            Some(code) => Err(ApiError::of(code)),
            None if is_repeated => Err(repeats::duplicate_topic()),
            None if partitions > PARTITIONS_PER_REQUEST_MAX => Err(too_many_partitions()),
            None if request.validate_only => create(context, topic, true),
            None => context
                .spend_mutations(partitions_of_topic, context.version >= STRICT)
                .and_then(|()| create(context, topic, false)),
        };
        topics.push(match created {
            Ok(result) => result,
            Err(error) => CreatableTopicResult {
                name,
                error_code: error.code.0,
                error_message: Some(error.message.into()),
                ..CreatableTopicResult::default()
            },
        });
    }
    CreateTopicsResponse {
        topics,
        throttle_time_ms: context.throttle_ms,
    }
}

/// Creating needs the permission to create all topics, or this one.
pub(super) fn denied(context: &Context<'_>, name: &str) -> Option<ErrorCode> {
    let may_create = context.allows_on_cluster(Operation::Create)
        || context.allows(Operation::Create, ResourceType::Topic, name);
    (!may_create).then_some(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
}

pub(super) fn too_many_partitions() -> ApiError {
    let why = "Excessively large number of partitions per request.";
    ApiError::new(ErrorCode::POLICY_VIOLATION, why)
}

/// Returns the number of partitions that a topic will have.
fn count(topic: &CreatableTopic, core: &Core) -> i64 {
    match topic.num_partitions {
        -1 if !topic.assignments.is_empty() => topic.assignments.len() as i64,
        -1 => i64::from(core.options.num_partitions),
        count => i64::from(count.max(0)),
    }
}

fn create(
    context: &mut Context<'_>,
    topic: CreatableTopic,
    validate_only: bool,
) -> Result<CreatableTopicResult, ApiError> {
    let name = topic.name.detached();
    let wish = wish(topic)?;
    let core = &mut *context.core;
    let own = wish.options.clone();
    let counts = counts(&wish.replicas, core);
    let id = core
        .topology
        .create_topic(wish, validate_only, &core.options, &mut core.random)?;
    let values = describe_configs::topic_values(&own, &core.options);
    // Values that the client did not give are those of the broker.
    let may_see = context.allows(Operation::DescribeConfigs, ResourceType::Topic, &name);
    let hidden = if may_see {
        ErrorCode::NONE
    } else {
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
    };
    Ok(CreatableTopicResult {
        topic_id: id,
        error_message: None,
        num_partitions: counts.0,
        replication_factor: counts.1,
        topic_config_error_code: hidden.0,
        configs: may_see.then(|| values.into_iter().map(config).collect()),
        name,
        ..CreatableTopicResult::default()
    })
}

/// Checks what can be wrong only in the wire form.
fn wish(topic: CreatableTopic) -> Result<NewTopic, ApiError> {
    let invalid = |why: &str| Err(ApiError::new(ErrorCode::INVALID_REQUEST, why));
    let replicas = if topic.assignments.is_empty() {
        NewReplicas::Counts {
            partitions: topic.num_partitions,
            replication_factor: topic.replication_factor,
        }
    } else {
        if topic.num_partitions != -1 || topic.replication_factor != -1 {
            return invalid(
                "A manual partition assignment was specified, but numPartitions or replicationFactor was not set to -1.",
            );
        }
        let lists: BTreeMap<i32, Vec<i32>> = topic
            .assignments
            .iter()
            .map(|a| (a.partition_index, a.broker_ids.clone()))
            .collect();
        let is_gapless = lists.keys().copied().eq(0..topic.assignments.len() as i32);
        if !is_gapless {
            return Err(ApiError::new(
                ErrorCode::INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            ));
        }
        NewReplicas::Assigned(lists.into_values().collect())
    };
    let mut options = BTreeMap::new();
    for config in topic.configs {
        let Some(value) = config.value else {
            return Err(ApiError::new(
                ErrorCode::INVALID_CONFIG,
                format!(
                    "Null value not supported for topic configs: {}",
                    config.name.as_str()
                ),
            ));
        };
        describe_configs::check_topic_option(&config.name)?;
        describe_configs::check_value(&value)?;
        options.insert(config.name.to_string(), value.to_string());
    }
    Ok(NewTopic {
        name: topic.name.to_string(),
        replicas,
        options,
    })
}

fn counts(replicas: &NewReplicas, core: &Core) -> (i32, i16) {
    match replicas {
        NewReplicas::Counts {
            partitions,
            replication_factor,
        } => (
            if *partitions == -1 {
                core.options.num_partitions
            } else {
                *partitions
            },
            match *replication_factor {
                -1 => core.options.default_replication_factor,
                factor => factor,
            },
        ),
        NewReplicas::Assigned(lists) => {
            (lists.len() as i32, lists.first().map_or(0, Vec::len) as i16)
        }
    }
}

fn config((option, value): (&'static TopicOption, ConfigValue)) -> CreatableTopicConfigs {
    CreatableTopicConfigs {
        name: Str::from_static(option.name),
        value: Some(value.text.into()),
        read_only: false,
        config_source: value.source,
        is_sensitive: false,
    }
}
