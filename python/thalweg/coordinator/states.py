"""The states of members and groups, as tables.

Three tables say which trigger leads from which state to which. Each machine moves only by `move`:

    CLASSIC_MEMBER    the consumer's side of the classic protocol    classic/member.py
    CLASSIC_GROUP     the broker's side of the classic protocol      classic/group.py
    CONSUMER_MEMBER   the consumer's side of KIP-848's protocol      kip848/member.py

Two states follow from other fields: the epochs of a group, the partitions of a member. Their tables
say which state may follow which, and `enter` checks it:

    CONSUMER_GROUP    the broker's side of KIP-848's protocol        kip848/group.py
    RECONCILIATION    one member of a group, at the broker           kip848/reconciliation.py

docs/groups.md shows all tables as diagrams, which tools/generate_states.py draws. The names of
states are Kafka's (`DescribeGroups` shows those of groups). Only `Fatal` and `Closed` of the
classic protocol are our own: Java's consumer has an exception and a flag in their place.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

__all__ = [
    "CLASSIC_GROUP",
    "CLASSIC_MEMBER",
    "CONSUMER_GROUP",
    "CONSUMER_MEMBER",
    "RECONCILIATION",
    "ConsumerGroupState",
    "ConsumerMemberState",
    "ConsumerMemberTrigger",
    "ForbiddenTransition",
    "GroupState",
    "GroupTrigger",
    "MemberState",
    "MemberTrigger",
    "ReconciliationState",
    "enter",
    "move",
]

S = TypeVar("S", bound=StrEnum)
T = TypeVar("T", bound=StrEnum)


class ForbiddenTransition(AssertionError):
    """A transition that is not in the table: a bug in this code, never in the other side."""


def move(table: Mapping[S, Mapping[T, S]], current: S, trigger: T) -> S:
    """Returns the state to which a trigger leads.

    Raises:
        ForbiddenTransition: If the table has no such trigger in this state.
    """
    following = table[current].get(trigger)
    if following is None:
        kind = type(current).__name__
        raise ForbiddenTransition(f"{kind}: nothing follows {current} on {trigger.name}")
    return following


def enter(table: Mapping[S, frozenset[S]], current: S, to: S) -> S:
    """Checks a transition to another state, and returns that state.

    Raises:
        ForbiddenTransition: If the table does not allow it.
    """
    if to not in table[current]:
        raise ForbiddenTransition(f"{type(current).__name__}: {current} -> {to}")
    return to


# ---------------------------------------------------------------------- the classic protocol


class MemberState(StrEnum):
    """`AbstractCoordinator.MemberState`, with two final states."""

    UNJOINED = "Unjoined"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    FATAL = "Fatal"
    CLOSED = "Closed"


class MemberTrigger(StrEnum):
    """What moves a classic member."""

    JOIN = "sends JoinGroup"
    JOINED = "response to JoinGroup arrives"
    SYNCED = "response to SyncGroup arrives"
    FAILED = "JoinGroup or SyncGroup fails"
    ENDED = "membership is lost, or consumer leaves"
    FENCED = "fenced"
    CLOSED = "consumer closes"


_M, _MT = MemberState, MemberTrigger

# In each state of a member that lives.
_CLASSIC_ENDS: Final = {
    _MT.ENDED: _M.UNJOINED,
    _MT.FENCED: _M.FATAL,
    _MT.CLOSED: _M.CLOSED,
}

CLASSIC_MEMBER: Final[Mapping[MemberState, Mapping[MemberTrigger, MemberState]]] = {
    _M.UNJOINED: {_MT.JOIN: _M.PREPARING_REBALANCE, **_CLASSIC_ENDS},
    _M.PREPARING_REBALANCE: {
        _MT.JOINED: _M.COMPLETING_REBALANCE,
        _MT.FAILED: _M.UNJOINED,
        **_CLASSIC_ENDS,
    },
    _M.COMPLETING_REBALANCE: {
        _MT.SYNCED: _M.STABLE,
        _MT.FAILED: _M.UNJOINED,
        **_CLASSIC_ENDS,
    },
    _M.STABLE: {_MT.JOIN: _M.PREPARING_REBALANCE, **_CLASSIC_ENDS},
    _M.FATAL: {_MT.CLOSED: _M.CLOSED},
    _M.CLOSED: {},
}


class GroupState(StrEnum):
    """`org.apache.kafka.coordinator.group.classic.ClassicGroupState`."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupTrigger(StrEnum):
    """What moves a classic group."""

    REBALANCE = "members join, leave or change"
    JOINED = "all members have joined, or the rebalance timeout is over"
    EMPTIED = "last member has left"
    SYNC_EXPIRED = "members did not sync in time"
    ASSIGNED = "leader sends the assignment"
    DELETED = "group is deleted"


