//! Reads one bounded range of one partition: the work of a Spark task.
//!
//! ```text
//! [start, end) --resolve -2/-1--> assign, seek --> drain ... drain --> position >= end: done
//!                                                   | out of range, truncated
//!                                                   '--> data loss: error, or skip and count
//! ```
//! The end is found by offset, never by waiting for a record. Batches, control batches and
//! compacted gaps all move the position, so a range that has only markers ends as soon as it is
//! fetched. A gap inside of the log is not a loss. Offsets before the log's start or after its end
//! are.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use thalweg_records::RecordRef;

use crate::consumer::Consumer;
use crate::draining::sink::{BatchInfo, Offer, RecordSink};
use crate::error::ConsumerError;
use crate::offset_spec::{IsolationLevel, OffsetSpec};
use crate::pending::Pending;
use crate::positions::list_offsets::ListedOffset;
use crate::topic_partition::TopicPartition;

/// As a start or end, means the log start offset.
pub const RANGE_EARLIEST: i64 = -2;
/// As a start or end, means the high watermark, or the last stable offset under `read_committed`.
pub const RANGE_LATEST: i64 = -1;

#[derive(Clone, Debug)]
pub struct Range {
    pub partition: TopicPartition,
    /// First offset to read, or [`RANGE_EARLIEST`] or [`RANGE_LATEST`].
    pub start: i64,
    /// First offset not to read, or one of the two constants.
    pub end: i64,
    pub fail_on_data_loss: bool,
    /// Reading fails after this long without progress.
    pub timeout: Duration,
}

/// After this long without records, the reader checks whether any can arrive. A throttled broker,
/// or a leader that is briefly behind, needs less time.
const PATIENCE: Duration = Duration::from_secs(5);

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeStep {
    /// This many records went into the sink. More may be available at once.
    Records(usize),
    /// Nothing is available now. Wait for the waker, or until [`RangeReader::deadline`].
    Pending,
    /// The sink is full. Empty it and continue.
    SinkFull,
    Done,
}

/// Why the ends of the log are looked up.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// The range starts or ends at a constant.
    Named,
    /// This position was out of range.
    OutOfRange(i64),
    /// Nothing arrived at this position within the timeout.
    TimedOut(i64),
}

#[derive(Debug)]
enum Stage {
    /// Both ends of the log are being looked up.
    Resolving {
        pending: Pending<Vec<ListedOffset>>,
        reason: Reason,
    },
    Reading,
    Done,
}

/// Reads a range. It needs its own consumer, without a group and with `auto_offset_reset` none.
#[derive(Debug)]
pub struct RangeReader {
    consumer: Arc<Consumer>,
    range: Range,
    stage: Stage,
    position: i64,
    progress_at: Instant,
    /// When to check again whether records can arrive.
    look_at: Instant,
    /// Fetch responses before the last progress. The second one after it was requested at the new
    /// position.
    answered_before: u64,
    /// Offsets that were skipped because they are gone (only if loss is tolerated).
    lost: Vec<(i64, i64)>,
}

impl RangeReader {
    pub fn new(consumer: Arc<Consumer>, range: Range, now: Instant) -> Self {
        consumer.assign(std::slice::from_ref(&range.partition));
        let mut reader = Self {
            consumer,
            stage: Stage::Reading,
            position: range.start,
            range,
            progress_at: now,
            look_at: now + PATIENCE,
            answered_before: 0,
            lost: Vec::new(),
        };
        if reader.range.start < 0 || reader.range.end < 0 {
            reader.resolve(Reason::Named, now);
        } else {
            reader.begin(reader.range.start);
        }
        reader
    }

    /// Returns the ranges of offsets that were gone and skipped.
    pub fn lost(&self) -> &[(i64, i64)] {
        &self.lost
    }

    /// Returns the range with its ends resolved, once reading has begun.
    pub fn offsets(&self) -> (i64, i64) {
        (self.range.start, self.range.end)
    }

    /// The application asks for more. The time that it took does not count towards the timeout.
    pub fn resume(&mut self, now: Instant) {
        self.went_on(now);
    }

    fn went_on(&mut self, now: Instant) {
        self.progress_at = now;
        self.look_at = now + PATIENCE;
    }

