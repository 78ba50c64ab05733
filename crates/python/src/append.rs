//! From slices to a place in a batch: the fast append, and the waits that a refusal asks for.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg_cluster::SharedMetadata;
use thalweg_cluster::metadata::TopicLookup;
use thalweg_producer::{
    Accumulator, AppendRefusal, Appended, BufferWait, ProducerError, Record, TopicEntry,
};

use crate::topics::TopicCache;
use crate::{errors, gil};

/// What the sending half of a producer needs.
pub(crate) struct Appender {
    pub(crate) accumulator: Arc<Accumulator>,
    pub(crate) metadata: Arc<SharedMetadata>,
    pub(crate) topics: TopicCache,
    pub(crate) max_block: Duration,
}

/// Why a record is in no batch: an error to raise, or one that fills its future.
pub(crate) enum NotAppended {
    Raise(PyErr),
    Fail(Py<PyAny>),
}

impl From<PyErr> for NotAppended {
    fn from(error: PyErr) -> Self {
        Self::Raise(error)
    }
}

/// Milliseconds since 1970, as records are stamped.
#[inline]
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

impl Appender {
    #[inline]
    pub(crate) fn topic(&self, name: &Bound<'_, PyString>) -> PyResult<&Arc<TopicEntry>> {
        self.topics.get(name, &self.accumulator)
    }

    /// When the one budget of `max_block_ms` is over that a call has for all its waits.
    pub(crate) fn budget(&self) -> Instant {
        Instant::now() + self.max_block
    }

    /// Appends a record; `deadline` is made only if there is something to wait for.
    #[inline]
    pub(crate) fn append(
        &self,
        py: Python<'_>,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
    ) -> Result<Appended, NotAppended> {
        match self.accumulator.try_append(topic, record, Instant::now) {
            Ok(appended) => Ok(appended),
            Err(refusal) => self.wait_and_append(py, topic, record, refusal, self.budget()),
        }
    }

    /// Appends a record after what was refused, as long as the budget lasts.
    #[cold]
    pub(crate) fn wait_and_append(
        &self,
        py: Python<'_>,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        mut refusal: AppendRefusal,
        deadline: Instant,
    ) -> Result<Appended, NotAppended> {
        loop {
            let next = match refusal {
                AppendRefusal::Contended | AppendRefusal::NewBatch => {
                    py.detach(|| self.accumulator.append(topic, record, Instant::now))
                }
                AppendRefusal::BufferExhausted(wait) => {
                    let reservation = self.memory(py, wait, deadline)?;
                    py.detach(|| {
                        self.accumulator
                            .append_reserved(topic, record, reservation, Instant::now)
                    })
                }
                AppendRefusal::UnknownPartition { .. } => {
                    self.await_partition(py, topic.name(), record.partition, deadline)?;
                    self.accumulator.try_append(topic, record, Instant::now)
                }
                AppendRefusal::TooLarge {
                    size,
                    limit,
                    option,
                } => {
                    let error = ProducerError::RecordTooLarge {
                        size,
                        limit,
                        option,
                    };
                    return Err(raise(py, &error));
                }
                AppendRefusal::Closed(error) => return Err(raise(py, &error)),
            };
            match next {
                Ok(appended) => return Ok(appended),
                Err(again) => refusal = again,
            }
        }
    }

    fn memory(
        &self,
        py: Python<'_>,
        mut wait: BufferWait,
        deadline: Instant,
    ) -> Result<thalweg_producer::Reservation, NotAppended> {
        let got = gil::wait(py, Some(deadline), |waker| {
            match wait.poll_reservation(waker) {
                Poll::Ready(result) => Some(result),
                Poll::Pending => None,
            }
        })?;
        match got {
            Some(Ok(reservation)) => Ok(reservation),
            Some(Err(error)) => Err(raise(py, &error)),
            None => Err(raise(py, &ProducerError::BufferExhausted)),
        }
    }

    /// Waits until the topic is known, with the wanted partition if there is one.
    pub(crate) fn await_partition(
        &self,
        py: Python<'_>,
        topic: &str,
        partition: Option<i32>,
        deadline: Instant,
    ) -> Result<i32, NotAppended> {
        if let Some(negative) = partition.filter(|index| *index < 0) {
            let text = format!("partition {negative} of topic {topic}: a partition is 0 or more");
            return Err(PyValueError::new_err(text).into());
        }
        let metadata = &*self.metadata;
        metadata
            .request_topic(topic)
            .map_err(|invalid| errors::raise(py, "InvalidTopicError", &invalid.to_string()))?;
        // An answer that lacks the partition may be older than the partition: one refresh is due.
        let mut refreshed_after = None;
        let found = gil::wait(py, Some(deadline), |waker| {
            loop {
                let seen = metadata.changes();
                let lookup = metadata.lookup(topic);
                match &lookup {
                    TopicLookup::Known(known) => {
                        let count = known.partitions.len() as i32;
                        if partition.is_none_or(|index| index < count) {
                            return Some(Ok(count));
                        }
                        match refreshed_after {
                            None => {
                                metadata.request_update();
                                refreshed_after = Some(seen);
                            }
                            Some(before) if seen != before => return Some(Err(lookup)),
                            Some(_) => {}
                        }
                    }
                    // An answer without the topic ends the asking: a topic that is being created
                    // is asked for again, the cluster keeps the backoff.
                    TopicLookup::Unknown(_) => {
                        let _ = metadata.request_topic(topic);
                    }
                    _ => return Some(Err(lookup)),
                }
                if metadata.wait_for_change(seen, waker) {
                    return None;
                }
            }
        })?;
        match found {
            Some(Ok(count)) => Ok(count),
            Some(Err(lookup)) => Err(refused(py, topic, partition, &lookup)),
            None => Err(self.metadata_timeout(py, topic)),
        }
    }

    fn metadata_timeout(&self, py: Python<'_>, topic: &str) -> NotAppended {
        let reason = match self.metadata.lookup(topic) {
            TopicLookup::Unknown(Some(code)) => format!(" (last answer: {})", code.name()),
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
        TopicLookup::Unknown(_) => unreachable!("an unknown topic is waited for"),
    }
}
