//! What a refused append waits for: memory, or the metadata of its topic.
//!
//! ```text
//! append ── refused ──▶ wait_after ──▶ AppendWait ── done ──▶ append again, with the memory
//! ```
//! All waits of one call share its `max_block_ms`.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use thalweg_cluster::metadata::TopicLookup;
use thalweg_producer::{Accumulator, AppendRefusal, BufferWait, ProducerError, Reservation, Timed};
use thalweg_protocol::{ApiKey, Str};

use super::ProducerClient;
use crate::client::ClientView;
use crate::clock;
use crate::error::ClientError;
use crate::operation::{Operation, is_over};

/// The `max_block_ms` of one call, from its first wait on.
#[derive(Debug, Clone, Copy)]
pub struct MaxBlock {
    limit: Duration,
    deadline: Instant,
}

impl MaxBlock {
    pub fn begin(limit: Duration) -> Self {
        let deadline = clock::now() + limit;
        Self { limit, deadline }
    }
}

impl ProducerClient {
    /// Returns what a refused append waits for, or its error if no wait helps. An append that was
    /// refused because of a lock or a batch only has to be made again, and must not come here.
    pub fn wait_after(
        &self,
        refusal: AppendRefusal,
        topic: &Str,
        partition: Option<i32>,
        max_block: MaxBlock,
    ) -> Result<AppendWait, ClientError> {
        match refusal {
            AppendRefusal::BufferExhausted(wait) => {
                let wait = self.wait_for_memory(wait, max_block);
                Ok(AppendWait::Memory(wait))
            }
            AppendRefusal::UnknownPartition { .. } => {
                let wait = self.wait_for_partition(topic, partition, max_block);
                Ok(AppendWait::Partition(wait))
            }
            AppendRefusal::TooLarge {
                size,
                limit,
                option,
            } => Err(ClientError::Producer(ProducerError::RecordTooLarge {
                size,
                limit,
                option,
            })),
            AppendRefusal::Closed(error) => Err(ClientError::Producer(error)),
            AppendRefusal::Contended | AppendRefusal::NewBatch => {
                unreachable!("the caller appends again")
            }
        }
    }

    /// Waits until the topic is known, with this partition if it is given. Returns the number of
    /// partitions.
    pub fn wait_for_partition(
        &self,
        topic: &Str,
        partition: Option<i32>,
        max_block: MaxBlock,
    ) -> PartitionWait {
        PartitionWait {
            view: self.view().clone(),
            accumulator: Arc::clone(self.accumulator()),
            topic: topic.clone(),
            partition,
            is_requested: false,
            refresh: None,
            began: clock::now(),
            max_block,
        }
    }

    pub(super) fn wait_for_memory(&self, wait: BufferWait, max_block: MaxBlock) -> MemoryWait {
        MemoryWait {
            accumulator: Arc::clone(self.accumulator()),
            wait,
            began: clock::now(),
            deadline: max_block.deadline,
        }
    }
}

/// What a refused append waits for. Returns the memory, if it was missing.
pub enum AppendWait {
    Memory(MemoryWait),
    Partition(PartitionWait),
}

impl Operation for AppendWait {
    type Output = Option<Reservation>;

    fn poll(&mut self, waker: &Waker) -> Option<Result<Self::Output, ClientError>> {
        match self {
            Self::Memory(wait) => Some(wait.poll(waker)?.map(Some)),
            Self::Partition(wait) => {
                let found = wait.poll(waker)?;
                if found.is_ok() {
                    // Updates the topic's entry from the metadata that has just arrived.
                    wait.accumulator.topic(&wait.topic);
                }
                Some(found.map(|_| None))
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Memory(wait) => wait.deadline(),
            Self::Partition(wait) => wait.deadline(),
        }
    }
}

/// Waits for the memory of a record.
pub struct MemoryWait {
    accumulator: Arc<Accumulator>,
    wait: BufferWait,
    began: Instant,
    deadline: Instant,
}

impl Operation for MemoryWait {
    type Output = Reservation;

    fn poll(&mut self, waker: &Waker) -> Option<Result<Reservation, ClientError>> {
        let (outcome, exhausted) = match self.wait.poll_reservation(waker) {
            Poll::Ready(outcome) => (outcome, false),
            Poll::Pending if is_over(self.deadline) => (Err(ProducerError::BufferExhausted), true),
            Poll::Pending => return None,
        };
        let metrics = self.accumulator.metrics();
        metrics.waited_for_memory(self.began, clock::now(), exhausted);
        Some(outcome.map_err(|error| refusal(&self.accumulator, error)))
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.deadline)
    }
}

