//! One partition as the sender sees it: the batches that it has taken and that are not done.
//!
//! ```text
//!   in flight ◀── retry (by age) ◀── prepared (being compressed) ◀── the accumulator's queue
//! ```
//! Batches get younger from left to right. The functions below decide what may be sent next.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_cluster::NodeId;
use thalweg_protocol::Uuid;
use thalweg_protocol::planted::{Bug, is_planted};

use crate::accumulator::partition_queue::Front;
use crate::batch::open_batch::OpenBatch;
use crate::batch::order::Order;
use crate::idempotence::{Continuity, Sequences};
use crate::partitioning::partition_table::PartitionEntry;
use crate::partitioning::topic::TopicEntry;
use crate::sender::batch::ProducerBatch;
use crate::sender::request::InFlightBatch;
use crate::sender::timers::REASONS;
use crate::sync::lock;

/// A closed batch that is being compressed, or was compressed and not sent yet.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) batch: ProducerBatch,
    pub(crate) is_ready: bool,
}

/// The position of a partition in the ring of its leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RingPlace {
    pub(crate) node: NodeId,
    pub(crate) stamp: u64,
    pub(crate) urgent: bool,
}

/// The sender's rules for one look at a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) now: Instant,
    pub(crate) linger: Duration,
    /// At most one batch of a partition is in flight.
    pub(crate) mute: bool,
    pub(crate) idempotent: bool,
    /// A producer id is known, so batches can be numbered.
    pub(crate) has_producer_id: bool,
    /// The partition is not in the transaction (yet), so no new batch may be sent to it.
    pub(crate) held_back: bool,
}

/// Whether a partition has something to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// There is nothing to send.
    Idle,
    /// Something else must happen first: a response, a codec job, a producer id.
    Blocked,
    /// A retry waits for the end of its backoff.
    BackingOff(Instant),
    /// A batch may be sent with others, and must be sent at this time.
    Lingering(Instant),
    /// A batch must be sent now.
    Urgent,
}

impl Front {
    fn readiness(&self, rules: &Rules) -> Readiness {
        let due = self.created + rules.linger;
        // If the producer's linger is 0, a batch is hastened from the start: its creation time may
        // be slightly later than the time of this turn.
        if self.closed || self.hastened || due <= rules.now {
            Readiness::Urgent
        } else {
            Readiness::Lingering(due)
        }
    }
}

/// What a look at the accumulator's queue of a partition found.
#[derive(Debug, Default)]
pub(crate) struct QueueLook {
    /// Batches that are too old. They are no longer in the queue.
    pub(crate) expired: Vec<OpenBatch>,
    /// Full batches to compress before their turn. They are no longer in the queue, either.
    pub(crate) full: Vec<OpenBatch>,
    /// The batch at the front of what is left.
    pub(crate) front: Option<Front>,
}

/// One partition in the sender: an entry of `Sender::partitions`.
#[derive(Debug)]
pub(crate) struct SenderPartition {
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) partition: i32,
    pub(crate) leader: Option<NodeId>,
    pub(crate) leader_epoch: i32,
    pub(crate) topic_id: Uuid,
    pub(crate) prepared: VecDeque<Prepared>,
    pub(crate) retry: VecDeque<ProducerBatch>,
    pub(crate) in_flight: VecDeque<ProducerBatch>,
    pub(crate) sequences: Sequences,
    /// A search for what the leader has is in progress, see `search.rs`.
    pub(crate) searching: bool,
    /// The position of the gap, if there is one: the log has no batch from here on.
    pub(crate) broken_at: Option<Order>,
    pub(crate) ring: Option<RingPlace>,
    pub(crate) timers: [Option<Instant>; REASONS],
}

