//! Moves buffered records into a sink: the consumer's `take(n)`.
//!
//! ```text
//! fetch buffer                                        sink
//! [P0 100 of 1000 | P1 1000 | ... ]  --at most n-->   100 records of P0
//!  ^ leftovers stay in front. P0 is not fetched again before they are drained
//! ```
//! A drain takes one fetch after the other, in order of arrival, and gives its rest back before it
//! takes the next. The position moves then. A drain holds no lock while records go into the sink.
//! During that time the fetch is out of the table, but still counts as buffered, so the I/O thread
//! does not fetch from that position.
//!
//! A drain returns only what had arrived when it began. If its sink panics, the drain is undone:
//! its records have not reached the application, so they are fetched and returned again.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::decoding::completed_fetch::{CompletedFetch, FetchedBatch, ReadyBatch};
use crate::draining::sink::{BatchInfo, Offer, RecordSink};
use crate::error::ConsumerError;
use crate::offset_spec::IsolationLevel;
use crate::partitions::{Partitions, Rest};
use crate::topic_partition::TopicPartition;

/// The result of one drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    pub records: usize,
    /// The sink refused a record, because it is full or stops at this record.
    pub refused: bool,
    /// Partitions were emptied, decoded memory was freed, or what follows may be fetched ahead: so
    /// a fetch may be possible.
    pub freed: bool,
}

/// Why the draining of one fetch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The requested number of records was taken, and there are more.
    Full,
    Refused,
    /// The next batch is still being decoded.
    NotReady,
    Failed,
    Empty,
}

/// What a drain takes.
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// The partitions to drain. All if it is empty.
    only: &'a [TopicPartition],
    records_max: usize,
    pace: Pace,
}

/// How the caller takes records. It decides when the records after the leftovers are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// The caller takes all that it wants at once. The records after the leftovers are fetched once
    /// the leftovers are drained.
    Poll,
    /// The caller needs a long time for each fetch, so the records after the leftovers may be
    /// fetched ahead.
    Ahead,
    /// As `Ahead`, and the fetch stays in hand from one record to the next.
    Step,
}

impl<'a> Demand<'a> {
    /// Demands at most this many records, of all partitions.
    pub fn up_to(records_max: usize) -> Self {
        Self {
            only: &[],
            records_max,
            pace: Pace::Poll,
        }
    }

    /// Demands one record, for a caller that will ask for the next one too. The records after the
    /// leftovers may be fetched ahead.
    pub fn one() -> Self {
        Self {
            pace: Pace::Ahead,
            ..Self::up_to(1)
        }
    }

    /// Demands one record, and keeps its fetch in hand for the next call. Within a batch, that call
    /// takes no lock. Only one thread at a time may ask for steps. The sink must not run foreign
    /// code, because a position that it reads would be that of an earlier step.
    pub fn step() -> Self {
        Self {
            pace: Pace::Step,
            ..Self::one()
        }
    }

    /// Limits the demand to these partitions. An empty slice means all of them. Buffered records of
    /// other partitions stay in the buffer. With a limit, no fetch stays in hand, and nothing is
    /// fetched ahead.
    #[must_use]
    pub fn of(self, only: &'a [TopicPartition]) -> Self {
        let pace = if only.is_empty() {
            self.pace
        } else {
            Pace::Poll
        };
        Self { only, pace, ..self }
    }

    /// Demands all records of a partition, for a range reader, which reads them slowly.
    pub(crate) fn range(partition: &'a TopicPartition) -> Self {
        Self {
            only: std::slice::from_ref(partition),
            records_max: usize::MAX,
            pace: Pace::Ahead,
        }
    }

    pub(crate) fn only(&self) -> &'a [TopicPartition] {
        self.only
    }

    pub(crate) fn is_step(&self) -> bool {
        self.pace == Pace::Step
    }
}

/// Drains records into `sink`. Returns an error only if no record was taken. No position has moved
/// then. A drain of one record takes the lock twice: before and after the record.
pub(crate) fn drain<S: RecordSink>(
    partitions: &Partitions,
    isolation: IsolationLevel,
    demand: Demand,
    sink: &mut S,
) -> Result<Drained, ConsumerError> {
    let Demand {
        only,
        records_max,
        pace,
    } = demand;
    let mut drained = Drained::default();
    if records_max == 0 {
        return Ok(drained);
    }
    let (scope, mut next) = partitions.begin_drain(only)?;
    while let Some(mut taken) = next {
        let batches_before = taken.fetch.batches.len();
        let room = records_max - drained.records;
        let took = catch_unwind(AssertUnwindSafe(|| take(&mut taken.fetch, room, sink)));
        let (records, stop) = match took {
            Ok(took) => took,
            Err(panic) => {
                partitions.undo_drain(taken);
                resume_unwind(panic);
            }
        };
        taken.records = records;
        drained.records += records;
        drained.freed |= taken.fetch.batches.len() < batches_before;
        drained.refused = stop == Stop::Refused;
        let (handle, stamp, from) = (taken.fetch.handle, taken.fetch.stamp, taken.from);
        let mut guard = partitions.lock();
        if records > 0 {
            guard.note_taken(handle, stamp, from, records);
        }
        let rest = match stop {
            Stop::Failed if drained.records == 0 => {
                if let Some(error) = guard.give_up(taken) {
                    return Err(error);
                }
                next = guard.take_next(&scope);
                continue;
            }
            Stop::Empty => Rest::Empty,
            Stop::Refused if drained.records == 0 => Rest::Last,
            _ => Rest::First,
        };
        let holds = guard.give_back(taken, rest);
        // Kafka measures once for each take from a fetch. The single steps of an iteration do not.
        if holds && (records > 1 || stop == Stop::Empty) {
            guard.measure(handle, stamp, isolation);
        }
        // The next drain continues with leftovers. Their front may also be a batch that is still
        // being decoded, which others pass.
        let goes_on = !holds || matches!(stop, Stop::Empty | Stop::NotReady);
        drained.freed |= !holds || stop == Stop::Empty;
        if !goes_on || drained.refused || drained.records == records_max {
            let runs_ahead = pace != Pace::Poll && drained.records > 0;
            drained.freed |= runs_ahead && guard.run_ahead(isolation);
            break;
        }
        next = guard.take_next(&scope);
    }
    Ok(drained)
}