/// Waits for the metadata of a topic: see [`ProducerClient::wait_for_partition`].
pub struct PartitionWait {
    view: ClientView,
    accumulator: Arc<Accumulator>,
    topic: Str,
    partition: Option<i32>,
    /// Whether the topic's metadata was requested, by the first poll.
    is_requested: bool,
    /// A response without the partition may be older than the partition. So one refresh is
    /// requested, and this is its number.
    refresh: Option<u64>,
    began: Instant,
    max_block: MaxBlock,
}

impl PartitionWait {
    fn request(&mut self) -> Result<(), ClientError> {
        if !self.is_requested {
            self.view.check()?;
            self.view.metadata().request_topic(&self.topic)?;
            self.is_requested = true;
        }
        Ok(())
    }

    fn poll_partitions(&mut self, waker: &Waker) -> Option<Result<i32, ClientError>> {
        if let Err(error) = self.request() {
            return Some(Err(error));
        }
        let metadata = self.view.metadata();
        loop {
            let seen = metadata.changes();
            if self.accumulator.is_closed() {
                return Some(Err(refusal(&self.accumulator, ProducerError::Closed)));
            }
            match metadata.lookup(&self.topic) {
                TopicLookup::Known(known) => {
                    let partitions = known.partitions.len() as i32;
                    let partition = self.partition.unwrap_or(0);
                    if partition < partitions {
                        return Some(Ok(partitions));
                    }
                    match self.refresh {
                        None => self.refresh = Some(metadata.request_update()),
                        Some(number) if metadata.is_answered(number) => {
                            return Some(Err(ClientError::UnknownPartition {
                                topic: self.topic.clone(),
                                partition,
                                partitions,
                            }));
                        }
                        Some(_) => {}
                    }
                }
                // A response without the topic ends its requests. A topic that is being created
                // must be requested again. The cluster applies the backoff.
                TopicLookup::Unknown(_) => {
                    let _ = metadata.request_topic(&self.topic);
                }
                TopicLookup::Refused(code) => {
                    let message = format!("topic {}", self.topic);
                    // A right to write includes the one to see the topic.
                    let principal = self.view.principal();
                    let context = principal.explained(&message, ApiKey::PRODUCE, code, &self.topic);
                    return Some(Err(ClientError::Broker { code, context }));
                }
                TopicLookup::Invalid(invalid) => return Some(Err(invalid.into())),
                TopicLookup::Unreachable(error) => {
                    return Some(Err(ClientError::Connection(error)));
                }
            }
            if metadata.wait_for_change(seen, waker) {
                return None;
            }
        }
    }

    fn timed_out(&self) -> ClientError {
        let reason = match self.view.metadata().lookup(&self.topic) {
            TopicLookup::Unknown(Some(code)) => {
                let code = code.name();
                format!(" (last response: {code}). Check the name of the topic, or create it")
            }
            TopicLookup::Unknown(None) => ": no broker responded".to_owned(),
            _ => String::new(),
        };
        let (topic, ms) = (&self.topic, self.max_block.limit.as_millis());
        ClientError::TimedOut(format!(
            "no metadata of topic {topic} within max_block_ms ({ms} ms){reason}"
        ))
    }
}

impl Operation for PartitionWait {
    type Output = i32;

    fn poll(&mut self, waker: &Waker) -> Option<Result<i32, ClientError>> {
        let outcome = match self.poll_partitions(waker) {
            Some(outcome) => outcome,
            None if is_over(self.max_block.deadline) => Err(self.timed_out()),
            None => return None,
        };
        let took = clock::now().saturating_duration_since(self.began);
        self.accumulator.metrics().took(Timed::MetadataWait, took);
        Some(outcome)
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.max_block.deadline)
    }
}

/// Returns the error of a call whose wait ended with `error`. If the client failed, that failure is
/// why the producer closed.
fn refusal(accumulator: &Accumulator, error: ProducerError) -> ClientError {
    let reason = match error {
        ProducerError::Closed => accumulator.check_open().err(),
        _ => None,
    };
    ClientError::Producer(reason.unwrap_or(error))
}
