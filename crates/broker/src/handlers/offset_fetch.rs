//! `OffsetFetch` // key 9
//!
//! For one group up to version 7, for many from 8 on, with topic ids from 10 on.

use std::collections::BTreeSet;

use thalweg_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use thalweg_protocol::{ErrorCode, Str, Uuid};

use super::repeats::SeenPartitions;
use crate::Core;
use crate::offsets::PartitionOffsets;
use crate::offsets::pending::Place;
use crate::requests::context::Context;
use crate::requests::subject::{Subject, topic_name};

impl Subject for OffsetFetchRequest {
    fn topics(&self, core: &Core) -> Vec<Str> {
        let old = self.topics.iter().flatten().map(|topic| topic.name.clone());
        let topics = self
            .groups
            .iter()
            .flat_map(|group| group.topics.iter().flatten());
        let new = topics.filter_map(|topic| topic_name(core, &topic.name, topic.topic_id));
        old.chain(new).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: OffsetFetchRequest,
) -> OffsetFetchResponse {
    let require_stable = request.require_stable;
    if context.version >= 8 {
        let mut seen = BTreeSet::new();
        let is_new = |group: &OffsetFetchRequestGroup| seen.insert(group.group_id.clone());
        // A group that is named twice is in the response once.
        let groups = request.groups.into_iter().filter(is_new);
        return OffsetFetchResponse {
            groups: groups
                .map(|group| fetch_group(context, group, require_stable))
                .collect(),
            ..OffsetFetchResponse::default()
        };
    }
    let topics = request
        .topics
        .map(|topics| topics.into_iter().map(as_new).collect());
    let wish = OffsetFetchRequestGroup {
        group_id: request.group_id,
        topics,
        ..Default::default()
    };
    as_old(fetch_group(context, wish, require_stable), context.version)
}

fn as_new(
    topic: thalweg_protocol::messages::offset_fetch::OffsetFetchRequestTopic,
) -> OffsetFetchRequestTopics {
    OffsetFetchRequestTopics {
        name: topic.name,
        partition_indexes: topic.partition_indexes,
        ..Default::default()
    }
}

fn as_old(group: OffsetFetchResponseGroup, version: i16) -> OffsetFetchResponse {
    let partition = |p: OffsetFetchResponsePartitions| OffsetFetchResponsePartition {
        partition_index: p.partition_index,
        committed_offset: p.committed_offset,
        committed_leader_epoch: p.committed_leader_epoch,
        metadata: p.metadata,
        // Version 1 has no other place for the group's error.
        error_code: if version < 2 {
            group.error_code.max(p.error_code)
        } else {
            p.error_code
        },
    };
    let topics = group
        .topics
        .into_iter()
        .map(|topic| OffsetFetchResponseTopic {
            name: topic.name,
            partitions: topic.partitions.into_iter().map(partition).collect(),
        });
    OffsetFetchResponse {
        topics: topics.collect(),
        error_code: if version < 2 { 0 } else { group.error_code },
        ..OffsetFetchResponse::default()
    }
}

/// Returns a group's offsets. With `require_stable`, an offset that an open transaction may change
/// is an error (KIP-447).
fn fetch_group(
    context: &Context<'_>,
    wish: OffsetFetchRequestGroup,
    require_stable: bool,
) -> OffsetFetchResponseGroup {
    let group = wish.group_id;
    let member_id = wish.member_id.as_deref();
    let checked = context
        .check_coordinator(&group)
        .and_then(|()| check_member(context, &group, member_id, wish.member_epoch));
    if let Err(code) = checked {
        let topics = match context.version {
            ..2 => wish
                .topics
                .unwrap_or_default()
                .into_iter()
                .map(nothing)
                .collect(),
            _ => Vec::new(),
        };
        return OffsetFetchResponseGroup {
            group_id: group,
            topics,
            error_code: code.0,
        };
    }
    let topics = match wish.topics {
        Some(mut topics) => {
            keep_first(&mut topics);
            topics
                .into_iter()
                .map(|t| fetch_topic(context, &group, t, require_stable))
                .collect()
        }
        None => fetch_all(context, &group, require_stable),
    };
    OffsetFetchResponseGroup {
        group_id: group,
        topics,
        error_code: 0,
    }
}

/// Removes repeated partitions: a committed offset's metadata may be much larger than the
/// partition's entry in the request.
fn keep_first(topics: &mut [OffsetFetchRequestTopics]) {
    let mut seen = SeenPartitions::new();
    for topic in topics {
        let place = seen.topic((topic.topic_id, topic.name.clone()));
        topic
            .partition_indexes
            .retain(|partition| seen.is_new(place, *partition));
    }
}

/// Checks the member that a request from version 9 on may name (KIP-848).
fn check_member(
    context: &Context<'_>,
    group: &str,
    member_id: Option<&str>,
    epoch: i32,
) -> Result<(), ErrorCode> {
    match context.core.groups.table.get(group) {
        Some(view) => view.check_fetch(member_id, epoch),
        None => Ok(()),
    }
}

fn nothing(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics {
    let partitions = topic
        .partition_indexes
        .into_iter()
        .map(|p| none(p, ErrorCode::NONE));
    OffsetFetchResponseTopics {
        partitions: partitions.collect(),
        name: topic.name,
        topic_id: topic.topic_id,
    }
}

fn fetch_topic(
    context: &Context<'_>,
    group: &Str,
    topic: OffsetFetchRequestTopics,
    require_stable: bool,
) -> OffsetFetchResponseTopics {
    let by_id = context.version >= 10;
    let name = if by_id {
        context
            .core
            .topology
            .topic_by_id(topic.topic_id)
            .map(|topic| topic.name.clone())
    } else {
        Some(topic.name.clone())
    };
    let offsets = name.map(|name| TopicOffsets::new(context, group, &name, require_stable));
    let partitions = topic
        .partition_indexes
        .iter()
        .map(|partition| match &offsets {
            Some(offsets) => offsets.committed(*partition),
            None => none(*partition, ErrorCode::UNKNOWN_TOPIC_ID),
        });
    OffsetFetchResponseTopics {
        partitions: partitions.collect(),
        name: topic.name,
        topic_id: topic.topic_id,
    }
}

fn fetch_all(
    context: &Context<'_>,
    group: &Str,
    require_stable: bool,
) -> Vec<OffsetFetchResponseTopics> {
    let by_id = context.version >= 10;
    let core = &*context.core;
    let visible = core
        .offsets
        .of_group(group)
        .filter(|(name, _)| context.denied_topic(name).is_none());
    let topics = visible.map(|(name, partitions)| {
        let offsets = TopicOffsets::new(context, group, name, require_stable);
        let partitions = partitions.map(|p| offsets.committed(p));
        let id = core
            .topology
            .topic(name)
            .map_or(Uuid::ZERO, |topic| topic.id);
        OffsetFetchResponseTopics {
            name: if by_id { Str::default() } else { name.clone() },
            topic_id: if by_id { id } else { Uuid::ZERO },
            partitions: partitions.collect(),
        }
    });
    topics.collect()
}

/// The offsets that a group committed for a topic.
struct TopicOffsets<'a> {
    context: &'a Context<'a>,
    of_topic: Option<&'a PartitionOffsets>,
    /// A template, with partition 0.
    place: Place,
    require_stable: bool,
    /// The error that a fault wants for the topic.
    injected: Option<ErrorCode>,
}

impl<'a> TopicOffsets<'a> {
    fn new(context: &'a Context<'a>, group: &Str, topic: &Str, require_stable: bool) -> Self {
        Self {
            context,
            of_topic: context.core.offsets.of_topic(group, topic),
            place: Place {
                group: group.clone(),
                topic: topic.clone(),
                partition: 0,
            },
            require_stable,
            injected: context.refusal_for(topic),
        }
    }

    fn committed(&self, partition: i32) -> OffsetFetchResponsePartitions {
        if let Some(code) = self.injected {
            return none(partition, code);
        }
        let place = || Place {
            partition,
            ..self.place.clone()
        };
        if self.require_stable && self.context.core.offsets.is_pending(&place()) {
            return none(partition, ErrorCode::UNSTABLE_OFFSET_COMMIT);
        }
        match self.of_topic.and_then(|offsets| offsets.get(&partition)) {
            Some(found) => OffsetFetchResponsePartitions {
                partition_index: partition,
                committed_offset: found.committed.offset,
                committed_leader_epoch: found.committed.leader_epoch,
                metadata: Some(found.committed.metadata.clone()),
                error_code: 0,
            },
            None => none(partition, ErrorCode::NONE),
        }
    }
}

fn none(partition: i32, code: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index: partition,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(Str::default()),
        error_code: code.0,
    }
}