    /// Returns when to poll again if nothing arrives.
    pub fn deadline(&self) -> Instant {
        self.fails_at().min(self.look_at)
    }

    fn fails_at(&self) -> Instant {
        self.progress_at + self.range.timeout
    }

    fn resolve(&mut self, reason: Reason, now: Instant) {
        let partition = &self.range.partition;
        let targets = vec![
            (partition.clone(), OffsetSpec::Earliest),
            (partition.clone(), OffsetSpec::Latest),
        ];
        let limit = match reason {
            Reason::TimedOut(_) => self.range.timeout.min(PATIENCE),
            _ => self.range.timeout,
        };
        let pending = self.consumer.list_offsets(targets, now + limit);
        self.stage = Stage::Resolving { pending, reason };
    }

    fn begin(&mut self, offset: i64) {
        self.position = offset;
        self.stage = if offset >= self.range.end {
            Stage::Done
        } else {
            Stage::Reading
        };
        if let Stage::Reading = self.stage {
            self.consumer
                .seek(&self.range.partition, offset, -1)
                .expect("the reader has assigned the partition itself");
        }
    }

    /// Drains available records into `sink`, up to the range's end. Stores `waker` to be woken
    /// when more may be available.
    pub fn poll<S: RecordSink>(
        &mut self,
        sink: &mut S,
        waker: &Waker,
        now: Instant,
    ) -> Result<RangeStep, ConsumerError> {
        self.consumer.register(waker);
        if let Stage::Resolving { .. } = self.stage {
            self.resolved(waker, now)?;
        }
        match self.stage {
            Stage::Done => Ok(RangeStep::Done),
            Stage::Resolving { .. } => Ok(RangeStep::Pending),
            Stage::Reading => self.read(sink, waker, now),
        }
    }

    fn read<S: RecordSink>(
        &mut self,
        sink: &mut S,
        waker: &Waker,
        now: Instant,
    ) -> Result<RangeStep, ConsumerError> {
        let mut bounded = Bounded {
            sink,
            end: self.range.end,
            reached: false,
        };
        let drained = match self.consumer.drain(usize::MAX, &mut bounded) {
            Ok(drained) => drained,
            Err(
                ConsumerError::OffsetOutOfRange { offset, .. }
                | ConsumerError::LogTruncation { offset, .. },
            ) => {
                self.resolve(Reason::OutOfRange(offset), now);
                self.resolved(waker, now)?;
                return Ok(RangeStep::Pending);
            }
            Err(error) => return Err(error),
        };
        let reached = bounded.reached;
        let position = self.consumer.partitions().position(&self.range.partition)?;
        if let Some(position) = position
            && position.offset > self.position
        {
            self.position = position.offset;
            self.went_on(now);
            self.answered_before = self.consumer.metrics().fetch_answered_total.get();
        }
        if reached || self.position >= self.range.end {
            self.stage = Stage::Done;
        }
        Ok(match drained.records {
            0 if drained.refused && !reached => RangeStep::SinkFull,
            0 if matches!(self.stage, Stage::Done) => RangeStep::Done,
            0 => return self.stalled(now),
            records => RangeStep::Records(records),
        })
    }

    /// Nothing arrived: wait, fail, or end the range.
    fn stalled(&mut self, now: Instant) -> Result<RangeStep, ConsumerError> {
        let log_end = self.log_end()?;
        if now >= self.look_at {
            self.look_at = now + PATIENCE;
            if self.is_deleted() {
                self.lose(self.position, self.range.end, "the topic was deleted")?;
                self.stage = Stage::Done;
            } else if log_end.is_some_and(|log_end| log_end >= self.range.end) {
                // The leader returned nothing at the position although its log continues:
                // compaction has removed the last records.
                self.stage = Stage::Done;
            }
            if let Stage::Done = self.stage {
                return Ok(RangeStep::Done);
            }
        }
        if now < self.fails_at() {
            return Ok(RangeStep::Pending);
        }
        match log_end {
            // All responses of this time show that the leader's log ends at the position.
            Some(log_end) if log_end <= self.position => {
                self.log_ends_early(self.position)?;
                Ok(RangeStep::Done)
            }
            // A short timeout has too few responses, so the brokers are asked directly.
            _ => {
                self.went_on(now);
                self.resolve(Reason::TimedOut(self.position), now);
                Ok(RangeStep::Pending)
            }
        }
    }

