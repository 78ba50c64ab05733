//! What a consumer knows about one assigned partition.
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
//!  LogGone: the topic was made anew, and there is no policy; only a seek leads out of it
//!  seek: from anywhere to Fetching, or to AwaitValidation when the offset's epoch is known
//! ```
//!
//! Every change that makes answers on their way worthless (assign, seek, reset, validation)
//! gives the partition a new *stamp*. Requests remember the stamp they were sent under; an answer
//! with another one is thrown away. That one comparison keeps late offset loads from undoing a
//! seek, late resets from undoing another reset, and fetched records from an old position from
//! being handed out.

use std::time::Instant;

use thalweg_cluster::NodeId;
use thalweg_protocol::Uuid;
use thalweg_protocol::planted::{Bug, is_planted};

use crate::absence::AbsenceNote;
use crate::distances::{Distance, Distances};
use crate::offset_spec::{IsolationLevel, OffsetReset};

/// The next offset to read, and the leader epoch of the record before it (-1: unknown).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPosition {
    pub offset: i64,
    pub leader_epoch: i32,
}

impl FetchPosition {
    /// Moves over a batch; one of an old format does not know its epoch.
    pub(crate) fn move_to(&mut self, to: Self) {
        self.offset = self.offset.max(to.offset);
        if to.leader_epoch >= 0 {
            self.leader_epoch = to.leader_epoch;
        }
    }
}

/// Where a partition stands on its way to being fetched. The diagram above is this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No position: with a group id, the committed offset is waited for.
    Initializing,
    /// No position and none committed: the reset policy is to be applied.
    Uncommitted,
    /// The leader is to be asked for an offset.
    AwaitReset(OffsetReset),
    /// The leader is to confirm that its log still holds what was read so far.
    AwaitValidation(FetchPosition),
    Fetching(FetchPosition),
    /// The log that this position is of is no more, and there is no policy to find another by: told
    /// again and again until the application seeks.
    LogGone(FetchPosition),
}

/// Who leads a partition, as of the last metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) node: i32,
    pub(crate) epoch: i32,
}

/// Reading on behind the record set that an iteration goes through: see [`crate::stepping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead {
    /// What is fetched begins at the position.
    No,
    /// What is fetched begins here, where the record set before it ends.
    From(FetchPosition),
    /// The broker had an objection: the fetch from the position, once it has come there, will tell.
    GivenUp,
}

/// What the application was given of a partition since its last assignment, seek or reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOut {
    /// Another number after each assignment, seek and reset.
    pub since: u64,
    /// The position before the first record.
    pub from: i64,
    /// The position after the last record.
    pub to: i64,
    /// Fewer than offsets where the log has gaps or markers.
    pub records: u64,
}

