//! Moves buffered records into a sink: the consumer's `take(n)`.
//!
//! ```text
//! fetch buffer                                        sink
//! [P0 100 of 1000 | P1 1000 | ... ]  --at most n-->   100 records of P0
//!  ^ leftovers stay in front. P0 is not fetched again before they are drained
//! ```
//! A drain reads one fetch after the other, in order of arrival. It moves the offset of a fetch
//! and the subscription's position together, before it reads the next fetch. It holds no lock
//! while records go into the sink. During that time the fetch is not in the queue, but still
//! counts as buffered, so the I/O thread does not fetch from that position.
//!
//! A drain returns only what had arrived when it began.

use crate::completed_fetch::{CompletedFetch, ReadyBatch, Slot};
use crate::error::ConsumerError;
use crate::fetch_buffer::FetchBuffer;
use crate::offset_spec::IsolationLevel;
use crate::sink::{BatchInfo, Offer, RecordSink};
use crate::subscription::Subscription;
use crate::topic_partition::TopicPartition;

/// The result of one drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    pub records: usize,
    /// The sink refused a record, because it is full or stops at this record.
    pub refused: bool,
    /// Partitions were emptied, or decoded memory was freed, so a fetch may be possible.
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

/// Drains at most `records_max` records of the partitions in `only` (of all if it is empty) into
/// `sink`. Returns an error only if no record was taken. No position has moved then.
pub(crate) fn drain<S: RecordSink>(
    buffer: &FetchBuffer,
    subscription: &Subscription,
    isolation: IsolationLevel,
    only: &[TopicPartition],
    records_max: usize,
    sink: &mut S,
    mut emptied: impl FnMut(),
) -> Result<Drained, ConsumerError> {
    let mut drained = Drained::default();
    if records_max == 0 {
        return Ok(drained);
    }
    let (horizon, mut first) = buffer.begin(subscription, only)?;
    while drained.records < records_max && !drained.refused {
        let next = || buffer.next(subscription, only, horizon);
        let Some(mut fetch) = first.take().or_else(next) else {
            break;
        };
        let from = fetch.position();
        let slots_before = fetch.slots.len();
        let (taken, stop) = take(&mut fetch, records_max - drained.records, sink);
        drained.records += taken;
        drained.freed |= fetch.slots.len() < slots_before;
        drained.refused = stop == Stop::Refused;
        let to = fetch.position();
        let mut assigned = subscription.lock();
        let (index, stamp) = (fetch.index, fetch.stamp);
        let holds = assigned.advance(index, &fetch.partition, stamp, from.offset, to, taken);
        if taken > 0 {
            assigned.note_taken(index, &fetch.partition, stamp, from, taken);
        }
        fetch.checked_at = assigned.last_stamp();
        // Kafka measures once for each take from a fetch. The single steps of an iteration do not.
        if holds && (taken > 1 || stop == Stop::Empty) {
            assigned.measure(fetch.index, fetch.stamp, isolation);
        }
        match stop {
            _ if !holds => {}
            Stop::Empty => assigned.release(&fetch.partition, fetch.stamp),
            Stop::Failed if drained.records == 0 => {
                return Err(fail(*fetch, assigned));
            }
            _ => {
                drop(assigned);
                if stop == Stop::Refused && drained.records == 0 {
                    buffer.put_last(fetch);
                } else {
                    buffer.put_back(fetch);
                }
                // The front is a batch that is still being decoded, or a corrupt one. Do not drain
                // it in a loop.
                if matches!(stop, Stop::NotReady) {
                    continue;
                }
                break;
            }
        }
        drop(assigned);
        drop(fetch);
        drained.freed = true;
        emptied();
    }
    Ok(drained)
}

/// Drops the fetch with a corrupt batch. The client fetches it again later, which helps if it was
/// damaged in transit, and serves the other partitions until then.
fn fail(
    mut fetch: CompletedFetch,
    mut assigned: std::sync::MutexGuard<'_, crate::assigned::Assigned>,
) -> ConsumerError {
    if let Some(state) = assigned.current(&fetch.partition, fetch.stamp) {
        state.backoff_due = true;
    }
    assigned.release(&fetch.partition, fetch.stamp);
    drop(assigned);
    let reason = match fetch.slots.pop_front() {
        Some(Slot::Failed(fault)) => fault.0,
        _ => String::new(),
    };
    ConsumerError::CorruptBatch {
        partition: fetch.partition,
        offset: fetch.next_offset,
        reason,
    }
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
            slots,
            next_offset,
            leader_epoch,
            ..
        } = fetch;
        let ready = match slots.front_mut() {
            None => return (taken, Stop::Empty),
            Some(Slot::Failed(_)) => return (taken, Stop::Failed),
            Some(Slot::Decoding(_)) => return (taken, Stop::NotReady),
            Some(Slot::Ready(_)) if taken == room => return (taken, Stop::Full),
            Some(Slot::Ready(ready)) => ready,
            Some(Slot::Skipped { .. }) => continue,
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
                slots.pop_front();
            }
            BatchEnd::Refused => return (taken, Stop::Refused),
            BatchEnd::Full => return (taken, Stop::Full),
            BatchEnd::Broken(reason) => {
                slots[0] = Slot::Failed(crate::completed_fetch::Fault(reason));
            }
        }
    }
}

/// Moves a decoded batch from its cell into its slot.
fn open_front(fetch: &mut CompletedFetch) {
    let Some(slot) = fetch.slots.front_mut() else {
        return;
    };
    if let Slot::Decoding(cell) = slot {
        match cell.take() {
            Some(Ok(ready)) => *slot = Slot::Ready(ready),
            Some(Err(fault)) => *slot = Slot::Failed(fault),
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
