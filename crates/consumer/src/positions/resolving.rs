//! Gives each partition a position and keeps it valid, like Kafka's `update_fetch_positions`.
//!
//! ```text
//! 0  the leader or its epoch changed     OffsetForLeaderEpoch, fetching waits
//! 1  all positions known                 nothing to do
//! 2  with a group id                     the coordinator sets the committed offsets
//! 3  none committed                      reset policy, or NoOffsetForPartition
//! 4  a reset is due                      ListOffsets at the leader
//! ```
//! These steps are not a sequence of waits. Each partition has its own step (its phase), and each
//! poll sends the requests that are due. A response counts only if the partition still has the
//! stamp of the request.

use std::time::Instant;

use thalweg_cluster::{Cluster, Outgoing, Purpose};
use thalweg_protocol::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsResponse};
use thalweg_protocol::messages::offset_for_leader_epoch::OffsetForLeaderEpochResponse;
use thalweg_protocol::planted::{Bug, is_planted};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::error::ConsumerError;
use crate::fetching::fetcher::{Fetcher, InFlight};
use crate::fetching::survey::{ResetTarget, Survey, ValidationTarget};
use crate::offset_spec::OffsetReset;
use crate::partitions::PARTITIONS_PER_LOCK;
use crate::partitions::state::{FetchPosition, Phase};
use crate::positions::list_offsets::{self, ListTarget};
use crate::positions::validation::{self, Verdict};
use crate::topic_partition::TopicPartition;

impl Fetcher {
    /// The topic was deleted and created again, so the position has no meaning in the new log. A
    /// later seek has another stamp, and wins.
    pub(crate) fn log_is_gone(&self, partition: &TopicPartition, stamp: u64) {
        let (position, stamp) = {
            let mut assigned = self.shared.partitions.lock();
            let current = assigned.current_named(partition, stamp);
            let phase = current.map(|state| state.phase);
            let Some(
                Phase::Fetching(position)
                | Phase::AwaitValidation(position)
                | Phase::LogGone(position),
            ) = phase
            else {
                return;
            };
            let has_policy = self.shared.config.auto_offset_reset != OffsetReset::None;
            if !has_policy && phase != Some(Phase::LogGone(position)) {
                assigned.enter(partition, Phase::LogGone(position));
                self.shared.metrics.truncations_total.add(1);
            }
            let stamp = assigned.get(partition).map_or(0, |state| state.stamp);
            (position, stamp)
        };
        self.truncated(partition, stamp, position, None);
        self.shared.partitions.wake();
    }

    /// Resets partitions without a committed offset (all, without a group) by policy. Without a
    /// policy they are blocked and the application gets an error, because only it knows where to
    /// start.
    pub(crate) fn settle_uncommitted(&mut self, survey: &Survey) {
        if survey.uncommitted.is_empty() {
            return;
        }
        let policy = self.shared.config.auto_offset_reset;
        for piece in survey.uncommitted.chunks(PARTITIONS_PER_LOCK) {
            let mut assigned = self.shared.partitions.lock();
            for (partition, stamp) in piece {
                // The application may have sought since the survey. The seek wins.
                let Some(state) = assigned.current_named(partition, *stamp) else {
                    continue;
                };
                if let OffsetReset::None = policy {
                    state.blocked = true;
                } else {
                    assigned.enter(partition, Phase::AwaitReset(policy));
                    self.dirty = true;
                }
            }
        }
        if let OffsetReset::None = policy {
            let partitions = survey
                .uncommitted
                .iter()
                .map(|(tp, _)| tp.clone())
                .collect();
            let error = ConsumerError::NoOffsetForPartition { partitions };
            let about = survey.uncommitted.clone();
            self.shared.partitions.lock().push_error(error, about);
            self.shared.partitions.wake();
        }
    }

    /// Asks the leaders for the offsets of the resets that are due, one request per node. Only a
    /// leader knows where its log begins and ends.
    pub(crate) fn send_resets(
        &mut self,
        survey: &mut Survey,
        cluster: &mut Cluster,
        now: Instant,
        now_ms: i64,
    ) {
        for (node, targets) in std::mem::take(&mut survey.reset) {
            if !cluster.is_ready(node, Purpose::General, now) {
                self.tell_fatal(node, Purpose::General, cluster);
                self.look_again(targets.iter().map(|t| &t.partition));
                continue;
            }
            let isolation = self.shared.config.isolation_level;
            let version = match list_offsets::version(node, isolation, cluster) {
                Ok(version) => version,
                Err(error) => {
                    let about = targets
                        .into_iter()
                        .map(|t| (t.partition, t.stamp))
                        .collect();
                    self.shared.partitions.lock().block(about, error.into());
                    self.shared.partitions.wake();
                    continue;
                }
            };
            let wire: Vec<ListTarget> = targets
                .iter()
                .filter_map(|target| {
                    let spec = target.reset.spec(now_ms)?;
                    Some(ListTarget {
                        partition: target.partition.clone(),
                        leader_epoch: target.leader_epoch,
                        timestamp: spec.wire_timestamp(),
                    })
                })
                .collect();
            let config = &self.shared.config;
            let request = list_offsets::request(config, &wire);
            let outgoing = Outgoing::new(&request, version, config.request_timeout)
                .expect("the request has no field beyond the negotiated version");
            let id = cluster.send(node, Purpose::General, outgoing, now);
            self.mark_asked(targets.iter().map(|t| (&t.partition, t.stamp)));
            self.in_flight.insert(id, InFlight::Reset(targets));
        }
    }

