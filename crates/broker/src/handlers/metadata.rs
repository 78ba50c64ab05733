//! `Metadata` // key 3
//!
//! Stopped nodes are left out, as a `KRaft` controller and librdkafka's mock do. A topic that the
//! request creates is described at once, where Kafka makes the client ask again.

use std::collections::BTreeSet;

use thalweg_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use thalweg_protocol::{ErrorCode, Str, Uuid};

use super::create_topics::PARTITIONS_PER_REQUEST_MAX;
use crate::requests::operations;
use thalweg_security::acl::ResourceType;

use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::{Subject, topic_name};
use crate::topology::partition::{NO_LEADER, Partition};
use crate::topology::topic::Topic;
use crate::topology::{NewTopic, Topology};

impl Subject for MetadataRequest {
    fn topics(&self, core: &Core) -> Vec<Str> {
        let name = |wish: &MetadataRequestTopic| match &wish.name {
            Some(name) => Some(name.clone()),
            None => topic_name(core, &Str::default(), wish.topic_id),
        };
        match &self.topics {
            // Version 0 asks for all topics with an empty list, but clients no longer speak it.
            Some(wishes) => wishes.iter().filter_map(name).collect(),
            None => core
                .topology
                .topics()
                .map(|topic| topic.name.clone())
                .collect(),
        }
    }
}

pub(crate) fn handle(context: &mut Context<'_>, request: MetadataRequest) -> MetadataResponse {
    // Version 0 has no null. There, an empty list means all topics.
    let wishes = request
        .topics
        .filter(|list| context.version > 0 || !list.is_empty());
    let with_operations = request.include_topic_authorized_operations;
    let topics = match wishes {
        None => all(context, with_operations),
        Some(wishes) => {
            // Requests before version 4 cannot disallow it.
            let may_create = request.allow_auto_topic_creation || context.version < 4;
            let mut creation = Creation {
                is_allowed: may_create && context.core.options.auto_create_topics_enable,
                partitions_left: PARTITIONS_PER_REQUEST_MAX,
            };
            let distinct = distinct(wishes).into_iter();
            distinct
                .map(|wish| one(context, wish, &mut creation, with_operations))
                .collect()
        }
    };
    let topology = &context.core.topology;
    MetadataResponse {
        brokers: topology.live_nodes().map(broker).collect(),
        cluster_id: Some(topology.cluster_id.clone()),
        controller_id: topology.controller(),
        topics,
        cluster_authorized_operations: if request.include_cluster_authorized_operations {
            context.allowed_on_cluster()
        } else {
            operations::NOT_ASKED
        },
        ..MetadataResponse::default()
    }
}

fn broker(node: &crate::topology::Node) -> MetadataResponseBroker {
    MetadataResponseBroker {
        node_id: node.id,
        host: node.host.clone(),
        port: i32::from(node.port),
        rack: None,
    }
}

/// Removes repeated topics, as Kafka does: for Kafka they are a set.
fn distinct(wishes: Vec<MetadataRequestTopic>) -> Vec<MetadataRequestTopic> {
    let mut seen = BTreeSet::new();
    let mut is_new = |wish: &MetadataRequestTopic| seen.insert((wish.topic_id, wish.name.clone()));
    let wishes = wishes.into_iter();
    wishes.filter(|wish| is_new(wish)).collect()
}

/// Whether missing topics are created.
struct Creation {
    is_allowed: bool,
    /// How many more partitions this request may create.
    partitions_left: i64,
}

fn all(context: &Context<'_>, with_operations: bool) -> Vec<MetadataResponseTopic> {
    let topology = &context.core.topology;
    topology
        .topics()
        .filter(|topic| context.denied_topic(&topic.name).is_none())
        .map(|topic| describe(context, topology, topic, with_operations))
        .collect()
}

