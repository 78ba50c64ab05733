//! One partition's part of a fetch response, from the frame to the application.
//!
//! ```text
//! records bytes --open()--> batches in order:
//!    Ready     uncompressed: checksum and walk done, slices of the frame
//!    Decoding  compressed: a job fills the cell from a codec thread
//!    Skipped   control batch, aborted data, or empty: only moves the position
//!    Failed    corrupt: none of its records are returned
//! ```
//! Batches are drained strictly in order, so records stay in order even if the codec threads finish
//! in another order. `next_offset` is the offset of the next record. A drain moves it together
//! with the partition's position, and an iteration moves it before that position.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_records::{
    BatchHeader, Compression, DecodedBatch, Decompressor, RawBatch, RecordPosition, RecordsError,
    batches,
};

use crate::decoding::aborted::AbortedFilter;
use crate::decoding::job::{DecodeCell, DecodeJob, DecodeLimits};
use crate::fetching::memory::{Charge, FetchMemory};
use crate::partitions::state::FetchPosition;
use crate::topic_partition::TopicPartition;

/// A batch that is ready to be read, and how far it was read.
#[derive(Debug)]
pub(crate) struct ReadyBatch {
    pub(crate) batch: DecodedBatch,
    pub(crate) cursor: RecordPosition,
    /// For the output of a codec. The frame has its own charge.
    pub(crate) charge: Option<Charge>,
}

/// Why a batch cannot be returned. It has no offset, because the offset in a corrupt header cannot
/// be trusted. The reader's position gives the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) String);

impl From<RecordsError> for Fault {
    fn from(error: RecordsError) -> Self {
        Self(error.to_string())
    }
}

/// A fetched batch, or a run of adjacent batches without records (`Skipped`).
#[derive(Debug)]
pub(crate) enum FetchedBatch {
    Ready(ReadyBatch),
    Decoding(Arc<DecodeCell>),
    Skipped { to: FetchPosition },
    Failed(Fault),
}

impl FetchedBatch {
    fn skipped(batch: &RawBatch) -> Self {
        Self::Skipped { to: end_of(batch) }
    }

    /// Returns the bytes of the frame that this batch needs.
    fn frame_bytes(&self) -> usize {
        match self {
            Self::Ready(ready) if ready.charge.is_none() => ready.batch.records.len(),
            _ => 0,
        }
    }
}

fn end_of(batch: &RawBatch) -> FetchPosition {
    FetchPosition {
        offset: batch.next_offset(),
        leader_epoch: batch.header.partition_leader_epoch,
    }
}

/// Leftovers that the application does not ask for may pin this many times their size.
const PINNED_RATIO_MAX: usize = 4;

#[derive(Debug)]
pub(crate) struct CompletedFetch {
    pub(crate) partition: TopicPartition,
    /// The partition's stamp when the fetch was sent.
    pub(crate) stamp: u64,
    /// The partition's handle in the table of assigned partitions.
    pub(crate) handle: u32,
    /// Its place in the order of serving, which the table sets.
    pub(crate) rank: i64,
    pub(crate) next_offset: i64,
    /// Leader epoch of the batch before `next_offset`, even if it had no records. -1 if unknown.
    pub(crate) leader_epoch: i32,
    pub(crate) batches: VecDeque<FetchedBatch>,
    /// The position after all batches are drained. `None` if a batch is corrupt.
    pub(crate) end: Option<FetchPosition>,
    /// The frame that `Ready` batches are slices of, shared with the other partitions of the
    /// response.
    pub(crate) frame: Arc<Charge>,
}

/// The state when a partition's part of a response was accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub(crate) handle: u32,
    pub(crate) stamp: u64,
    pub(crate) from: FetchPosition,
}

/// The settings and shared objects for opening a fetch.
#[derive(Debug)]
pub(crate) struct OpenContext<'a> {
    pub(crate) limits: DecodeLimits,
    pub(crate) memory: &'a Arc<FetchMemory>,
    pub(crate) frame: &'a Arc<Charge>,
    /// `Some` under `read_committed`.
    pub(crate) filter: Option<AbortedFilter>,
}

