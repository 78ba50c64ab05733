//! Decides which request is next, and sends it to its coordinator.

use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::{Cluster, Coordinator, CoordinatorType, NodeId, Outgoing, Purpose};
use thalweg_protocol::messages::add_offsets_to_txn::AddOffsetsToTxnRequest;
use thalweg_protocol::messages::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic,
};
use thalweg_protocol::messages::end_txn::EndTxnRequest;
use thalweg_protocol::messages::init_producer_id::InitProducerIdRequest;
use thalweg_protocol::messages::txn_offset_commit::TxnOffsetCommitRequest;
use thalweg_protocol::versions::TransactionVersion;
use thalweg_protocol::{ApiKey, EncodeError, ErrorCode, Str};

use super::offsets::OffsetsCommit;
use super::state::State;
use super::{Membership, Started, TransactionManager};
use crate::error::TransactionFailure;
use crate::idempotence::ProducerIdAndEpoch;

/// The version from which on `InitProducerId` can raise the epoch of an existing producer
/// (KIP-360).
const BUMPING_FROM: i16 = 3;

/// The kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    InitProducerId,
    AddPartitions,
    /// These two are about the first call of `send_offsets` that is not done.
    AddOffsets,
    TxnOffsetCommit,
    EndTxn {
        commit: bool,
    },
}

impl Asked {
    pub(super) fn api(self) -> ApiKey {
        match self {
            Self::InitProducerId => ApiKey::INIT_PRODUCER_ID,
            Self::AddPartitions => ApiKey::ADD_PARTITIONS_TO_TXN,
            Self::AddOffsets => ApiKey::ADD_OFFSETS_TO_TXN,
            Self::TxnOffsetCommit => ApiKey::TXN_OFFSET_COMMIT,
            Self::EndTxn { .. } => ApiKey::END_TXN,
        }
    }

    /// Whether the request contains a group or offsets that the application chose.
    fn is_about_offsets(self) -> bool {
        matches!(self, Self::AddOffsets | Self::TxnOffsetCommit)
    }

