//! One partition's part of a Fetch answer, on its way from the frame to the application.
//!
//! ```text
//! records bytes --open()--> slots in order:
//!    Ready     uncompressed: checksum and walk done, slices of the frame
//!    Decoding  compressed: a job fills the cell from a codec thread
//!    Skipped   control batch, aborted data, or empty: only moves the position
//!    Failed    corrupt: nothing of it is handed out
//! ```
//! Slots are drained strictly in order, so the order within the partition is kept whatever order
//! the codec threads finish in. `next_offset` is the fetch offset of the record set; the drain
//! moves it together with the subscription's position, an iteration somewhat earlier.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_records::{
    BatchHeader, Compression, DecodedBatch, Decompressor, RawBatch, RecordPosition, RecordsError,
    batches,
};

use crate::aborted::AbortedFilter;
#[cfg(doc)]
use crate::assigned::Assigned;
use crate::job::{DecodeCell, DecodeJob, DecodeLimits};
use crate::memory::{Charge, FetchMemory};
use crate::partition_state::FetchPosition;
use crate::topic_partition::TopicPartition;

/// A batch whose records may be read, and how far they were.
#[derive(Debug)]
pub(crate) struct ReadyBatch {
    pub(crate) batch: DecodedBatch,
    pub(crate) cursor: RecordPosition,
    /// For what came out of a codec; the frame has its own charge.
    pub(crate) charge: Option<Charge>,
}

/// Why a batch cannot be handed out. Where is told by the reader's own position: the offset in a
/// corrupt header cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) String);

impl From<RecordsError> for Fault {
    fn from(error: RecordsError) -> Self {
        Self(error.to_string())
    }
}

#[derive(Debug)]
pub(crate) enum Slot {
    Ready(ReadyBatch),
    Decoding(Arc<DecodeCell>),
    Skipped { to: FetchPosition },
    Failed(Fault),
}

impl Slot {
    fn skipped(batch: &RawBatch) -> Self {
        Self::Skipped { to: end_of(batch) }
    }

    /// Bytes of the frame that this slot needs.
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

/// Leftovers that nobody asks for may pin this many times their size.
const PINNED_RATIO_MAX: usize = 4;

#[derive(Debug)]
pub(crate) struct CompletedFetch {
    pub(crate) partition: TopicPartition,
    /// The partition's stamp when the fetch was sent.
    pub(crate) stamp: u64,
    /// Where the partition stood in the table of the assigned ones when this was last looked at: a
    /// hint.
    pub(crate) index: usize,
    /// The last stamp that was given out when this was last found to be wanted.
    pub(crate) checked_at: u64,
    /// Its place among those in the buffer, which sets it: what is put back into the
    /// front has less than 0.
    pub(crate) rank: i64,
    pub(crate) next_offset: i64,
    /// Leader epoch of the batch before `next_offset`, whatever it held; -1 if unknown.
    pub(crate) leader_epoch: i32,
    pub(crate) slots: VecDeque<Slot>,
    /// Where the position will be once all slots are drained; none if that is not to be.
    pub(crate) end: Option<FetchPosition>,
    /// The frame that `Ready` slots are slices of; shared with the answer's other partitions.
    pub(crate) frame: Arc<Charge>,
}

/// How things stood when a partition's part of an answer was accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    pub(crate) stamp: u64,
    pub(crate) from: FetchPosition,
    /// [`Assigned::last_stamp`]
    pub(crate) last_stamp: u64,
}

/// What opening a record set needs to know.
#[derive(Debug)]
pub(crate) struct OpenContext<'a> {
    pub(crate) limits: DecodeLimits,
    pub(crate) memory: &'a Arc<FetchMemory>,
    pub(crate) frame: &'a Arc<Charge>,
    /// Present under `read_committed`.
    pub(crate) filter: Option<AbortedFilter>,
}

impl CompletedFetch {
    /// Where its next record is.
    pub(crate) fn position(&self) -> FetchPosition {
        FetchPosition {
            offset: self.next_offset,
            leader_epoch: self.leader_epoch,
        }
    }