impl CompletedFetch {
    /// Returns the position of its next record.
    pub(crate) fn position(&self) -> FetchPosition {
        FetchPosition {
            offset: self.next_offset,
            leader_epoch: self.leader_epoch,
        }
    }

    /// Drops all that is left, and moves back to a position.
    pub(crate) fn restart_at(&mut self, position: FetchPosition) {
        self.batches.clear();
        (self.next_offset, self.leader_epoch) = (position.offset, position.leader_epoch);
    }

    /// Walks the batches of `data` once, and puts those that need a codec into `jobs`.
    pub(crate) fn open(
        partition: TopicPartition,
        Accepted {
            handle,
            stamp,
            from,
        }: Accepted,
        data: Bytes,
        mut context: OpenContext<'_>,
        jobs: &mut VecDeque<DecodeJob>,
    ) -> Self {
        let mut fetch = Self {
            partition,
            handle,
            stamp,
            rank: 0,
            next_offset: from.offset,
            leader_epoch: from.leader_epoch,
            batches: VecDeque::new(),
            end: Some(from),
            frame: Arc::clone(context.frame),
        };
        let data_bytes = data.len();
        let mut walk = batches(data);
        let mut batches_seen = 0;
        // `jobs` starts with the jobs of other fetches.
        let jobs_before = jobs.len();
        for batch in &mut walk {
            batches_seen += 1;
            let fetched = match batch {
                Ok(batch) if batch.next_offset() <= from.offset => continue,
                Ok(batch) => {
                    if let Some(end) = &mut fetch.end {
                        end.move_to(end_of(&batch));
                    }
                    fetch.open_batch(batch, &mut context, jobs, jobs_before)
                }
                Err(error) => FetchedBatch::Failed(error.into()),
            };
            let failed = matches!(fetched, FetchedBatch::Failed(_));
            fetch.push(fetched);
            if failed {
                fetch.end = None;
                break;
            }
        }
        if batches_seen == 0 && data_bytes > 0 {
            // KIP-74 promises that the first batch is always complete.
            let reason = format!("{data_bytes} bytes arrived without a complete batch");
            fetch.push(FetchedBatch::Failed(Fault(reason)));
            fetch.end = None;
        }
        fetch
    }

    fn open_batch(
        &self,
        batch: RawBatch,
        context: &mut OpenContext<'_>,
        jobs: &mut VecDeque<DecodeJob>,
        jobs_before: usize,
    ) -> FetchedBatch {
        let BatchHeader {
            producer_id,
            records_count,
            ..
        } = batch.header;
        let in_place = batch.header.magic >= 2
            && matches!(batch.compression(), Ok(Compression::None) | Err(_));
        if batch.is_control() {
            return Self::open_control(&batch, context);
        }
        let hidden = context.filter.as_mut().is_some_and(|filter| {
            filter.hides(batch.last_offset(), producer_id, batch.is_transactional())
        });
        if hidden || records_count == 0 {
            return match Self::check(&batch, context.limits) {
                Ok(()) => FetchedBatch::skipped(&batch),
                Err(fault) => FetchedBatch::Failed(fault),
            };
        }
        if in_place {
            return match decode(&batch, context.limits, &mut Decompressor::new()) {
                Ok(batch) => FetchedBatch::Ready(ReadyBatch {
                    batch,
                    cursor: RecordPosition::default(),
                    charge: None,
                }),
                Err(error) => FetchedBatch::Failed(error.into()),
            };
        }
        if jobs.len() > jobs_before
            && let Some(job) = jobs.back_mut()
            && job.has_room(&batch)
        {
            return FetchedBatch::Decoding(job.push(batch));
        }
        let cell = Arc::new(DecodeCell::default());
        jobs.push_back(DecodeJob::new(
            self.partition.clone(),
            (self.handle, self.stamp),
            batch,
            Arc::clone(&cell),
            context.limits,
            Arc::clone(context.memory),
            Arc::clone(context.frame),
        ));
        FetchedBatch::Decoding(cell)
    }

