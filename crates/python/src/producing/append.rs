//! Appends slices to a batch: the fast append, and what follows a refusal.

use std::sync::Arc;
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use thalweg_network::producer::{AppendWait, MaxBlock};
use thalweg_producer::{AppendRefusal, Appended, Record, Reservation, TopicEntry};

use crate::convert::errors;
use crate::producing::open_producer::OpenProducer;
use crate::producing::topics::Topic;

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

/// Why an append did not succeed: an error to raise, or something to wait for.
pub(crate) enum Refused {
    Error(PyErr),
    Wait(Box<AppendWait>),
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Error(error)
    }
}

/// What the waits of a send leave to its next append and to its next wait.
#[derive(Default)]
pub(crate) struct Waited {
    pub(crate) memory: Option<Reservation>,
    /// Begun by the first wait.
    max_block: Option<MaxBlock>,
}

impl OpenProducer {
    #[inline]
    pub(crate) fn topic(&self, name: &Bound<'_, PyString>) -> PyResult<Topic<'_>> {
        self.topics.get(name, &self.accumulator)
    }

    /// Returns an error if the producer would refuse any record now.
    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.accumulator.check_open();
        open.map_err(|error| errors::raised(errors::producer(py, &error)))
    }

    /// Appends a record, with the memory that a wait reserved if there was one.
    #[inline]
    pub(crate) fn append(
        &self,
        py: Python<'_>,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        waited: &mut Waited,
    ) -> Result<Appended, Refused> {
        let accumulator = &self.accumulator;
        let first = match waited.memory.take() {
            None => accumulator.try_append(topic, record, Instant::now),
            Some(memory) => {
                py.detach(|| accumulator.append_reserved(topic, record, memory, Instant::now))
            }
        };
        first.or_else(|refusal| self.refused(py, topic, record, refusal, waited))
    }

    /// Handles a refusal. If another thread holds the lock, it waits for it here.
    #[cold]
    pub(crate) fn refused(
        &self,
        py: Python<'_>,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        mut refusal: AppendRefusal,
        waited: &mut Waited,
    ) -> Result<Appended, Refused> {
        // Check this before any wait: a record that may not be sent now is refused whatever else
        // is missing.
        self.check_open(py)?;
        let accumulator = &self.accumulator;
        while matches!(refusal, AppendRefusal::Contended | AppendRefusal::NewBatch) {
            match py.detach(|| accumulator.append(topic, record, Instant::now)) {
                Ok(appended) => return Ok(appended),
                Err(again) => refusal = again,
            }
        }
        if matches!(refusal, AppendRefusal::UnknownPartition { .. }) {
            check_partition(topic.name(), record.partition)?;
        }
        let (partition, max_block) = (record.partition, self.max_block_of(waited));
        let wait = self
            .client
            .wait_after(refusal, topic.name(), partition, max_block);
        Err(match wait {
            Ok(wait) => Refused::Wait(Box::new(wait)),
            Err(error) => Refused::Error(errors::client(py, &error)),
        })
    }

    /// Returns the wait for the metadata of a topic.
    #[cold]
    pub(crate) fn unknown_topic(&self, topic: &TopicEntry, waited: &mut Waited) -> Refused {
        let max_block = self.max_block_of(waited);
        let wait = self
            .client
            .wait_for_partition(topic.name(), None, max_block);
        Refused::Wait(Box::new(AppendWait::Partition(wait)))
    }

    fn max_block_of(&self, waited: &mut Waited) -> MaxBlock {
        let begin = || MaxBlock::begin(self.max_block);
        *waited.max_block.get_or_insert_with(begin)
    }
}