    pub(crate) fn on_reset(
        &mut self,
        targets: &[ResetTarget],
        result: Result<ListOffsetsResponse, String>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let rows = result.map(list_offsets::rows).unwrap_or_default();
        for target in targets {
            self.reset_found(target, rows.get(&target.partition), cluster, now);
        }
        self.shared.partitions.wake();
    }

    fn reset_found(
        &mut self,
        target: &ResetTarget,
        row: Option<&ListOffsetsPartitionResponse>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let mut assigned = self.shared.partitions.lock();
        // The partition was revoked or sought, or another reset was requested in the meantime.
        let Some(state) = assigned.current_named(&target.partition, target.stamp) else {
            return;
        };
        let code = row.map(|row| ErrorCode(row.error_code));
        match (row, code) {
            (Some(row), Some(ErrorCode::NONE)) if row.offset >= 0 => {
                let position = FetchPosition {
                    offset: row.offset,
                    leader_epoch: row.leader_epoch,
                };
                assigned.enter(&target.partition, Phase::Fetching(position));
            }
            // No record is that recent, so the position is the end of the log. For the start and the
            // end of the log, a response without an offset is a fault of the broker.
            (Some(_), Some(ErrorCode::NONE))
                if !matches!(target.reset, OffsetReset::Earliest | OffsetReset::Latest) =>
            {
                assigned.enter(&target.partition, Phase::AwaitReset(OffsetReset::Latest));
            }
            (Some(_), Some(code))
                if code != ErrorCode::NONE && !list_offsets::is_retriable(code) =>
            {
                let error = list_offsets::refusal(&target.partition, code, &self.shared.config);
                assigned.block(vec![(target.partition.clone(), target.stamp)], error);
            }
            _ => {
                state.failed(now + self.backoff.after(state.attempts));
                cluster.request_update();
            }
        }
    }

    /// Asks the leaders where the epochs of the positions end in their logs (KIP-320). After a
    /// change of leader, records that were read may have been truncated. Such partitions are not
    /// fetched before the response.
    pub(crate) fn send_validations(
        &mut self,
        survey: &mut Survey,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        for (node, targets) in std::mem::take(&mut survey.validate) {
            if !cluster.is_ready(node, Purpose::General, now) {
                self.tell_fatal(node, Purpose::General, cluster);
                self.look_again(targets.iter().map(|t| &t.partition));
                continue;
            }
            let version = cluster.api_version(node, ApiKey::OFFSET_FOR_LEADER_EPOCH);
            let Some(version) = version.filter(|v| *v >= validation::VERSION_MIN) else {
                // The broker cannot validate. Clients before KIP-320 simply continued to read.
                self.confirm(&targets);
                continue;
            };
            let request = validation::request(&targets);
            let outgoing = Outgoing::new(&request, version, self.shared.config.request_timeout)
                .expect("the request has no field beyond the negotiated version");
            let id = cluster.send(node, Purpose::General, outgoing, now);
            self.mark_asked(targets.iter().map(|t| (&t.partition, t.stamp)));
            self.in_flight.insert(id, InFlight::Validate(targets));
        }
    }

    fn confirm(&mut self, targets: &[ValidationTarget]) {
        for piece in targets.chunks(PARTITIONS_PER_LOCK) {
            let mut assigned = self.shared.partitions.lock();
            for target in piece {
                if assigned
                    .current_named(&target.partition, target.stamp)
                    .is_some()
                {
                    assigned.enter_unmoved(&target.partition, Phase::Fetching(target.position));
                }
            }
        }
        self.dirty = true;
        self.shared.partitions.wake();
    }

    pub(crate) fn on_validation(
        &mut self,
        targets: &[ValidationTarget],
        result: Result<OffsetForLeaderEpochResponse, String>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let rows = result.map(validation::rows).unwrap_or_default();
        for target in targets {
            let row = rows.get(&target.partition);
            match row.map(|row| validation::verdict(target.position, row)) {
                Some(_) if is_planted(Bug::TruncationIgnored) => {
                    self.confirm(std::slice::from_ref(target));
                }
                Some(Verdict::Same) => self.confirm(std::slice::from_ref(target)),
                Some(Verdict::Truncated(None)) if self.retry_at_newer_leader(target, now) => {
                    cluster.request_update();
                }
                Some(Verdict::Truncated(at)) => {
                    self.truncated(&target.partition, target.stamp, target.position, at);
                }
                Some(Verdict::Refused(ErrorCode::TOPIC_AUTHORIZATION_FAILED)) => {
                    let about = vec![(target.partition.clone(), target.stamp)];
                    let error = self.shared.config.not_authorized(&target.partition.topic);
                    self.shared.partitions.lock().block(about, error);
                }
                Some(Verdict::Refused(_)) | None => {
                    self.validate_later(target, now);
                    cluster.request_update();
                }
            }
        }
        self.shared.partitions.wake();
    }