fn one(
    context: &mut Context<'_>,
    wish: MetadataRequestTopic,
    creation: &mut Creation,
    with_operations: bool,
) -> MetadataResponseTopic {
    let found = match &wish.name {
        Some(name) if wish.topic_id.is_zero() => find_or_create(context, name, creation).map(Some),
        _ => Ok(context
            .core
            .topology
            .topic_by_id(wish.topic_id)
            .map(|topic| topic.id)),
    };
    // Ids are allowed from version 12 on.
    let found = match found {
        Ok(None) if context.version < 12 => Err(ErrorCode::INVALID_REQUEST),
        found => found,
    };
    let topology = &context.core.topology;
    let topic = match found {
        Ok(Some(id)) => topology
            .topic_by_id(id)
            .ok_or(ErrorCode::UNKNOWN_SERVER_ERROR),
        Ok(None) => Err(ErrorCode::UNKNOWN_TOPIC_ID),
        Err(code) => Err(code),
    };
    match topic {
        // Kafka does not return the name of a topic that the client may not describe.
        Ok(topic) if !wish.topic_id.is_zero() && context.denied_topic(&topic.name).is_some() => {
            let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
            failed(code, None, wish.topic_id, context.version)
        }
        Ok(topic) => describe(context, topology, topic, with_operations),
        Err(code) => failed(code, wish.name, wish.topic_id, context.version),
    }
}

fn find_or_create(
    context: &mut Context<'_>,
    name: &Str,
    creation: &mut Creation,
) -> Result<Uuid, ErrorCode> {
    if let Some(code) = context.refusal_for(name) {
        return Err(code);
    }
    let denied = super::create_topics::denied(context, name);
    let core = &mut *context.core;
    if let Some(topic) = core.topology.topic(name) {
        return Ok(topic.id);
    }
    let partitions = i64::from(core.options.num_partitions);
    let denied = denied.filter(|_| creation.is_allowed);
    if let Some(code) = denied {
        return Err(code);
    }
    // The client asks again for those that are too many for one request.
    if !creation.is_allowed || creation.partitions_left < partitions {
        return match crate::topology::topic::check_name(name) {
            Ok(()) => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Err(_) => Err(ErrorCode::INVALID_TOPIC_EXCEPTION),
        };
    }
    let wish = NewTopic {
        name: name.to_string(),
        ..NewTopic::default()
    };
    let created = core
        .topology
        .create_topic(wish, false, &core.options, &mut core.random)
        .map_err(|error| error.code)?;
    creation.partitions_left -= partitions;
    Ok(created)
}

fn failed(
    code: ErrorCode,
    name: Option<Str>,
    topic_id: Uuid,
    version: i16,
) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: code.0,
        // Null is possible from version 12 on.
        name: name.or_else(|| (version < 12).then(Str::default)),
        topic_id,
        ..MetadataResponseTopic::default()
    }
}

fn describe(
    context: &Context<'_>,
    topology: &Topology,
    topic: &Topic,
    with_operations: bool,
) -> MetadataResponseTopic {
    if let Some(code) = context.refusal_for(&topic.name) {
        return failed(code, Some(topic.name.clone()), topic.id, context.version);
    }
    let partitions = (0..).zip(&topic.partitions);
    MetadataResponseTopic {
        error_code: 0,
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        is_internal: topic.is_internal(),
        partitions: partitions
            .map(|(index, p)| partition(topology, index, p))
            .collect(),
        topic_authorized_operations: if with_operations {
            context.allowed_of(operations::TOPIC, ResourceType::Topic, &topic.name)
        } else {
            operations::NOT_ASKED
        },
    }
}

fn partition(topology: &Topology, index: i32, partition: &Partition) -> MetadataResponsePartition {
    let code = match partition.leader {
        NO_LEADER => ErrorCode::LEADER_NOT_AVAILABLE,
        _ => ErrorCode::NONE,
    };
    MetadataResponsePartition {
        error_code: code.0,
        partition_index: index,
        leader_id: partition.leader,
        leader_epoch: partition.leader_epoch,
        replica_nodes: partition.replicas.clone(),
        isr_nodes: topology.isr(partition),
        offline_replicas: topology.offline_replicas(partition),
    }
}
