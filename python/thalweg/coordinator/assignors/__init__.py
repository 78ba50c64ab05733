"""Assignors: they decide which member reads which partition, in the classic group protocol.

    range.py, roundrobin.py           compute each assignment from scratch
    sticky/, cooperative_sticky.py    keep the partitions that members had
      _sticky.py                      chooses one of the two algorithms below
        _claims.py                    the partitions that members had, without contradictions
        _constrained.py               all members want the same topics: two passes
        _general.py                   members want different topics: fill, then balance
          _balance.py                 moves partitions; _holdings.py: partitions of each member
          _movements.py               the moves so far, to avoid useless ones
    _group.py                         input of the built-in assignors, and their base class
    _racks.py                         which members are near which partitions (KIP-881)
    _java_order.py                    the order of Java's hash tables, which decides ties
    abstract.py                       base class of assignors, also of custom ones
    registry.py                       converts the option's values to assignors
    calls.py                          the consumer's calls of assignors, with the group's bytes
    topics.py                         the topics that assignors get
    server.py                         the broker's assignors, of KIP-848's protocol

The leader of a group decides for all members, and leaders of every client should decide the same.
So the built-in assignors give the same assignments as the Java client, and send the same bytes.
They differ from it only where Java's assignors fail: see `tests/conformance`.
"""

from thalweg.coordinator.assignors.abstract import (
    AbstractPartitionAssignor,
    Member,
    RebalanceProtocol,
)
from thalweg.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from thalweg.coordinator.assignors.range import RangePartitionAssignor
from thalweg.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from thalweg.coordinator.assignors.sticky import StickyPartitionAssignor

__all__ = [
    "AbstractPartitionAssignor",
    "CooperativeStickyAssignor",
    "Member",
    "RangePartitionAssignor",
    "RebalanceProtocol",
    "RoundRobinPartitionAssignor",
    "StickyPartitionAssignor",
]
