//! Handles the coordinators' responses, or their absence.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use thalweg_cluster::{Cluster, Principal, RequestError, ResponseBody};
use thalweg_protocol::messages::add_offsets_to_txn::AddOffsetsToTxnRequest;
use thalweg_protocol::messages::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
};
use thalweg_protocol::messages::end_txn::{EndTxnRequest, EndTxnResponse};
use thalweg_protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use thalweg_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitResponse, TxnOffsetCommitResponseTopic,
};
use thalweg_protocol::versions::TransactionVersion;
use thalweg_protocol::{ApiKey, ErrorCode, Request, Str};

use super::requests::Asked;
use super::state::State;
use super::verdict::{Verdict, verdict};
use super::{Membership, Started, TransactionManager};
use crate::config::ProducerConfig;
use crate::error::{FailureKind, ProducerError, TransactionFailure};
use crate::idempotence::ProducerIdAndEpoch;

/// Backoff while the markers of the last transaction are being written, which takes only a moment.
/// The value is that of Kafka's client.
const FIRST_ADDITION_BACKOFF: Duration = Duration::from_millis(20);

/// What the errors of refused requests say about rights.
#[derive(Debug)]
pub(super) struct Rights {
    principal: Principal,
    /// The topic of the last refusal.
    refused_topic: Option<Str>,
}

impl Rights {
    pub(super) fn new(config: &ProducerConfig) -> Self {
        Self {
            principal: config.principal.clone(),
            refused_topic: None,
        }
    }
}

impl TransactionManager {
    /// Handles the response, or its absence, to the request in flight.
    pub(crate) fn answered(
        &mut self,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let Some((_, asked)) = self.in_flight.take() else {
            return;
        };
        let body = match result {
            Ok(body) => body,
            // It is unknown whether it was processed. If the connection was lost, the cluster
            // itself looks the coordinator up again.
            Err(error) if error.is_retriable() => return self.retry_after_backoff(now),
            Err(error) => {
                let failure = TransactionFailure::local(asked.api().name(), &error.to_string());
                return self.fail(failure);
            }
        };
        match asked {
            Asked::InitProducerId => match decode::<InitProducerIdRequest>(body) {
                Some(response) => self.init_answered(&response, cluster, now),
                None => self.retry_after_backoff(now),
            },
            Asked::AddPartitions => match decode::<AddPartitionsToTxnRequest>(body) {
                Some(response) => self.partitions_answered(&response, cluster, now),
                None => self.retry_after_backoff(now),
            },
            Asked::AddOffsets => match decode::<AddOffsetsToTxnRequest>(body) {
                Some(response) => {
                    self.group_answered(ErrorCode(response.error_code), cluster, now);
                }
                None => self.retry_after_backoff(now),
            },
            Asked::TxnOffsetCommit => match decode::<TxnOffsetCommitRequest>(body) {
                Some(response) => self.offsets_answered(&response, cluster, now),
                None => self.retry_after_backoff(now),
            },
            Asked::EndTxn { commit } => match decode::<EndTxnRequest>(body) {
                Some(response) => self.end_answered(&response, commit, cluster, now),
                None => self.retry_after_backoff(now),
            },
        }
    }

    /// Does what an error code requires. Returns true if there was no error.
    fn obey(&mut self, asked: Asked, code: ErrorCode, cluster: &mut Cluster, now: Instant) -> bool {
        let decided = verdict(asked.api(), code);
        self.carry_out(decided, asked, code, cluster, now)
    }

    fn carry_out(
        &mut self,
        decided: Verdict,
        asked: Asked,
        code: ErrorCode,
        cluster: &mut Cluster,
        now: Instant,
    ) -> bool {
        match decided {
            Verdict::Done => {
                self.failures = 0;
                return true;
            }
            Verdict::Retry => self.retry_after_backoff(now),
            Verdict::FindCoordinator => {
                let key = self.coordinator_key(asked);
                cluster.invalidate_coordinator(asked.coordinator_type(), &key, now);
                self.retry_after_backoff(now);
            }
            Verdict::Abortable if self.state == State::AbortingTransaction => {
                // This is the response to a request from before the abort, whose offsets or
                // partitions no longer matter.
                if matches!(asked, Asked::EndTxn { .. }) {
                    self.fail_by(asked, code);
                }
            }
            Verdict::Abortable => {
                self.bump |= matches!(
                    code,
                    ErrorCode::UNKNOWN_PRODUCER_ID | ErrorCode::TRANSACTION_ABORTABLE
                );
                let failure = self.told(asked, code, code.message());
                self.make_abortable(failure);
            }
            Verdict::Fatal => self.fail_by(asked, code),
        }
        false
    }

    fn fail_by(&mut self, asked: Asked, code: ErrorCode) {
        let failure = self.told(asked, code, code.message());
        self.fail(failure);
    }

    /// Returns the failure for a refused request. It says what to grant, if rights are missing.
    pub(super) fn told(&self, asked: Asked, code: ErrorCode, message: &str) -> TransactionFailure {
        let api = asked.api();
        let resource = match code {
            ErrorCode::GROUP_AUTHORIZATION_FAILED => {
                self.offsets.front().map(|commit| &*commit.group.group_id)
            }
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => Some(&*self.id),
            ErrorCode::TOPIC_AUTHORIZATION_FAILED => self.rights.refused_topic.as_deref(),
            _ => None,
        };
        let message = match resource {
            Some(name) => self.rights.principal.explained(message, api, code, name),
            None => message.to_owned(),
        };
        TransactionFailure::told(api.name(), code, &message)
    }

