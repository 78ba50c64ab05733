//! One record at a time: what an iteration drains.
//!
//! ```text
//!  fetch buffer              in hand                      sink
//!  [P0 1000 | P1 ...]  -->   P0 1000  --step()--> one record, one record, ...
//!            <--settle()--   P0 400     anything else comes: the position is moved over the 600
//! ```
//! Amid a batch a step costs neither the buffer's lock nor the subscription's. Between two of them
//! the record set is in hand, outside of the buffer, and the subscription's position stays where the
//! first of them began; whoever reads a position, or changes what may be handed out, settles first
//! ([`Consumer::settle`]). Other changes, and those made while a step's sink is at work and there is
//! nothing to settle, are noted ([`Subscription::changes`]) and end these steps.
//!
//! An iteration takes long to come through a record set, and nothing else would have its partition
//! fetched meanwhile. So the whole of what is served next counts as drained where fetching is concerned: what
//! follows it is fetched *ahead* ([`Ahead`]) if the log is known to go on there, into a second record
//! set that waits in the buffer until the position has come to it. What the broker says against that
//! is not told: the fetch from the position, later, will hear it again.
//!
//! The lock of what is in hand is taken first: see [`crate::fetch_buffer`].

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

/// The record set that steps are taken through.
#[derive(Debug)]
pub(crate) struct InHand {
    fetch: Box<CompletedFetch>,
    /// Where the subscription's position stands.
    from: i64,
    taken: u64,
    /// The subscription's, when it was taken out of the buffer.
    changes: u64,
}

impl Consumer {
    /// As [`Consumer::drain`] of one record, for who will come for the next; one thread at a time.
    /// The sink runs no foreign code: a position read from within it is that of an earlier step.
    pub fn step<S: RecordSink>(&self, sink: &mut S) -> Result<Drained, ConsumerError> {
        // Taken out, so that no lock is held while the sink builds its record.
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

    /// A step through this record set. None where that may not be or there is no further step in it;
    /// it is in the buffer again then.
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

    /// As [`Consumer::step`] for a sink that may run foreign code, and of some partitions only, of all
    /// if none is named: nothing is in hand meanwhile.
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

    /// Takes what steps can be taken through out of the buffer.
    fn take_in_hand(&self) {
        let changes = self.subscription.changes();
        // First: who looks while it is in neither place is to know of it.
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
        // Nothing is there, unless two threads take steps.
        let before = self.lock_in_hand().replace(in_hand);
        if before.is_some() {
            self.give_back(before, false);
        }
    }

    /// Moves the position over the steps that were taken and puts the rest back into the buffer.
    pub(crate) fn settle(&self) {
        self.give_back(None, false);
    }

    /// Gives back this record set, or the one in hand if it is None.
    fn give_back(&self, mut given: Option<InHand>, last: bool) {
        // All three are held to the end: who comes meanwhile is to see it done.
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

    /// Records that were handed out so far, by whatever call.
    pub fn records_handed_out(&self) -> u64 {
        self.settle();
        self.metrics.records_consumed_total.get()
    }
}
