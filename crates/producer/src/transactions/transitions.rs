//! The transitions between the states, and what each of them settles.

use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::Cluster;
use thalweg_protocol::versions::TransactionVersion;

use super::state::{Call, State};
use super::{Started, TransactionManager, TransactionTicket};
use crate::error::{ProducerError, TransactionFailure};

impl TransactionManager {
    pub(super) fn become_state(&mut self, next: State) {
        assert!(
            self.state.may_become(next),
            "the table of states does not allow {} to become {next}",
            self.state
        );
        self.state = next;
        self.changed = true;
        self.set_gate();
    }

    /// Opens the gate in `InTransaction`, and shuts it in every other state.
    pub(super) fn set_gate(&self) {
        if self.state == State::InTransaction {
            self.accumulator.gate.release();
        } else {
            self.accumulator.gate.hold(self.refusal(Call::Send));
        }
    }

    pub(super) fn settle(&mut self, outcome: Result<(), ProducerError>) {
        if let Some(ticket) = &self.abort_at_close {
            ticket.finish(outcome.clone());
        }
        if let Some(pending) = &self.pending {
            pending.ticket.finish(outcome);
        }
    }

    pub(super) fn drop_offsets(&mut self, error: &ProducerError) {
        for commit in self.offsets.drain(..) {
            commit.ticket.finish(Err(error.clone()));
        }
    }

    /// Fails the transaction: it can only be aborted now. An abort in progress continues. If the
    /// producer is closing, no call of the application may come, so the abort starts at once.
    pub(super) fn make_abortable(&mut self, failure: TransactionFailure) {
        if !self.state.may_become(State::AbortableError) {
            return;
        }
        let error = ProducerError::TransactionAbortable(Arc::new(failure));
        self.error = Some(error.clone());
        self.become_state(State::AbortableError);
        self.settle(Err(error.clone()));
        self.drop_offsets(&error);
        if self.give_up_at.is_some() {
            self.abort_to_close();
        }
    }

    /// Aborts the transaction, because the producer closes. If the application calls
    /// `abort_transaction` at the same time, it waits for this abort.
    pub(super) fn abort_to_close(&mut self) {
        self.abort_at_close = Some(TransactionTicket::default());
        (self.failures, self.not_before) = (0, None);
        self.become_state(State::AbortingTransaction);
    }

    /// Fails the producer: it can only be closed now.
    pub(super) fn fail(&mut self, failure: TransactionFailure) {
        if self.state == State::FatalError {
            return;
        }
        let error = ProducerError::TransactionFatal(Arc::new(failure));
        self.error = Some(error.clone());
        self.become_state(State::FatalError);
        self.give_up(&error);
    }

    /// Ends the work on a prepared transaction. If the coordinator does not know of it, nothing was
    /// sent in it.
    pub(super) fn complete_prepare(&mut self) {
        self.become_state(State::PreparedTransaction);
        if let (Some(pending), Some(producer)) = (&self.pending, self.producer)
            && self.started != Started::No
        {
            pending.ticket.set_prepared(producer);
        }
        self.settle(Ok(()));
    }

    /// Ends the transaction. Requests another epoch if the sequences need one, or if the brokers
    /// have been upgraded to version 2 meanwhile. A producer that closes needs none.
    pub(super) fn complete(&mut self, cluster: &Cluster) {
        self.members.clear();
        self.error = None;
        (self.started, self.ending) = (Started::No, false);
        (self.failures, self.not_before) = (0, None);
        let upgrade = self.version < TransactionVersion::V2
            && finalized_version(cluster) == TransactionVersion::V2;
        let needs_epoch = upgrade || self.bump && self.version == TransactionVersion::V1;
        if needs_epoch && self.give_up_at.is_none() {
            self.become_state(State::Initializing);
        } else {
            self.become_ready(cluster);
        }
    }

    pub(super) fn become_ready(&mut self, cluster: &Cluster) {
        self.version = finalized_version(cluster);
        self.bump = false;
        self.become_state(State::Ready);
        self.settle(Ok(()));
    }

    pub(super) fn retry_after_backoff(&mut self, now: Instant) {
        let wait = self.backoff.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + wait);
    }
}

/// Returns the version that the brokers have agreed on.
pub(super) fn finalized_version(cluster: &Cluster) -> TransactionVersion {
    if cluster.finalized_level("transaction.version") >= 2 {
        TransactionVersion::V2
    } else {
        TransactionVersion::V1
    }
}