    fn init_answered(
        &mut self,
        response: &InitProducerIdResponse,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let code = ErrorCode(response.error_code);
        if self.obey(Asked::InitProducerId, code, cluster, now) {
            self.producer = Some(ProducerIdAndEpoch {
                id: response.producer_id,
                epoch: response.producer_epoch,
            });
            self.become_ready(cluster);
        }
    }

    fn partitions_answered(
        &mut self,
        response: &AddPartitionsToTxnResponse,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let codes = response
            .results_by_topic_v3_and_below
            .iter()
            .flat_map(|topic| {
                let results = topic.results_by_partition.iter();
                results.map(|each| (ErrorCode(each.partition_error_code), &topic.name))
            });
        // The coordinator adds all partitions or none, so the gravest error decides and is
        // reported.
        let graver = |(code, _): &(ErrorCode, &Str)| {
            let decided = verdict(Asked::AddPartitions.api(), *code);
            (decided, *code != ErrorCode::OPERATION_NOT_ATTEMPTED)
        };
        let worst = codes.max_by_key(graver);
        let code = worst.map_or(ErrorCode::NONE, |(code, _)| code);
        self.rights.refused_topic = worst.map(|(_, topic)| topic.detached());
        let failures = self.failures;
        if self.obey(Asked::AddPartitions, code, cluster, now) {
            (self.started, self.changed) = (Started::Yes, true);
            if !self.add_members(response) && self.state != State::AbortingTransaction {
                self.failures = failures;
                self.retry_after_backoff(now);
            }
            return;
        }
        let first = |member: &super::Member| member.membership != Membership::Added;
        if code == ErrorCode::CONCURRENT_TRANSACTIONS && self.members.values().all(first) {
            self.not_before = Some(now + FIRST_ADDITION_BACKOFF);
        }
    }

    /// Adds the partitions that a response names. Returns whether it names all that were requested:
    /// a marker ends the transaction only in partitions that the coordinator knows.
    fn add_members(&mut self, response: &AddPartitionsToTxnResponse) -> bool {
        let named: HashSet<(&str, i32)> = response
            .results_by_topic_v3_and_below
            .iter()
            .flat_map(|topic| {
                let results = topic.results_by_partition.iter();
                results.map(|each| (&*topic.name, each.partition_index))
            })
            .collect();
        let mut complete = true;
        for member in self.members.values_mut() {
            if member.membership == Membership::Requested {
                if named.contains(&(&*member.topic, member.partition)) {
                    member.membership = Membership::Added;
                } else {
                    complete = false;
                }
            }
        }
        complete
    }

    fn group_answered(&mut self, code: ErrorCode, cluster: &mut Cluster, now: Instant) {
        if self.obey(Asked::AddOffsets, code, cluster, now) {
            self.started = Started::Yes;
            if let Some(front) = self.offsets.front_mut() {
                front.group_added = true;
            }
        }
    }

    fn offsets_answered(
        &mut self,
        response: &TxnOffsetCommitResponse,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        // `None` if the transaction was given up meanwhile.
        let Some(front) = self.offsets.front_mut() else {
            return;
        };
        let (decided, code) = front.take_response(response);
        let has_it = |topic: &&TxnOffsetCommitResponseTopic| {
            topic
                .partitions
                .iter()
                .any(|each| each.error_code == code.0)
        };
        let topic = response.topics.iter().find(has_it);
        self.rights.refused_topic = topic.map(|topic| topic.name.detached());
        if self.carry_out(decided, Asked::TxnOffsetCommit, code, cluster, now) {
            self.started = Started::Yes;
            if let Some(done) = self.offsets.pop_front() {
                done.ticket.finish(Ok(()));
            }
        }
    }

    /// Returns whether the transaction is being aborted because a partition reported an old epoch.
    fn was_told_old(&self) -> bool {
        matches!(
            &self.error,
            Some(ProducerError::TransactionAbortable(failure))
                if failure.code == ErrorCode::INVALID_PRODUCER_EPOCH
        )
    }

    fn end_answered(
        &mut self,
        response: &EndTxnResponse,
        commit: bool,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let code = ErrorCode(response.error_code);
        // It was unknown whether the coordinator had a transaction to abort. It had none.
        let nothing_to_abort = !commit
            && code == ErrorCode::INVALID_TXN_STATE
            && self.started == Started::Maybe
            && self.version == TransactionVersion::V1;
        if !commit
            && !nothing_to_abort
            && code == ErrorCode::INVALID_TXN_STATE
            && self.was_told_old()
        {
            return self.fail(superseded());
        }
        if !nothing_to_abort && !self.obey(Asked::EndTxn { commit }, code, cluster, now) {
            return;
        }
        if response.producer_id >= 0 {
            self.producer = Some(ProducerIdAndEpoch {
                id: response.producer_id,
                epoch: response.producer_epoch,
            });
        }
        self.complete(cluster);
    }
}

/// Returns the failure for a producer that a newer one has replaced.
///
/// A partition reported an old epoch, and the coordinator has no transaction to abort. So the
/// transaction did not end by its timeout, as the coordinator accepts the abort of such a
/// transaction (KIP-890). A newer producer must own the transactional id.
fn superseded() -> TransactionFailure {
    let code = ErrorCode::INVALID_TXN_STATE;
    let reason = "the producer's epoch is old, and it has no open transaction: a newer producer \
                  uses its transactional id";
    TransactionFailure {
        kind: FailureKind::Fenced,
        ..TransactionFailure::told(ApiKey::END_TXN.name(), code, reason)
    }
}

/// Decodes a response. Returns `None` if it is unreadable, which counts as no response.
fn decode<R: Request>(body: ResponseBody) -> Option<R::Response> {
    body.decode::<R>().ok()
}
