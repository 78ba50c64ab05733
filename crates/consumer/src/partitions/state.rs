//! The state of one assigned partition.
//!
//! ```text
//!              committed offset                    leader changed
//!  Initializing ------------------> Fetching <======================> AwaitValidation
//!      |                               ^  |      same log (KIP-320)      |
//!      | none                          |  | out of range                 | log was cut,
//!      v            policy             |  v                              | with a policy
//!  Uncommitted ---------> AwaitReset --+  AwaitReset <-------------------+
//!      ^                  (ListOffsets)
//!      '-- at once without a group id
//!
//!  LogGone: the topic was created again, and there is no policy. Only a seek leads out of it
//!  seek: from anywhere to Fetching, or to AwaitValidation when the offset's epoch is known
//! ```
//!
//! Every change that makes responses in flight stale (assign, seek, reset, validation) gives the
//! partition a new *stamp*. Requests remember their stamp, and a response with another stamp is
//! dropped. This one comparison prevents a late committed offset from undoing a seek, a late reset
//! from undoing another reset, and records fetched from an old position from being returned.

use std::time::Instant;

use thalweg_cluster::NodeId;
use thalweg_protocol::Uuid;
use thalweg_protocol::planted::{Bug, is_planted};

use crate::decoding::completed_fetch::CompletedFetch;
use crate::metrics::distances::{Distance, Distances};
use crate::offset_spec::{IsolationLevel, OffsetReset};
use crate::positions::absence::AbsenceNote;
use crate::topic_partition::TopicPartition;

/// The next offset to read, and the leader epoch of the record before it (-1: unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPosition {
    pub offset: i64,
    pub leader_epoch: i32,
}

impl FetchPosition {
    /// Moves over a batch. A batch of an old format has no leader epoch.
    pub(crate) fn move_to(&mut self, to: Self) {
        self.offset = self.offset.max(to.offset);
        if to.leader_epoch >= 0 {
            self.leader_epoch = to.leader_epoch;
        }
    }
}

/// The phase of a partition before and during fetching. The diagram above shows the transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No position. With a group ID, the committed offset is awaited.
    Initializing,
    /// No position and no committed offset. The reset policy must be applied.
    Uncommitted,
    /// The leader must be asked for an offset.
    AwaitReset(OffsetReset),
    /// The leader must confirm that its log still has what was read.
    AwaitValidation(FetchPosition),
    Fetching(FetchPosition),
    /// The log of this position no longer exists, and there is no reset policy. The error is
    /// raised again and again until the application seeks.
    LogGone(FetchPosition),
}

/// The leader of a partition in the last metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) node: i32,
    pub(crate) epoch: i32,
}

/// What a version of the metadata says about a partition.
#[derive(Debug)]
pub(crate) struct PartitionNews<'a> {
    pub(crate) partition: &'a TopicPartition,
    /// `None`: the metadata does not have the topic.
    pub(crate) topic_id: Option<Uuid>,
    pub(crate) leader: Option<Leader>,
    pub(crate) is_absent: bool,
}

/// The fetch that begins at the position.
#[derive(Debug, Default)]
pub(crate) enum Current {
    #[default]
    None,
    Held(Box<CompletedFetch>),
    /// A drain or an iteration has taken it out, and will give it back.
    Out,
}

/// Fetching beyond the fetch that an iteration reads, see [`crate::partitions::steps`].
#[derive(Debug, Default)]
pub(crate) enum Ahead {
    /// The next fetch starts at the position.
    #[default]
    No,
    /// The next fetch starts here, at the end of the fetch that is being drained.
    From(FetchPosition),
    /// That fetch has arrived.
    Held(Box<CompletedFetch>),
    /// The broker returned an error. The fetch from the position, once it gets there, will report
    /// it.
    GivenUp,
}

/// The records of a partition that were returned since its last assignment, seek or reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOut {
    /// A different number after each assignment, seek and reset.
    pub since: u64,
    /// The position before the first record.
    pub from: i64,
    /// The position after the last record.
    pub to: i64,
    /// Smaller than the difference of the offsets if the log has gaps or markers.
    pub records: u64,
}