/// Takes at most `room` records from one fetch.
pub(crate) fn take<S: RecordSink>(
    fetch: &mut CompletedFetch,
    room: usize,
    sink: &mut S,
) -> (usize, Stop) {
    let mut taken = 0;
    loop {
        fetch.pass_skipped();
        open_front(fetch);
        let CompletedFetch {
            partition,
            batches,
            next_offset,
            leader_epoch,
            ..
        } = fetch;
        let ready = match batches.front_mut() {
            None => return (taken, Stop::Empty),
            Some(FetchedBatch::Failed(_)) => return (taken, Stop::Failed),
            Some(FetchedBatch::Decoding(_)) => return (taken, Stop::NotReady),
            Some(FetchedBatch::Ready(_)) if taken == room => return (taken, Stop::Full),
            Some(FetchedBatch::Ready(ready)) => ready,
            Some(FetchedBatch::Skipped { .. }) => continue,
        };
        let info = BatchInfo {
            partition,
            leader_epoch: ready.batch.header.partition_leader_epoch,
            timestamp_type: ready.batch.timestamp_type(),
            records_max: (ready.batch.len() - ready.cursor.index() as usize).min(room - taken),
            bytes_max: ready.batch.records.len(),
        };
        if sink.begin_batch(&info) == Offer::Refused {
            return (taken, Stop::Refused);
        }
        let before = *next_offset;
        let (count, end) = take_batch(ready, next_offset, room - taken, sink);
        sink.end_batch();
        taken += count;
        if *next_offset > before && info.leader_epoch >= 0 {
            *leader_epoch = info.leader_epoch;
        }
        match end {
            BatchEnd::Done => {
                *next_offset = (*next_offset).max(ready.batch.next_offset());
                batches.pop_front();
            }
            BatchEnd::Refused => return (taken, Stop::Refused),
            BatchEnd::Full => return (taken, Stop::Full),
            BatchEnd::Broken(reason) => {
                batches[0] = FetchedBatch::Failed(crate::decoding::completed_fetch::Fault(reason));
            }
        }
    }
}

/// Moves a decoded batch from its cell into its place in the fetch.
fn open_front(fetch: &mut CompletedFetch) {
    let Some(batch) = fetch.batches.front_mut() else {
        return;
    };
    if let FetchedBatch::Decoding(cell) = batch {
        match cell.take() {
            Some(Ok(ready)) => *batch = FetchedBatch::Ready(ready),
            Some(Err(fault)) => *batch = FetchedBatch::Failed(fault),
            None => {}
        }
    }
}

enum BatchEnd {
    Done,
    Full,
    Refused,
    Broken(String),
}

/// The hot loop: one parse and one call of the sink per record.
#[inline]
fn take_batch<S: RecordSink>(
    ready: &mut ReadyBatch,
    next_offset: &mut i64,
    room: usize,
    sink: &mut S,
) -> (usize, BatchEnd) {
    let mut records = ready.batch.iter_at(ready.cursor);
    let mut taken = 0;
    let end = loop {
        if taken == room {
            let whole = records.position().index() as usize == ready.batch.len();
            break if whole {
                BatchEnd::Done
            } else {
                BatchEnd::Full
            };
        }
        let before = records.position();
        match records.next() {
            // The broker sends complete batches, so records before the requested offset are
            // skipped.
            Some(Ok(record)) if record.offset < *next_offset => {}
            Some(Ok(record)) => {
                if sink.record(&record) == Offer::Refused {
                    ready.cursor = before;
                    return (taken, BatchEnd::Refused);
                }
                *next_offset = record.offset.saturating_add(1);
                taken += 1;
            }
            None => break BatchEnd::Done,
            Some(Err(error)) => {
                ready.cursor = before;
                return (taken, BatchEnd::Broken(error.to_string()));
            }
        }
    };
    ready.cursor = records.position();
    (taken, end)
}
