//! Decompression as work for a codec thread: one batch a job.
//!
//! ```text
//! Fetcher --poll_job--> codec thread: checksum, decompress, walk --> DecodeCell --> drain
//!                                            |                          ^ wakes the poller
//!                                            '--> DecodeDone --job_done--> Fetcher: next job
//! ```
//! The cell is filled from the codec thread itself, so that a waiting poll does not have to wait
//! for the I/O thread's next turn. A job whose fetch was thrown away fills a cell that nobody
//! holds any more; its bytes go back with it.

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

/// One batch to be checked and opened.
#[derive(Debug)]
pub struct DecodeJob {
    pub(crate) partition: TopicPartition,
    pub(crate) stamp: u64,
    batch: RawBatch,
    cell: Arc<DecodeCell>,
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
            batch,
            cell,
            limits,
            memory,
            frame,
            buffer: None,
            reserved: None,
        }
    }

    /// Nobody waits for the outcome any more.
    pub(crate) fn is_orphaned(&self) -> bool {
        Arc::strong_count(&self.cell) == 1
    }

    /// Bytes as they came.
    pub(crate) fn compressed_bytes(&self) -> usize {
        self.batch.data.len()
    }

    /// Takes room from the budget before the job leaves for a codec thread.
    pub(crate) fn start(&mut self, bytes: usize, buffer: &Arc<FetchBuffer>) {
        self.reserved = Some(self.memory.charge(bytes));
        self.buffer = Some(Arc::clone(buffer));
    }
}

thread_local! {
    /// Codec contexts are worth keeping: a codec thread lives as long as the process.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}

impl Job for DecodeJob {
    type Output = DecodeDone;

    fn run(self) -> DecodeDone {
        let decoded = DECOMPRESSOR
            .with_borrow_mut(|decompressor| decode(&self.batch, self.limits, decompressor));
        let compressed_bytes = self.batch.data.len();
        let decoded_bytes = decoded.as_ref().map_or(0, |batch| batch.records.len());
        let outcome = match decoded {
            Ok(batch) => {
                let charge = self.memory.charge(batch.records.len());
                Ok(ReadyBatch {
                    batch,
                    cursor: RecordPosition::default(),
                    charge: Some(charge),
                })
            }
            Err(error) => Err(error.into()),
        };
        drop(self.reserved);
        *self.cell.lock() = Some(outcome);
        drop(self.frame);
        if let Some(buffer) = self.buffer {
            buffer.wake();
        }
        DecodeDone {
            compressed_bytes,
            decoded_bytes,
        }
    }
}

/// Tells the fetcher that a codec thread is free again, and how much the batch grew. The batch
/// itself went another way.
#[derive(Debug)]
pub struct DecodeDone {
    pub(crate) compressed_bytes: usize,
    pub(crate) decoded_bytes: usize,
}
