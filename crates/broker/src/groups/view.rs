//! [`GroupView`]: what the coordinator publishes of a group, and what follows from it for requests
//! that commit, fetch and delete its offsets.
//!
//! The rules are those of `ClassicGroup` and `ConsumerGroup` in Kafka 4.3.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_protocol::{ErrorCode, Str};

const EMPTY: &str = "Empty";
const DEAD: &str = "Dead";
const STABLE: &str = "Stable";
const PREPARING_REBALANCE: &str = "PreparingRebalance";
const COMPLETING_REBALANCE: &str = "CompletingRebalance";
/// The protocol type of consumer groups that use the classic protocol.
const CONSUMER_PROTOCOL: &str = "consumer";
/// The first `OffsetCommit` version that members of the consumer protocol may send (KIP-848).
const EPOCH_COMMIT_VERSION: i16 = 9;

/// The protocol that a group's members use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    Classic,
    /// KIP-848.
    Consumer,
}

impl GroupKind {
    /// Returns Kafka's name, as in `ListGroups`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Classic, Self::Consumer]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// The state of a group, as its coordinator published it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    pub kind: GroupKind,
    /// Empty for a group that never had members.
    pub protocol_type: Str,
    /// Kafka's name of the state.
    pub state: Str,
    /// The generation, or the group epoch.
    pub epoch: i32,
    /// The topics that the members subscribe to.
    pub topics: BTreeSet<Str>,
    pub members: BTreeMap<Str, MemberView>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    pub instance_id: Option<Str>,
    pub session_timeout_ms: u32,
    /// For a classic member: the generation.
    pub epoch: i32,
    /// For a member of KIP-848's protocol: the epoch at which it got each of its partitions.
    pub assignment_epochs: BTreeMap<Str, BTreeMap<i32, i32>>,
    /// The response to its heartbeat.
    pub heartbeat: ErrorCode,
    /// Whether the session's time runs.
    pub is_watched: bool,
}

impl MemberView {
    /// Whether a commit with this epoch is valid for all these partitions (KIP-1251). A member may
    /// still commit with an older epoch for partitions that it has owned since then.
    fn accepts(&self, epoch: i32, partitions: &[TopicPartition]) -> bool {
        let has_had = |(topic, partition): &TopicPartition| {
            let epochs = self.assignment_epochs.get(topic);
            let assigned_at = epochs.and_then(|epochs| epochs.get(partition));
            assigned_at.is_some_and(|assigned_at| *assigned_at <= epoch)
        };
        epoch == self.epoch || (epoch < self.epoch && partitions.iter().all(has_had))
    }
}

/// A topic's name, and a partition of it.
pub(crate) type TopicPartition = (Str, i32);

/// The member that commits or fetches offsets, as the request names it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committer<'a> {
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    /// The generation or member epoch. Negative for clients that are in no group.
    pub(crate) epoch: i32,
}

impl Committer<'_> {
    fn is_anonymous(&self) -> bool {
        self.epoch < 0 && self.member_id.is_empty() && self.instance_id.is_none()
    }
}

/// The request that commits offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitBy {
    OffsetCommit { version: i16 },
    Transaction,
}

/// The time from which the retention of offsets is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetainedSince {
    Commit,
    Emptied,
}

impl GroupView {
    pub(crate) fn is_empty(&self) -> bool {
        self.state == EMPTY
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state == DEAD
    }

    /// Whether a classic member's commit counts as a heartbeat.
    pub(crate) fn counts_commits_as_heartbeats(&self) -> bool {
        let settled = self.state == STABLE || self.state == PREPARING_REBALANCE;
        self.kind == GroupKind::Classic && settled
    }

    fn consumes(&self) -> bool {
        self.kind == GroupKind::Consumer || self.protocol_type == CONSUMER_PROTOCOL
    }

    pub(crate) fn is_subscribed(&self, topic: &str) -> bool {
        self.consumes() && self.topics.contains(topic)
    }

    /// Returns the member that the request names.
    fn member(&self, who: &Committer<'_>) -> Result<&MemberView, ErrorCode> {
        if let Some(instance) = who.instance_id
            && self.kind == GroupKind::Classic
        {
            let is_held = |held: &Str| *held == *instance;
            let mut members = self.members.iter();
            let holder =
                members.find(|(_, member)| member.instance_id.as_ref().is_some_and(is_held));
            let (holder, _) = holder.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
            if *holder != *who.member_id {
                return Err(ErrorCode::FENCED_INSTANCE_ID);
            }
        }
        let member = self.members.get(who.member_id);
        member.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
    }

