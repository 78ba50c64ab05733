"""The consumer's calls of its assignors: converts between their objects and the group's bytes.

    joining     the subscription that this member sends in JoinGroup, for one assignor
    joined      the leader: the members in the response to JoinGroup
    assigning   the leader: members in, assignments for SyncGroup out

So a custom assignor need not know the encoding.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from thalweg.coordinator.assignors.abstract import (
    AbstractPartitionAssignor,
    Cluster,
    Member,
    RebalanceProtocol,
)
from thalweg.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from thalweg.coordinator.protocol import VERSION_MAX, Assignment, Subscription
from thalweg.errors import IllegalStateError, KafkaProtocolError
from thalweg.structs import TopicPartition


def joining(
    assignor: AbstractPartitionAssignor,
    topics: Collection[str],
    owned: Iterable[TopicPartition] = (),
    generation: int = -1,
    rack: str | None = None,
) -> bytes:
    """Returns this member's subscription, encoded.

    Args:
        assignor: The assignor, which adds its user data.
        topics: The subscribed topics.
        owned: The partitions that the member keeps while it joins (none in the eager protocol).
        generation: The generation of `owned`. -1: none.
        rack: The `client_rack`. Empty: none.
    """
    said = assignor.metadata(set(topics))
    subscription = Subscription(
        VERSION_MAX, list(said.topics), said.user_data, list(owned), generation, rack or None
    )
    return subscription.encode()


def assigning(
    assignor: AbstractPartitionAssignor,
    cluster: Cluster,
    members: Sequence[Member],
    protocol: RebalanceProtocol,
) -> list[dict[str, Any]]:
    """Runs the assignor at the leader, and returns the rows of SyncGroup's `Assignments`.

    Args:
        assignor: The assignor that the group has agreed on.
        cluster: The topics that members are subscribed to, a `TopicsOfGroup` with racks.
        members: All members, as read by `joined`.
        protocol: The group's rebalance protocol.

    Raises:
        IllegalStateError: If a custom assignor moves a partition before its owner has given it up,
            under the cooperative protocol.
    """
    made = assignor.assign(cluster, members)
    found = {each.member_id: _partitions(made.get(each.member_id)) for each in members}
    # As in Java, the built-in one is not checked: it ignores some contradicting claims, which the
    # check would report.
    if (
        protocol is RebalanceProtocol.COOPERATIVE
        and assignor.name != CooperativeStickyAssignor.name
    ):
        _check_moves(assignor.name, members, found)
    return [
        {"MemberId": member, "Assignment": _encoded(partitions, made.get(member))}
        for member, partitions in found.items()
    ]


def joined(rows: Sequence[Mapping[str, Any]]) -> list[Member]:
    """Decodes the members of a JoinGroup response.

    Raises:
        KafkaProtocolError: If a member's subscription cannot be read.
    """
    try:
        return [
            Member(
                row["MemberId"], Subscription.decode(row["Metadata"]), row.get("GroupInstanceId")
            )
            for row in rows
        ]
    except KafkaProtocolError as error:
        raise KafkaProtocolError(f"cannot read the subscription of a member: {error}") from error


def _partitions(made: Any) -> list[TopicPartition]:
    """Returns the partitions of an assignment, also from kafka-python's rows (topic, [numbers])."""
    found: list[TopicPartition] = []
    for topic, numbers in () if made is None else made.assigned_partitions:
        several = [numbers] if isinstance(numbers, int) else numbers
        found += [TopicPartition(topic, each) for each in several]
    return found


def _encoded(partitions: list[TopicPartition], made: Any) -> bytes:
    return Assignment(VERSION_MAX, partitions, getattr(made, "user_data", None)).encode()


def _check_moves(
    name: str, members: Sequence[Member], found: Mapping[str, Sequence[TopicPartition]]
) -> None:
    """Checks that no partition goes to a member while another still has it (KIP-429)."""
    added: set[TopicPartition] = set()
    given_up: set[TopicPartition] = set()
    for each in members:
        owned = set(each.metadata.owned_partitions)
        added.update(set(found[each.member_id]) - owned)
        given_up.update(owned.difference(found[each.member_id]))
    if added & given_up:
        moved = ", ".join(f"{topic}-{number}" for topic, number in sorted(added & given_up))
        raise IllegalStateError(
            f"the assignor {name!r} moves {moved} before their owners gave them up, which the"
            " cooperative protocol does not allow. Assign them in the next rebalance, or let"
            " supported_protocols() return only EAGER"
        )
