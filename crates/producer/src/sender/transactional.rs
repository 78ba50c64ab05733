//! The sender of a transactional producer: the calls of the application, and batches that must be
//! in the transaction, or out of the way, before it goes on.
//!
//! Deliberately not here: what coordinators are asked, and the states: see `transactions`.

use std::time::Instant;

use thalweg_cluster::Cluster;

use crate::error::ProducerError;
use crate::idempotence::Continuity;
use crate::sender::Sender;
use crate::sender::batch::ProducerBatch;
use crate::sync::lock;
use crate::transactions::{GroupMetadata, GroupOffsets, TransactionManager, TransactionTicket};

/// Calls of the application. Each error says what is wrong now; a ticket tells how the call ends.
impl Sender {
    /// Gets the producer id and epoch, which fences older producers of the same transactional id
    /// and ends what they left open.
    pub fn init_transactions(&mut self) -> Result<TransactionTicket, ProducerError> {
        self.manager()?.init()
    }

    pub fn begin_transaction(&mut self) -> Result<(), ProducerError> {
        // What was refused while no transaction was open concerns none.
        self.take_failures();
        self.manager()?.begin()
    }

    /// Undoes a begin of which its caller did not learn: at once, unless records of others have
    /// joined since.
    pub fn take_back_begin(&mut self, cluster: &mut Cluster, now: Instant) {
        if let Ok(ticket) = self.abort_transaction() {
            ticket.dismiss();
            self.poll_transactions(cluster, now);
        }
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
            ProducerError::IllegalState("transactions need the option transactional_id".into())
        })
    }
}

impl Sender {
    /// One turn of the transaction.
    pub(super) fn poll_transactions(&mut self, cluster: &mut Cluster, now: Instant) {
        self.take_failures();
        self.drop_unsent(now);
        let at_rest = self.requests.is_empty() && self.accumulator.incomplete.len() == 0;
        let Some(manager) = &mut self.transactions else {
            return;
        };
        manager.poll(at_rest, cluster, now);
        self.follow_manager(now);
    }

    /// Takes over what the manager has come to: another epoch, partitions that may be sent to, or
    /// the end.
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

    /// Tells the manager of records that failed, or could not be appended.
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

    /// Fails what was never sent where no transaction takes it any more.
    fn drop_unsent(&mut self, now: Instant) {
        let Some(manager) = &self.transactions else {
            return;
        };
        if manager.takes_batches() {
            return;
        }
        for index in self.active.clone() {
            let slot = &mut self.slots[index];
            let queued = lock(&slot.entry().queue).take_all();
            let queued = queued.into_iter().map(ProducerBatch::close_uncompressed);
            let prepared = slot.prepared.drain(..).map(|prepared| prepared.batch);
            let dropped: Vec<ProducerBatch> = prepared.chain(queued).collect();
            for batch in &dropped {
                let error = manager.drops_with(slot.topic.name(), slot.partition);
                self.outcomes.drop_batch(batch, error);
            }
        }
        for index in self.active.clone() {
            self.reconsider(index, now);
        }
    }

    /// The partition of a transactional producer, looked at: another epoch starts its numbers
    /// again, and what lies behind a gap can never be written.
    pub(super) fn keep_in_transaction(&mut self, index: usize) {
        let Some(manager) = &mut self.transactions else {
            return;
        };
        let slot = &mut self.slots[index];
        if let Some(producer) = manager.producer()
            && slot.in_flight.is_empty()
            && slot.retry.is_empty()
            && slot.sequences.adopt(producer)
        {
            slot.broken_at = None;
        }
        if slot.sequences.continuity() == Continuity::Gap {
            self.outcomes.cut_off(slot);
        }
        if manager.takes_batches() && slot.has_unsent() {
            manager.want(index, slot.topic.name(), slot.partition);
        }
    }
}