    fn is_deleted(&self) -> bool {
        self.consumer.partitions().is_absent(&self.range.partition)
    }

    fn log_ends_early(&mut self, position: i64) -> Result<(), ConsumerError> {
        self.lose(position, self.range.end, "the log ends before them")?;
        self.stage = Stage::Done;
        Ok(())
    }

    fn timed_out(&self) -> ConsumerError {
        ConsumerError::Timeout {
            what: "reading a range",
            last: Some(format!(
                "{} is at offset {}",
                self.range.partition, self.position
            )),
        }
    }

    fn log_end(&self) -> Result<Option<i64>, ConsumerError> {
        let partitions = self.consumer.partitions();
        let answered = self.consumer.metrics().fetch_answered_total.get() - self.answered_before;
        // A broker that is no longer the leader responds too, with an error.
        if answered < 2 || !partitions.is_answered_well(&self.range.partition) {
            return Ok(None);
        }
        match self.consumer.config().isolation_level {
            IsolationLevel::ReadUncommitted => partitions.high_watermark(&self.range.partition),
            IsolationLevel::ReadCommitted => partitions.last_stable_offset(&self.range.partition),
        }
    }

    /// Uses the ends of the log once they are known: begins, or continues after the lost offsets.
    fn resolved(&mut self, waker: &Waker, now: Instant) -> Result<(), ConsumerError> {
        let Stage::Resolving { pending, reason } = &self.stage else {
            return Ok(());
        };
        let Poll::Ready(listed) = pending.poll(waker) else {
            return Ok(());
        };
        let reason = *reason;
        let listed = match (listed, reason) {
            (Err(_), Reason::TimedOut(at)) if self.is_deleted() => {
                self.lose(at, self.range.end, "the topic was deleted")?;
                self.stage = Stage::Done;
                return Ok(());
            }
            (Err(_), Reason::TimedOut(_)) => return Err(self.timed_out()),
            (listed, _) => listed?,
        };
        let [earliest, latest] = listed.as_slice() else {
            // Two offsets were requested, and a lookup returns all of them or fails.
            return Err(ConsumerError::Closed);
        };
        let (earliest, latest) = (earliest.offset, latest.offset);
        self.went_on(now);
        match reason {
            Reason::Named => {
                let named = |offset| match offset {
                    RANGE_EARLIEST => earliest,
                    RANGE_LATEST => latest,
                    offset => offset,
                };
                (self.range.start, self.range.end) =
                    (named(self.range.start), named(self.range.end));
                self.begin(self.range.start);
            }
            Reason::OutOfRange(at) | Reason::TimedOut(at) if at < earliest => {
                let to = earliest.min(self.range.end);
                self.lose(at, to, "they were deleted")?;
                self.begin(to);
            }
            Reason::OutOfRange(at) => {
                self.lose(
                    at,
                    self.range.end,
                    "the log was truncated or the topic was created again",
                )?;
                self.stage = Stage::Done;
            }
            Reason::TimedOut(at) if latest <= at => self.log_ends_early(at)?,
            Reason::TimedOut(_) => return Err(self.timed_out()),
        }
        Ok(())
    }

    fn lose(&mut self, from: i64, to: i64, reason: &'static str) -> Result<(), ConsumerError> {
        if self.range.fail_on_data_loss {
            let partition = self.range.partition.clone();
            return Err(ConsumerError::DataLoss {
                partition,
                from,
                to,
                reason,
            });
        }
        self.lost.push((from, to));
        Ok(())
    }
}

/// Refuses records beyond the range.
struct Bounded<'a, S> {
    sink: &'a mut S,
    end: i64,
    reached: bool,
}

impl<S: RecordSink> RecordSink for Bounded<'_, S> {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        self.sink.begin_batch(batch)
    }

    #[inline]
    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        if record.offset >= self.end {
            self.reached = true;
            return Offer::Refused;
        }
        self.sink.record(record)
    }

    fn end_batch(&mut self) {
        self.sink.end_batch();
    }
}
