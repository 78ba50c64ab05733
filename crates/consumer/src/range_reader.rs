//! Reads bounded ranges of partitions, one after the other: the work of a Spark task.
//!
//! ```text
//! ranges --> assign all at their starts, so that all are fetched
//! first  --> drain ... drain --> position >= end: the next range
//!                | out of range, truncated
//!                '--> data loss: error, or skip and count
//! ```
//! The end is found by offset, never by waiting for a record. Batches, control batches and
//! compacted gaps all move the position, so a range that has only markers ends as soon as it is
//! fetched. A gap inside of the log is not a loss. Offsets before the log's start or after its end
//! are.
//!
//! While one fetch of a range is drained, the next one is in flight, and so are those of the ranges
//! that follow. Nothing after the end of a range is requested.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use thalweg_protocol::Str;

use crate::consumer::Consumer;
use crate::draining::bounded::Bounded;
use crate::draining::drain::Demand;
use crate::draining::sink::RecordSink;
use crate::error::ConsumerError;
use crate::offset_spec::{IsolationLevel, OffsetSpec};
use crate::pending::Pending;
use crate::positions::list_offsets::ListedOffset;
use crate::topic_partition::TopicPartition;

/// The offsets `start` (included) to `end` (excluded) of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub partition: TopicPartition,
    pub start: i64,
    pub end: i64,
}

/// Offsets that were skipped because they are gone: `from` (included) to `to` (excluded).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    pub partition: TopicPartition,
    pub from: i64,
    pub to: i64,
}

/// How ranges are read.
#[derive(Clone, Copy, Debug)]
pub struct RangeLimits {
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
    /// This position was out of range.
    OutOfRange(i64),
    /// Nothing arrived at this position within the timeout.
    TimedOut(i64),
    /// The leader has no records from this position on, although its log continues.
    NothingFound(i64),
}

#[derive(Debug)]
enum Stage {
    /// Both ends of the log are being looked up.
    Resolving {
        pending: Pending<Vec<ListedOffset>>,
        reason: Reason,
        until: Instant,
    },
    Reading,
    /// The current range is read.
    Done,
}

/// Reads ranges. It needs its own consumer, without a group and with `auto_offset_reset` none.
#[derive(Debug)]
pub struct RangeReader {
    consumer: Arc<Consumer>,
    limits: RangeLimits,
    /// The current range.
    range: Range,
    /// The ranges after it.
    next: VecDeque<Range>,
    stage: Stage,
    position: i64,
    progress_at: Instant,
    /// When to check again whether records can arrive.
    look_at: Instant,
    /// Topics that were found deleted.
    deleted: BTreeSet<Str>,
    lost: Vec<LostRange>,
}

impl RangeReader {
    /// Returns a reader of these ranges, and `None` if there is nothing to read. Each range must
    /// be of another partition.
    pub fn new(
        consumer: Arc<Consumer>,
        ranges: Vec<Range>,
        limits: RangeLimits,
        now: Instant,
    ) -> Option<Self> {
        let mut next: VecDeque<Range> = ranges.into_iter().filter(|r| r.start < r.end).collect();
        consumer.assign_ranges(
            &next
                .iter()
                .map(|range| (range.partition.clone(), range.start, range.end))
                .collect::<Vec<_>>(),
        );
        let first = next.pop_front()?;
        Some(Self {
            consumer,
            limits,
            stage: Stage::Reading,
            position: first.start,
            range: first,
            next,
            progress_at: now,
            look_at: now + PATIENCE,
            deleted: BTreeSet::new(),
            lost: Vec::new(),
        })
    }

    /// Returns the offsets that were gone and skipped, only if loss is tolerated.
    pub fn lost(&self) -> &[LostRange] {
        &self.lost
    }

    /// The application asks for more. The time that it took does not count towards the timeout.
    pub fn resume(&mut self, now: Instant) {
        self.went_on(now);
    }

    fn went_on(&mut self, now: Instant) {
        self.progress_at = now;
        // One wait for a topic is enough.
        self.look_at = if self.was_deleted() {
            now
        } else {
            now + PATIENCE
        };
    }

    /// Returns when to poll again if nothing arrives.
    pub fn deadline(&self) -> Instant {
        match self.stage {
            Stage::Resolving { until, .. } => until,
            Stage::Reading | Stage::Done => self.fails_at().min(self.look_at),
        }
    }

    fn fails_at(&self) -> Instant {
        self.progress_at + self.limits.timeout
    }

    /// Goes to the next range. Returns false if there is none.
    fn go_to_next(&mut self, now: Instant) -> bool {
        let Some(next) = self.next.pop_front() else {
            return false;
        };
        self.position = next.start;
        self.range = next;
        self.stage = Stage::Reading;
        self.went_on(now);
        true
    }