    /// A control batch is never returned, but an abort marker ends the hiding of records.
    fn open_control(batch: &RawBatch, context: &mut OpenContext<'_>) -> FetchedBatch {
        if let Err(fault) = Self::check(batch, context.limits) {
            return FetchedBatch::Failed(fault);
        }
        if let Some(filter) = &mut context.filter {
            let record =
                match batch.decode(&mut Decompressor::new(), context.limits.batch_bytes_max) {
                    Ok(decoded) => decoded.control_record(),
                    Err(error) => return FetchedBatch::Failed(error.into()),
                };
            filter.control(batch.last_offset(), batch.header.producer_id, record);
        }
        FetchedBatch::skipped(batch)
    }

    fn check(batch: &RawBatch, limits: DecodeLimits) -> Result<(), Fault> {
        if limits.check_crcs {
            batch.validate_crc()?;
        }
        Ok(())
    }

    fn push(&mut self, fetched: FetchedBatch) {
        if let (Some(FetchedBatch::Skipped { to: last }), FetchedBatch::Skipped { to }) =
            (self.batches.back_mut(), &fetched)
        {
            last.move_to(*to);
            return;
        }
        self.batches.push_back(fetched);
    }

    /// Whether the first batch can be processed now.
    pub(crate) fn is_ready(&self) -> bool {
        match self.batches.front() {
            Some(FetchedBatch::Decoding(cell)) => cell.is_done(),
            _ => true,
        }
    }

    /// Whether a record can be taken that is neither the first nor the last of its batch.
    pub(crate) fn is_amid_batch(&self) -> bool {
        match self.batches.front() {
            Some(FetchedBatch::Ready(ready)) => {
                let taken = ready.cursor.index() as usize;
                taken > 0 && ready.batch.len() - taken > 1
            }
            _ => false,
        }
    }

    /// Copies the open batches out of their frame, if the frame is more than [`PINNED_RATIO_MAX`]
    /// times their size. If other partitions hold the frame too, only a share of it counts.
    pub(crate) fn unpin(&mut self, memory: &Arc<FetchMemory>) {
        let own: usize = self.batches.iter().map(FetchedBatch::frame_bytes).sum();
        let holders = Arc::strong_count(&self.frame);
        let undecoded = self
            .batches
            .iter()
            .any(|fetched| matches!(fetched, FetchedBatch::Decoding(_)));
        if undecoded || self.frame.bytes() <= own.saturating_mul(PINNED_RATIO_MAX * holders) {
            return;
        }
        for fetched in &mut self.batches {
            if let FetchedBatch::Ready(ready) = fetched
                && ready.charge.is_none()
            {
                ready.batch.records = Bytes::copy_from_slice(&ready.batch.records);
                ready.charge = Some(memory.charge(ready.batch.records.len()));
            }
        }
        self.frame = Arc::new(memory.charge(0));
    }

    /// Moves the position past the batches without records.
    pub(crate) fn pass_skipped(&mut self) {
        while let Some(FetchedBatch::Skipped { to }) = self.batches.front() {
            let mut at = FetchPosition {
                offset: self.next_offset,
                leader_epoch: self.leader_epoch,
            };
            at.move_to(*to);
            (self.next_offset, self.leader_epoch) = (at.offset, at.leader_epoch);
            self.batches.pop_front();
        }
    }
}

/// Does checksum, decompression and structural walk. After it, no record of the batch can fail.
pub(crate) fn decode(
    batch: &RawBatch,
    limits: DecodeLimits,
    decompressor: &mut Decompressor,
) -> Result<DecodedBatch, RecordsError> {
    if limits.check_crcs {
        batch.validate_crc()?;
    }
    let decoded = batch.decode(decompressor, limits.batch_bytes_max)?;
    decoded.validate()?;
    Ok(decoded)
}
