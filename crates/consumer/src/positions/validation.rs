//! Checks that the leader's log is still the one that was read: `OffsetForLeaderEpoch` (KIP-320).
//!
//! ```text
//! position 100, read under epoch 5; a leader of epoch 7 takes over
//!   ask: where does epoch 5 end?      >= 100: the same log, continue
//!                                      < 100: truncated there: with a policy go to that offset,
//!                                             without one raise LogTruncation
//!                                    unknown: the epoch itself is gone: policy or LogTruncation
//! ```
//! The partition is not fetched before the response arrives. Anything other than a valid response
//! only causes a retry, because a lost connection must never look like a truncated log.
//!
//! A leader that knows only older epochs than the position's may have been replaced without
//! knowing it. Its response counts only if the metadata has named no newer leader after a while. A
//! topic that was created again has such a leader, too.

use std::collections::BTreeMap;

use thalweg_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::fetching::survey::ValidationTarget;
use crate::partitions::state::FetchPosition;
use crate::topic_partition::TopicPartition;

/// Brokers with older versions do not check the epochs that consumers send.
pub(crate) const VERSION_MIN: i16 = 3;
/// After this many such responses, the client believes a leader that knows only older epochs. With
/// the default backoff, this takes a few seconds.
const OLDER_LEADER_RESPONSES: u32 = 5;
const CONSUMER_REPLICA_ID: i32 = -1;

pub(crate) fn request(targets: &[ValidationTarget]) -> OffsetForLeaderEpochRequest {
    let mut topics: Vec<OffsetForLeaderTopic> = Vec::new();
    let mut by_name: BTreeMap<Str, usize> = BTreeMap::new();
    for target in targets {
        let name = &target.partition.topic;
        let index = *by_name.entry(name.clone()).or_insert_with(|| {
            topics.push(OffsetForLeaderTopic {
                topic: name.clone(),
                ..Default::default()
            });
            topics.len() - 1
        });
        topics[index].partitions.push(OffsetForLeaderPartition {
            partition: target.partition.partition,
            current_leader_epoch: target.leader_epoch,
            leader_epoch: target.position.leader_epoch,
        });
    }
    OffsetForLeaderEpochRequest {
        replica_id: CONSUMER_REPLICA_ID,
        topics,
    }
}

pub(crate) fn rows(
    response: OffsetForLeaderEpochResponse,
) -> BTreeMap<TopicPartition, EpochEndOffset> {
    let mut rows = BTreeMap::new();
    for topic in response.topics {
        let name = topic.topic.detached();
        for row in topic.partitions {
            let partition = TopicPartition {
                topic: name.clone(),
                partition: row.partition,
            };
            rows.insert(partition, row);
        }
    }
    rows
}

/// The meaning of a response for a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    /// The logs diverge at this offset, if it is known.
    Truncated(Option<FetchPosition>),
    Refused(ErrorCode),
}

/// Whether the leader may have been replaced without knowing it: the position is from a newer epoch
/// than its own. It has had `responses` like this one before.
pub(crate) fn may_be_replaced(target: &ValidationTarget, responses: u32) -> bool {
    target.leader_epoch >= 0
        && target.position.leader_epoch > target.leader_epoch
        && responses < OLDER_LEADER_RESPONSES
}

pub(crate) fn verdict(position: FetchPosition, row: &EpochEndOffset) -> Verdict {
    let code = ErrorCode(row.error_code);
    if code != ErrorCode::NONE {
        return Verdict::Refused(code);
    }
    // Kafka's "undefined" is -1. Other negative numbers have no meaning.
    if row.end_offset < 0 || row.leader_epoch < 0 {
        return Verdict::Truncated(None);
    }
    if row.end_offset < position.offset {
        return Verdict::Truncated(Some(FetchPosition {
            offset: row.end_offset,
            leader_epoch: row.leader_epoch,
        }));
    }
    Verdict::Same
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(end_offset: i64, leader_epoch: i32) -> Verdict {
        let position = FetchPosition {
            offset: 100,
            leader_epoch: 5,
        };
        verdict(
            position,
            &EpochEndOffset {
                end_offset,
                leader_epoch,
                ..Default::default()
            },
        )
    }

    #[test]
    fn the_end_of_the_epoch_tells() {
        assert_eq!(judged(100, 5), Verdict::Same);
        assert_eq!(judged(250, 5), Verdict::Same);
        let cut = FetchPosition {
            offset: 80,
            leader_epoch: 4,
        };
        assert_eq!(judged(80, 4), Verdict::Truncated(Some(cut)));
        assert_eq!(judged(-1, 5), Verdict::Truncated(None));
        assert_eq!(judged(300, -1), Verdict::Truncated(None));
        assert_eq!(judged(-5, 4), Verdict::Truncated(None));
        assert_eq!(judged(80, -7), Verdict::Truncated(None));
    }
}
