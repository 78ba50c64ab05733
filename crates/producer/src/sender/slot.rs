//! One partition as the sender sees it: the batches it has taken and not seen to their end.
//!
//! ```text
//!   in flight ◀── retry (by age) ◀── prepared (being compressed) ◀── the accumulator's queue
//! ```
//! From left to right batches get younger; what may go out next is decided here, on one screen.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_cluster::NodeId;
use thalweg_protocol::Uuid;
use thalweg_protocol::planted::{Bug, is_planted};

use crate::idempotence::{Continuity, Sequences};
use crate::partition_queue::Front;
use crate::partition_table::PartitionEntry;
use crate::sender::batch::{Order, ProducerBatch};
use crate::sender::outlets::{Half, Outlet};
use crate::sender::request::Sent;
use crate::sender::timers::REASONS;
use crate::sync::lock;
use crate::topic::TopicEntry;

/// A closed batch on its way to be compressed, and back.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) batch: ProducerBatch,
    pub(crate) is_ready: bool,
}

/// The place of a partition among those of its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RingPlace {
    pub(crate) outlet: Outlet,
    pub(crate) stamp: u64,
    pub(crate) urgent: bool,
}

/// What the sender's rules come down to for one look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) now: Instant,
    pub(crate) linger: Duration,
    /// One batch of a partition at a time.
    pub(crate) mute: bool,
    pub(crate) idempotent: bool,
    /// Batches can be numbered.
    pub(crate) has_producer_id: bool,
    /// The partition is not in the transaction (yet): nothing new may be sent to it.
    pub(crate) held_back: bool,
    /// Something is in flight by another connection to the leader than the one to use from now on.
    pub(crate) changes_over: bool,
}

/// What a partition wants now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing to send.
    Idle,
    /// Something else must happen first: an answer, a codec job, a producer id.
    Blocked,
    /// A retry waits its backoff.
    BackingOff(Instant),
    /// May be sent along, and wants to be at this time.
    Lingering(Instant),
    /// Wants to be sent.
    Urgent,
}

impl Front {
    fn standing(&self, rules: &Rules) -> Standing {
        let due = self.created + rules.linger;
        // A batch of a producer without linger is hastened from the start: the appender's clock may
        // be ahead of this turn's by a little.
        if self.closed || self.hastened || due <= rules.now {
            Standing::Urgent
        } else {
            Standing::Lingering(due)
        }
    }
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) partition: i32,
    pub(crate) leader: Option<NodeId>,
    pub(crate) leader_epoch: i32,
    /// Of its leader's partitions.
    pub(crate) half: Half,
    pub(crate) topic_id: Uuid,
    pub(crate) prepared: VecDeque<Prepared>,
    pub(crate) retry: VecDeque<ProducerBatch>,
    pub(crate) in_flight: VecDeque<ProducerBatch>,
    pub(crate) sequences: Sequences,
    /// See `search.rs`.
    pub(crate) searching: bool,
    /// Where the gap is, if there is one: the log has no batch from here on.
    pub(crate) broken_at: Option<Order>,
    pub(crate) ring: Option<RingPlace>,
    pub(crate) timers: [Option<Instant>; REASONS],
}

impl Slot {
    pub(crate) fn new(topic: Arc<TopicEntry>, partition: i32) -> Self {
        Self {
            topic,
            partition,
            leader: None,
            leader_epoch: -1,
            half: Half::default(),
            topic_id: Uuid::ZERO,
            prepared: VecDeque::new(),
            retry: VecDeque::new(),
            in_flight: VecDeque::new(),
            sequences: Sequences::default(),
            searching: false,
            broken_at: None,
            ring: None,
            timers: [None; REASONS],
        }
    }

    pub(crate) fn entry(&self) -> &PartitionEntry {
        self.topic.partition(self.partition)
    }

    /// Another id is another topic of the same name, with empty logs: numbers start again.
    pub(crate) fn learn_topic_id(&mut self, id: Uuid) {
        let is_another = self.topic_id != Uuid::ZERO && id != Uuid::ZERO && self.topic_id != id;
        if is_another && self.sequences.producer().is_some() {
            self.start_again();
        }
        if id != Uuid::ZERO {
            self.topic_id = id;
        }
    }

