//! Ends batches other than by a response: they are too old, or come after a gap in the sequences.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_cluster::ConnectionError;
use thalweg_protocol::Uuid;
use thalweg_protocol::planted::{Bug, is_planted};

use crate::accumulator::Accumulator;
use crate::batch::completion::{Failure, Piece, Written};
use crate::batch::open_batch::OpenBatch;
use crate::error::ProducerError;
use crate::idempotence::{Continuity, ProducerIdState};
use crate::sender::batch::ProducerBatch;
use crate::sender::partition::SenderPartition;

/// Reports the outcomes of batches, and counts them.
#[derive(Debug)]
pub(crate) struct Outcomes {
    accumulator: Arc<Accumulator>,
    delivery_timeout: Duration,
    /// The first failure that `take_failed` has not returned yet.
    failed: Option<ProducerError>,
    /// The time of the sender's current turn. `None` before its first turn.
    now: Option<Instant>,
}

impl Outcomes {
    pub(crate) fn new(accumulator: Arc<Accumulator>, delivery_timeout: Duration) -> Self {
        Self {
            accumulator,
            delivery_timeout,
            failed: None,
            now: None,
        }
    }

    /// Sets the time for the outcomes that follow.
    pub(crate) fn at(&mut self, now: Instant) {
        self.now = Some(now);
    }

    pub(crate) fn succeed(&self, batch: &ProducerBatch, written: Written) {
        self.tell(batch, Ok(written));
    }

    pub(crate) fn fail(&mut self, batch: &ProducerBatch, failure: impl Into<Failure>) {
        let failure = failure.into();
        self.failed.get_or_insert_with(|| failure.error.clone());
        self.drop_batch(batch, failure);
    }

    /// Fails a batch that became worthless by an abort or an earlier failure. Unlike `fail`, it
    /// does not count as a new failure for the transaction.
    pub(crate) fn drop_batch(&self, batch: &ProducerBatch, failure: impl Into<Failure>) {
        if let Some(now) = self.now {
            let metrics = self.accumulator.metrics();
            metrics.failed(batch.completion.topic(), batch.records, now);
        }
        self.tell(batch, Err(failure.into()));
    }

    /// Returns whether [`Self::take_failed`] would return an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Takes the first failure since the last call. It is a failure that ends a transaction.
    pub(crate) fn take_failed(&mut self) -> Option<ProducerError> {
        self.failed.take()
    }

    /// Fails the retries after a gap. They cannot be written under their sequences, and a
    /// transaction does not give them new ones.
    pub(crate) fn cut_off(&mut self, state: &mut SenderPartition) {
        let (before, behind) = std::mem::take(&mut state.retry)
            .into_iter()
            .partition(|batch| !state.is_behind_gap(batch.order));
        state.retry = before;
        let behind: VecDeque<ProducerBatch> = behind;
        let (topic, partition) = (state.topic.name().clone(), state.partition);
        for batch in behind {
            let topic = topic.clone();
            self.fail(&batch, ProducerError::SequenceGap { topic, partition });
        }
        if self.failed.is_none() && state.sequences.has_numbered() {
            self.failed = Some(ProducerError::SequenceGap { topic, partition });
        }
    }

    fn tell(&self, batch: &ProducerBatch, result: Result<Written, Failure>) {
        let first_index = batch.order.first_index;
        let piece = Piece {
            first_index,
            records: batch.records,
            result,
        };
        if batch.completion.finish(piece) {
            self.accumulator.incomplete.remove(&batch.completion);
        }
    }

    /// Returns whether a batch is older than `delivery_timeout`.
    pub(crate) fn is_over(&self, created: Instant, now: Instant) -> bool {
        now.duration_since(created) >= self.delivery_timeout
    }

    /// Fails batches that the sender has taken and that are too old, in flight or not.
    /// `unreachable` is the error of the connection to the leader, if there is one.
    pub(crate) fn expire(
        &mut self,
        state: &mut SenderPartition,
        unreachable: Option<&ConnectionError>,
        now: Instant,
    ) {
        let delivery_timeout = self.delivery_timeout;
        let is_over = |created: Instant| now.duration_since(created) >= delivery_timeout;
        for batch in state
            .in_flight
            .iter_mut()
            .filter(|batch| !batch.abandoned && is_over(batch.created))
        {
            // It stays in flight until its request is over, so that later batches are not sent as
            // if it were gone.
            batch.abandoned = true;
            let error = too_old(batch, delivery_timeout, true, unreachable);
            self.fail(batch, error);
            if batch.sequence.is_some() {
                state.sequences.lose(batch.order);
            }
        }
        self.fail_unsent(state, is_over, |batch| {
            too_old(
                batch,
                delivery_timeout,
                batch.possibly_written(),
                unreachable,
            )
        });
    }