    /// Walks the batches of `data` once; what takes a codec is put into `jobs`.
    pub(crate) fn open(
        partition: TopicPartition,
        Accepted {
            stamp,
            from,
            last_stamp,
        }: Accepted,
        data: Bytes,
        mut context: OpenContext<'_>,
        jobs: &mut VecDeque<DecodeJob>,
    ) -> Self {
        let mut fetch = Self {
            partition,
            stamp,
            index: usize::MAX,
            checked_at: last_stamp,
            rank: 0,
            next_offset: from.offset,
            leader_epoch: from.leader_epoch,
            slots: VecDeque::new(),
            end: Some(from),
            frame: Arc::clone(context.frame),
        };
        let data_bytes = data.len();
        let mut walk = batches(data);
        let mut batches_seen = 0;
        // The jobs of other record sets.
        let jobs_before = jobs.len();
        for batch in &mut walk {
            batches_seen += 1;
            let slot = match batch {
                Ok(batch) if batch.next_offset() <= from.offset => continue,
                Ok(batch) => {
                    if let Some(end) = &mut fetch.end {
                        end.move_to(end_of(&batch));
                    }
                    fetch.open_batch(batch, &mut context, jobs, jobs_before)
                }
                Err(error) => Slot::Failed(error.into()),
            };
            let failed = matches!(slot, Slot::Failed(_));
            fetch.push(slot);
            if failed {
                fetch.end = None;
                break;
            }
        }
        if batches_seen == 0 && data_bytes > 0 {
            // KIP-74 promises that the first batch always comes whole.
            let reason = format!("{data_bytes} bytes came and no whole batch among them");
            fetch.push(Slot::Failed(Fault(reason)));
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
    ) -> Slot {
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
                Ok(()) => Slot::skipped(&batch),
                Err(fault) => Slot::Failed(fault),
            };
        }
        if in_place {
            return match decode(&batch, context.limits, &mut Decompressor::new()) {
                Ok(batch) => Slot::Ready(ReadyBatch {
                    batch,
                    cursor: RecordPosition::default(),
                    charge: None,
                }),
                Err(error) => Slot::Failed(error.into()),
            };
        }
        if jobs.len() > jobs_before
            && let Some(job) = jobs.back_mut()
            && job.has_room(&batch)
        {
            return Slot::Decoding(job.push(batch));
        }
        let cell = Arc::new(DecodeCell::default());
        jobs.push_back(DecodeJob::new(
            self.partition.clone(),
            self.stamp,
            batch,
            Arc::clone(&cell),
            context.limits,
            Arc::clone(context.memory),
            Arc::clone(context.frame),
        ));
        Slot::Decoding(cell)
    }

    /// A control batch is never handed out, but an abort marker ends what is hidden.
    fn open_control(batch: &RawBatch, context: &mut OpenContext<'_>) -> Slot {
        if let Err(fault) = Self::check(batch, context.limits) {
            return Slot::Failed(fault);
        }
        if let Some(filter) = &mut context.filter {
            let record =
                match batch.decode(&mut Decompressor::new(), context.limits.batch_bytes_max) {
                    Ok(decoded) => decoded.control_record(),
                    Err(error) => return Slot::Failed(error.into()),
                };
            filter.control(batch.last_offset(), batch.header.producer_id, record);
        }
        Slot::skipped(batch)
    }

    fn check(batch: &RawBatch, limits: DecodeLimits) -> Result<(), Fault> {
        if limits.check_crcs {
            batch.validate_crc()?;
        }
        Ok(())
    }

    fn push(&mut self, slot: Slot) {
        if let (Some(Slot::Skipped { to: last }), Slot::Skipped { to }) =
            (self.slots.back_mut(), &slot)
        {
            last.move_to(*to);
            return;
        }
        self.slots.push_back(slot);
    }

    /// Something can be done with the first slot now.
    pub(crate) fn is_ready(&self) -> bool {
        match self.slots.front() {
            Some(Slot::Decoding(cell)) => cell.is_done(),
            _ => true,
        }
    }

    /// Whether a record can be taken, not the first of its batch, without coming to the batch's end.
    pub(crate) fn is_amid_batch(&self) -> bool {
        match self.slots.front() {
            Some(Slot::Ready(ready)) => {
                let taken = ready.cursor.index() as usize;
                taken > 0 && ready.batch.len() - taken > 1
            }
            _ => false,
        }
    }

    /// Copies the open batches out of their frame if it is more than four times their size (its
    /// share of the frame, where other partitions hold it too).
    pub(crate) fn unpin(&mut self, memory: &Arc<FetchMemory>) {
        let own: usize = self.slots.iter().map(Slot::frame_bytes).sum();
        let holders = Arc::strong_count(&self.frame);
        let undecoded = self
            .slots
            .iter()
            .any(|slot| matches!(slot, Slot::Decoding(_)));
        if undecoded || self.frame.bytes() <= own.saturating_mul(PINNED_RATIO_MAX * holders) {
            return;
        }
        for slot in &mut self.slots {
            if let Slot::Ready(ready) = slot
                && ready.charge.is_none()
            {
                ready.batch.records = Bytes::copy_from_slice(&ready.batch.records);
                ready.charge = Some(memory.charge(ready.batch.records.len()));
            }
        }
        self.frame = Arc::new(memory.charge(0));
    }

    /// Moves over what holds no records.
    pub(crate) fn pass_skipped(&mut self) {
        while let Some(Slot::Skipped { to }) = self.slots.front() {
            let mut at = FetchPosition {
                offset: self.next_offset,
                leader_epoch: self.leader_epoch,
            };
            at.move_to(*to);
            (self.next_offset, self.leader_epoch) = (at.offset, at.leader_epoch);
            self.slots.pop_front();
        }
    }
}

/// Checksum, decompression and the structural walk: afterwards no record of the batch can fail.
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
