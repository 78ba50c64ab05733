"""Moves a member from its current to its target assignment, one heartbeat at a time (KIP-848).

    Stable ── the target lacks some partitions ──> UnrevokedPartitions
       ^                                                  │ the member reports that it gave them up
       └── complete ── UnreleasedPartitions <─────────────┘ (or Stable at once)
                       other members still have partitions of the target

The rules are those of Kafka's `CurrentAssignmentBuilder`. It is a pure function from a member's
`Current` to the next one. A member gets the epoch of the target only after it has given up all
partitions that are not in the target. Then it gets partitions as their owners release them, without
another change of the epoch.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace

from thalweg.coordinator.kip848.requests import LEAVE_FOR_A_WHILE
from thalweg.coordinator.kip848.topic_ids import IdPartition
from thalweg.coordinator.states import RECONCILIATION, ReconciliationState, enter

__all__ = ["Current", "Target", "away", "reconcile"]

_R = ReconciliationState
_NONE: frozenset[IdPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Current:
    """The current position of a member.

    Attributes:
        state: See states.RECONCILIATION.
        epoch: The member epoch. 0 before its first assignment, -2 while a static member is away.
        previous_epoch: The epoch before, because the response with the newer one may be lost.
        assigned: The partitions that it may read, as in responses.
        revoking: The partitions that it must give up, and has not yet given up.
        epochs: For each partition that it holds, the epoch at which it got the partition. Commits
            with this epoch or a later one are accepted (KIP-1251).
    """

    state: ReconciliationState = _R.STABLE
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[IdPartition] = _NONE
    revoking: frozenset[IdPartition] = _NONE
    epochs: Mapping[IdPartition, int] = field(default_factory=dict)

    @property
    def held(self) -> frozenset[IdPartition]:
        """The partitions that no other member may get yet."""
        return self.assigned | self.revoking


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a member.

    Attributes:
        epoch: The epoch of the assignment.
        partitions: The member's partitions in it.
        topic_ids: The topics that it subscribes to now. It keeps no partitions of other topics,
            even if the assignment has them.
    """

    epoch: int
    partitions: frozenset[IdPartition]
    topic_ids: Set[str]


def reconcile(
    current: Current,
    target: Target,
    owned: frozenset[IdPartition] | None,
    is_free: Callable[[IdPartition], bool],
    resubscribed: bool = False,
) -> Current:
    """Returns the member's next position, which may be the same.

    Args:
        current: The current position.
        target: The target.
        owned: The partitions that the member reports to own. None: it reports nothing.
        is_free: Whether no other member has a partition.
        resubscribed: Whether its subscription has changed since its last heartbeat.
    """
    if current.state is _R.UNREVOKED_PARTITIONS and _keeps(current.revoking, owned):
        return _drop_unsubscribed(current, target, owned) if resubscribed else current
    if current.state is _R.STABLE and current.epoch == target.epoch:
        return _drop_unsubscribed(current, target, owned) if resubscribed else current
    return _advance(current, target, owned, is_free)


def away(current: Current) -> Current:
    """Returns the position of a static member that left for a while. It keeps its assignment."""
    epochs = _of(current.assigned, current.epochs)
    return replace(current, epoch=LEAVE_FOR_A_WHILE, revoking=_NONE, epochs=epochs)


def _keeps(revoked: frozenset[IdPartition], owned: frozenset[IdPartition] | None) -> bool:
    """Whether the member may still have some of these partitions."""
    return owned is None or not revoked.isdisjoint(owned)


def _to(current: Current, state: ReconciliationState, **changes: object) -> Current:
    if state is not current.state:
        enter(RECONCILIATION, current.state, state)
    changed: Current = replace(
        current,
        state=state,
        previous_epoch=current.epoch,
        **changes,  # type: ignore[arg-type]
    )
    return changed


def _drop_unsubscribed(
    current: Current, target: Target, owned: frozenset[IdPartition] | None
) -> Current:
    """Removes topics that the member no longer subscribes to, before the next assignment."""
    gone = frozenset(each for each in current.assigned if each.topic_id not in target.topic_ids)
    if not gone:
        return current
    kept, revoking = current.assigned - gone, current.revoking | gone
    if _keeps(revoking, owned):
        return _to(current, _R.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoking)
    epochs = _of(kept, current.epochs)
    return replace(current, previous_epoch=current.epoch, assigned=kept, epochs=epochs)


def _advance(
    current: Current,
    target: Target,
    owned: frozenset[IdPartition] | None,
    is_free: Callable[[IdPartition], bool],
) -> Current:
    wanted = frozenset(each for each in target.partitions if each.topic_id in target.topic_ids)
    kept = current.assigned & wanted
    revoked = current.assigned - kept
    if revoked and _keeps(revoked, owned):
        epochs = _of(current.assigned, current.epochs)
        return _to(current, _R.UNREVOKED_PARTITIONS, assigned=kept, revoking=revoked, epochs=epochs)
    missing = wanted - kept
    released = frozenset(each for each in missing if is_free(each))
    state = _R.STABLE if released == missing else _R.UNRELEASED_PARTITIONS
    assigned = kept | released
    if state is current.state and current.epoch == target.epoch and assigned == current.assigned:
        return current
    epochs = _of(kept, current.epochs) | dict.fromkeys(released, target.epoch)
    return _to(current, state, epoch=target.epoch, assigned=assigned, revoking=_NONE, epochs=epochs)


def _of(
    partitions: frozenset[IdPartition], epochs: Mapping[IdPartition, int]
) -> dict[IdPartition, int]:
    return {each: epochs[each] for each in partitions}
