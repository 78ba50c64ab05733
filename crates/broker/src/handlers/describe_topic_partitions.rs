//! `DescribeTopicPartitions` // key 75
//!
//! The response comes in pages: topics sorted by name, up to a number of partitions, then a cursor
//! for the next page.

use thalweg_protocol::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::requests::operations;
use thalweg_security::acl::ResourceType;

use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::topology::Topology;
use crate::topology::partition::{NO_LEADER, Partition};

/// Kafka's `max.request.partition.size.limit`.
const PARTITIONS_MAX: i32 = 2000;

impl Subject for DescribeTopicPartitionsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    let cursor = request.cursor.unwrap_or_default();
    let mut names: Vec<Str> = if request.topics.is_empty() {
        context
            .core
            .topology
            .topics()
            .filter(|topic| context.denied_topic(&topic.name).is_none())
            .map(|topic| topic.name.clone())
            .collect()
    } else {
        request.topics.into_iter().map(|topic| topic.name).collect()
    };
    names.sort_unstable();
    names.dedup();
    names.retain(|name| *name >= cursor.topic_name);
    let mut left = request.response_partition_limit.clamp(1, PARTITIONS_MAX) as usize;
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names {
        let first = if name == cursor.topic_name {
            cursor.partition_index
        } else {
            0
        };
        if left == 0 {
            response.next_cursor = Some(Cursor {
                topic_name: name,
                partition_index: first,
            });
            break;
        }
        let (topic, next) = describe(context, name.clone(), first.max(0) as usize, left);
        left -= topic.partitions.len();
        response.topics.push(topic);
        if let Some(partition_index) = next {
            response.next_cursor = Some(Cursor {
                topic_name: name,
                partition_index,
            });
            break;
        }
    }
    response
}

/// Describes a topic's partitions from `first` on. If there are more than `max`, it also returns
/// the partition to continue from.
fn describe(
    context: &Context<'_>,
    name: Str,
    first: usize,
    max: usize,
) -> (DescribeTopicPartitionsResponseTopic, Option<i32>) {
    let topology = &context.core.topology;
    let found = match context.refusal_for(&name) {
        Some(code) => Err(code),
        None => topology
            .topic(&name)
            .ok_or(match crate::topology::topic::check_name(&name) {
                Ok(()) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Err(_) => ErrorCode::INVALID_TOPIC_EXCEPTION,
            }),
    };
    let topic = match found {
        Ok(topic) => topic,
        Err(code) => {
            let topic = DescribeTopicPartitionsResponseTopic {
                error_code: code.0,
                name: Some(name),
                topic_authorized_operations: operations::TOPIC,
                ..Default::default()
            };
            return (topic, None);
        }
    };
    let partitions = topic.partitions.iter().enumerate().skip(first).take(max);
    let described = DescribeTopicPartitionsResponseTopic {
        error_code: 0,
        topic_id: topic.id,
        is_internal: topic.is_internal(),
        partitions: partitions
            .map(|(index, p)| partition(topology, index as i32, p))
            .collect(),
        topic_authorized_operations: context.allowed_of(
            operations::TOPIC,
            ResourceType::Topic,
            &name,
        ),
        name: Some(name),
    };
    let next = (topic.partitions.len() > first + max).then_some((first + max) as i32);
    (described, next)
}

fn partition(
    topology: &Topology,
    index: i32,
    partition: &Partition,
) -> DescribeTopicPartitionsResponsePartition {
    let code = match partition.leader {
        NO_LEADER => ErrorCode::LEADER_NOT_AVAILABLE,
        _ => ErrorCode::NONE,
    };
    DescribeTopicPartitionsResponsePartition {
        error_code: code.0,
        partition_index: index,
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas.clone(),
        isr_nodes: topology.isr(partition),
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        offline_replicas: topology.offline_replicas(partition),
    }
}