    fn resolve(&mut self, reason: Reason, now: Instant) {
        let partition = &self.range.partition;
        let first = match reason {
            Reason::NothingFound(_) => OffsetSpec::EarliestLocal,
            _ => OffsetSpec::Earliest,
        };
        let targets = vec![
            (partition.clone(), first),
            (partition.clone(), OffsetSpec::Latest),
        ];
        let until = match reason {
            Reason::TimedOut(_) => now + self.limits.timeout.min(PATIENCE),
            // After a while without a response, the partition may be found deleted.
            Reason::OutOfRange(_) | Reason::NothingFound(_) => self.fails_at().min(now + PATIENCE),
        };
        self.stage = Stage::Resolving {
            pending: self.consumer.list_offsets(targets, until),
            reason,
            until,
        };
    }

    /// Continues at an offset.
    fn begin(&mut self, offset: i64) {
        self.position = offset;
        if offset >= self.range.end {
            self.finish();
            return;
        }
        self.stage = Stage::Reading;
        self.seek(offset);
    }

    /// Ends the current range, and drops what is left of its fetches.
    fn finish(&mut self) {
        self.stage = Stage::Done;
        self.seek(self.range.end);
    }

    fn seek(&self, offset: i64) {
        self.consumer
            .seek(&self.range.partition, offset, -1)
            .expect("the reader has assigned the partition itself");
    }

    /// Drains available records into `sink`, up to the end of a range. Stores `waker` to be woken
    /// when more may be available.
    pub fn poll<S: RecordSink>(
        &mut self,
        sink: &mut S,
        waker: &Waker,
        now: Instant,
    ) -> Result<RangeStep, ConsumerError> {
        self.consumer.register(waker);
        loop {
            if let Stage::Resolving { .. } = self.stage {
                self.resolved(waker, now)?;
            }
            let step = match self.stage {
                Stage::Done => RangeStep::Done,
                Stage::Resolving { .. } => RangeStep::Pending,
                Stage::Reading => self.read(sink, waker, now)?,
            };
            if step != RangeStep::Done || !self.go_to_next(now) {
                return Ok(step);
            }
        }
    }

    fn read<S: RecordSink>(
        &mut self,
        sink: &mut S,
        waker: &Waker,
        now: Instant,
    ) -> Result<RangeStep, ConsumerError> {
        let mut bounded = Bounded::new(sink, self.range.end);
        let drained = match self
            .consumer
            .drain(Demand::range(&self.range.partition), &mut bounded)
        {
            Ok(drained) => drained,
            Err(
                ConsumerError::OffsetOutOfRange {
                    offset, partition, ..
                }
                | ConsumerError::LogTruncation {
                    offset, partition, ..
                },
            ) => return self.out_of_range(&partition, offset, waker, now),
            Err(error) => return Err(error),
        };
        let reached = bounded.reached();
        let position = self.consumer.partitions().position(&self.range.partition)?;
        if let Some(position) = position
            && position.offset > self.position
        {
            self.position = position.offset;
            self.went_on(now);
        }
        if reached || self.position >= self.range.end {
            self.finish();
        }
        Ok(match drained.records {
            0 if drained.refused && !reached => RangeStep::SinkFull,
            0 if matches!(self.stage, Stage::Done) => RangeStep::Done,
            0 => return self.stalled(now),
            records => RangeStep::Records(records),
        })
    }

    /// Looks up the ends of the log. The range may be one of those that follow: it comes first
    /// now, because its fetches would fail again and again.
    fn out_of_range(
        &mut self,
        partition: &TopicPartition,
        offset: i64,
        waker: &Waker,
        now: Instant,
    ) -> Result<RangeStep, ConsumerError> {
        if self.range.partition != *partition {
            let place = self.next.iter().position(|r| r.partition == *partition);
            let Some(other) = place.and_then(|place| self.next.remove(place)) else {
                return Ok(RangeStep::Records(0));
            };
            let mut current = std::mem::replace(&mut self.range, other);
            current.start = self.position;
            self.next.push_front(current);
            self.position = self.range.start;
        }
        self.went_on(now);
        if self.was_deleted() && self.is_deleted() {
            self.topic_deleted(offset)?;
            return Ok(RangeStep::Done);
        }
        self.resolve(Reason::OutOfRange(offset), now);
        self.resolved(waker, now)?;
        Ok(RangeStep::Pending)
    }

    /// Nothing arrived: wait, fail, or end the range.
    fn stalled(&mut self, now: Instant) -> Result<RangeStep, ConsumerError> {
        let log_end = self.log_end()?;
        if now >= self.look_at {
            self.look_at = now + PATIENCE;
            if self.is_deleted() {
                self.topic_deleted(self.position)?;
            } else if log_end.is_some_and(|log_end| log_end >= self.range.end) {
                // Compaction may have removed the last records. But a leader also returns nothing
                // while its tiered storage is slow, which it does not use for compacted topics.
                self.resolve(Reason::NothingFound(self.position), now);
            }
            match self.stage {
                Stage::Done => return Ok(RangeStep::Done),
                Stage::Resolving { .. } => return Ok(RangeStep::Pending),
                Stage::Reading => {}
            }
        }
        if now < self.fails_at() {
            return Ok(RangeStep::Pending);
        }
        let partitions = self.consumer.partitions();
        let of_leader = partitions.is_read_from_leader(&self.range.partition);
        match log_end {
            // All responses of this time show that the leader's log ends at the position.
            Some(log_end) if of_leader && log_end <= self.position => {
                self.log_ends_early(self.position)?;
                Ok(RangeStep::Done)
            }
            // With a short timeout there are too few responses, and a closer replica may be behind
            // the leader. So the client asks the leader directly.
            _ => {
                self.went_on(now);
                self.resolve(Reason::TimedOut(self.position), now);
                Ok(RangeStep::Pending)
            }
        }
    }