    /// Returns the response to a classic member's heartbeat. Fails if it is not from a member.
    pub(crate) fn check_heartbeat(&self, who: &Committer<'_>) -> Result<ErrorCode, ErrorCode> {
        if self.is_dead() {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        if self.kind == GroupKind::Consumer {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        let member = self.member(who)?;
        if who.epoch != self.epoch {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        Ok(member.heartbeat)
    }

    /// Checks a commit. As in Kafka, one refused partition makes the complete commit fail.
    pub(crate) fn check_commit(
        &self,
        who: &Committer<'_>,
        by: CommitBy,
        partitions: &[TopicPartition],
    ) -> Result<(), ErrorCode> {
        match self.kind {
            GroupKind::Classic => self.check_classic_commit(who, by),
            GroupKind::Consumer => self.check_consumer_commit(who, by, partitions),
        }
    }

    fn check_classic_commit(&self, who: &Committer<'_>, by: CommitBy) -> Result<(), ErrorCode> {
        if self.is_dead() {
            return Err(ErrorCode::COORDINATOR_NOT_AVAILABLE);
        }
        // From administrators, and from consumers that assign their own partitions.
        if who.epoch < 0 && self.is_empty() {
            return Ok(());
        }
        if !who.is_anonymous() {
            self.member(who)?;
            if who.epoch != self.epoch {
                return Err(ErrorCode::ILLEGAL_GENERATION);
            }
        } else if by != CommitBy::Transaction {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        // The member has the new generation from JoinGroup, but gets its partitions only with
        // SyncGroup.
        if by != CommitBy::Transaction && self.state == COMPLETING_REBALANCE {
            return Err(ErrorCode::REBALANCE_IN_PROGRESS);
        }
        Ok(())
    }

    fn check_consumer_commit(
        &self,
        who: &Committer<'_>,
        by: CommitBy,
        partitions: &[TopicPartition],
    ) -> Result<(), ErrorCode> {
        if who.epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        // Older transactional producers do not name the member that they commit for.
        if by == CommitBy::Transaction && who.is_anonymous() {
            return Ok(());
        }
        let member = self.member(who)?;
        match by {
            CommitBy::OffsetCommit { version } if version < EPOCH_COMMIT_VERSION => {
                Err(ErrorCode::UNSUPPORTED_VERSION)
            }
            _ if member.accepts(who.epoch, partitions) => Ok(()),
            CommitBy::OffsetCommit { .. } => Err(ErrorCode::STALE_MEMBER_EPOCH),
            CommitBy::Transaction => Err(ErrorCode::ILLEGAL_GENERATION),
        }
    }

    /// Checks a fetch of offsets. The member id is `None` if the request does not name one.
    pub(crate) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        if self.kind == GroupKind::Classic || (member_id.is_none() && epoch < 0) {
            return Ok(());
        }
        let who = Committer {
            member_id: member_id.unwrap_or_default(),
            instance_id: None,
            epoch,
        };
        if self.member(&who)?.epoch == epoch {
            Ok(())
        } else {
            Err(ErrorCode::STALE_MEMBER_EPOCH)
        }
    }

    /// Checks that single offsets may be deleted. Those of a subscribed topic must stay.
    pub(crate) fn check_offset_delete(&self) -> Result<(), ErrorCode> {
        if self.is_dead() {
            return Err(ErrorCode::GROUP_ID_NOT_FOUND);
        }
        if self.is_empty() || self.consumes() {
            Ok(())
        } else {
            Err(ErrorCode::NON_EMPTY_GROUP)
        }
    }

    pub(crate) fn check_delete(&self) -> Result<(), ErrorCode> {
        if self.is_dead() {
            return Err(ErrorCode::GROUP_ID_NOT_FOUND);
        }
        if self.is_empty() {
            Ok(())
        } else {
            Err(ErrorCode::NON_EMPTY_GROUP)
        }
    }

    /// Returns the time from which retention is counted, or `None` if offsets do not expire for
    /// now. Offsets of subscribed topics never expire.
    pub(crate) fn retained_since(&self) -> Option<RetainedSince> {
        if self.kind == GroupKind::Consumer || self.protocol_type.is_empty() {
            return Some(RetainedSince::Commit);
        }
        if self.is_empty() {
            return Some(RetainedSince::Emptied);
        }
        let knows_topics = self.consumes() && self.state == STABLE;
        knows_topics.then_some(RetainedSince::Commit)
    }
}
