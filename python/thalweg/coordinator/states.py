"""Who may become what: the states of members and groups, and their transitions, as tables.

Transitions happen in one file each, by `move`:

    CLASSIC_MEMBER   the consumer's side of the classic protocol    member.py
    CLASSIC_GROUP    the broker's side of it                        group.py

The names are Kafka's own (`DescribeGroups` shows those of groups). `Fatal` and `Closed` are ours:
Java's consumer has an exception and a flag in their place.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

__all__ = [
    "CLASSIC_GROUP",
    "CLASSIC_MEMBER",
    "ForbiddenTransition",
    "GroupState",
    "MemberState",
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
