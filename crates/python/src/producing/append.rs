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

/// What a send waits for, and what its waits leave to its next append.
#[derive(Default)]
pub(crate) struct Waits {
    /// What a refused append waits for. In a box, because few sends wait, and all are moved.
    pub(crate) current: Option<Box<AppendWait>>,
    /// The memory that the last wait reserved.
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

    /// Appends a record, with the memory that a wait reserved if there was one. Returns `None` if
    /// the send must wait for `waits.current` first.
    #[inline]
    pub(crate) fn append(
        &self,
        py: Python<'_>,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        waits: &mut Waits,
    ) -> PyResult<Option<Appended>> {
        let accumulator = &self.accumulator;
        let appended = match waits.memory.take() {
            None => accumulator.try_append(topic, record, Instant::now),
            Some(memory) => {
                py.detach(|| accumulator.append_reserved(topic, record, memory, Instant::now))
            }
        };
        match appended {
            Ok(appended) => Ok(Some(appended)),
            Err(refusal) => self.refused(py, topic, record, refusal, waits),
        }
    }

    /// Appends again if another thread held the lock. Otherwise the send waits, or fails.
    #[cold]
    fn refused(
        &self,
        py: Python<'_>,
        topic: &Arc<TopicEntry>,
        record: &Record<'_>,
        refusal: AppendRefusal,
        waits: &mut Waits,
    ) -> PyResult<Option<Appended>> {
        let refusal = match refusal {
            AppendRefusal::Contended => {
                // The other thread may need the GIL, so this waits for the lock without it. Once it
                // has the lock, no append is `Contended` again.
                match py.detach(|| self.accumulator.append(topic, record, Instant::now)) {
                    Ok(appended) => return Ok(Some(appended)),
                    Err(refusal) => refusal,
                }
            }
            refusal => refusal,
        };
        self.wait_after(py, topic, record.partition, refusal, waits)?;
        Ok(None)
    }

    /// Sets what the send waits for after a refusal, or returns its error if no wait helps.
    #[cold]
    pub(crate) fn wait_after(
        &self,
        py: Python<'_>,
        topic: &TopicEntry,
        partition: Option<i32>,
        refusal: AppendRefusal,
        waits: &mut Waits,
    ) -> PyResult<()> {
        // Check this before any wait: a record that may not be sent now is refused whatever else
        // is missing.
        self.check_open(py)?;
        if matches!(refusal, AppendRefusal::UnknownPartition { .. }) {
            check_partition(topic.name(), partition)?;
        }
        let max_block = self.max_block_of(waits);
        let wait = self
            .client
            .wait_after(refusal, topic.name(), partition, max_block)
            .map_err(|error| errors::client(py, &error))?;
        waits.current = Some(Box::new(wait));
        Ok(())
    }

    /// Makes the send wait for the metadata of its topic.
    #[cold]
    pub(crate) fn wait_for_topic(&self, topic: &TopicEntry, waits: &mut Waits) {
        let max_block = self.max_block_of(waits);
        let wait = self
            .client
            .wait_for_partition(topic.name(), None, max_block);
        waits.current = Some(Box::new(AppendWait::Partition(wait)));
    }

    fn max_block_of(&self, waits: &mut Waits) -> MaxBlock {
        let begin = || MaxBlock::begin(self.max_block);
        *waits.max_block.get_or_insert_with(begin)
    }
}
