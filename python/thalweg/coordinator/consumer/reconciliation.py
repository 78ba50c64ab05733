"""From what a member has to what it shall have, one heartbeat at a time (KIP-848).

    Stable ── others shall have some of it ──> UnrevokedPartitions
       ^                                              │ the member reports that it gave them up
       └── all there ── UnreleasedPartitions <────────┘ (or Stable at once)
                        others have not given up yet what it shall have

The rules are those of Kafka's `CurrentAssignmentBuilder`. Pure: a member's `Current` in, the next
one out. A member takes the epoch of the target only once it has given up what is not in it; then
partitions are given to it as their owners release them, without another change of epoch.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace

from thalweg.coordinator.consumer.requests import LEAVE_FOR_A_WHILE
from thalweg.coordinator.consumer.topic_ids import IdPartition
from thalweg.coordinator.states import RECONCILIATION, ReconciliationState, move

__all__ = ["Current", "Target", "away", "reconcile"]

_R = ReconciliationState
_NONE: frozenset[IdPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class Current:
    """Where a member stands.

    Attributes:
        state: See states.RECONCILIATION.
        epoch: The member's; 0 until its first assignment, -2 while a static member is away.
        previous_epoch: The one before: the answer that told the newer one may have got lost.
        assigned: What it may read; told in answers.
        revoking: What it must give up, and has not yet.
        epochs: For each partition that it holds, the epoch at which it got it. Commits with this
            epoch or a later one are good (KIP-1251).
    """

    state: ReconciliationState = _R.STABLE
    epoch: int = 0
    previous_epoch: int = 0
    assigned: frozenset[IdPartition] = _NONE
    revoking: frozenset[IdPartition] = _NONE
    epochs: Mapping[IdPartition, int] = field(default_factory=dict)

    @property
    def held(self) -> frozenset[IdPartition]:
        """What nobody else may get yet."""
        return self.assigned | self.revoking


@dataclass(frozen=True, slots=True)
class Target:
    """What a member shall have.

    Attributes:
        epoch: Of the assignment.
        partitions: The member's part of it.
        topic_ids: What it subscribes to now; it keeps nothing else, whatever the assignment says.
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
    """The member's next position, or the same.

    Args:
        current: Where it stands.
        target: Where it shall go.
        owned: What the member reports to own; None: nothing was said.
        is_free: Whether no other member has a partition.
        resubscribed: It subscribes to something else than in its last heartbeat.
    """
    if current.state is _R.UNREVOKED_PARTITIONS and _keeps(current.revoking, owned):
        return _drop_unsubscribed(current, target, owned) if resubscribed else current
    if current.state is _R.STABLE and current.epoch == target.epoch:
        return _drop_unsubscribed(current, target, owned) if resubscribed else current
    return _advance(current, target, owned, is_free)


def away(current: Current) -> Current:
    """The position of a static member that left for a while: its assignment waits for it."""
    epochs = _of(current.assigned, current.epochs)
    return replace(current, epoch=LEAVE_FOR_A_WHILE, revoking=_NONE, epochs=epochs)


def _keeps(revoked: frozenset[IdPartition], owned: frozenset[IdPartition] | None) -> bool:
    """Whether the member still has some of it, as far as is known."""
    return owned is None or not revoked.isdisjoint(owned)


def _to(current: Current, state: ReconciliationState, **changes: object) -> Current:
    if state is not current.state:
        move(RECONCILIATION, current.state, state)
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
    """The assignment does not know the new subscription yet; the member loses topics at once."""
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
