//! The batches of one partition that the sender has not taken yet: Kafka's deque.
//!
//! ```text
//!   sender ◀── front [closed][closed]...[open] back ◀── append
//! ```
//! The queue's lock is held only to append a record or to move a batch. Batches that are retried do
//! not return to this queue. The sender keeps them and sends them before these.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::batch::buffer_pool::BufferPool;
use crate::batch::open_batch::OpenBatch;
use crate::batch::record::Record;

#[derive(Debug, Default)]
pub(crate) struct PartitionQueue {
    closed: VecDeque<OpenBatch>,
    open: Option<OpenBatch>,
    /// Set if the sender knows that the queue has a batch, and when the batch's linger ends.
    pub(crate) listed: bool,
    /// Set if the sender knows that a batch is full.
    pub(crate) full_listed: bool,
    /// Bytes appended since this became the topic's sticky partition, and the generation they
    /// belong to.
    pub(crate) sticky_bytes: usize,
    pub(crate) sticky_generation: u32,
}

/// The state of the batch at the front, for the sender.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Front {
    pub(crate) created: std::time::Instant,
    /// Bytes of records so far, uncompressed.
    pub(crate) bytes: usize,
    /// Set if the batch accepts no more records.
    pub(crate) closed: bool,
    /// Set if the batch does not linger.
    pub(crate) hastened: bool,
}

impl PartitionQueue {
    /// Appends a record to the open batch, and returns its index there. Returns `None` if there was
    /// no open batch, or if it was full and is now closed.
    #[inline]
    pub(crate) fn try_append(
        &mut self,
        record: &Record<'_>,
        pool: &Arc<BufferPool>,
    ) -> Option<u32> {
        let index = self.open.as_mut()?.try_append(record, pool);
        if index.is_none() {
            self.close_open();
        }
        index
    }

    pub(crate) fn open(&self) -> Option<&OpenBatch> {
        self.open.as_ref()
    }

    /// Adds a new batch at the back. An open one is closed first.
    pub(crate) fn push_open(&mut self, batch: OpenBatch) -> &mut OpenBatch {
        self.close_open();
        self.open.insert(batch)
    }

    /// Closes the open batch: it accepts no more records.
    pub(crate) fn close_open(&mut self) {
        self.closed.extend(self.open.take());
    }

    #[inline]
    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.closed.is_empty() && self.open.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.closed.len() + usize::from(self.open.is_some())
    }

    /// Returns the number of records in all batches of the queue.
    pub(crate) fn records(&self) -> u64 {
        self.closed
            .iter()
            .chain(&self.open)
            .map(|batch| u64::from(batch.records))
            .sum()
    }

    pub(crate) fn front(&self) -> Option<Front> {
        let (batch, closed) = match self.closed.front() {
            Some(batch) => (batch, true),
            None => (self.open.as_ref()?, false),
        };
        Some(Front {
            created: batch.created,
            bytes: batch.rope.len(),
            closed,
            hastened: batch.completion.is_hastened(),
        })
    }

    /// Takes the batch at the front, open or not.
    pub(crate) fn pop(&mut self) -> Option<OpenBatch> {
        let batch = self.closed.pop_front().or_else(|| self.open.take());
        self.unlist();
        batch
    }

    /// Takes all batches, open or not.
    pub(crate) fn take_all(&mut self) -> Vec<OpenBatch> {
        let closed = std::mem::take(&mut self.closed);
        let all = closed.into_iter().chain(self.open.take()).collect();
        self.unlist();
        all
    }

    /// Resets what the sender knows after batches were taken. The next new batch is then reported
    /// to it.
    fn unlist(&mut self) {
        self.listed &= !self.is_empty();
        self.full_listed &= self.has_closed();
    }

    /// Counts bytes for the sticky partition, and returns the sum in this generation.
    #[inline]
    pub(crate) fn count_sticky(&mut self, generation: u32, bytes: usize) -> usize {
        if self.sticky_generation != generation {
            self.sticky_generation = generation;
            self.sticky_bytes = 0;
        }
        self.sticky_bytes += bytes;
        self.sticky_bytes
    }
}