    /// Fails batches that are too old and were still in the accumulator's queue.
    pub(crate) fn expire_queued(
        &mut self,
        queued: Vec<OpenBatch>,
        unreachable: Option<&ConnectionError>,
    ) {
        let delivery_timeout = self.delivery_timeout;
        self.fail_queued(queued, |batch| {
            too_old(batch, delivery_timeout, false, unreachable)
        });
    }

    /// Fails batches that were taken out of the accumulator's queue.
    pub(crate) fn fail_queued(
        &mut self,
        queued: Vec<OpenBatch>,
        error: impl Fn(&ProducerBatch) -> ProducerError,
    ) {
        for open in queued {
            let batch = ProducerBatch::close_uncompressed(open);
            self.fail(&batch, error(&batch));
        }
    }

    /// Fails the batches that the sender has taken and that are not in flight: of the retries and
    /// of the prepared ones, the first ones whose creation `is_over`.
    pub(crate) fn fail_unsent(
        &mut self,
        state: &mut SenderPartition,
        is_over: impl Fn(Instant) -> bool,
        error: impl Fn(&ProducerBatch) -> ProducerError,
    ) {
        while let Some(batch) = state.retry.front()
            && is_over(batch.created)
        {
            let batch = state
                .retry
                .pop_front()
                .expect("the queue has a first batch");
            self.fail(&batch, error(&batch));
            state.give_up(&batch);
        }
        while let Some(prepared) = state.prepared.front()
            && is_over(prepared.batch.created)
        {
            let first = state.prepared.pop_front();
            let batch = first.expect("the queue has a first batch").batch;
            self.fail(&batch, error(&batch));
        }
    }

    /// Reports batches as written at an unknown offset: the leader has acknowledged a later batch.
    pub(crate) fn succeed_unseen(&self, batches: &[ProducerBatch]) {
        for batch in batches {
            let unknown = Written {
                base_offset: -1,
                log_append_time_ms: None,
            };
            self.succeed(batch, unknown);
        }
    }

    /// Ends batches before one that the leader has acknowledged. They are written, unless the log
    /// was truncated in between: then it is unknown, and they fail.
    pub(crate) fn settle_unseen(&mut self, state: &mut SenderPartition, batches: &[ProducerBatch]) {
        for batch in batches {
            if state.sequences.is_cut_off(batch.order) {
                let (topic, partition) = (state.topic.name().clone(), state.partition);
                self.fail(batch, ProducerError::SequenceGap { topic, partition });
                state.sequences.lose(batch.order);
            } else {
                self.succeed_unseen(std::slice::from_ref(batch));
            }
        }
    }

    /// Closes a gap in the partition's sequences with a new epoch. Nothing of the partition is in
    /// flight. If batches before the gap are still unfinished, it does nothing.
    ///
    /// The retries get new sequences, except batches that may be in the log under their old ones:
    /// sent again, they could be in the log twice. Those fail.
    pub(crate) fn mend(&mut self, state: &mut SenderPartition, producer_id: &mut ProducerIdState) {
        if state.retry.is_empty() {
            state.sequences.resolve();
        }
        let older = |batch: &ProducerBatch| state.broken_at.is_some_and(|at| batch.order < at);
        if state.sequences.continuity() != Continuity::Gap || state.retry.front().is_some_and(older)
        {
            return;
        }
        for mut batch in std::mem::take(&mut state.retry) {
            // A deleted topic's log is gone, so a batch sent to it cannot be in the new log.
            let same_log =
                batch.sent_topic_id == state.topic_id || batch.sent_topic_id == Uuid::ZERO;
            let in_doubt = batch.sequence.is_some() && batch.maybe_written && same_log;
            if in_doubt || batch.in_doubt_under == Some(state.topic_id) {
                let (topic, partition) = (state.topic.name().clone(), state.partition);
                self.fail(&batch, ProducerError::SequenceGap { topic, partition });
            } else {
                batch.sequence = None;
                batch.maybe_written = false;
                if is_planted(Bug::OrderAfterGap) {
                    state.retry.push_front(batch);
                } else {
                    state.retry.push_back(batch);
                }
            }
        }
        state.broken_at = None;
        if let Some(exhausted) = state.sequences.bump() {
            producer_id.exhausted(exhausted);
        }
    }
}

fn too_old(
    batch: &ProducerBatch,
    timeout: Duration,
    possibly_written: bool,
    unreachable: Option<&ConnectionError>,
) -> ProducerError {
    let unreachable = || unreachable.map(|error| Arc::from(error.to_string()));
    ProducerError::DeliveryTimeout {
        topic: batch.completion.topic().clone(),
        partition: batch.completion.partition(),
        timeout,
        possibly_written,
        cause: batch.last_error.clone().or_else(unreachable),
    }
}