    fn validate_later(&mut self, target: &ValidationTarget, now: Instant) {
        let mut assigned = self.shared.partitions.lock();
        if let Some(state) = assigned.current_named(&target.partition, target.stamp) {
            state.failed(now + self.backoff.after(state.attempts));
        }
    }

    /// If the leader may have been replaced without knowing it, asks again later, and returns true.
    fn retry_at_newer_leader(&mut self, target: &ValidationTarget, now: Instant) -> bool {
        let mut assigned = self.shared.partitions.lock();
        let Some(state) = assigned.current_named(&target.partition, target.stamp) else {
            return false;
        };
        if state.is_of_former_topic() || !validation::may_be_replaced(target, state.older_leaders) {
            return false;
        }
        state.older_leaders += 1;
        state.failed(now + self.backoff.after(state.attempts));
        true
    }

    /// The log no longer has what was read. This is never ignored: either a policy gives the next
    /// offset, or the application gets an error.
    fn truncated(
        &self,
        partition: &TopicPartition,
        stamp: u64,
        position: FetchPosition,
        diverging: Option<FetchPosition>,
    ) {
        let mut assigned = self.shared.partitions.lock();
        let Some(state) = assigned.current_named(partition, stamp) else {
            return;
        };
        let diverging = diverging.filter(|_| !state.is_of_former_topic());
        if !matches!(state.phase, Phase::LogGone(_)) {
            self.shared.metrics.truncations_total.add(1);
        }
        match (self.shared.config.auto_offset_reset, diverging) {
            (OffsetReset::None, _) => {
                state.blocked = true;
                state.asked = false;
                let error = ConsumerError::LogTruncation {
                    partition: partition.clone(),
                    offset: position.offset,
                    leader_epoch: position.leader_epoch,
                    diverging,
                };
                assigned.push_error(error, vec![(partition.clone(), stamp)]);
            }
            (_, Some(at)) => {
                // The leader may be that of a new topic, whose ID is not known yet.
                assigned.enter_in_same_topic(partition, Phase::Fetching(at));
            }
            (reset, None) => {
                assigned.enter(partition, Phase::AwaitReset(reset));
            }
        }
    }

    /// The node is not connected yet. The actor polls again while it connects.
    fn look_again<'a>(&mut self, partitions: impl Iterator<Item = &'a TopicPartition>) {
        let partitions: Vec<_> = partitions.collect();
        for piece in partitions.chunks(PARTITIONS_PER_LOCK) {
            let mut assigned = self.shared.partitions.lock();
            for partition in piece {
                assigned.touch(partition);
            }
        }
        self.waiting = true;
    }

    fn mark_asked<'a>(&self, partitions: impl Iterator<Item = (&'a TopicPartition, u64)>) {
        let partitions: Vec<_> = partitions.collect();
        for piece in partitions.chunks(PARTITIONS_PER_LOCK) {
            let mut assigned = self.shared.partitions.lock();
            for &(partition, stamp) in piece {
                if let Some(state) = assigned.current_named(partition, stamp) {
                    state.asked = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thalweg_cluster::Notifier;

    use super::*;
    use crate::config::ConsumerConfig;
    use crate::consumer::Consumer;

    /// `assign` is followed by a seek, while the I/O thread is between its check of the new
    /// partition and the reset by policy.
    #[test]
    fn a_seek_between_the_look_and_the_policy_is_not_undone() {
        for policy in [OffsetReset::Latest, OffsetReset::None] {
            let config = ConsumerConfig {
                auto_offset_reset: policy,
                ..ConsumerConfig::default()
            };
            let (consumer, mut fetcher) = Consumer::new(config, Arc::new(Notifier::new()));
            let partition = TopicPartition::new("t", 0);
            consumer.assign(std::slice::from_ref(&partition));
            let stamp = consumer
                .partitions
                .lock()
                .get(&partition)
                .expect("it was assigned just now")
                .stamp;
            let survey = Survey {
                uncommitted: vec![(partition.clone(), stamp)],
                ..Survey::default()
            };
            consumer
                .seek_to(std::slice::from_ref(&partition), OffsetReset::Earliest)
                .expect("it is assigned");
            fetcher.settle_uncommitted(&survey);
            let assigned = consumer.partitions.lock();
            let state = assigned.get(&partition).expect("it is still assigned");
            assert_eq!(state.phase, Phase::AwaitReset(OffsetReset::Earliest));
            assert!(!state.blocked);
        }
    }
}
