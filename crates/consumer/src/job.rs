//! Decompression as work for a codec thread: some neighbouring batches of a partition a job.
//!
//! ```text
//! Fetcher --poll_job--> codec thread: checksum, decompress, walk --> DecodeCell --> drain
//!                                            |                          ^ wakes the poller
//!                                            '--> DecodeDone --job_done--> Fetcher: next job
//! ```
//! The cell is filled from the codec thread itself, so that a waiting poll does not have to wait
//! for the I/O thread's next turn. A job whose fetch was thrown away fills a cell that nobody
//! holds any more; its bytes go back with it.
//!
//! Small batches travel together: a job's way to a codec thread and back costs as much as opening
//! tens of kilobytes, and where producers do not linger a batch may hold a single record.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_cluster::Job;
use thalweg_records::{Decompressor, RawBatch, RecordPosition};

use crate::completed_fetch::{Fault, ReadyBatch, decode};
use crate::fetch_buffer::FetchBuffer;
use crate::memory::{Charge, FetchMemory};
use crate::topic_partition::TopicPartition;

#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeLimits {
    pub(crate) check_crcs: bool,
    pub(crate) batch_bytes_max: usize,
}

/// Where a batch in work will appear.
#[derive(Debug, Default)]
pub(crate) struct DecodeCell(Mutex<Option<Result<ReadyBatch, Fault>>>);

impl DecodeCell {
    fn lock(&self) -> MutexGuard<'_, Option<Result<ReadyBatch, Fault>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.lock().is_some()
    }

    pub(crate) fn take(&self) -> Option<Result<ReadyBatch, Fault>> {
        self.lock().take()
    }
}

/// Up to this many compressed bytes are one job; a larger batch is one by itself.
const JOB_BYTES: usize = 32 << 10;

/// Batches to be checked and opened.
#[derive(Debug)]
pub struct DecodeJob {
    pub(crate) partition: TopicPartition,
    pub(crate) stamp: u64,
    /// One at least, all of one record set.
    batches: Vec<(RawBatch, Arc<DecodeCell>)>,
    compressed_bytes: usize,
    limits: DecodeLimits,
    memory: Arc<FetchMemory>,
    /// Keeps the frame charged while the job holds a slice of it.
    frame: Arc<Charge>,
    buffer: Option<Arc<FetchBuffer>>,
    reserved: Option<Charge>,
}

impl DecodeJob {
    pub(crate) fn new(
        partition: TopicPartition,
        stamp: u64,
        batch: RawBatch,
        cell: Arc<DecodeCell>,
        limits: DecodeLimits,
        memory: Arc<FetchMemory>,
        frame: Arc<Charge>,
    ) -> Self {
        Self {
            partition,
            stamp,
            compressed_bytes: batch.data.len(),
            batches: vec![(batch, cell)],
            limits,
            memory,
            frame,
            buffer: None,
            reserved: None,
        }
    }

    /// Whether the record set's next batch may come along.
    pub(crate) fn has_room(&self, batch: &RawBatch) -> bool {
        self.compressed_bytes + batch.data.len() <= JOB_BYTES
    }

    /// Takes it along; where it will appear.
    pub(crate) fn push(&mut self, batch: RawBatch) -> Arc<DecodeCell> {
        let cell = Arc::new(DecodeCell::default());
        self.compressed_bytes += batch.data.len();
        self.batches.push((batch, Arc::clone(&cell)));
        cell
    }

    /// All but the first batch, if there are others.
    pub(crate) fn split_off_rest(&mut self) -> Option<Self> {
        if self.batches.len() <= 1 {
            return None;
        }
        let batches = self.batches.split_off(1);
        let first_bytes = self.batches[0].0.data.len();
        let compressed_bytes = self.compressed_bytes - first_bytes;
        self.compressed_bytes = first_bytes;
        Some(Self {
            partition: self.partition.clone(),
            stamp: self.stamp,
            batches,
            compressed_bytes,
            limits: self.limits,
            memory: Arc::clone(&self.memory),
            frame: Arc::clone(&self.frame),
            buffer: None,
            reserved: None,
        })
    }

    /// Nobody waits for the outcome any more.
    pub(crate) fn is_orphaned(&self) -> bool {
        // A record set goes as a whole, and nothing of it is drained before it is decoded.
        let last = self.batches.last();
        last.is_none_or(|(_, cell)| Arc::strong_count(cell) == 1)
    }

    /// Bytes as they came.
    pub(crate) fn compressed_bytes(&self) -> usize {
        self.compressed_bytes
    }

    /// Takes room from the budget before the job leaves for a codec thread.
    pub(crate) fn start(&mut self, bytes: usize, buffer: &Arc<FetchBuffer>) {
        self.reserved = Some(self.memory.charge_decoded(bytes));
        self.buffer = Some(Arc::clone(buffer));
    }
}

thread_local! {
    /// Codec contexts are worth keeping: a codec thread lives as long as the process.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}

impl Job for DecodeJob {
    type Output = DecodeDone;

    fn run(mut self) -> DecodeDone {
        let mut decoded_bytes = 0;
        DECOMPRESSOR.with_borrow_mut(|decompressor| {
            for (batch, cell) in self.batches {
                let outcome = match decode(&batch, self.limits, decompressor) {
                    Ok(batch) => {
                        let bytes = batch.records.len();
                        decoded_bytes += bytes;
                        if let Some(reserved) = &mut self.reserved {
                            reserved.give_back(bytes);
                        }
                        let charge = self.memory.charge_decoded(bytes);
                        Ok(ReadyBatch {
                            batch,
                            cursor: RecordPosition::default(),
                            charge: Some(charge),
                        })
                    }
                    Err(error) => Err(error.into()),
                };
                *cell.lock() = Some(outcome);
            }
        });
        drop(self.reserved);
        drop(self.frame);
        if let Some(buffer) = self.buffer {
            buffer.wake();
        }
        DecodeDone {
            compressed_bytes: self.compressed_bytes,
            decoded_bytes,
        }
    }
}

/// Tells the fetcher that a codec thread is free again, and how much its batches grew. They
/// themselves went another way.
#[derive(Debug)]
pub struct DecodeDone {
    pub(crate) compressed_bytes: usize,
    pub(crate) decoded_bytes: usize,
}
