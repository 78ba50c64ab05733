//! Drains one record at a time, for an iteration.
//!
//! ```text
//!  fetch buffer              in hand                      sink
//!  [P0 1000 | P1 ...]  -->   P0 1000  --step()--> one record, one record, ...
//!            <--settle()--   P0 400     on any other call, the position moves over the 600
//! ```
//! Within a batch, a step takes neither the buffer's lock nor the subscription's. Between two
//! steps, the fetch is in hand: it is not in the buffer, and the subscription's position stays
//! where the first step started. Code that reads a position, or changes what may be returned,
//! settles first ([`Consumer::settle`]). Other changes, and those made while a step's sink runs
//! and nothing can be settled, are counted ([`Subscription::changes`]) and end these steps.
//!
//! An iteration needs a long time for one fetch, and nothing else would fetch its partition in the
//! meantime. So for fetching, the fetch that is served next counts as drained. If the log is known
//! to continue, the records after it are fetched *ahead* ([`Ahead`]), into a second fetch that
//! waits in the buffer until the position reaches it. If the broker answers that request with an
//! error, the error is ignored: the later fetch from the position will get it again.
//!
//! The lock of the fetch in hand is taken first, see [`crate::fetch_buffer`].

use std::sync::atomic::Ordering;

use crate::completed_fetch::CompletedFetch;
use crate::consumer::Consumer;
use crate::drain::{Drained, Stop, take};
use crate::error::ConsumerError;
use crate::fetch_buffer::FetchBuffer;
#[cfg(doc)]
use crate::partition_state::Ahead;
use crate::sink::RecordSink;
#[cfg(doc)]
use crate::subscription::Subscription;
use crate::topic_partition::TopicPartition;

/// The fetch that steps are taken through.
#[derive(Debug)]
pub(crate) struct InHand {
    fetch: Box<CompletedFetch>,
    /// The subscription's position.
    from: i64,
    taken: u64,
    /// The subscription's count when the fetch was taken out of the buffer.
    changes: u64,
}

impl Consumer {
    /// Drains one record like [`Consumer::drain`], for a caller that will ask for the next one
    /// too. Only one thread at a time may call it. The sink must not run foreign code, because a
    /// position that it reads would be that of an earlier step.
    pub fn step<S: RecordSink>(&self, sink: &mut S) -> Result<Drained, ConsumerError> {
        // The fetch is taken out, so that no lock is held while the sink builds its record.
        let in_hand = self.lock_in_hand().take();
        if let Some(in_hand) = in_hand
            && let Some(drained) = self.step_on(in_hand, sink)
        {
            return Ok(drained);
        }
        let drained = self.drain_settled(&[], 1, sink);
        if drained.as_ref().is_ok_and(|drained| drained.records > 0) {
            self.read_ahead();
            self.take_in_hand();
        }
        drained
    }

    /// Takes a step through this fetch. Returns `None` if that is not allowed or the fetch has no
    /// further step. The fetch is back in the buffer then.
    fn step_on<S: RecordSink>(&self, mut in_hand: InHand, sink: &mut S) -> Option<Drained> {
        let changes = in_hand.changes;
        let may_go_on = changes == self.subscription.changes()
            && !self.buffer.has_errors()
            && in_hand.fetch.is_amid_batch();
        if !may_go_on {
            self.put_in_hand(in_hand);
            self.settle();
            return None;
        }
        let (records, stop) = take(&mut in_hand.fetch, 1, sink);
        in_hand.taken += records as u64;
        if stop == Stop::Refused {
            self.give_back(Some(in_hand), true);
            return Some(Drained {
                refused: true,
                ..Drained::default()
            });
        }
        self.put_in_hand(in_hand);
        if stop != Stop::Full || self.subscription.changes() != changes {
            self.settle();
        }
        (records > 0).then_some(Drained {
            records,
            ..Drained::default()
        })
    }

    /// Works like [`Consumer::step`], for a sink that may run foreign code and for the partitions
    /// in `only` (all if it is empty). No fetch is in hand during the call.
    pub fn drain_one<S: RecordSink>(
        &self,
        only: &[TopicPartition],
        sink: &mut S,
    ) -> Result<Drained, ConsumerError> {
        let drained = self.drain_only(only, 1, sink);
        if only.is_empty() && drained.as_ref().is_ok_and(|drained| drained.records > 0) {
            self.read_ahead();
        }
        drained
    }

    fn read_ahead(&self) {
        let isolation = self.config.isolation_level;
        if self.buffer.run_ahead(&self.subscription, isolation) {
            self.emptied();
        }
    }

    /// Takes the next fetch out of the buffer, if steps can be taken through it.
    fn take_in_hand(&self) {
        let changes = self.subscription.changes();
        // Set this first: a thread that looks while the fetch is in neither place must know that
        // it exists.
        self.stepping.store(true, Ordering::SeqCst);
        let Some(fetch) = self.buffer.take_amid_batch(&self.subscription) else {
            self.stepping.store(false, Ordering::SeqCst);
            return;
        };
        let from = fetch.next_offset;
        self.put_in_hand(InHand {
            fetch,
            from,
            taken: 0,
            changes,
        });
    }

    fn put_in_hand(&self, in_hand: InHand) {
        // `in_hand` is empty, unless two threads take steps.
        let before = self.lock_in_hand().replace(in_hand);
        if before.is_some() {
            self.give_back(before, false);
        }
    }

    /// Moves the position over the steps that were taken, and puts the rest back into the buffer.
    pub(crate) fn settle(&self) {
        self.give_back(None, false);
    }

    /// Puts back `given`, or the fetch in hand if it is `None`.
    fn give_back(&self, mut given: Option<InHand>, last: bool) {
        // Hold all three locks to the end, so that other threads see only the complete change.
        let (mut slot, (mut buffer, mut assigned)) = loop {
            let slot = self.lock_in_hand();
            if given.is_none() && slot.is_none() {
                return;
            }
            match self.buffer.try_lock_with(&self.subscription) {
                Some(both) => break (slot, both),
                None => drop(slot),
            }
            self.buffer.wait_with(&self.subscription);
        };
        let Some(in_hand) = given.take().or_else(|| slot.take()) else {
            return;
        };
        let mut fetch = in_hand.fetch;
        self.metrics.records_consumed_total.add(in_hand.taken);
        let to = fetch.position();
        let (index, stamp, from) = (fetch.index, fetch.stamp, in_hand.from);
        let records = in_hand.taken as usize;
        let holds = assigned.advance(index, &fetch.partition, stamp, from, to, records);
        fetch.checked_at = assigned.last_stamp();
        let worthless = if holds {
            FetchBuffer::put(&mut buffer, fetch, last);
            None
        } else {
            Some(fetch)
        };
        drop((assigned, buffer));
        if worthless.is_some() {
            drop(worthless);
            self.emptied();
        }
        self.stepping.store(false, Ordering::SeqCst);
    }

    /// Returns the number of records that all calls together have returned so far.
    pub fn records_handed_out(&self) -> u64 {
        self.settle();
        self.metrics.records_consumed_total.get()
    }
}
