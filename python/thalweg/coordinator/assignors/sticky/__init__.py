"""The eager sticky assignor (`StickyAssignor`, KIP-54, KIP-341).

Members give up everything before they join, so their user data has the partitions that they had:

    version 0   [topic, [partition]]
    version 1   [topic, [partition]], generation

There is no version field: a reader tries the longer form, then the shorter one.
"""

import struct

from thalweg.coordinator.assignors._claims import NO_GENERATION, Claim
from thalweg.coordinator.assignors._group import Assigned, Group
from thalweg.coordinator.assignors._java_order import computed_texts_in_hash_order
from thalweg.coordinator.assignors._sticky import AbstractStickyAssignor
from thalweg.coordinator.assignors.abstract import Member
from thalweg.coordinator.protocol import Assignment, read_partitions, write_partitions
from thalweg.errors import KafkaProtocolError
from thalweg.structs import TopicPartition

__all__ = ["StickyPartitionAssignor"]


def encode_user_data(claim: Claim) -> bytes:
    """Encodes a claim as Java does, with topics in the order of its hash table."""
    numbers: dict[str, list[int]] = {}
    for topic, number in claim.partitions:
        numbers.setdefault(topic, []).append(number)
    topics = computed_texts_in_hash_order([topic for topic, _ in claim.partitions])
    ordered = [TopicPartition(topic, each) for topic in topics for each in numbers[topic]]
    generation = b"" if claim.generation is None else struct.pack(">i", claim.generation)
    return write_partitions(ordered) + generation


def decode_user_data(data: bytes | None) -> Claim:
    """Decodes a claim. Without user data, or if it cannot be read, the claim is empty."""
    if not data:
        return Claim([])
    try:
        partitions, rest = read_partitions(data)
    except KafkaProtocolError:
        return Claim([], NO_GENERATION)
    generation = struct.unpack(">i", rest[:4])[0] if len(rest) >= 4 else None
    return Claim(partitions, generation)


class StickyPartitionAssignor(AbstractStickyAssignor):
    """Keeps as much of the old assignment as the best possible balance allows."""

    name = "sticky"

    def __init__(self) -> None:
        self._mine: Claim | None = None

    def claim(self, member: Member) -> Claim:
        """Reads the claim from the user data."""
        return decode_user_data(member.metadata.user_data)

    def assign_group(self, group: Group) -> Assigned:
        """Returns {member id: its partitions}."""
        return self.assign_sticky(group).assigned

    def user_data(self) -> bytes | None:
        """Returns the last assignment of this member, encoded."""
        return None if self._mine is None else encode_user_data(self._mine)

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Remembers this member's assignment."""
        self._mine = Claim(list(assignment.assigned_partitions), generation)
