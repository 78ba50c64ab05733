"""The states of members and groups, and their allowed transitions, as tables.

The transitions of each table happen in one file, by `move`:

    CLASSIC_MEMBER    the consumer's side of the classic protocol    classic/member.py
    CLASSIC_GROUP     the broker's side of the classic protocol      classic/group.py
    CONSUMER_MEMBER   the consumer's side of KIP-848's protocol      kip848/member.py
    CONSUMER_GROUP    the broker's side of KIP-848's protocol        kip848/group.py
    RECONCILIATION    one member of a group, at the broker           kip848/reconciliation.py

The names are Kafka's (`DescribeGroups` shows the states of groups). Only `Fatal` and `Closed` of
the classic protocol are our own: Java's consumer has an exception and a flag in their place.
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
    "ForbiddenTransition",
    "GroupState",
    "MemberState",
    "ReconciliationState",
    "move",
]

S = TypeVar("S", bound=StrEnum)


class ForbiddenTransition(AssertionError):
    """A transition that the table does not allow: a bug in this code, never in the other side."""


def move(table: Mapping[S, frozenset[S]], current: S, to: S) -> S:
    """Checks a transition, and returns the new state.

    Raises:
        ForbiddenTransition: If the table does not allow it.
    """
    if to not in table[current]:
        raise ForbiddenTransition(f"{type(current).__name__}: {current} -> {to}")
    return to


class GroupState(StrEnum):
    """`org.apache.kafka.coordinator.group.classic.ClassicGroupState`."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_G = GroupState

CLASSIC_GROUP: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    # A member joins.
    _G.EMPTY: frozenset({_G.PREPARING_REBALANCE, _G.DEAD}),
    # All members have joined, or the time is over. Without members, the group is empty.
    _G.PREPARING_REBALANCE: frozenset({_G.COMPLETING_REBALANCE, _G.EMPTY, _G.DEAD}),
    # The leader has sent the assignment. Or members joined, left, or did not sync in time.
    _G.COMPLETING_REBALANCE: frozenset({_G.STABLE, _G.PREPARING_REBALANCE, _G.DEAD}),
    _G.STABLE: frozenset({_G.PREPARING_REBALANCE, _G.DEAD}),
    _G.DEAD: frozenset(),
}


class MemberState(StrEnum):
    """`AbstractCoordinator.MemberState`, with two final states."""

    UNJOINED = "Unjoined"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    FATAL = "Fatal"
    CLOSED = "Closed"


_M = MemberState

CLASSIC_MEMBER: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    # JoinGroup is sent.
    _M.UNJOINED: frozenset({_M.PREPARING_REBALANCE, _M.FATAL, _M.CLOSED}),
    # JoinGroup is answered or has failed, or the membership was reset in the meantime.
    _M.PREPARING_REBALANCE: frozenset({_M.COMPLETING_REBALANCE, _M.UNJOINED, _M.FATAL, _M.CLOSED}),
    # SyncGroup is answered or has failed, or the membership was reset in the meantime.
    _M.COMPLETING_REBALANCE: frozenset({_M.STABLE, _M.UNJOINED, _M.FATAL, _M.CLOSED}),
    # JoinGroup is sent again, or the membership is lost or given up.
    _M.STABLE: frozenset({_M.PREPARING_REBALANCE, _M.UNJOINED, _M.FATAL, _M.CLOSED}),
    _M.FATAL: frozenset({_M.CLOSED}),
    _M.CLOSED: frozenset(),
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


_CM = ConsumerMemberState

# The states that may end any membership: fenced, fatal error, no polls, leaving.
_ENDS: Final = frozenset({_CM.FENCED, _CM.FATAL, _CM.STALE, _CM.PREPARE_LEAVING})

CONSUMER_MEMBER: Final[Mapping[ConsumerMemberState, frozenset[ConsumerMemberState]]] = {
    _CM.UNSUBSCRIBED: frozenset({_CM.JOINING}),
    # The group has accepted it, with partitions or without.
    _CM.JOINING: frozenset({_CM.RECONCILING, *_ENDS}),
    # It gives up or takes partitions. Or the new target is what it already has.
    _CM.RECONCILING: frozenset({_CM.ACKNOWLEDGING, _CM.STABLE, *_ENDS}),
    # It reports what it has now, and the answer has its next target.
    _CM.ACKNOWLEDGING: frozenset({_CM.RECONCILING, _CM.STABLE, *_ENDS}),
    _CM.STABLE: frozenset({_CM.RECONCILING, *_ENDS}),
    # It gives up its partitions. Then it leaves the group, if the group still knows it.
    _CM.PREPARE_LEAVING: frozenset({_CM.LEAVING, _CM.UNSUBSCRIBED, _CM.JOINING}),
    _CM.LEAVING: frozenset({_CM.UNSUBSCRIBED, _CM.JOINING}),
    # Other members may own its partitions. It joins again.
    _CM.FENCED: frozenset({_CM.JOINING, _CM.PREPARE_LEAVING}),
    # It has left, because the application did not poll. The next poll joins again.
    _CM.STALE: frozenset({_CM.JOINING, _CM.PREPARE_LEAVING}),
    _CM.FATAL: frozenset(),
}