_G, _GT = GroupState, GroupTrigger

CLASSIC_GROUP: Final[Mapping[GroupState, Mapping[GroupTrigger, GroupState]]] = {
    _G.EMPTY: {
        _GT.REBALANCE: _G.PREPARING_REBALANCE,
        _GT.DELETED: _G.DEAD,
    },
    _G.PREPARING_REBALANCE: {
        _GT.JOINED: _G.COMPLETING_REBALANCE,
        _GT.EMPTIED: _G.EMPTY,
        _GT.DELETED: _G.DEAD,
    },
    _G.COMPLETING_REBALANCE: {
        _GT.ASSIGNED: _G.STABLE,
        _GT.REBALANCE: _G.PREPARING_REBALANCE,
        _GT.SYNC_EXPIRED: _G.PREPARING_REBALANCE,
        _GT.DELETED: _G.DEAD,
    },
    _G.STABLE: {
        _GT.REBALANCE: _G.PREPARING_REBALANCE,
        # The leader has synced, but not all other members.
        _GT.SYNC_EXPIRED: _G.PREPARING_REBALANCE,
        _GT.DELETED: _G.DEAD,
    },
    _G.DEAD: {},
}

# ---------------------------------------------------------------------- KIP-848's protocol


class ConsumerMemberState(StrEnum):
    """`org.apache.kafka.clients.consumer.internals.MemberState`."""

    UNSUBSCRIBED = "Unsubscribed"
    JOINING = "Joining"
    RECONCILING = "Reconciling"
    ACKNOWLEDGING = "Acknowledging"
    STABLE = "Stable"
    PREPARE_LEAVING = "PrepareLeaving"
    LEAVING = "Leaving"
    FENCED = "Fenced"
    FATAL = "Fatal"
    STALE = "Stale"


class ConsumerMemberTrigger(StrEnum):
    """What moves a member of KIP-848's protocol."""

    JOIN = "sends its first heartbeat"
    TARGET = "owns other partitions than its target"
    REPORT = "reports its partitions after a change"
    SETTLED = "owns exactly its target"
    FENCED = "member ID or epoch is refused"
    FAILED = "fatal error"
    POLL_EXPIRED = "no poll for max_poll_interval_ms"
    GIVE_UP = "consumer unsubscribes or closes"
    LEAVE = "sends its last heartbeat"
    LEFT = "membership has ended"


_CM, _CT = ConsumerMemberState, ConsumerMemberTrigger

# In each state of a member of the group.
_CONSUMER_ENDS: Final = {
    _CT.FAILED: _CM.FATAL,
    _CT.POLL_EXPIRED: _CM.STALE,
    _CT.GIVE_UP: _CM.PREPARE_LEAVING,
}