    /// Whether another range of the topic was lost because the topic was deleted.
    fn was_deleted(&self) -> bool {
        self.deleted.contains(&self.range.partition.topic)
    }

    fn is_deleted(&self) -> bool {
        self.consumer.partitions().is_absent(&self.range.partition)
    }

    fn topic_deleted(&mut self, position: i64) -> Result<(), ConsumerError> {
        self.lose(position, self.range.end, "the topic was deleted")?;
        self.deleted.insert(self.range.partition.topic.clone());
        self.finish();
        Ok(())
    }

    fn log_ends_early(&mut self, position: i64) -> Result<(), ConsumerError> {
        self.lose(position, self.range.end, "the log ends before them")?;
        self.finish();
        Ok(())
    }

    fn timed_out(&self) -> ConsumerError {
        ConsumerError::RangeTimeout {
            partition: self.range.partition.clone(),
            position: self.position,
            end: self.range.end,
        }
    }

    /// Returns the end of the log, if the leader has found nothing at this position twice.
    fn log_end(&mut self) -> Result<Option<i64>, ConsumerError> {
        let partitions = self.consumer.partitions();
        let empty = partitions.empty_fetches(&self.range.partition, self.position);
        // The records may have arrived without being decoded yet.
        if empty < 2 || partitions.has_fetched(&self.range.partition) {
            return Ok(None);
        }
        // A broker that is no longer the leader responds too, with an error.
        if !partitions.is_answered_well(&self.range.partition) {
            return Ok(None);
        }
        match self.consumer.config().isolation_level {
            IsolationLevel::ReadUncommitted => partitions.high_watermark(&self.range.partition),
            IsolationLevel::ReadCommitted => partitions.last_stable_offset(&self.range.partition),
        }
    }

    /// Uses the ends of the log once they are known: begins, or continues after the lost offsets.
    fn resolved(&mut self, waker: &Waker, now: Instant) -> Result<(), ConsumerError> {
        let Stage::Resolving {
            pending, reason, ..
        } = &self.stage
        else {
            return Ok(());
        };
        let Poll::Ready(listed) = pending.poll(waker) else {
            return Ok(());
        };
        let reason = *reason;
        let listed = match (listed, reason) {
            (Err(_), Reason::OutOfRange(at) | Reason::TimedOut(at) | Reason::NothingFound(at))
                if self.is_deleted() =>
            {
                return self.topic_deleted(at);
            }
            (Err(_), Reason::TimedOut(_)) => return Err(self.timed_out()),
            (Err(ConsumerError::Timeout { .. }), _) if now < self.fails_at() => {
                self.resolve(reason, now);
                return self.resolved(waker, now);
            }
            (listed, _) => listed?,
        };
        let [earliest, latest] = listed.as_slice() else {
            // Two offsets were requested, and a lookup returns all of them or fails.
            return Err(ConsumerError::Closed);
        };
        let (earliest, latest) = (earliest.offset, latest.offset);
        if let Reason::NothingFound(at) = reason {
            let partitions = self.consumer.partitions();
            if at >= earliest && !partitions.has_fetched(&self.range.partition) {
                self.finish();
            } else {
                self.stage = Stage::Reading;
                self.look_at = now + PATIENCE;
            }
            return Ok(());
        }
        self.went_on(now);
        match reason {
            Reason::OutOfRange(at) | Reason::TimedOut(at) if at < earliest => {
                let to = earliest.min(self.range.end);
                self.lose(at, to, "they were deleted")?;
                self.begin(to);
            }
            Reason::OutOfRange(at) => {
                let reason = "the log ends before them, because the given offsets are wrong, the log \
                              was truncated, or the topic was created again";
                self.lose(at, self.range.end, reason)?;
                self.finish();
            }
            Reason::TimedOut(at) if latest <= at => self.log_ends_early(at)?,
            Reason::TimedOut(_) | Reason::NothingFound(_) => return Err(self.timed_out()),
        }
        Ok(())
    }

    fn lose(&mut self, from: i64, to: i64, reason: &'static str) -> Result<(), ConsumerError> {
        let partition = self.range.partition.clone();
        if self.limits.fail_on_data_loss {
            return Err(ConsumerError::DataLoss {
                partition,
                from,
                to,
                reason,
            });
        }
        self.lost.push(LostRange {
            partition,
            from,
            to,
        });
        Ok(())
    }
}
