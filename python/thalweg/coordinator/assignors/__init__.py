"""Who reads which partition: the assignors of the classic group protocol.

    range.py, roundrobin.py           start over each time
    sticky.py, cooperative_sticky.py  keep what members had
      _sticky.py                      which of the two algorithms below
        _claims.py                    what members had, free of contradictions
        _constrained.py               all want the same topics: two passes
        _general.py                   they do not: fill, then balance
          _balance.py                 what moves; _holdings.py: who has how much
          _movements.py               what moved, so that nothing moves to no purpose
    _group.py                         what they work on, and what they have in common
    _racks.py                         who is near what (KIP-881)
    _java_order.py                    the order of Java's hash tables, which decides ties
    abstract.py                       what an assignor is; custom ones derive from it
    registry.py                       the option's values as assignors
    calls.py                          the consumer's calls of them, with the group's bytes
    topics.py                         the topics that they are told of

A group's leader decides for all, and leaders of any client should decide alike: the built-in
ones give what the Java client gives, partition for partition, and what they send is what it
sends, byte for byte. They differ from it only where it fails: see `tests/conformance`.
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
