//! The transactional part of the sender: it passes the application's calls to the transaction
//! manager, and keeps batches in step with the transaction.
//!
//! The requests to coordinators and the states are in `transactions`.

use std::time::Instant;

use thalweg_cluster::Cluster;

use crate::accumulator::partition_queue::Front;
use crate::error::ProducerError;
use crate::idempotence::Continuity;
use crate::sender::Sender;
use crate::transactions::{GroupMetadata, GroupOffsets, TransactionManager, TransactionTicket};

/// Calls of the application. An error means that the call is not possible now. A ticket reports the
/// outcome of the call.
impl Sender {
    /// Requests the producer id and epoch. This fences older producers with the same transactional
    /// id and ends the transactions they left open.
    pub fn init_transactions(&mut self) -> Result<TransactionTicket, ProducerError> {
        self.manager()?.init()
    }

    pub fn begin_transaction(&mut self) -> Result<(), ProducerError> {
        // Records refused while no transaction was open do not affect the new one.
        self.take_failures();
        self.manager()?.begin()
    }

    /// Undoes a begin whose caller did not see it succeed. The abort ends at once, unless other
    /// records have joined the transaction since.
    pub fn take_back_begin(&mut self, cluster: &mut Cluster, now: Instant) {
        if let Ok(ticket) = self.abort_transaction() {
            ticket.dismiss();
            self.poll_transactions(cluster, now);
        }
    }

    /// Waits for the results of all records, like a commit, and then leaves the transaction open.
    pub fn prepare_transaction(&mut self) -> Result<TransactionTicket, ProducerError> {
        self.take_failures();
        self.manager()?.prepare()
    }

    pub fn commit_transaction(&mut self) -> Result<TransactionTicket, ProducerError> {
        self.take_failures();
        self.manager()?.commit()
    }

    pub fn abort_transaction(&mut self) -> Result<TransactionTicket, ProducerError> {
        self.manager()?.abort()
    }

    pub fn send_offsets_to_transaction(
        &mut self,
        group: GroupMetadata,
        offsets: GroupOffsets,
    ) -> Result<TransactionTicket, ProducerError> {
        self.manager()?.send_offsets(group, offsets)
    }

    fn manager(&mut self) -> Result<&mut TransactionManager, ProducerError> {
        self.transactions.as_mut().ok_or_else(|| {
            ProducerError::IllegalState(
                "transactions need the option transactional_id: set it in the constructor".into(),
            )
        })
    }
}

impl Sender {
    /// Runs one turn of the transaction.
    pub(super) fn poll_transactions(&mut self, cluster: &mut Cluster, now: Instant) {
        self.take_failures();
        self.drop_unsent(now);
        let at_rest = self.is_at_rest();
        let Some(manager) = &mut self.transactions else {
            return;
        };
        let was_aborting = manager.is_aborting();
        manager.poll(at_rest, cluster, now);
        if manager.is_aborting() && !was_aborting {
            // The request that was due could not be sent, and the producer is closing. No event
            // follows, so the abort continues in this turn.
            self.drop_unsent(now);
            let at_rest = self.is_at_rest();
            if let Some(manager) = &mut self.transactions {
                manager.poll(at_rest, cluster, now);
            }
        }
        self.follow_manager(now);
    }

    fn is_at_rest(&self) -> bool {
        self.requests.is_empty() && self.accumulator.incomplete.len() == 0
    }

    /// Applies changes of the manager: a new epoch, partitions that may be sent to, or a fatal
    /// error.
    pub(super) fn follow_manager(&mut self, now: Instant) {
        let Some(manager) = &mut self.transactions else {
            return;
        };
        if !manager.take_changed() {
            return;
        }
        if let Some(error) = manager.fatal().cloned() {
            return self.fail_with(&error);
        }
        if let Some(producer) = manager.producer() {
            self.producer_id.set(producer);
        }
        for index in self.active.clone() {
            self.reconsider(index, now);
        }
    }

    /// Tells the manager about records that failed or could not be appended.
    fn take_failures(&mut self) {
        let failed = self.outcomes.take_failed();
        let refused = self.accumulator.take_refused();
        let Some(manager) = &mut self.transactions else {
            return;
        };
        if let Some(error) = failed {
            manager.record_failed(&error);
        }
        if let Some(reason) = refused {
            manager.record_refused(&reason);
        }
    }

    /// Fails batches that were never sent, if no transaction accepts them any more.
    fn drop_unsent(&mut self, now: Instant) {
        let Some(manager) = &self.transactions else {
            return;
        };
        if manager.takes_batches() {
            return;
        }
        for index in self.active.clone() {
            let state = &mut self.partitions[index];
            for batch in state.take_unsent() {
                let error = manager.drops_with(state.topic.name(), state.partition);
                self.outcomes.drop_batch(&batch, error);
            }
        }
        for index in self.active.clone() {
            self.reconsider(index, now);
        }
    }

    /// Looks at one partition of a transactional producer. A new epoch restarts its sequences, and
    /// batches after a gap fail, as they can never be written. `front` is the first batch in the
    /// accumulator's queue.
    pub(super) fn keep_in_transaction(&mut self, index: usize, front: Option<Front>) {
        let Some(manager) = &mut self.transactions else {
            return;
        };
        let state = &mut self.partitions[index];
        if let Some(producer) = manager.producer()
            && state.in_flight.is_empty()
            && state.retry.is_empty()
            && state.sequences.adopt(producer)
        {
            state.broken_at = None;
        }
        if state.sequences.continuity() == Continuity::Gap {
            self.outcomes.cut_off(state);
        }
        if manager.takes_batches() && (state.has_taken_unsent() || front.is_some()) {
            manager.want(index, state.topic.name(), state.partition);
        }
    }
}