impl SenderPartition {
    pub(crate) fn new(topic: Arc<TopicEntry>, partition: i32) -> Self {
        Self {
            topic,
            partition,
            leader: None,
            leader_epoch: -1,
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

    /// Stores the topic's id. A different id means a new topic of the same name with empty logs, so
    /// the sequences start again.
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
        let in_flight = self.in_flight.iter().filter(|batch| batch.attempts > 0);
        let in_retry = self.retry.iter().filter(|batch| batch.maybe_written);
        let in_doubt: BTreeSet<Order> =
            in_flight.chain(in_retry).map(|batch| batch.order).collect();
        self.break_off(Order::FIRST);
        let all = self.in_flight.iter_mut().chain(&mut self.retry);
        for batch in all.filter(|batch| in_doubt.contains(&batch.order)) {
            if batch.sent_topic_id == Uuid::ZERO {
                batch.maybe_written = true;
            } else {
                batch.in_doubt_under.get_or_insert(batch.sent_topic_id);
            }
        }
    }

    /// The batch `at` is certainly not in the log. Nor is any later batch, whatever the results of
    /// their attempts: a broker that knows the producer refuses a batch after a gap.
    pub(crate) fn break_off(&mut self, at: Order) {
        self.cancel_search();
        let at = self.broken_at.map_or(at, |known| known.min(at));
        self.broken_at = Some(at);
        self.sequences.break_off();
        for batch in self.in_flight.iter_mut().chain(&mut self.retry) {
            batch.maybe_written &= batch.order < at;
        }
    }

    /// Ends the epoch although it is unknown whether the oldest batch is in the log. A gap that was
    /// found after it is forgotten: `mend` would wait until the batches before that gap are done,
    /// and the leader refuses this one each time.
    pub(crate) fn break_off_in_doubt(&mut self) {
        self.broken_at = None;
        self.sequences.break_off();
    }

    pub(crate) fn is_behind_gap(&self, order: Order) -> bool {
        self.broken_at.is_some_and(|at| order >= at)
    }

    /// Returns whether keyless records go to this partition at the moment.
    pub(crate) fn is_sticky(&self) -> bool {
        self.topic
            .sticky()
            .is_some_and(|sticky| sticky.partition() == self.partition)
    }

    /// Returns the batch at the front of the accumulator's queue.
    pub(crate) fn front(&self) -> Option<Front> {
        lock(&self.entry().queue).front()
    }

    /// Decides whether anything may be sent next. `front` is the front of the accumulator's queue.
    pub(crate) fn readiness(&self, rules: &Rules, front: Option<Front>) -> Readiness {
        let mute = rules.mute && !is_planted(Bug::NotMuted);
        if mute && !self.in_flight.is_empty() {
            return if self.has_taken_unsent() || front.is_some() {
                Readiness::Blocked
            } else {
                Readiness::Idle
            };
        }
        if self.is_searching() {
            return if self.in_flight.is_empty() {
                Readiness::Urgent
            } else {
                Readiness::Blocked
            };
        }
        match self.retry.front() {
            Some(first) => self.readiness_of_retry(first, rules),
            None => self.readiness_of_news(rules, front),
        }
    }

    fn readiness_of_retry(&self, first: &ProducerBatch, rules: &Rules) -> Readiness {
        if first.is_being_split {
            return Readiness::Blocked;
        }
        if rules.idempotent {
            // Only the oldest batch is sent again. The broker would refuse later ones as out of
            // order until it is in the log.
            let older_in_flight = self.in_flight.iter().any(|batch| batch.order < first.order);
            // Batches before a gap keep their sequences. The others wait for the next epoch.
            if older_in_flight || self.is_behind_gap(first.order) {
                return Readiness::Blocked;
            }
            if first.sequence.is_none() && !self.can_number(rules) {
                return Readiness::Blocked;
            }
        }
        match first.retry_at {
            // The error of the old leader does not delay the attempt at a new one (KIP-951).
            Some(at) if at > rules.now && self.leader_epoch <= first.sent_epoch => {
                Readiness::BackingOff(at)
            }
            _ => Readiness::Urgent,
        }
    }

    fn readiness_of_news(&self, rules: &Rules, front: Option<Front>) -> Readiness {
        if self.prepared.is_empty() && front.is_none() {
            return Readiness::Idle;
        }
        if rules.held_back || rules.idempotent && !self.can_number(rules) {
            return Readiness::Blocked;
        }
        match (self.prepared.front(), front) {
            (Some(prepared), _) if prepared.is_ready => Readiness::Urgent,
            (Some(_), _) => Readiness::Blocked,
            (None, Some(front)) => front.readiness(rules),
            (None, None) => Readiness::Idle,
        }
    }

    /// Returns whether a new batch may get a sequence while numbered ones are not done.
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

    /// Takes out the batches that were never sent.
    pub(crate) fn take_unsent(&mut self) -> Vec<ProducerBatch> {
        let queued = lock(&self.entry().queue).take_all();
        let queued = queued.into_iter().map(ProducerBatch::close_uncompressed);
        let prepared = self.prepared.drain(..).map(|prepared| prepared.batch);
        prepared.chain(queued).collect()
    }

    /// Returns whether the sender has taken batches that are not in flight.
    pub(crate) fn has_taken_unsent(&self) -> bool {
        !self.retry.is_empty() || !self.prepared.is_empty()
    }

    /// Returns whether the sender has taken batches that are not done.
    pub(crate) fn has_taken(&self) -> bool {
        self.has_taken_unsent() || !self.in_flight.is_empty()
    }

    /// Returns an estimate of the bytes that the next batch needs in a request. `front` is the front
    /// of the accumulator's queue.
    pub(crate) fn next_len(&self, front: Option<Front>) -> usize {
        if let Some(at) = self.next_retry() {
            return self.retry[at].wire_len();
        }
        if let Some(prepared) = self.prepared.front() {
            return prepared.batch.wire_len();
        }
        front.map_or(0, |front| thalweg_records::BATCH_HEADER_LEN + front.bytes)
    }

    /// Puts a batch back to be sent again, in the order of age.
    pub(crate) fn put_back(&mut self, batch: ProducerBatch) {
        let at = self
            .retry
            .partition_point(|other| other.order < batch.order);
        self.retry.insert(at, batch);
    }

    /// Returns the index of the retry that is sent first.
    pub(crate) fn next_retry(&self) -> Option<usize> {
        if self.is_searching() {
            self.candidate()
        } else {
            (!self.retry.is_empty()).then_some(0)
        }
    }

    /// Takes the batch of exactly this attempt. Returns `None` if its outcome no longer matters.
    pub(crate) fn take_in_flight(&mut self, sent: InFlightBatch) -> Option<ProducerBatch> {
        let is_it = |b: &ProducerBatch| b.order == sent.order && b.attempts == sent.attempt;
        let at = self.in_flight.iter().position(is_it)?;
        self.in_flight.remove(at)
    }

    /// Switches to a new leader. It is first offered the batches that the old leader left
    /// unanswered. If it knows them it says so, and if it does not it must get them before any new
    /// batch.
    pub(crate) fn follow_leader(&mut self, leader: NodeId) {
        self.leader = Some(leader);
        if is_planted(Bug::UnansweredTaken) {
            return;
        }
        self.cancel_search();
        self.sequences.meet_broker();
        let elsewhere = |batch: &ProducerBatch| batch.sent_to.is_some_and(|to| to != leader);
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

    /// Returns whether no older batch of the partition is in flight or waits for a retry.
    pub(crate) fn is_oldest(&self, order: Order) -> bool {
        self.in_flight
            .iter()
            .chain(&self.retry)
            .all(|other| other.order > order)
    }

    /// Returns when the oldest batch without an outcome was created. `front` is the front of the
    /// accumulator's queue.
    pub(crate) fn oldest_created(&self, front: Option<Front>) -> Option<Instant> {
        let in_flight = self
            .in_flight
            .iter()
            .filter(|batch| !batch.abandoned)
            .map(|b| b.created)
            .min();
        let retry = self.retry.front().map(|batch| batch.created);
        let prepared = self.prepared.front().map(|prepared| prepared.batch.created);
        let queued = front.map(|front| front.created);
        [in_flight, retry, prepared, queued]
            .into_iter()
            .flatten()
            .min()
    }

    /// Looks at the accumulator's queue, under one lock. Takes the batches whose creation
    /// `is_over`, and then at most `full_max` full ones.
    ///
    /// It also notes for the appending side what the sender has seen. From now on, an append
    /// reports the partition again if its queue was empty, and a full batch if there was none. So
    /// whatever changes after this look causes another one.
    pub(crate) fn look(&self, full_max: usize, is_over: impl Fn(Instant) -> bool) -> QueueLook {
        let entry = self.entry();
        let mut queue = lock(&entry.queue);
        let mut look = QueueLook::default();
        while queue.front().is_some_and(|front| is_over(front.created)) {
            look.expired.extend(queue.pop());
        }
        while look.full.len() < full_max && queue.has_closed() {
            look.full.extend(queue.pop());
        }
        queue.listed = !queue.is_empty();
        queue.full_listed = queue.has_closed();
        let taken = self.retry.len() + self.prepared.len() + look.full.len();
        entry.set_depth(queue.len() + taken);
        look.front = queue.front();
        look
    }
}
