//! A group's offsets on their way into a transaction (`sendOffsetsToTransaction`, KIP-98, KIP-447).

use std::collections::BTreeMap;

use thalweg_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::transactions::ticket::TransactionTicket;
use crate::transactions::verdict::{Verdict, verdict};

/// Who commits: a group, and the membership by which its coordinator fences old members (KIP-447).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    pub group_id: Str,
    /// -1 outside a group, as for consumers with assigned partitions.
    pub generation_id: i32,
    pub member_id: Str,
    pub group_instance_id: Option<Str>,
}

/// The next offset to read of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetToCommit {
    pub offset: i64,
    /// -1 if unknown (KIP-320).
    pub leader_epoch: i32,
    pub metadata: Str,
}

/// Offsets by topic and partition.
pub type GroupOffsets = BTreeMap<(Str, i32), OffsetToCommit>;

/// One `send_offsets_to_transaction` that is not done yet.
#[derive(Debug)]
pub(super) struct OffsetsCommit {
    pub(super) group: GroupMetadata,
    /// What no answer has confirmed yet.
    pub(super) offsets: GroupOffsets,
    /// The transaction knows of the group (`AddOffsetsToTxn`; not asked for under version 2).
    pub(super) group_added: bool,
    pub(super) ticket: TransactionTicket,
}

impl OffsetsCommit {
    /// The request for what is left.
    pub(super) fn request(&self) -> TxnOffsetCommitRequest {
        let mut topics: Vec<TxnOffsetCommitRequestTopic> = Vec::new();
        for ((topic, partition), at) in &self.offsets {
            let partition = TxnOffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: at.offset,
                committed_leader_epoch: at.leader_epoch,
                committed_metadata: Some(at.metadata.clone()),
            };
            match topics.last_mut() {
                Some(last) if last.name == *topic => last.partitions.push(partition),
                _ => topics.push(TxnOffsetCommitRequestTopic {
                    name: topic.clone(),
                    partitions: vec![partition],
                }),
            }
        }
        // A membership that the broker's version cannot carry (before 2.5) is an error: without it a
        // member that the group has left behind would not be fenced.
        TxnOffsetCommitRequest {
            group_id: self.group.group_id.clone(),
            generation_id: self.group.generation_id,
            member_id: self.group.member_id.clone(),
            group_instance_id: self.group.group_instance_id.clone(),
            topics,
            ..TxnOffsetCommitRequest::default()
        }
    }

    /// Takes what was confirmed out; gives the gravest of what was said of the rest.
    pub(super) fn take_answer(&mut self, answer: &TxnOffsetCommitResponse) -> (Verdict, ErrorCode) {
        let mut worst = (Verdict::Done, ErrorCode::NONE);
        for topic in &answer.topics {
            for partition in &topic.partitions {
                let code = ErrorCode(partition.error_code);
                let said = verdict(ApiKey::TXN_OFFSET_COMMIT, code);
                if said == Verdict::Done {
                    self.offsets
                        .remove(&(topic.name.clone(), partition.partition_index));
                } else if said > worst.0 {
                    worst = (said, code);
                }
            }
        }
        if worst.0 == Verdict::Done && !self.offsets.is_empty() {
            // The answer left some out: whatever became of them, asking again does no harm.
            worst = (Verdict::Retry, ErrorCode::NONE);
        }
        worst
    }
}
