//! The append of a column: as many rows at once as the memory takes, with waits in between.
//!
//! Each wait takes at most `max_block_ms`. A row that cannot be appended gets its error as its
//! outcome, and the append continues with the next one.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use thalweg_cluster::metadata::TopicLookup;
use thalweg_producer::{
    AppendedRows, BulkAppend, BulkStep, ProducerError, RecordSource, Reservation, TopicEntry,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use super::ProducerClient;
use super::append::{AppendWait, MaxBlock};
use crate::clock;
use crate::error::ClientError;
use crate::operation::Operation;

/// Appends the rows of a column. Its outcome says where each row is, or why it is in no batch.
pub struct BulkSend<S> {
    client: Arc<ProducerClient>,
    topic: Arc<TopicEntry>,
    append: BulkAppend<S>,
    max_block: Duration,
    /// False until the topic is known. An error before that is an error of the call.
    started: bool,
    waiting: Option<Box<AppendWait>>,
    /// The partition that a row asked for and that the call waits for, and the number of
    /// partitions then.
    missing: (Option<i32>, u32),
    /// Fresh metadata did not have it. Rows for missing partitions do not wait again while the
    /// number of partitions is the same.
    in_vain: bool,
}

impl<S: RecordSource> BulkSend<S> {
    pub fn new(
        client: Arc<ProducerClient>,
        topic: Arc<TopicEntry>,
        source: S,
        max_block: Duration,
    ) -> Self {
        Self {
            client,
            started: topic.partition_count() > 0 || source.rows() == 0,
            append: BulkAppend::new(Arc::clone(&topic), source),
            topic,
            max_block,
            waiting: None,
            missing: (None, 0),
            in_vain: false,
        }
    }

    /// Appends until all rows are done (returns true) or it must wait (returns false).
    fn step(&mut self, memory: Option<Reservation>) -> bool {
        let accumulator = self.client.accumulator();
        let step = match memory {
            None => self.append.step(accumulator, clock::now),
            Some(memory) => self.append.step_reserved(accumulator, memory, clock::now),
        };
        match step {
            BulkStep::Done => return true,
            BulkStep::Closed(error) => self.append.refuse_rest(&error),
            BulkStep::BufferExhausted(wait) => {
                let max_block = MaxBlock::begin(self.max_block);
                let wait = self.client.wait_for_memory(wait, max_block);
                self.waiting = Some(Box::new(AppendWait::Memory(wait)));
            }
            BulkStep::UnknownPartition {
                partition,
                partitions,
                ..
            } => {
                if partition.is_some_and(i32::is_negative) {
                    // No topic has a negative partition, so this error says nothing about other rows.
                    self.refuse_row(partition, partitions);
                    return false;
                }
                let was_missing = self.in_vain && self.missing.1 == partitions;
                self.missing = (partition, partitions);
                if was_missing {
                    self.refuse_row(partition, partitions);
                } else {
                    self.wait_for_partition(partition);
                }
            }
        }
        false
    }

    fn wait_for_partition(&mut self, partition: Option<i32>) {
        let max_block = MaxBlock::begin(self.max_block);
        let topic = self.topic.name();
        let wait = self.client.wait_for_partition(topic, partition, max_block);
        self.waiting = Some(Box::new(AppendWait::Partition(wait)));
    }

    /// Refuses the row at which the last step ended, because the topic does not have its partition.
    fn refuse_row(&mut self, partition: Option<i32>, partitions: u32) {
        let message = format!("the topic has {partitions} partitions");
        let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let error = self.error(partition, code, message);
        self.append.refuse_row(error);
    }

    /// Refuses the rows that a failed wait was for.
    fn refuse(&mut self, error: ClientError) {
        if let ClientError::Producer(error) = error {
            return self.append.refuse_rest(&error);
        }
        let (code, message) = match self.client.view().metadata().lookup(self.topic.name()) {
            TopicLookup::Known(_) => {
                self.in_vain = true;
                return self.refuse_row(self.missing.0, self.missing.1);
            }
            TopicLookup::Refused(code) => {
                let (principal, topic) = (self.client.view().principal(), self.topic.name());
                let message = principal.explained(code.message(), ApiKey::PRODUCE, code, topic);
                (code, message)
            }
            TopicLookup::Unreachable(error) => (ErrorCode::NETWORK_EXCEPTION, error.to_string()),
            TopicLookup::Unknown(_) | TopicLookup::Invalid(_) => (
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                "no metadata within max_block_ms".to_owned(),
            ),
        };
        // The topic itself is gone or refused. No other row can succeed, and each would wait as
        // long.
        let error = self.error(self.missing.0, code, message);
        self.append.refuse_rest(&error);
    }

    fn error(&self, partition: Option<i32>, code: ErrorCode, message: String) -> ProducerError {
        ProducerError::Broker {
            topic: self.topic.name().clone(),
            partition: partition.unwrap_or(-1),
            code,
            message: Str::from(message),
            possibly_written: false,
        }
    }
}

impl<S: RecordSource> Operation for BulkSend<S> {
    type Output = AppendedRows;

    fn poll(&mut self, waker: &Waker) -> Option<Result<AppendedRows, ClientError>> {
        if !self.started && self.waiting.is_none() {
            self.wait_for_partition(None);
        }
        loop {
            let mut memory = None;
            if let Some(waiting) = self.waiting.as_deref_mut() {
                let outcome = waiting.poll(waker)?;
                self.waiting = None;
                match outcome {
                    Ok(reserved) => memory = reserved,
                    Err(error) if !self.started => return Some(Err(error)),
                    Err(error) => self.refuse(error),
                }
                self.started = true;
            }
            if self.step(memory) {
                let rows = self.append.finish();
                if let Some((row, error)) = rows.refused().first() {
                    // Only its future reports it, so a transaction must know of it.
                    let text = format!("row {row}: {error}");
                    self.client.accumulator().note_refused(&text);
                }
                return Some(Ok(rows));
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.waiting.as_deref().and_then(Operation::deadline)
    }
}