    /// No batch that was sent to the old topic is in the new log. A request that named the topic may
    /// have reached either of the two.
    fn start_again(&mut self) {
        let by_name =
            |batch: &ProducerBatch| batch.attempts > 0 && batch.sent_topic_id == Uuid::ZERO;
        let in_flight = self.in_flight.iter().filter(|batch| by_name(batch));
        let in_retry = self
            .retry
            .iter()
            .filter(|batch| by_name(batch) && batch.maybe_written);
        let in_doubt: BTreeSet<Order> =
            in_flight.chain(in_retry).map(|batch| batch.order).collect();
        self.break_off(Order::FIRST);
        for batch in self.in_flight.iter_mut().chain(&mut self.retry) {
            batch.maybe_written |= in_doubt.contains(&batch.order);
        }
    }

    /// The batch `at` is certainly not in the log. Nor is any behind it, whatever became of their
    /// tries: a broker that knows the producer refuses what skips a batch.
    pub(crate) fn break_off(&mut self, at: Order) {
        self.cancel_search();
        let at = self.broken_at.map_or(at, |known| known.min(at));
        self.broken_at = Some(at);
        self.sequences.break_off();
        for batch in self.in_flight.iter_mut().chain(&mut self.retry) {
            batch.maybe_written &= batch.order < at;
        }
    }

    pub(crate) fn is_behind_gap(&self, order: Order) -> bool {
        self.broken_at.is_some_and(|at| order >= at)
    }

    /// Keyless records go here at the moment.
    pub(crate) fn is_sticky(&self) -> bool {
        self.topic
            .sticky()
            .is_some_and(|sticky| sticky.partition() == self.partition)
    }

    /// What may go out next, if anything.
    pub(crate) fn standing(&self, rules: &Rules) -> Standing {
        let mute = rules.mute && !is_planted(Bug::NotMuted);
        if rules.changes_over || mute && !self.in_flight.is_empty() {
            return if self.has_unsent() {
                Standing::Blocked
            } else {
                Standing::Idle
            };
        }
        if self.is_searching() {
            return if self.in_flight.is_empty() {
                Standing::Urgent
            } else {
                Standing::Blocked
            };
        }
        match self.retry.front() {
            Some(first) => self.standing_of_retry(first, rules),
            None => self.standing_of_news(rules),
        }
    }

    fn standing_of_retry(&self, first: &ProducerBatch, rules: &Rules) -> Standing {
        if first.is_being_split {
            return Standing::Blocked;
        }
        if rules.idempotent {
            // Only the oldest batch is tried again: what was sent behind it will be refused as out
            // of order until it is in the log.
            let older_in_flight = self.in_flight.iter().any(|batch| batch.order < first.order);
            // What is older than a gap goes on under its number; the rest waits for the next epoch.
            if older_in_flight || self.is_behind_gap(first.order) {
                return Standing::Blocked;
            }
            if first.sequence.is_none() && !self.can_number(rules) {
                return Standing::Blocked;
            }
        }
        match first.retry_at {
            // A new leader knows nothing of the old one's trouble (KIP-951).
            Some(at) if at > rules.now && self.leader_epoch <= first.sent_epoch => {
                Standing::BackingOff(at)
            }
            _ => Standing::Urgent,
        }
    }

    fn standing_of_news(&self, rules: &Rules) -> Standing {
        let front = lock(&self.entry().queue).front();
        if self.prepared.is_empty() && front.is_none() {
            return Standing::Idle;
        }
        if rules.held_back || rules.idempotent && !self.can_number(rules) {
            return Standing::Blocked;
        }
        match (self.prepared.front(), front) {
            (Some(prepared), _) if prepared.is_ready => Standing::Urgent,
            (Some(_), _) => Standing::Blocked,
            (None, Some(front)) => front.standing(rules),
            (None, None) => Standing::Idle,
        }
    }

    /// A batch that was never numbered may follow those that were.
    fn can_number(&self, rules: &Rules) -> bool {
        let oldest = self
            .in_flight
            .iter()
            .chain(&self.retry)
            .min_by_key(|batch| batch.order);
        let remembered = match oldest.and_then(|batch| batch.sequence) {
            None => true,
            Some(_) if !self.sequences.is_known_to_broker(rules.now) => false,
            Some(oldest) => self.sequences.is_remembered_with_one_more(oldest),
        };
        self.sequences.continuity() == Continuity::Whole
            && remembered
            && (rules.has_producer_id || self.sequences.producer().is_some())
    }

