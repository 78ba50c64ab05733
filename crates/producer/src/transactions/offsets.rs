//! The offsets of a group that are committed in a transaction (`sendOffsetsToTransaction`, KIP-98,
//! KIP-447).

use std::collections::BTreeMap;

use thalweg_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::transactions::ticket::TransactionTicket;
use crate::transactions::verdict::{Verdict, verdict};

/// The group that commits, with the membership by which its coordinator fences old members
/// (KIP-447).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    pub group_id: Str,
    /// -1 outside a group, as for consumers with assigned partitions.
    pub generation_id: i32,
    pub member_id: Str,
    pub group_instance_id: Option<Str>,
}

/// The next offset to read in a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetToCommit {
    pub offset: i64,
    /// -1 if unknown (KIP-320).
    pub leader_epoch: i32,
    pub metadata: Str,
}

/// Offsets by topic and partition.
pub type GroupOffsets = BTreeMap<(Str, i32), OffsetToCommit>;

/// A call of `send_offsets_to_transaction` that is not done yet.
#[derive(Debug)]
pub(super) struct OffsetsCommit {
    pub(super) group: GroupMetadata,
    /// The offsets that no response has confirmed yet.
    pub(super) offsets: GroupOffsets,
    /// Set once the group was added to the transaction (`AddOffsetsToTxn`, not sent under version
    /// 2).
    pub(super) group_added: bool,
    pub(super) ticket: TransactionTicket,
}

impl OffsetsCommit {
    /// Creates the request for the remaining offsets.
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
        // If the broker's version has no field for the membership (before 2.5), encoding fails.
        // Without it, an old member would not be fenced.
        TxnOffsetCommitRequest {
            group_id: self.group.group_id.clone(),
            generation_id: self.group.generation_id,
            member_id: self.group.member_id.clone(),
            group_instance_id: self.group.group_instance_id.clone(),
            topics,
            ..TxnOffsetCommitRequest::default()
        }
    }

    /// Removes the confirmed offsets. Returns the gravest error of the others.
    pub(super) fn take_response(
        &mut self,
        response: &TxnOffsetCommitResponse,
    ) -> (Verdict, ErrorCode) {
        let mut worst = (Verdict::Done, ErrorCode::NONE);
        for topic in &response.topics {
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
            // The response lacks some partitions. Sending their offsets again does no harm.
            worst = (Verdict::Retry, ErrorCode::NONE);
        }
        worst
    }
}
