"""Who may become what: the states of members and groups, and their transitions, as tables.

Transitions happen in one file each, by `move`:

    CLASSIC_MEMBER    the consumer's side of the classic protocol    classic/member.py
    CLASSIC_GROUP     the broker's side of it                        classic/group.py
    CONSUMER_MEMBER   the consumer's side of KIP-848's protocol      consumer/member.py
    CONSUMER_GROUP    the broker's side of it                        consumer/group.py
    RECONCILIATION    one member, as the broker sees it              consumer/reconciliation.py

The names are Kafka's own (`DescribeGroups` shows those of groups). In the classic protocol `Fatal`
and `Closed` are ours: Java's consumer has an exception and a flag in their place.
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
    """A move that its table does not have: a bug of ours, never of the other side."""


def move(table: Mapping[S, frozenset[S]], current: S, to: S) -> S:
    """The new state.

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
    # Somebody joins.
    _G.EMPTY: frozenset({_G.PREPARING_REBALANCE, _G.DEAD}),
    # All joined, or the time is up; with nobody left the group is empty.
    _G.PREPARING_REBALANCE: frozenset({_G.COMPLETING_REBALANCE, _G.EMPTY, _G.DEAD}),
    # The leader sent the assignment; or members came, went, or did not sync in time.
    _G.COMPLETING_REBALANCE: frozenset({_G.STABLE, _G.PREPARING_REBALANCE, _G.DEAD}),
    _G.STABLE: frozenset({_G.PREPARING_REBALANCE, _G.DEAD}),
    _G.DEAD: frozenset(),
}


class MemberState(StrEnum):
    """`AbstractCoordinator.MemberState`, and its two ends."""

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
    # JoinGroup is answered, or failed, or the membership was reset meanwhile.
    _M.PREPARING_REBALANCE: frozenset({_M.COMPLETING_REBALANCE, _M.UNJOINED, _M.FATAL, _M.CLOSED}),
    # SyncGroup is answered, or failed, or the membership was reset meanwhile.
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

# A step may do several things at once, so each state of a group with members may follow each.
CONSUMER_GROUP: Final[Mapping[ConsumerGroupState, frozenset[ConsumerGroupState]]] = {
    # Somebody joins; or the group is deleted.
    _CG.EMPTY: frozenset({_CG.ASSIGNING, _CG.RECONCILING, _CG.STABLE, _CG.DEAD}),
    # The group's epoch is ahead of the assignment's: who reads what is to be computed.
    _CG.ASSIGNING: frozenset({_CG.RECONCILING, _CG.STABLE, _CG.EMPTY}),
    # Members are on their way to the assignment.
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
    # It has all that it shall have; or it gave up what it had to, and more came.
    _R.STABLE: frozenset({_R.UNREVOKED_PARTITIONS, _R.UNRELEASED_PARTITIONS}),
    # It still owns what others shall have.
    _R.UNREVOKED_PARTITIONS: frozenset({_R.STABLE, _R.UNRELEASED_PARTITIONS}),
    # Others still own what it shall have.
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

# What may end any membership: fenced, fatal, not polling, leaving.
_ENDS: Final = frozenset({_CM.FENCED, _CM.FATAL, _CM.STALE, _CM.PREPARE_LEAVING})

CONSUMER_MEMBER: Final[Mapping[ConsumerMemberState, frozenset[ConsumerMemberState]]] = {
    _CM.UNSUBSCRIBED: frozenset({_CM.JOINING}),
    # The group took it in, with partitions or without.
    _CM.JOINING: frozenset({_CM.RECONCILING, *_ENDS}),
    # Partitions are given up or taken; or the target became what it has already.
    _CM.RECONCILING: frozenset({_CM.ACKNOWLEDGING, _CM.STABLE, *_ENDS}),
    # The group is told what it has now, and answers with what it shall have next.
    _CM.ACKNOWLEDGING: frozenset({_CM.RECONCILING, _CM.STABLE, *_ENDS}),
    _CM.STABLE: frozenset({_CM.RECONCILING, *_ENDS}),
    # Partitions are given up; then the group is told, if it still knows this member.
    _CM.PREPARE_LEAVING: frozenset({_CM.LEAVING, _CM.UNSUBSCRIBED, _CM.JOINING}),
    _CM.LEAVING: frozenset({_CM.UNSUBSCRIBED, _CM.JOINING}),
    # What it had is someone else's; then it joins anew.
    _CM.FENCED: frozenset({_CM.JOINING, _CM.PREPARE_LEAVING}),
    # It left, as the application did not poll; with the next poll it joins anew.
    _CM.STALE: frozenset({_CM.JOINING, _CM.PREPARE_LEAVING}),
    _CM.FATAL: frozenset(),
}
