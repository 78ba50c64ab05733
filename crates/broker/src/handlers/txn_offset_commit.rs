//! `TxnOffsetCommit` // key 28
//!
//! Stores a group's offsets within a transaction, apart from others until it ends. Up to version 4
//! the group must have been added (`AddOffsetsToTxn`). From version 5 on this request adds it
//! (KIP-890).

use thalweg_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use thalweg_protocol::{ErrorCode, Str};

use super::offset_commit::{check_members, committed_offset};
use crate::Core;
use crate::groups::{CommitBy, Committer, TopicPartition};
use crate::offsets::pending::Place;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::transactions::{ProducerIdAndEpoch, Verification};

impl Subject for TxnOffsetCommitRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let allowed = check(context, &request);
    // Stored names must not keep the frame alive. One copy of each is enough.
    let group = request.group_id.detached();
    let home = context.core.offsets_partition(&group).1;
    let topics = request.topics.iter().map(|topic| {
        let to = Commit {
            producer: (request.producer_id, home),
            group: &group,
            topic: topic.name.detached(),
        };
        let partitions = topic.partitions.iter().map(|partition| {
            let pended = may_commit(context, topic, partition, allowed)
                .and_then(|()| pend(context, &to, partition));
            TxnOffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: pended.err().unwrap_or_default().0,
            }
        });
        TxnOffsetCommitResponseTopic {
            partitions: partitions.collect(),
            name: topic.name.clone(),
        }
    });
    TxnOffsetCommitResponse {
        topics: topics.collect(),
        ..TxnOffsetCommitResponse::default()
    }
}

/// Checks what concerns all partitions: the coordinator, the transaction and the member.
fn check(context: &mut Context<'_>, request: &TxnOffsetCommitRequest) -> Result<(), ErrorCode> {
    let group = &request.group_id;
    context.check_group(group)?;
    if let Some(code) = context.denied_transactional_id(&request.transactional_id) {
        return Err(code);
    }
    let partitions = existing(context, &request.topics);
    if partitions.is_empty() {
        return Ok(());
    }
    let producer = ProducerIdAndEpoch {
        id: request.producer_id,
        epoch: request.producer_epoch,
    };
    let offsets = context.core.offsets_partition(group);
    let verification = Verification::of_offsets(context.version);
    let now = context.time();
    let id = &request.transactional_id;
    context
        .core
        .verify_transaction(id, producer, &offsets, verification, now)
        .map_err(|code| patience(code, context.version))?;
    let who = Committer {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        epoch: request.generation_id,
    };
    let unknown = ErrorCode::ILLEGAL_GENERATION;
    let what = (CommitBy::Transaction, partitions.as_slice());
    check_members(context, group, &who, what, unknown)
}

/// The partitions that exist and that no fault is for: others have an error of their own.
fn existing(context: &Context<'_>, topics: &[TxnOffsetCommitRequestTopic]) -> Vec<TopicPartition> {
    let mut found = Vec::new();
    let topics = topics.iter();
    for topic in topics.filter(|topic| context.refusal_for(&topic.name).is_none()) {
        let partitions = topic.partitions.iter();
        let exist = partitions.filter(|each| partition_exists(context, topic, each));
        found.extend(exist.map(|each| (topic.name.clone(), each.partition_index)));
    }
    found
}

/// Replaces the error for older clients, which do not know that they have to wait for the previous
/// transaction.
fn patience(code: ErrorCode, version: i16) -> ErrorCode {
    match code {
        ErrorCode::CONCURRENT_TRANSACTIONS if version < 5 => {
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        }
        other => other,
    }
}

fn partition_exists(
    context: &Context<'_>,
    topic: &TxnOffsetCommitRequestTopic,
    partition: &TxnOffsetCommitRequestPartition,
) -> bool {
    let found = context.core.topology.topic(&topic.name);
    found.is_some_and(|topic| topic.partition(partition.partition_index).is_some())
}

fn may_commit(
    context: &Context<'_>,
    topic: &TxnOffsetCommitRequestTopic,
    partition: &TxnOffsetCommitRequestPartition,
    allowed: Result<(), ErrorCode>,
) -> Result<(), ErrorCode> {
    if let Some(code) = context.refusal_for(&topic.name) {
        return Err(code);
    }
    if !partition_exists(context, topic, partition) {
        return Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    allowed
}

/// What the offsets of a topic have in common.
struct Commit<'a> {
    /// The producer id, and the partition of `__consumer_offsets` that the group belongs to.
    producer: (i64, i32),
    group: &'a Str,
    topic: Str,
}

fn pend(
    context: &mut Context<'_>,
    to: &Commit<'_>,
    partition: &TxnOffsetCommitRequestPartition,
) -> Result<(), ErrorCode> {
    let committed = committed_offset(
        context,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata.as_ref(),
        None,
    )?;
    let place = Place {
        group: to.group.clone(),
        topic: to.topic.clone(),
        partition: partition.partition_index,
    };
    let offsets = &mut context.core.offsets;
    offsets.pend(to.producer, place, committed)
}
