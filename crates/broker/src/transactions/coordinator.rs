//! The transaction coordinator's part of [`Core`]: finds a transaction, makes the step, and
//! finishes it.

use std::time::Duration;

use thalweg_protocol::{ErrorCode, Str};

use super::transaction::Init;
use super::{Level, Now, ProducerIdAndEpoch, TopicPartition, Transaction};
use crate::Core;
use crate::faults::FaultAction;
use crate::topology::coordinator::CoordinatorKind;

/// After a failure to write markers, as `request.timeout` and backoff would have it.
const MARKERS_RETRY: Duration = Duration::from_millis(100);

impl Core {
    /// Returns the level of the broker's `transaction.version`.
    pub(super) fn level(&self) -> Level {
        if self.options.transaction_version >= 2 {
            Level::BumpsEpoch
        } else {
            Level::KeepsEpoch
        }
    }

    /// Handles `InitProducerId`. Returns the producer's id and epoch.
    pub(crate) fn init_transactional(
        &mut self,
        id: &Str,
        expected: Option<ProducerIdAndEpoch>,
        timeout_ms: i32,
        now: Now,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        if timeout_ms <= 0 || timeout_ms > self.options.transaction_max_timeout_ms {
            return Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT);
        }
        let node = self.transaction_node(id);
        let next_id = &mut self.next_producer_id;
        let mut new_id = || take_next(next_id);
        self.transactions
            .ensure(id, || Transaction::new(new_id(), node))?;
        // If the first attempt fences the previous producer, its transaction is rolled back before
        // the second.
        for _ in 0..2 {
            let level = self.level();
            let init = self.step(id, |transaction, new_id| {
                transaction.init(expected, timeout_ms, level, new_id, now)
            })?;
            match init {
                Init::Ready(producer) => return Ok(producer),
                Init::Fenced => self.finish(id, now),
            }
        }
        Err(ErrorCode::CONCURRENT_TRANSACTIONS)
    }

    /// Adds partitions to the producer's transaction.
    pub(crate) fn add_to_transaction(
        &mut self,
        id: &str,
        producer: ProducerIdAndEpoch,
        partitions: &[TopicPartition],
        now: Now,
    ) -> Result<(), ErrorCode> {
        if !self.transactions.has_room_for(partitions.len()) {
            return Err(ErrorCode::POLICY_VIOLATION);
        }
        self.step(id, |transaction, _| {
            transaction.add(producer, partitions, now)
        })
    }

    /// Handles `EndTxn`. Returns the producer of the next transaction.
    pub(crate) fn end_transaction(
        &mut self,
        id: &str,
        producer: ProducerIdAndEpoch,
        commit: bool,
        level: Level,
        now: Now,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let next = self.step(id, |transaction, new_id| {
            transaction.end(producer, commit, level, new_id, now)
        })?;
        self.finish(id, now);
        Ok(next)
    }

    /// Rolls back transactions that have timed out, and writes markers that were held back.
    pub(crate) fn tick_transactions(&mut self, now: Now) {
        let level = self.level();
        for id in self.transactions.due(now.instant) {
            // A prepared transaction refuses this event, and is finished.
            let _ = self.step(&id, |transaction, new_id| {
                Ok(transaction.time_out(level, new_id, now))
            });
            self.finish(&id, now);
        }
    }

    /// If a prepared transaction's markers are due and no fault holds them back, writes them and
    /// completes it.
    fn finish(&mut self, id: &str, now: Now) {
        let Some(transaction) = self.transactions.get(id) else {
            return;
        };
        let is_due = transaction.deadline.is_some_and(|time| time <= now.instant);
        if !transaction.state.is_prepared() || !is_due {
            return;
        }
        let partitions = transaction.partitions.iter();
        let topics: Vec<Str> = partitions.map(|(topic, _)| topic.clone()).collect();
        let was_delayed = transaction.was_delayed;
        if !was_delayed && let Some(action) = self.fault_of_markers(id, topics) {
            self.transactions
                .change(id, |transaction| hold_back(transaction, action, now));
            return;
        }
        self.write_markers(id, now);
        self.transactions
            .change(id, |transaction| transaction.complete(now.ms));
    }

    fn fault_of_markers(&mut self, id: &str, topics: Vec<Str>) -> Option<FaultAction> {
        // Nothing is written for an empty transaction.
        if topics.is_empty() {
            return None;
        }
        let node = self.transaction_node(id);
        self.faults.take_for_markers(node, topics)
    }

    /// Changes a transaction. Steps that need a new producer id take the next one, as in Kafka.
    fn step<T>(
        &mut self,
        id: &str,
        step: impl FnOnce(&mut Transaction, &mut dyn FnMut() -> i64) -> Result<T, ErrorCode>,
    ) -> Result<T, ErrorCode> {
        let node = self.transaction_node(id);
        let next_id = &mut self.next_producer_id;
        let outcome = self.transactions.change(id, |transaction| {
            transaction.coordinated_by(node);
            step(transaction, &mut || take_next(next_id))
        });
        outcome.unwrap_or(Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING))
    }

    /// Returns the coordinator's node, or -1 if no node is live.
    fn transaction_node(&self, id: &str) -> i32 {
        let node = self.coordinator(CoordinatorKind::Transaction, id);
        node.map_or(-1, |node| node.id)
    }
}

/// A delay is over at some time, even if its fault lasts; what failed is tried again, and may fail
/// again.
fn hold_back(transaction: &mut Transaction, action: FaultAction, now: Now) {
    let pause = match action {
        FaultAction::Delay(delay) => delay,
        _ => MARKERS_RETRY,
    };
    transaction.was_delayed = matches!(action, FaultAction::Delay(_));
    transaction.deadline = Some(now.instant + pause);
}

fn take_next(next_id: &mut i64) -> i64 {
    let id = *next_id;
    *next_id += 1;
    id
}