    pub(super) fn coordinator_type(self) -> CoordinatorType {
        match self {
            Self::TxnOffsetCommit => CoordinatorType::Group,
            _ => CoordinatorType::Transaction,
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Ask(Asked),
    /// The coordinator does not know of the transaction, so it ends without a request.
    Complete,
    /// All records of the transaction are in the log.
    Prepared,
}

impl TransactionManager {
    /// Does what is due. `at_rest`: every batch has its outcome, and no Produce request is in
    /// flight.
    pub(crate) fn poll(&mut self, at_rest: bool, cluster: &mut Cluster, now: Instant) {
        if !self.is_settled() && self.give_up_at.is_some_and(|at| now >= at) {
            let text = "the producer was closed, and the coordinator did not respond in time";
            return self.fail(TransactionFailure::local("close", text));
        }
        if self.in_flight.is_some() || self.not_before.is_some_and(|at| now < at) {
            return;
        }
        self.not_before = None;
        match self.next_step(at_rest) {
            Some(Step::Complete) => self.complete(cluster),
            Some(Step::Prepared) => self.complete_prepare(),
            _ => {}
        }
        if let Some(Step::Ask(asked)) = self.next_step(at_rest) {
            self.ask(asked, cluster, now);
        }
    }

    fn next_step(&self, at_rest: bool) -> Option<Step> {
        match self.state {
            State::Initializing => Some(Step::Ask(Asked::InitProducerId)),
            State::InTransaction => self.addition().map(Step::Ask),
            State::PreparingTransaction | State::CommittingTransaction => match self.addition() {
                Some(asked) => Some(Step::Ask(asked)),
                None if !at_rest => None,
                None if self.state == State::PreparingTransaction => Some(Step::Prepared),
                None => Some(self.end(true)),
            },
            State::AbortingTransaction => at_rest.then(|| self.end(false)),
            _ => None,
        }
    }

    /// Returns the request for something that is missing in the transaction.
    fn addition(&self) -> Option<Asked> {
        let lacks = |member: &super::Member| member.membership != Membership::Added;
        if self.members.values().any(lacks) {
            return Some(Asked::AddPartitions);
        }
        let offsets = self.offsets.front()?;
        if self.version == TransactionVersion::V1 && !offsets.group_added {
            return Some(Asked::AddOffsets);
        }
        Some(Asked::TxnOffsetCommit)
    }

    fn end(&self, commit: bool) -> Step {
        if self.started == Started::No {
            Step::Complete
        } else {
            Step::Ask(Asked::EndTxn { commit })
        }
    }

    /// Sends a request if its coordinator is known and ready. Otherwise a later turn tries again.
    fn ask(&mut self, asked: Asked, cluster: &mut Cluster, now: Instant) {
        let Some(node) = self.find_node(asked, cluster, now) else {
            return;
        };
        if !cluster.is_ready(node, Purpose::Group, now) {
            return;
        }
        let version = cluster.require_transactional_version(node, asked.api(), self.version);
        let encoded = match version {
            Ok(version) if self.cannot_bump(asked, version) => {
                let text = "the producer needs a new epoch, which Kafka before 2.5 cannot assign";
                return self.fail(TransactionFailure::local(asked.api().name(), text));
            }
            Ok(version) => self.encode(asked, version),
            Err(error) => {
                let text = error.to_string();
                return self.fail(TransactionFailure::local(asked.api().name(), &text));
            }
        };
        let outgoing = match encoded {
            Ok(outgoing) => outgoing,
            Err(error) => {
                let failure = TransactionFailure::local(asked.api().name(), &error.to_string());
                return match error {
                    // The application gave a name or metadata that no request can contain.
                    EncodeError::TooLong { .. } if asked.is_about_offsets() => {
                        self.make_abortable(failure);
                    }
                    _ => self.fail(failure),
                };
            }
        };
        self.about_to_send(asked);
        let id = cluster.send(node, Purpose::Group, outgoing, now);
        self.in_flight = Some((id, asked));
    }

    fn cannot_bump(&self, asked: Asked, version: i16) -> bool {
        asked == Asked::InitProducerId && self.producer.is_some() && version < BUMPING_FROM
    }

    pub(super) fn coordinator_key(&self, asked: Asked) -> Str {
        let group = || self.offsets.front().map(|commit| &commit.group.group_id);
        match asked.coordinator_type() {
            CoordinatorType::Group => group().unwrap_or(&self.id).clone(),
            _ => self.id.clone(),
        }
    }

    fn find_node(&mut self, asked: Asked, cluster: &mut Cluster, now: Instant) -> Option<NodeId> {
        let (kind, key) = (asked.coordinator_type(), self.coordinator_key(asked));
        match cluster.coordinator(kind, &key) {
            Coordinator::Known(node) => Some(node),
            Coordinator::Unknown => None,
            Coordinator::Failed { error, message } => {
                // The cluster looks it up again if the application tries again.
                cluster.invalidate_coordinator(kind, &key, now);
                // Brokers before 4.0 send an empty text.
                let message = message.as_deref().filter(|text| !text.is_empty());
                let message = message.unwrap_or_else(|| error.message());
                let failure = TransactionFailure {
                    during: Arc::from("FindCoordinator"),
                    ..self.told(asked, error, message)
                };
                if kind == CoordinatorType::Group
                    && matches!(
                        error,
                        ErrorCode::GROUP_AUTHORIZATION_FAILED | ErrorCode::INVALID_GROUP_ID
                    )
                {
                    self.make_abortable(failure);
                } else {
                    self.fail(failure);
                }
                None
            }
        }
    }

    /// Notes that a request is being sent: from now on the coordinator may act on it.
    fn about_to_send(&mut self, asked: Asked) {
        let opens = match asked {
            Asked::AddPartitions | Asked::AddOffsets => true,
            Asked::TxnOffsetCommit => self.version == TransactionVersion::V2,
            Asked::InitProducerId | Asked::EndTxn { .. } => false,
        };
        if opens {
            self.started = self.started.max(Started::Maybe);
        }
        self.ending |= matches!(asked, Asked::EndTxn { .. });
        if asked == Asked::AddPartitions {
            for member in self.members.values_mut() {
                if member.membership == Membership::Wanted {
                    member.membership = Membership::Requested;
                }
            }
        }
    }

    fn encode(&self, asked: Asked, version: i16) -> Result<Outgoing, EncodeError> {
        let timeout = self.request_timeout;
        let producer = self
            .producer
            .unwrap_or(ProducerIdAndEpoch { id: -1, epoch: -1 });
        match asked {
            Asked::InitProducerId => {
                let timeout_ms = self.transaction_timeout.as_millis();
                let request = InitProducerIdRequest {
                    transactional_id: Some(self.id.clone()),
                    transaction_timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX),
                    producer_id: producer.id,
                    producer_epoch: producer.epoch,
                };
                Outgoing::new(&request, version, timeout)
            }
            Asked::AddPartitions => {
                let request = self.add_partitions(producer);
                Outgoing::new(&request, version, timeout)
            }
            Asked::AddOffsets => {
                let request = AddOffsetsToTxnRequest {
                    transactional_id: self.id.clone(),
                    producer_id: producer.id,
                    producer_epoch: producer.epoch,
                    group_id: self.front_group(),
                };
                Outgoing::new(&request, version, timeout)
            }
            Asked::TxnOffsetCommit => {
                let request = self.offsets.front().map(OffsetsCommit::request);
                let request = TxnOffsetCommitRequest {
                    transactional_id: self.id.clone(),
                    producer_id: producer.id,
                    producer_epoch: producer.epoch,
                    ..request.unwrap_or_default()
                };
                Outgoing::new(&request, version, timeout)
            }
            Asked::EndTxn { commit } => {
                let request = EndTxnRequest {
                    transactional_id: self.id.clone(),
                    producer_id: producer.id,
                    producer_epoch: producer.epoch,
                    committed: commit,
                };
                Outgoing::new(&request, version, timeout)
            }
        }
    }

    fn front_group(&self) -> Str {
        let front = self.offsets.front();
        front.map_or_else(Str::default, |commit| commit.group.group_id.clone())
    }

    /// Creates the request for all partitions that are not in the transaction yet, grouped by
    /// topic.
    fn add_partitions(&self, producer: ProducerIdAndEpoch) -> AddPartitionsToTxnRequest {
        let mut wanted: Vec<(&Str, i32)> = self
            .members
            .values()
            .filter(|member| member.membership != Membership::Added)
            .map(|member| (&member.topic, member.partition))
            .collect();
        wanted.sort_unstable();
        let topics = wanted.chunk_by(|a, b| a.0 == b.0);
        let topics = topics.map(|of_topic| AddPartitionsToTxnTopic {
            name: of_topic[0].0.clone(),
            partitions: of_topic.iter().map(|&(_, partition)| partition).collect(),
        });
        AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.id.clone(),
            v3_and_below_producer_id: producer.id,
            v3_and_below_producer_epoch: producer.epoch,
            v3_and_below_topics: topics.collect(),
            ..AddPartitionsToTxnRequest::default()
        }
    }
}
