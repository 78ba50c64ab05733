//! Appends slices to a batch: the fast append, and the waits after a refusal.
//!
//! A wait is a value that is polled. Between two polls a thread sleeps (`operation::run`), or a
//! coroutine is suspended (`asyncio/call.rs`). So both APIs share one implementation.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg_cluster::SharedMetadata;
use thalweg_cluster::metadata::TopicLookup;
use thalweg_producer::{
    Accumulator, AppendRefusal, Appended, BufferWait, ProducerError, Record, Reservation, Timed,
    TopicEntry,
};
use thalweg_protocol::Str;

use crate::convert::errors;
use crate::producing::topics::{Topic, TopicCache};

/// What sending needs from a producer.
pub(crate) struct Appender {
    pub(crate) accumulator: Arc<Accumulator>,
    pub(crate) metadata: Arc<SharedMetadata>,
    pub(crate) topics: TopicCache,
    pub(crate) max_block: Duration,
}

/// Why a record is in no batch: an error to raise, or one for its future.
pub(crate) enum NotAppended {
    Raise(PyErr),
    Fail(Py<PyAny>),
}

impl From<PyErr> for NotAppended {
    fn from(error: PyErr) -> Self {
        Self::Raise(error)
    }
}

/// Returns the milliseconds since 1970, for the timestamps of records.
#[inline]
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// Refuses a negative partition.
pub(crate) fn check_partition(topic: &str, partition: Option<i32>) -> PyResult<()> {
    match partition {
        Some(negative @ ..0) => {
            let text = format!("partition {negative} of topic {topic}: a partition is 0 or more");
            Err(PyValueError::new_err(text))
        }
        _ => Ok(()),
    }
}

/// Why an append did not succeed: an error, or something to wait for.
pub(crate) enum Refused {
    Not(NotAppended),
    Wait(Waiting),
}

impl<E: Into<NotAppended>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Not(error.into())
    }
}

/// What a send waits for, at most `max_block_ms`.
pub(crate) enum Waiting {
    Memory { wait: BufferWait, began: Instant },
    Partition(PartitionWait),
}

/// The result of a wait.
pub(crate) enum Brought {
    Memory(Reservation),
    /// The number of partitions of the topic.
    Metadata(i32),
}

/// Why a wait failed.
pub(crate) enum Unmet {
    Memory(ProducerError),
    Metadata(NotAppended),
}

impl Unmet {
    pub(crate) fn into_error(self, py: Python<'_>) -> NotAppended {
        match self {
            Self::Memory(error) => raise(py, &error),
            Self::Metadata(error) => error,
        }
    }
}

impl Waiting {
    pub(crate) fn memory(wait: BufferWait) -> Self {
        let began = Instant::now();
        Self::Memory { wait, began }
    }

    /// Returns the result of the wait. If it is `None`, the waker is woken when it should be
    /// polled again.
    pub(crate) fn poll(
        &mut self,
        py: Python<'_>,
        appender: &Appender,
        waker: &Waker,
    ) -> Option<Result<Brought, Unmet>> {
        match self {
            Self::Memory { wait, began } => {
                let Poll::Ready(result) = wait.poll_reservation(waker) else {
                    return None;
                };
                let metrics = appender.accumulator.metrics();
                metrics.waited_for_memory(*began, Instant::now(), false);
                let refused = |error| Unmet::Memory(appender.refusal_after(error));
                Some(result.map(Brought::Memory).map_err(refused))
            }
            Self::Partition(wait) => {
                let found = wait.poll(py, appender, waker)?;
                wait.ended(appender);
                Some(found.map(Brought::Metadata).map_err(Unmet::Metadata))
            }
        }
    }

    /// Returns the error for the end of `max_block_ms`.
    pub(crate) fn timed_out(&self, py: Python<'_>, appender: &Appender) -> Unmet {
        match self {
            Self::Memory { began, .. } => {
                let metrics = appender.accumulator.metrics();
                metrics.waited_for_memory(*began, Instant::now(), true);
                Unmet::Memory(ProducerError::BufferExhausted)
            }
            Self::Partition(wait) => {
                wait.ended(appender);
                Unmet::Metadata(appender.metadata_timeout(py, &wait.topic))
            }
        }
    }
}

/// Waits until the topic is known, with the requested partition if there is one.
pub(crate) struct PartitionWait {
    topic: Str,
    partition: Option<i32>,
    /// A response without the partition may be older than the partition. So one refresh is
    /// requested, and this is its number.
    refresh: Option<u64>,
    began: Instant,
}

impl PartitionWait {
    pub(crate) fn new(
        py: Python<'_>,
        appender: &Appender,
        topic: &str,
        partition: Option<i32>,
    ) -> PyResult<Self> {
        check_partition(topic, partition)?;
        let asked = appender.metadata.request_topic(topic);
        asked.map_err(|invalid| errors::raise(py, "InvalidTopicError", &invalid.to_string()))?;
        Ok(Self {
            topic: Str::from(topic),
            partition,
            refresh: None,
            began: Instant::now(),
        })
    }

    fn ended(&self, appender: &Appender) {
        let metrics = appender.accumulator.metrics();
        metrics.took(Timed::MetadataWait, self.began.elapsed());
    }