#[derive(Debug)]
pub(crate) struct PartitionState {
    /// Identifies this assignment of this partition. Never reused.
    pub(crate) handle: u32,
    pub(crate) phase: Phase,
    pub(crate) stamp: u64,
    /// The stamp of the last assignment, seek or reset. Since then the position was only moved by
    /// reading, or confirmed.
    pub(crate) moved_at: u64,
    pub(crate) handed_out: Option<HandedOut>,
    pub(crate) paused: bool,
    /// Records from this offset on are not wanted, see [`crate::partitions::bounds`].
    pub(crate) until: Option<i64>,
    /// Measured by the last fetch, if `until` is set.
    pub(crate) bytes_per_offset: Option<i64>,
    pub(crate) current: Current,
    pub(crate) ahead: Ahead,
    /// A request that will settle the phase is in flight.
    pub(crate) asked: bool,
    /// An error about this partition is queued. Nothing is tried before it is raised.
    pub(crate) blocked: bool,
    /// A thread without a clock reported a failure. The I/O thread will set `retry_at`.
    pub(crate) backoff_due: bool,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) attempts: u32,
    /// How often a leader that knows only older epochs has refused to confirm the position.
    pub(crate) older_leaders: u32,
    pub(crate) leader: Option<Leader>,
    /// Epoch of the last leader under which the position was valid.
    pub(crate) last_leader_epoch: Option<i32>,
    pub(crate) topic_id: Uuid,
    /// The topic ID under which the position, or one before it, was fetched. Zero if nothing was
    /// fetched since a seek or reset: then the position may already be meant for a newer topic
    /// than the metadata shows.
    pub(crate) fetched_from: Uuid,
    pub(crate) absence: AbsenceNote,
    /// The closer replica, and until when it is used (KIP-392).
    pub(crate) preferred_replica: Option<(i32, Instant)>,
    pub(crate) high_watermark: Option<i64>,
    pub(crate) last_stable_offset: Option<i64>,
    pub(crate) log_start_offset: Option<i64>,
    /// When a broker last sent these, with or without records.
    pub(crate) fetched_at: Option<Instant>,
    /// Measured when records are drained. `None` before that.
    pub(crate) distances: Option<Box<Distances>>,
    /// Place in the rotation; smaller is sooner.
    pub(crate) turn: u64,
    /// The fetcher must check this partition.
    pub(crate) touched: bool,
    /// Set by the fetcher's last check: the node whose session has the partition, and the node at
    /// which it counts as buffered.
    pub(crate) in_session: Option<NodeId>,
    pub(crate) counted_at: Option<NodeId>,
}

impl PartitionState {
    pub(crate) fn new(handle: u32, stamp: u64, turn: u64) -> Self {
        Self {
            handle,
            phase: Phase::Initializing,
            stamp,
            moved_at: stamp,
            handed_out: None,
            paused: false,
            until: None,
            bytes_per_offset: None,
            current: Current::None,
            ahead: Ahead::No,
            asked: false,
            blocked: false,
            backoff_due: false,
            retry_at: None,
            attempts: 0,
            older_leaders: 0,
            leader: None,
            last_leader_epoch: None,
            topic_id: Uuid::ZERO,
            fetched_from: Uuid::ZERO,
            absence: AbsenceNote::default(),
            preferred_replica: None,
            high_watermark: None,
            last_stable_offset: None,
            log_start_offset: None,
            fetched_at: None,
            distances: None,
            turn,
            touched: true,
            in_session: None,
            counted_at: None,
        }
    }

    /// Enters another phase and makes every response in flight stale. What the partition held was
    /// taken out before.
    pub(crate) fn enter(&mut self, phase: Phase, stamp: u64) {
        self.phase = phase;
        self.stamp = stamp;
        self.asked = false;
        self.blocked = false;
        self.backoff_due = false;
        self.retry_at = None;
        self.attempts = 0;
        self.older_leaders = 0;
    }

    /// Counts records that were returned to the application between two positions.
    pub(crate) fn hand_out(&mut self, from: i64, to: i64, records: usize) {
        let since = self.moved_at;
        let out = self.handed_out.get_or_insert(HandedOut {
            since,
            from,
            to,
            records: 0,
        });
        out.to = to;
        out.records += records as u64;
    }