CONSUMER_MEMBER: Final[
    Mapping[ConsumerMemberState, Mapping[ConsumerMemberTrigger, ConsumerMemberState]]
] = {
    _CM.UNSUBSCRIBED: {_CT.JOIN: _CM.JOINING},
    # The group has accepted it, with partitions or without.
    _CM.JOINING: {_CT.TARGET: _CM.RECONCILING, **_CONSUMER_ENDS},
    # It gives up or takes partitions. Or the new target is what it already has.
    _CM.RECONCILING: {
        _CT.TARGET: _CM.RECONCILING,
        _CT.REPORT: _CM.ACKNOWLEDGING,
        _CT.SETTLED: _CM.STABLE,
        _CT.FENCED: _CM.FENCED,
        **_CONSUMER_ENDS,
    },
    # The response to its report has its next target.
    _CM.ACKNOWLEDGING: {
        _CT.TARGET: _CM.RECONCILING,
        _CT.SETTLED: _CM.STABLE,
        _CT.FENCED: _CM.FENCED,
        **_CONSUMER_ENDS,
    },
    _CM.STABLE: {
        _CT.TARGET: _CM.RECONCILING,
        _CT.SETTLED: _CM.STABLE,
        _CT.FENCED: _CM.FENCED,
        **_CONSUMER_ENDS,
    },
    # It gives up its partitions. Then it leaves the group, if the group still knows it.
    _CM.PREPARE_LEAVING: {
        _CT.LEAVE: _CM.LEAVING,
        _CT.LEFT: _CM.UNSUBSCRIBED,
        _CT.JOIN: _CM.JOINING,  # it has subscribed again meanwhile
    },
    _CM.LEAVING: {
        _CT.LEFT: _CM.UNSUBSCRIBED,
        _CT.JOIN: _CM.JOINING,
    },
    # Other members may own its partitions. It joins again.
    _CM.FENCED: {_CT.JOIN: _CM.JOINING, _CT.GIVE_UP: _CM.PREPARE_LEAVING},
    # It has left, because the application did not poll. The next poll joins again.
    _CM.STALE: {_CT.JOIN: _CM.JOINING, _CT.GIVE_UP: _CM.PREPARE_LEAVING},
    _CM.FATAL: {},
}


class ConsumerGroupState(StrEnum):
    """`org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup.ConsumerGroupState`."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


_CG = ConsumerGroupState

# One step may do several things, so every state of a group with members may follow every other.
CONSUMER_GROUP: Final[Mapping[ConsumerGroupState, frozenset[ConsumerGroupState]]] = {
    # A member joins, or the group is deleted.
    _CG.EMPTY: frozenset({_CG.ASSIGNING, _CG.RECONCILING, _CG.STABLE, _CG.DEAD}),
    # The group's epoch is newer than the epoch of the assignment, which must be computed again.
    _CG.ASSIGNING: frozenset({_CG.RECONCILING, _CG.STABLE, _CG.EMPTY}),
    # Members still have to give up or take partitions.
    _CG.RECONCILING: frozenset({_CG.ASSIGNING, _CG.STABLE, _CG.EMPTY}),
    _CG.STABLE: frozenset({_CG.ASSIGNING, _CG.RECONCILING, _CG.EMPTY}),
    _CG.DEAD: frozenset(),
}


class ReconciliationState(StrEnum):
    """`org.apache.kafka.coordinator.group.modern.MemberState`."""

    STABLE = "Stable"
    UNREVOKED_PARTITIONS = "UnrevokedPartitions"
    UNRELEASED_PARTITIONS = "UnreleasedPartitions"


_R = ReconciliationState

RECONCILIATION: Final[Mapping[ReconciliationState, frozenset[ReconciliationState]]] = {
    # It has its complete target, or it has revoked its surplus and got more partitions.
    _R.STABLE: frozenset({_R.UNREVOKED_PARTITIONS, _R.UNRELEASED_PARTITIONS}),
    # It still owns partitions that are not in its target.
    _R.UNREVOKED_PARTITIONS: frozenset({_R.STABLE, _R.UNRELEASED_PARTITIONS}),
    # Other members still own partitions of its target.
    _R.UNRELEASED_PARTITIONS: frozenset({_R.STABLE, _R.UNREVOKED_PARTITIONS}),
}
