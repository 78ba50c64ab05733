//! `OffsetCommit` // key 8
//!
//! Members commit with their generation or epoch, which is checked against what the coordinator
//! published. Generation -1 is for groups without members, as used by consumers that `assign` their
//! partitions.

use thalweg_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::groups::{CommitBy, Committer, TopicPartition};
use crate::offsets::CommittedOffset;
use crate::requests::context::Context;
use crate::requests::subject::{Subject, topic_name};

impl Subject for OffsetCommitRequest {
    fn topics(&self, core: &Core) -> Vec<Str> {
        let topics = self.topics.iter();
        topics
            .filter_map(|topic| topic_name(core, &topic.name, topic.topic_id))
            .collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: OffsetCommitRequest,
) -> OffsetCommitResponse {
    let allowed = check_group(context, &request);
    // The other reasons are only for topics that exist and that the client may read. Otherwise they
    // would tell which topics exist.
    let refused = allowed.err().filter(|code| {
        *code == ErrorCode::GROUP_AUTHORIZATION_FAILED || context.injected_for_all().is_some()
    });
    let to = To {
        group: request.group_id,
        // Versions 2 to 4 say how long the offset should be kept.
        kept_ms: (request.retention_time_ms >= 0).then_some(request.retention_time_ms),
    };
    let topics = request.topics.into_iter().map(|topic| match refused {
        Some(code) => topic_response(topic, |_| code),
        None => commit_topic(context, &to, topic, allowed),
    });
    OffsetCommitResponse {
        topics: topics.collect(),
        ..OffsetCommitResponse::default()
    }
}

fn check_group(context: &mut Context<'_>, request: &OffsetCommitRequest) -> Result<(), ErrorCode> {
    context.check_coordinator(&request.group_id)?;
    let version = context.version;
    let who = Committer {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        epoch: request.generation_id_or_member_epoch,
    };
    let unknown = match version {
        ..9 => ErrorCode::ILLEGAL_GENERATION,
        _ => ErrorCode::GROUP_ID_NOT_FOUND,
    };
    let by = CommitBy::OffsetCommit { version };
    let partitions = existing(context, &request.topics);
    if partitions.is_empty() {
        return Ok(());
    }
    check_members(context, &request.group_id, &who, (by, &partitions), unknown)
}

/// Returns the partitions that exist and that the client may read. The others have their own error.
fn existing(context: &Context<'_>, topics: &[OffsetCommitRequestTopic]) -> Vec<TopicPartition> {
    let core = &*context.core;
    let mut found = Vec::new();
    for topic in topics {
        let indexes = topic.partitions.iter().map(|each| each.partition_index);
        let topic = match context.version {
            ..10 => core.topology.topic(&topic.name),
            _ => core.topology.topic_by_id(topic.topic_id),
        };
        if let Some(topic) = topic
            && context.denied_topic(&topic.name).is_none()
        {
            let indexes = indexes.filter(|index| topic.partition(*index).is_some());
            found.extend(indexes.map(|index| (topic.name.clone(), index)));
        }
    }
    found
}

/// Checks that the request may commit for its group: a request with a generation claims to be from
/// a member. `unknown` is the error for a group that does not exist.
pub(super) fn check_members(
    context: &mut Context<'_>,
    group: &Str,
    who: &Committer<'_>,
    (by, partitions): (CommitBy, &[TopicPartition]),
    unknown: ErrorCode,
) -> Result<(), ErrorCode> {
    let core = &mut *context.core;
    if let Some(checked) = core.groups.commit(group, who, by, partitions, context.now) {
        return checked;
    }
    match who.epoch {
        ..0 => Ok(()),
        _ if core.offsets.has_group(group) => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        _ => Err(unknown),
    }
}

/// What all offsets of a request have in common.
struct To {
    group: Str,
    kept_ms: Option<i64>,
}

fn commit_topic(
    context: &mut Context<'_>,
    to: &To,
    topic: OffsetCommitRequestTopic,
    allowed: Result<(), ErrorCode>,
) -> OffsetCommitResponseTopic {
    let by_id = context.version >= 10;
    if let Some(code) = context.denied_topic(&topic.name).filter(|_| !by_id) {
        return topic_response(topic, |_| code);
    }
    let topology = &context.core.topology;
    let found = if by_id {
        topology
            .topic_by_id(topic.topic_id)
            .ok_or(ErrorCode::UNKNOWN_TOPIC_ID)
    } else {
        topology
            .topic(&topic.name)
            .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    };
    let found = found.and_then(|topic| match context.denied_topic(&topic.name) {
        Some(code) => Err(code),
        None => Ok((topic.name.clone(), topic.partitions.len())),
    });
    topic_response(topic, |partition| match &found {
        Err(code) => *code,
        Ok((name, partitions)) => {
            let exists = (0..*partitions as i32).contains(&partition.partition_index);
            if exists {
                let committed = allowed.and_then(|()| commit(context, to, name, partition));
                committed.err().unwrap_or_default()
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            }
        }
    })
}

fn commit(
    context: &mut Context<'_>,
    to: &To,
    topic: &Str,
    partition: &OffsetCommitRequestPartition,
) -> Result<(), ErrorCode> {
    if let Some(code) = context.refusal_for(topic) {
        return Err(code);
    }
    let committed = committed_offset(
        context,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata.as_ref(),
        to.kept_ms,
    )?;
    context
        .core
        .offsets
        .commit(&to.group, topic, partition.partition_index, committed)
}

/// Makes the stored form of an offset, unless its metadata is too large. It expires early if its
/// commit said so.
pub(super) fn committed_offset(
    context: &Context<'_>,
    offset: i64,
    leader_epoch: i32,
    metadata: Option<&Str>,
    kept_ms: Option<i64>,
) -> Result<CommittedOffset, ErrorCode> {
    let metadata = metadata.cloned().unwrap_or_default();
    if metadata.len() > context.core.options.offset_metadata_bytes_max {
        return Err(ErrorCode::OFFSET_METADATA_TOO_LARGE);
    }
    Ok(CommittedOffset {
        offset,
        leader_epoch,
        metadata: metadata.detached(),
        committed_ms: context.now_ms,
        expires_ms: kept_ms.map(|kept| context.now_ms.saturating_add(kept)),
    })
}

fn topic_response(
    topic: OffsetCommitRequestTopic,
    mut code: impl FnMut(&OffsetCommitRequestPartition) -> ErrorCode,
) -> OffsetCommitResponseTopic {
    let partitions = topic
        .partitions
        .iter()
        .map(|partition| OffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: code(partition).0,
        });
    OffsetCommitResponseTopic {
        partitions: partitions.collect(),
        name: topic.name,
        topic_id: topic.topic_id,
    }
}