    fn poll(
        &mut self,
        py: Python<'_>,
        appender: &Appender,
        waker: &Waker,
    ) -> Option<Result<i32, NotAppended>> {
        let metadata = &*appender.metadata;
        loop {
            let seen = metadata.changes();
            if appender.accumulator.is_closed() {
                let why = appender.refusal_after(ProducerError::Closed);
                return Some(Err(raise(py, &why)));
            }
            let lookup = metadata.lookup(&self.topic);
            match &lookup {
                TopicLookup::Known(known) => {
                    let count = known.partitions.len() as i32;
                    if self.partition.unwrap_or(0) < count {
                        return Some(Ok(count));
                    }
                    match self.refresh {
                        None => self.refresh = Some(metadata.request_update()),
                        Some(number) if metadata.is_answered(number) => {
                            return Some(Err(refused(py, &self.topic, self.partition, &lookup)));
                        }
                        Some(_) => {}
                    }
                }
                // A response without the topic ends its requests. A topic that is being created
                // must be requested again. The cluster applies the backoff.
                TopicLookup::Unknown(_) => {
                    let _ = metadata.request_topic(&self.topic);
                }
                _ => return Some(Err(refused(py, &self.topic, self.partition, &lookup))),
            }
            if metadata.wait_for_change(seen, waker) {
                return None;
            }
        }
    }
}

impl Appender {
    #[inline]
    pub(crate) fn topic(&self, name: &Bound<'_, PyString>) -> PyResult<Topic<'_>> {
        self.topics.get(name, &self.accumulator)
    }

    /// Returns an error if the producer would refuse any record now.
    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.accumulator.check_open();
        open.map_err(|error| errors::raised(errors::producer(py, &error)))
    }

    /// Returns the error of a send whose wait ended with `error`. If the client failed, that
    /// failure is why the producer closed.
    fn refusal_after(&self, error: ProducerError) -> ProducerError {
        match error {
            ProducerError::Closed => self.accumulator.check_open().err().unwrap_or(error),
            error => error,
        }
    }

    /// Returns when the `max_block_ms` of a call, shared by all its waits, are over.
    pub(crate) fn budget(&self) -> Instant {
        Instant::now() + self.max_block
    }

    /// Updates the topic's entry from metadata that has just arrived.
    pub(crate) fn refresh(&self, topic: &str) {
        self.accumulator.topic(topic);
    }

    /// Appends a record, with the memory that a wait reserved if there was one.
    #[inline]
    pub(crate) fn append(
        &self,
        py: Python<'_>,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        memory: Option<Reservation>,
    ) -> Result<Appended, Refused> {
        let first = match memory {
            None => self.accumulator.try_append(topic, record, Instant::now),
            Some(memory) => py.detach(|| {
                self.accumulator
                    .append_reserved(topic, record, memory, Instant::now)
            }),
        };
        first.or_else(|refusal| self.refused(py, topic, record, refusal))
    }

    /// Handles a refusal. If another thread holds the lock, it waits for it here.
    #[cold]
    pub(crate) fn refused(
        &self,
        py: Python<'_>,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        mut refusal: AppendRefusal,
    ) -> Result<Appended, Refused> {
        // Check this before any wait: a record that may not be sent now is refused whatever else
        // is missing.
        self.check_open(py)?;
        loop {
            let error = match refusal {
                AppendRefusal::Contended | AppendRefusal::NewBatch => {
                    match py.detach(|| self.accumulator.append(topic, record, Instant::now)) {
                        Ok(appended) => return Ok(appended),
                        Err(again) => refusal = again,
                    }
                    continue;
                }
                AppendRefusal::BufferExhausted(wait) => {
                    return Err(Refused::Wait(Waiting::memory(wait)));
                }
                AppendRefusal::UnknownPartition { .. } => {
                    let wait = PartitionWait::new(py, self, topic.name(), record.partition)?;
                    return Err(Refused::Wait(Waiting::Partition(wait)));
                }
                AppendRefusal::TooLarge {
                    size,
                    limit,
                    option,
                } => ProducerError::RecordTooLarge {
                    size,
                    limit,
                    option,
                },
                AppendRefusal::Closed(error) => error,
            };
            return Err(Refused::Not(raise(py, &error)));
        }
    }

    fn metadata_timeout(&self, py: Python<'_>, topic: &str) -> NotAppended {
        let reason = match self.metadata.lookup(topic) {
            TopicLookup::Unknown(Some(code)) => format!(" (last response: {})", code.name()),
            _ => String::new(),
        };
        let ms = self.max_block.as_millis();
        let text = format!("no metadata of topic {topic} within max_block_ms ({ms} ms){reason}");
        errors::raise(py, "KafkaTimeoutError", &text).into()
    }
}

fn raise(py: Python<'_>, error: &ProducerError) -> NotAppended {
    errors::raised(errors::producer(py, error)).into()
}

fn refused(
    py: Python<'_>,
    topic: &str,
    partition: Option<i32>,
    lookup: &TopicLookup,
) -> NotAppended {
    match lookup {
        TopicLookup::Known(known) => PyValueError::new_err(format!(
            "partition {} of topic {topic} does not exist: it has {}",
            partition.unwrap_or(-1),
            known.partitions.len()
        ))
        .into(),
        TopicLookup::Refused(code) => {
            let text = format!("topic {topic}: {}", code.name());
            match errors::for_code(py, code.0, &text) {
                Ok(error) => NotAppended::Fail(error.unbind()),
                Err(error) => error.into(),
            }
        }
        TopicLookup::Invalid(invalid) => {
            errors::raise(py, "InvalidTopicError", &invalid.to_string()).into()
        }
        TopicLookup::Unreachable(error) => errors::connection(py, error).into(),
        TopicLookup::Unknown(_) => unreachable!("an append waits for an unknown topic"),
    }
}