    /// Whether the position was read in another topic, which was deleted and created again under
    /// the same name.
    pub(crate) fn is_of_former_topic(&self) -> bool {
        self.fetched_from != Uuid::ZERO && self.fetched_from != self.topic_id
    }

    /// Returns the position to read from: `None` while it is unknown or unconfirmed.
    pub(crate) fn valid_position(&self) -> Option<FetchPosition> {
        match self.phase {
            Phase::Fetching(position) => Some(position),
            _ => None,
        }
    }

    /// Returns where the next fetch starts, if a fetch is allowed.
    pub(crate) fn fetch_position(&self) -> Option<FetchPosition> {
        match self.ahead {
            Ahead::From(end) => self.valid_position().and(Some(end)),
            Ahead::No | Ahead::Held(_) | Ahead::GivenUp => self.valid_position(),
        }
    }

    /// Whether the next data to fetch has arrived already, or must not be fetched yet.
    pub(crate) fn is_buffered(&self) -> bool {
        match self.ahead {
            Ahead::From(_) => false,
            Ahead::Held(_) | Ahead::GivenUp => true,
            Ahead::No => !matches!(self.current, Current::None),
        }
    }

    /// Returns the end of the log for this isolation level, from the last response.
    fn known_end(&self, isolation: IsolationLevel) -> Option<i64> {
        match isolation {
            IsolationLevel::ReadUncommitted => self.high_watermark,
            IsolationLevel::ReadCommitted => self.last_stable_offset,
        }
    }

    /// Allows a fetch of what follows the fetch at the position before that is drained. This
    /// requires that the log was known to continue, otherwise the broker would hold the request.
    /// Returns true if this is new.
    pub(crate) fn run_ahead(&mut self, isolation: IsolationLevel) -> bool {
        let (Current::Held(fetch), Ahead::No) = (&self.current, &self.ahead) else {
            return false;
        };
        let known_end = self.known_end(isolation);
        let Some(end) = fetch
            .end
            .filter(|end| known_end.is_some_and(|known| end.offset < known))
            .filter(|end| self.is_before_end(end.offset))
        else {
            return false;
        };
        self.ahead = Ahead::From(end);
        true
    }

    /// Fetches nothing until the position has reached the start of the failed fetch ahead.
    pub(crate) fn give_up_ahead(&mut self) {
        self.ahead = Ahead::GivenUp;
    }

    /// Notes a failure: nothing is tried before `retry_at`.
    pub(crate) fn failed(&mut self, retry_at: Instant) {
        self.asked = false;
        self.backoff_due = false;
        self.retry_at = (!is_planted(Bug::NoBackoff)).then_some(retry_at);
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Notes a success, which resets the backoff.
    pub(crate) fn succeeded(&mut self) {
        self.asked = false;
        self.retry_at = None;
        self.attempts = 0;
    }

    pub(crate) fn due(&self, now: Instant) -> bool {
        !self.blocked && !self.backoff_due && self.retry_at.is_none_or(|at| at <= now)
    }

    pub(crate) fn is_fetchable(&self, now: Instant) -> bool {
        let wanted = |position: FetchPosition| self.is_before_end(position.offset);
        !self.paused
            && !self.is_buffered()
            && self.due(now)
            && self.fetch_position().is_some_and(wanted)
    }

    /// Returns the closer replica while its lease lasts.
    pub(crate) fn closer_replica(&self, now: Instant) -> Option<i32> {
        let (node, until) = self.preferred_replica?;
        (now < until).then_some(node)
    }

    /// Returns the node to read from: the closer replica if there is one, otherwise the leader.
    pub(crate) fn read_replica(&self, now: Instant) -> Option<i32> {
        self.closer_replica(now)
            .or_else(|| self.leader.map(|leader| leader.node))
    }

    /// Returns the distance of the position from the ends of the log, if they are known.
    pub(crate) fn distance(&self, isolation: IsolationLevel) -> Option<Distance> {
        let end = self.known_end(isolation)?;
        let position = self.valid_position()?.offset;
        Some(Distance {
            lag: (end - position).max(0),
            lead: self.log_start_offset.map(|start| (position - start).max(0)),
        })
    }

    pub(crate) fn measure(&mut self, isolation: IsolationLevel) {
        if let Some(distance) = self.distance(isolation) {
            self.distances.get_or_insert_default().push(distance);
        }
    }
}