#[derive(Debug)]
pub(crate) struct PartitionState {
    /// A number for this assignment of this partition, never used again.
    pub(crate) handle: u32,
    pub(crate) phase: Phase,
    pub(crate) stamp: u64,
    /// The stamp of the last assignment, seek or reset. Since then the position was only read on from,
    /// or confirmed.
    pub(crate) moved_at: u64,
    pub(crate) handed_out: Option<HandedOut>,
    pub(crate) paused: bool,
    /// What would be fetched next is in the buffer, or not to be fetched yet.
    pub(crate) buffered: bool,
    pub(crate) ahead: Ahead,
    /// A request that will settle the phase is on its way.
    pub(crate) asked: bool,
    /// An error about this partition waits to be raised; nothing is tried before it is.
    pub(crate) blocked: bool,
    /// A failure was reported on a thread without a clock; the I/O thread sets `retry_at`.
    pub(crate) backoff_due: bool,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) attempts: u32,
    pub(crate) leader: Option<Leader>,
    /// Epoch of the last leader under which the position was good.
    pub(crate) last_leader_epoch: Option<i32>,
    pub(crate) topic_id: Uuid,
    pub(crate) absence: AbsenceNote,
    /// A closer replica and until when it is used (KIP-392).
    pub(crate) preferred_replica: Option<(i32, Instant)>,
    pub(crate) high_watermark: Option<i64>,
    pub(crate) last_stable_offset: Option<i64>,
    pub(crate) log_start_offset: Option<i64>,
    /// When a broker last told these, with or without records.
    pub(crate) fetched_at: Option<Instant>,
    /// Measured when records are drained; none before.
    pub(crate) distances: Option<Box<Distances>>,
    /// Place in the rotation; smaller is sooner.
    pub(crate) turn: u64,
    /// To be looked at by the fetcher.
    pub(crate) touched: bool,
    /// What the last look said: the node whose session has it, the node at which it counts as
    /// buffered.
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
            buffered: false,
            ahead: Ahead::No,
            asked: false,
            blocked: false,
            backoff_due: false,
            retry_at: None,
            attempts: 0,
            leader: None,
            last_leader_epoch: None,
            topic_id: Uuid::ZERO,
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

    /// Enters another phase and makes every answer on its way stale.
    pub(crate) fn enter(&mut self, phase: Phase, stamp: u64) {
        self.phase = phase;
        self.stamp = stamp;
        self.buffered = false;
        self.ahead = Ahead::No;
        self.asked = false;
        self.blocked = false;
        self.backoff_due = false;
        self.retry_at = None;
        self.attempts = 0;
    }

    /// The application was given so many records between two positions.
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

    /// The position that may be read from: none while it is unknown or unconfirmed.
    pub(crate) fn valid_position(&self) -> Option<FetchPosition> {
        match self.phase {
            Phase::Fetching(position) => Some(position),
            _ => None,
        }
    }

    /// Where the next fetch begins, if there may be one.
    pub(crate) fn fetch_position(&self) -> Option<FetchPosition> {
        match self.ahead {
            Ahead::From(end) => self.valid_position().and(Some(end)),
            Ahead::No | Ahead::GivenUp => self.valid_position(),
        }
    }

    /// The end of the log for a reader, as of the last answer.
    fn known_end(&self, isolation: IsolationLevel) -> Option<i64> {
        match isolation {
            IsolationLevel::ReadUncommitted => self.high_watermark,
            IsolationLevel::ReadCommitted => self.last_stable_offset,
        }
    }

    /// Has what follows `end` fetched although the record set that ends there is not drained yet; not
    /// where the log was not known to go on: the broker would sit on the request. True if that is new.
    pub(crate) fn run_ahead(&mut self, end: FetchPosition, isolation: IsolationLevel) -> bool {
        let goes_on = self
            .known_end(isolation)
            .is_some_and(|known| end.offset < known);
        let starts = goes_on && self.buffered && self.ahead == Ahead::No;
        if starts {
            self.ahead = Ahead::From(end);
            self.buffered = false;
        }
        starts
    }

    /// Waits until the position has come to where it was fetched ahead from.
    pub(crate) fn give_up_ahead(&mut self) {
        self.ahead = Ahead::GivenUp;
        self.buffered = true;
    }

    /// Something went wrong: nothing is tried before `retry_at`.
    pub(crate) fn failed(&mut self, retry_at: Instant) {
        self.asked = false;
        self.backoff_due = false;
        self.retry_at = (!is_planted(Bug::NoBackoff)).then_some(retry_at);
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Something went well.
    pub(crate) fn succeeded(&mut self) {
        self.asked = false;
        self.retry_at = None;
        self.attempts = 0;
    }

    pub(crate) fn due(&self, now: Instant) -> bool {
        !self.blocked && !self.backoff_due && self.retry_at.is_none_or(|at| at <= now)
    }

    pub(crate) fn is_fetchable(&self, now: Instant) -> bool {
        !self.paused && !self.buffered && self.due(now) && self.valid_position().is_some()
    }

    /// The closer replica, while its lease lasts.
    pub(crate) fn closer_replica(&self, now: Instant) -> Option<i32> {
        let (node, until) = self.preferred_replica?;
        (now < until).then_some(node)
    }

    /// The node to read from: the closer replica if there is one, else the leader.
    pub(crate) fn read_replica(&self, now: Instant) -> Option<i32> {
        self.closer_replica(now)
            .or_else(|| self.leader.map(|leader| leader.node))
    }

    /// How far the position is from the ends of the log, where both are known.
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
