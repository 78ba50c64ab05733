//! Checks the touched partitions, and lists the requests that they need from each node.
//!
//! ```text
//! touched, revoked, due again --> fetch      (node, partition): fetch it from here, or no longer
//!                             --> reset      {node: [...]}      ListOffsets
//!                             --> validate   {node: [...]}      OffsetForLeaderEpoch
//!                             --> uncommitted, gone, leaderless, timers
//! ```
//! Each partition remembers the result of its last check (the node whose session has it, and the
//! node at which it counts as buffered), so a check returns only changes. If something cannot be
//! done yet, the code that finds out touches the partition again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use thalweg_cluster::{Backoff, NodeId};

use crate::fetching::session::Wanted;
use crate::offset_spec::OffsetReset;
use crate::partitions::state::{FetchPosition, PartitionState, Phase};
use crate::partitions::{PARTITIONS_PER_LOCK, Partitions};
use crate::topic_partition::TopicPartition;

/// A partition whose position the leader must look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResetTarget {
    pub(crate) partition: TopicPartition,
    pub(crate) stamp: u64,
    pub(crate) leader_epoch: i32,
    pub(crate) reset: OffsetReset,
}

/// A partition whose position the leader must confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValidationTarget {
    pub(crate) partition: TopicPartition,
    pub(crate) stamp: u64,
    pub(crate) leader_epoch: i32,
    pub(crate) position: FetchPosition,
}

/// A change of what is fetched from a node.
#[derive(Debug)]
pub(crate) enum FetchChange {
    Want(NodeId, Wanted),
    Leave(NodeId, u32),
    /// One more, or one fewer, partition that has undrained records and is not paused.
    Buffered(NodeId, isize),
}

#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) fetch: Vec<FetchChange>,
    pub(crate) reset: BTreeMap<NodeId, Vec<ResetTarget>>,
    pub(crate) validate: BTreeMap<NodeId, Vec<ValidationTarget>>,
    pub(crate) uncommitted: Vec<(TopicPartition, u64)>,
    /// The logs of their positions no longer exist.
    pub(crate) gone: Vec<(TopicPartition, u64)>,
    /// Some partition waits for a leader.
    pub(crate) leaderless: bool,
}

/// When to check which partition again, by handle.
pub(crate) type Timers = BTreeSet<(Instant, u32)>;

pub(crate) struct Look<'a> {
    pub(crate) has_group: bool,
    /// `max_partition_fetch_bytes`
    pub(crate) partition_bytes_max: i32,
    pub(crate) backoff: &'a mut Backoff,
    pub(crate) timers: &'a mut Timers,
    pub(crate) now: Instant,
}

impl Look<'_> {
    /// Checks one piece after the other, because a new assignment touches all partitions. A
    /// partition that is touched during the check is covered by its piece or by the next check.
    pub(crate) fn at(&mut self, partitions: &Partitions) -> Survey {
        let mut survey = Survey::default();
        let (removed, touched) = {
            let mut assigned = partitions.lock();
            (assigned.take_removed(), assigned.take_touched())
        };
        for gone in removed {
            survey.leave(gone.in_session, gone.handle);
            survey.count(gone.counted_at, None);
        }
        for piece in self.due(touched).chunks(PARTITIONS_PER_LOCK) {
            let mut assigned = partitions.lock();
            for &handle in piece {
                if let Some((partition, state)) = assigned.by_handle(handle) {
                    state.touched = false;
                    self.classify(partition, state, &mut survey);
                }
            }
        }
        survey
    }

    /// Returns the touched partitions, then those whose wait is over, each only once. Otherwise a
    /// request could ask twice for a partition that is both, or that has two waits.
    fn due(&mut self, touched: Vec<u32>) -> Vec<u32> {
        let mut handles = touched;
        let mut seen: BTreeSet<u32> = handles.iter().copied().collect();
        while let Some(&(at, handle)) = self.timers.first().filter(|(at, _)| *at <= self.now) {
            self.timers.remove(&(at, handle));
            if seen.insert(handle) {
                handles.push(handle);
            }
        }
        handles
    }

    fn classify(
        &mut self,
        partition: &TopicPartition,
        state: &mut PartitionState,
        survey: &mut Survey,
    ) {
        self.settle(state);
        let node = state.read_replica(self.now);
        let counted = node.filter(|_| state.is_buffered() && !state.paused);
        if counted != state.counted_at {
            survey.count(state.counted_at, counted);
            state.counted_at = counted;
        }
        let wanted_at = node.filter(|_| state.is_fetchable(self.now));
        if state.in_session != wanted_at {
            survey.leave(state.in_session, state.handle);
            state.in_session = wanted_at;
        }
        if !state.due(self.now) || state.asked {
            return;
        }
        let stamp = state.stamp;
        match (state.phase, state.leader) {
            (Phase::Initializing, _) => {}
            (Phase::LogGone(_), _) => survey.gone.push((partition.clone(), stamp)),
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
            (Phase::Fetching(_), Some(leader)) => {
                let wanted = wanted_at.zip(state.fetch_position());
                let Some((node, position)) = wanted else {
                    return;
                };
                survey.fetch.push(FetchChange::Want(
                    node,
                    Wanted {
                        handle: state.handle,
                        turn: state.turn,
                        partition: partition.clone(),
                        topic_id: state.topic_id,
                        stamp,
                        fetch_offset: position.offset,
                        bytes_max: state.fetch_bytes(position.offset, self.partition_bytes_max),
                        current_leader_epoch: leader.epoch,
                    },
                ));
            }
        }
    }

    /// Updates what needs a clock: waits started by threads without one, leases that end, and the
    /// step from "no group" to "nothing committed".
    fn settle(&mut self, state: &mut PartitionState) {
        if state.backoff_due {
            let wait = self.backoff.after(state.attempts);
            state.failed(self.now + wait);
        }
        if state.phase == Phase::Initializing && !self.has_group {
            state.phase = Phase::Uncommitted;
        }
        let lease = state.preferred_replica.map(|(_, until)| until);
        let waits = [state.retry_at.filter(|_| !state.blocked), lease];
        for at in waits.into_iter().flatten().filter(|at| *at > self.now) {
            self.timers.insert((at, state.handle));
        }
    }
}

impl Survey {
    fn leave(&mut self, node: Option<NodeId>, handle: u32) {
        self.fetch
            .extend(node.map(|node| FetchChange::Leave(node, handle)));
    }

    fn count(&mut self, before: Option<NodeId>, now: Option<NodeId>) {
        self.fetch
            .extend(before.map(|node| FetchChange::Buffered(node, -1)));
        self.fetch
            .extend(now.map(|node| FetchChange::Buffered(node, 1)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_partition_that_is_touched_and_due_is_looked_at_once() {
        let base = Instant::now();
        let now = base + Duration::from_secs(1);
        let later = now + Duration::from_secs(1);
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1), 1);
        let mut timers = Timers::from([(base, 2), (base, 3), (now, 3), (later, 4)]);
        let mut look = Look {
            has_group: false,
            partition_bytes_max: 1 << 20,
            backoff: &mut backoff,
            timers: &mut timers,
            now,
        };
        assert_eq!(look.due(vec![7, 2]), [7, 2, 3]);
        assert_eq!(timers, Timers::from([(later, 4)]));
    }
}