    /// Something was sent to the same node by another connection, and is not answered.
    pub(crate) fn is_in_flight_beside(&self, outlet: Outlet) -> bool {
        self.in_flight
            .iter()
            .filter_map(|batch| batch.sent_to)
            .any(|to| to.0 == outlet.0 && to != outlet)
    }

    /// Anything that is not on its way.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.retry.is_empty() || !self.prepared.is_empty() || !lock(&self.entry().queue).is_empty()
    }

    /// Bytes that the next batch will take in a request, as far as one can tell.
    pub(crate) fn next_len(&self) -> usize {
        if let Some(at) = self.next_retry() {
            return self.retry[at].wire_len();
        }
        if let Some(prepared) = self.prepared.front() {
            return prepared.batch.wire_len();
        }
        let front = lock(&self.entry().queue).front();
        front.map_or(0, |front| thalweg_records::BATCH_HEADER_LEN + front.bytes)
    }

    /// Puts a batch back for another try, in its place by age.
    pub(crate) fn put_back(&mut self, batch: ProducerBatch) {
        let at = self
            .retry
            .partition_point(|other| other.order < batch.order);
        self.retry.insert(at, batch);
    }

    /// Which of those that wait for a retry goes first.
    pub(crate) fn next_retry(&self) -> Option<usize> {
        if self.is_searching() {
            self.candidate()
        } else {
            (!self.retry.is_empty()).then_some(0)
        }
    }

    /// The batch of this very try; `None` if its outcome matters no more.
    pub(crate) fn take_in_flight(&mut self, sent: Sent) -> Option<ProducerBatch> {
        let is_it = |b: &ProducerBatch| b.order == sent.order && b.attempts == sent.attempt;
        let at = self.in_flight.iter().position(is_it)?;
        self.in_flight.remove(at)
    }

    /// Another node leads now. What the old leader has not answered yet is offered to the new one,
    /// before anything else: one that knows it says so, and one that does not must get it first.
    pub(crate) fn follow_leader(&mut self, leader: NodeId) {
        self.leader = Some(leader);
        if is_planted(Bug::UnansweredTaken) {
            return;
        }
        self.cancel_search();
        self.sequences.meet_broker();
        let elsewhere = |batch: &ProducerBatch| batch.sent_to.is_some_and(|to| to.0 != leader);
        let (old, here) = std::mem::take(&mut self.in_flight)
            .into_iter()
            .partition(|batch| batch.sequence.is_some() && elsewhere(batch));
        self.in_flight = here;
        let old: VecDeque<ProducerBatch> = old;
        for mut batch in old {
            batch.maybe_written |= !self.is_behind_gap(batch.order);
            if batch.abandoned {
                self.give_up(&batch);
            } else {
                self.put_back(batch);
            }
        }
    }

    /// No older batch of the partition is on its way or waits for a retry.
    pub(crate) fn is_oldest(&self, order: Order) -> bool {
        self.in_flight
            .iter()
            .chain(&self.retry)
            .all(|other| other.order > order)
    }

    /// When the oldest batch was created whose outcome is not told yet.
    pub(crate) fn oldest_created(&self) -> Option<Instant> {
        let in_flight = self
            .in_flight
            .iter()
            .filter(|batch| !batch.abandoned)
            .map(|b| b.created)
            .min();
        let retry = self.retry.front().map(|batch| batch.created);
        let prepared = self.prepared.front().map(|prepared| prepared.batch.created);
        let queued = lock(&self.entry().queue).front().map(|front| front.created);
        [in_flight, retry, prepared, queued]
            .into_iter()
            .flatten()
            .min()
    }

    /// Tells the appending side what the sender knows: after this an append lists the partition
    /// again if the queue was empty, and a full batch if there was none. True if nothing is left here
    /// at all, neither queued nor on its way.
    pub(crate) fn publish(&self) -> bool {
        let entry = self.entry();
        let mut queue = lock(&entry.queue);
        queue.listed = !queue.is_empty();
        queue.full_listed = queue.has_closed();
        entry.set_depth(queue.len() + self.prepared.len() + self.retry.len());
        queue.is_empty()
            && self.prepared.is_empty()
            && self.retry.is_empty()
            && self.in_flight.is_empty()
    }
}
