//! Decompression as jobs for codec threads. A job has some adjacent batches of one partition.
//!
//! ```text
//! Fetcher --poll_job--> codec thread: checksum, decompress, walk --> a DecodeCell for each batch
//!                                            |--> Partitions: what is ready. Wakes a waiting poll
//!                                            '--> DecodeDone --job_done--> Fetcher: next job
//! ```
//! The codec thread itself reports to the table, so that a waiting poll does not have to wait for
//! the I/O thread's next turn. If a job's fetch was dropped, nothing holds the cells that the job
//! fills, and their memory is freed with the job.
//!
//! Small batches share a job. Sending a job to a codec thread and back costs as much as decoding
//! tens of kilobytes, and a batch may have a single record if producers do not linger.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_cluster::Job;
use thalweg_records::{Decompressor, RawBatch, RecordPosition};

use crate::decoding::completed_fetch::{Fault, ReadyBatch, decode};
use crate::fetching::memory::{Charge, FetchMemory};
use crate::partitions::Partitions;
use crate::topic_partition::TopicPartition;

/// Batches of up to this many compressed bytes share a job. A larger batch is its own job.
const JOB_BYTES_MAX: usize = 32 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeLimits {
    pub(crate) check_crcs: bool,
    pub(crate) batch_bytes_max: usize,
}

/// Receives a batch when it is decoded.
#[derive(Debug, Default)]
pub(crate) struct DecodeCell(Mutex<Option<Result<ReadyBatch, Fault>>>);

impl DecodeCell {
    fn lock(&self) -> MutexGuard<'_, Option<Result<ReadyBatch, Fault>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn fill(&self, outcome: Result<ReadyBatch, Fault>) {
        *self.lock() = Some(outcome);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.lock().is_some()
    }

    pub(crate) fn take(&self) -> Option<Result<ReadyBatch, Fault>> {
        self.lock().take()
    }
}

/// Batches to check and decode.
#[derive(Debug)]
pub struct DecodeJob {
    pub(crate) partition: TopicPartition,
    pub(crate) handle: u32,
    pub(crate) stamp: u64,
    /// The number of the first batch, counted over all fetches. The queue sets it.
    pub(crate) first_batch: u64,
    /// At least one, all of one fetch.
    batches: Vec<(RawBatch, Arc<DecodeCell>)>,
    compressed_bytes: usize,
    limits: DecodeLimits,
    memory: Arc<FetchMemory>,
    /// Keeps the frame charged while the job holds a slice of it.
    frame: Arc<Charge>,
    partitions: Option<Arc<Partitions>>,
    reserved: Option<Charge>,
}

impl DecodeJob {
    pub(crate) fn new(
        partition: TopicPartition,
        (handle, stamp): (u32, u64),
        batch: RawBatch,
        cell: Arc<DecodeCell>,
        limits: DecodeLimits,
        memory: Arc<FetchMemory>,
        frame: Arc<Charge>,
    ) -> Self {
        Self {
            partition,
            handle,
            stamp,
            first_batch: 0,
            compressed_bytes: batch.data.len(),
            batches: vec![(batch, cell)],
            limits,
            memory,
            frame,
            partitions: None,
            reserved: None,
        }
    }

    /// Whether the fetch's next batch can join this job.
    pub(crate) fn has_room(&self, batch: &RawBatch) -> bool {
        self.compressed_bytes + batch.data.len() <= JOB_BYTES_MAX
    }

    /// Adds a batch, and returns the cell that will receive it.
    pub(crate) fn push(&mut self, batch: RawBatch) -> Arc<DecodeCell> {
        let cell = Arc::new(DecodeCell::default());
        self.compressed_bytes += batch.data.len();
        self.batches.push((batch, Arc::clone(&cell)));
        cell
    }

    pub(crate) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Returns the compressed bytes of each batch.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = usize> {
        self.batches.iter().map(|(batch, _)| batch.data.len())
    }

