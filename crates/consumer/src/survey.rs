//! One look over the assignment: what could be done next, for whom.
//!
//! ```text
//! assigned partitions, in turn --> fetch      {node: [wanted...]}   the longest unserved first
//!                              --> reset      {node: [...]}         ListOffsets
//!                              --> validate   {node: [...]}         OffsetForLeaderEpoch
//!                              --> uncommitted, leaderless, next_retry
//! ```
//! The look itself changes nothing but two kinds of bookkeeping that need a clock: waits that
//! were left by threads without one, and the step from "no group" to "nothing committed".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use thalweg_cluster::{Backoff, NodeId};

use crate::fetch_session::Wanted;
use crate::offset_spec::OffsetReset;
use crate::partition_state::{FetchPosition, Leader, Phase};
use crate::subscription::Assigned;
use crate::topic_partition::TopicPartition;

/// A partition whose position the leader is to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResetTarget {
    pub(crate) partition: TopicPartition,
    pub(crate) stamp: u64,
    pub(crate) leader_epoch: i32,
    pub(crate) reset: OffsetReset,
}

/// A partition whose position the leader is to confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValidationTarget {
    pub(crate) partition: TopicPartition,
    pub(crate) stamp: u64,
    pub(crate) leader_epoch: i32,
    pub(crate) position: FetchPosition,
}

#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) fetch: BTreeMap<NodeId, Vec<Wanted>>,
    /// Nodes that lead (or serve) partitions with undrained, unpaused records.
    pub(crate) buffered: BTreeSet<NodeId>,
    pub(crate) reset: BTreeMap<NodeId, Vec<ResetTarget>>,
    pub(crate) validate: BTreeMap<NodeId, Vec<ValidationTarget>>,
    pub(crate) uncommitted: Vec<(TopicPartition, u64)>,
    /// Some partition waits for a leader.
    pub(crate) leaderless: bool,
    pub(crate) next_retry: Option<Instant>,
}

/// Looks at every assigned partition once. `busy` nodes have a fetch in flight: what could be
/// fetched from them is not listed.
pub(crate) fn survey(
    assigned: &mut Assigned,
    busy: &BTreeSet<NodeId>,
    has_group: bool,
    backoff: &mut Backoff,
    now: Instant,
) -> Survey {
    let mut survey = Survey::default();
    settle_waits(assigned, has_group, backoff, now, &mut survey);
    for (partition, state) in assigned.in_turn() {
        if state.buffered && !state.paused {
            survey.buffered.extend(state.read_replica(now));
            continue;
        }
        if !state.due(now) || state.asked {
            continue;
        }
        let stamp = state.stamp;
        match (state.phase, state.leader) {
            (Phase::Initializing, _) => {}
            (Phase::Uncommitted, _) => survey.uncommitted.push((partition.clone(), stamp)),
            (_, None) => survey.leaderless = true,
            (Phase::AwaitReset(reset), Some(leader)) => {
                survey
                    .reset
                    .entry(leader.node)
                    .or_default()
                    .push(ResetTarget {
                        partition: partition.clone(),
                        stamp,
                        leader_epoch: leader.epoch,
                        reset,
                    });
            }
            (Phase::AwaitValidation(position), Some(leader)) => {
                survey
                    .validate
                    .entry(leader.node)
                    .or_default()
                    .push(ValidationTarget {
                        partition: partition.clone(),
                        stamp,
                        leader_epoch: leader.epoch,
                        position,
                    });
            }
            (Phase::Fetching(position), Some(Leader { epoch, .. })) => {
                let node = state.read_replica(now).filter(|node| !busy.contains(node));
                if let (Some(node), false) = (node, state.paused) {
                    survey.fetch.entry(node).or_default().push(Wanted {
                        handle: state.handle,
                        partition: partition.clone(),
                        topic_id: state.topic_id,
                        stamp,
                        fetch_offset: position.offset,
                        current_leader_epoch: epoch,
                    });
                }
            }
        }
    }
    survey
}

fn settle_waits(
    assigned: &mut Assigned,
    has_group: bool,
    backoff: &mut Backoff,
    now: Instant,
    survey: &mut Survey,
) {
    for (_, state) in assigned.iter_mut() {
        if state.backoff_due {
            let attempts = state.attempts;
            state.failed(now + backoff.after(attempts));
        }
        if state.phase == Phase::Initializing && !has_group {
            state.phase = Phase::Uncommitted;
        }
        if let Some(at) = state.retry_at.filter(|at| *at > now && !state.blocked) {
            survey.next_retry = Some(survey.next_retry.map_or(at, |next| next.min(at)));
        }
    }
}
