//! Ends a sender: everything that is not done fails once, and the sender accepts nothing more. Also
//! fails what is queued for a single topic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thalweg_cluster::Metadata;
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use super::Sender;
use crate::batch::open_batch::OpenBatch;
use crate::error::ProducerError;
use crate::sender::batch::ProducerBatch;
use crate::sync::lock;

impl Sender {
    /// Closes the accumulator and fails every batch that is not done with the error of `error`.
    fn fail_all(&mut self, error: impl Fn(&ProducerBatch) -> ProducerError) {
        self.accumulator.close();
        let topics = self.accumulator.topics();
        for topic in &topics {
            // Taking each lock once makes sure that appends which had passed the gate are seen.
            topic.for_each_partition(|entry| {
                let left: Vec<OpenBatch> = {
                    let mut queue = lock(&entry.queue);
                    (queue.listed, queue.full_listed) = (false, false);
                    std::iter::from_fn(|| queue.pop()).collect()
                };
                entry.set_depth(0);
                for open in left {
                    let batch = ProducerBatch::close_uncompressed(open);
                    self.outcomes.fail(&batch, error(&batch));
                }
            });
        }
        for index in std::mem::take(&mut self.active) {
            let state = &mut self.partitions[index];
            self.nodes.place(index, state, None);
            let prepared = state.prepared.drain(..).map(|prepared| prepared.batch);
            let all = state
                .in_flight
                .drain(..)
                .chain(state.retry.drain(..))
                .chain(prepared);
            for batch in all.filter(|batch| !batch.abandoned) {
                self.outcomes.fail(&batch, error(&batch));
            }
        }
        self.jobs.clear();
        for _ in std::mem::take(&mut self.requests) {
            self.accumulator.metrics().request_done();
        }
    }

    /// Fails what is queued for a partition of a topic that the brokers do not describe to this user
    /// any more. Batches in flight get a response of their own. A later record waits for newer
    /// metadata.
    pub(super) fn fail_if_refused(&mut self, index: usize, metadata: &Metadata) {
        let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        let state = &mut self.partitions[index];
        let topic = state.topic.name().clone();
        if metadata.topic_error(&topic) != Some(code) {
            return;
        }
        let principal = &self.config.principal;
        let message = principal.explained(code.message(), ApiKey::PRODUCE, code, &topic);
        let (partition, message) = (state.partition, Str::from(&*message));
        let error = |batch: &ProducerBatch| ProducerError::Broker {
            topic: topic.clone(),
            partition,
            code,
            message: message.clone(),
            possibly_written: batch.possibly_written(),
        };
        self.outcomes.fail_unsent(state, |_| true, error);
        let queued = lock(&state.entry().queue).take_all();
        self.outcomes.fail_queued(queued, error);
    }

    /// Fails the producer permanently.
    pub(super) fn fail_for_good(&mut self, reason: &str) {
        self.fail_with(&ProducerError::Fatal(Arc::from(reason)));
    }

    pub(super) fn fail_with(&mut self, error: &ProducerError) {
        self.accumulator.fail(error.clone());
        self.fail_all(|_| error.clone());
    }

    /// Fails everything after the sender panicked, perhaps in the middle of a change of its state.
    /// The batch in its hands may then be in none of its queues, so the list of incomplete batches
    /// decides.
    pub(super) fn fail_after_panic(&mut self, reason: &str) {
        let reason: Arc<str> = Arc::from(reason);
        let failed = |possibly_written| ProducerError::ClientFailed {
            reason: Arc::clone(&reason),
            possibly_written,
        };
        // Refuses new records with this error, and ends the waits for memory.
        self.accumulator.fail(failed(false));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            if let Some(manager) = &mut self.transactions {
                manager.give_up(&failed(false));
            }
        }));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            self.fail_all(|batch| failed(batch.maybe_written || batch.attempts > 0));
        }));
        for completion in self.accumulator.incomplete.take_all() {
            completion.fail_rest(&failed(true));
        }
    }

    /// Returns the number of records that are not done yet.
    fn unfinished_records(&self) -> u64 {
        let mut records = 0;
        for topic in self.accumulator.topics() {
            topic.for_each_partition(|entry| records += lock(&entry.queue).records());
        }
        for state in &self.partitions {
            let prepared = state.prepared.iter().map(|prepared| &prepared.batch);
            let all = state.in_flight.iter().chain(&state.retry).chain(prepared);
            records += all
                .filter(|b| !b.abandoned)
                .map(|b| u64::from(b.records))
                .sum::<u64>();
        }
        records
    }

    /// Fails everything that was not delivered before the producer closed.
    pub(super) fn fail_undelivered(&mut self) {
        let records = self.unfinished_records();
        self.fail_all(|batch| {
            let possibly_written = batch.maybe_written || batch.attempts > 0;
            ProducerError::ClosedBeforeDelivery {
                records,
                possibly_written,
            }
        });
    }
}