    /// Splits off the batches after the first `count` into a separate job.
    pub(crate) fn split_off(&mut self, count: usize) -> Option<Self> {
        if count >= self.batches.len() {
            return None;
        }
        let batches = self.batches.split_off(count);
        let all_bytes = self.compressed_bytes;
        self.compressed_bytes = self.sizes().sum();
        Some(Self {
            partition: self.partition.clone(),
            handle: self.handle,
            stamp: self.stamp,
            first_batch: self.first_batch + count as u64,
            batches,
            compressed_bytes: all_bytes - self.compressed_bytes,
            limits: self.limits,
            memory: Arc::clone(&self.memory),
            frame: Arc::clone(&self.frame),
            partitions: None,
            reserved: None,
        })
    }

    /// Whether nothing waits for the result any more.
    pub(crate) fn is_orphaned(&self) -> bool {
        // A fetch is dropped as a unit, and nothing of it is drained before it is decoded.
        let last = self.batches.last();
        last.is_none_or(|(_, cell)| Arc::strong_count(cell) == 1)
    }

    /// Returns the size before decompression.
    pub(crate) fn compressed_bytes(&self) -> usize {
        self.compressed_bytes
    }

    /// Reserves memory before the job goes to a codec thread.
    pub(crate) fn start(&mut self, bytes: usize, partitions: &Arc<Partitions>) {
        self.reserved = Some(self.memory.charge_decoded(bytes));
        self.partitions = Some(Arc::clone(partitions));
    }
}

thread_local! {
    /// Codec contexts are kept, because a codec thread lives as long as the process.
    static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}

impl Job for DecodeJob {
    type Output = DecodeDone;

    fn run(mut self) -> DecodeDone {
        let reserved_bytes = self.reserved.as_ref().map_or(usize::MAX, Charge::bytes);
        let mut decoded_bytes = 0;
        let mut count = 0;
        // If batches grow by more than was reserved, the rest reserves memory again.
        while count < self.batches.len() && (count == 0 || decoded_bytes <= reserved_bytes) {
            decoded_bytes += self.decode_one(count);
            count += 1;
        }
        let rest = self.split_off(count);
        let compressed_bytes = self.compressed_bytes;
        let (partitions, handle, stamp) = (self.partitions.take(), self.handle, self.stamp);
        // Free the frame and the reserved memory before a waiting poll is woken.
        drop(self);
        if let Some(partitions) = partitions {
            partitions.decoded(handle, stamp);
        }
        DecodeDone {
            compressed_bytes,
            decoded_bytes,
            rest,
        }
    }
}

impl DecodeJob {
    /// Decodes one batch into its cell. Returns its decoded bytes.
    fn decode_one(&mut self, index: usize) -> usize {
        let (batch, cell) = &self.batches[index];
        // A panic in a codec library costs only this batch, not the ones after it.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            DECOMPRESSOR
                .with_borrow_mut(|decompressor| decode(batch, self.limits, decompressor))
                .map_err(Fault::from)
        }));
        let decoded = decoded.unwrap_or_else(|_| {
            DECOMPRESSOR.set(Decompressor::new());
            Err(Fault("its codec panicked".to_owned()))
        });
        let outcome = decoded.map(|batch| {
            let bytes = batch.records.len();
            if let Some(reserved) = &mut self.reserved {
                reserved.give_back(bytes);
            }
            ReadyBatch {
                batch,
                cursor: RecordPosition::default(),
                charge: Some(self.memory.charge_decoded(bytes)),
            }
        });
        let bytes = outcome
            .as_ref()
            .map_or(0, |ready| ready.batch.records.len());
        cell.fill(outcome);
        bytes
    }
}

/// Reports to the fetcher that a codec thread is free again, and how much its batches grew. The
/// batches themselves are in their cells.
#[derive(Debug)]
pub struct DecodeDone {
    pub(crate) compressed_bytes: usize,
    pub(crate) decoded_bytes: usize,
    /// The batches that had no room in the reserved memory.
    pub(crate) rest: Option<DecodeJob>,
}
