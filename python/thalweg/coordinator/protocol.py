"""The consumer protocol: the contents of the byte fields of JoinGroup and SyncGroup.

The bytes are those of Java's `ConsumerProtocol`, versions 0 to 3 (KIP-429, 792, 881). Fields that a
version lacks get their defaults. Bytes after the known fields belong to a newer version, and are
ignored.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from thalweg.errors import KafkaProtocolError
from thalweg.structs import TopicPartition

__all__ = ["Assignment", "Subscription", "read_partitions", "write_partitions"]

VERSION_MAX: Final = 3


class _Reader:
    """Reads fields in Kafka's old encoding (not the flexible one)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) < count:
            raise KafkaProtocolError(f"expected {count} bytes at {self._at}, found {len(piece)}")
        self._at += count
        return piece

    def number(self, form: str) -> int:
        found: int = struct.unpack(">" + form, self._take(struct.calcsize(form)))[0]
        return found

    def count(self, least_size: int) -> int:
        """Reads the length of an array whose items take at least `least_size` bytes."""
        found = self.number("i")
        if found * least_size > len(self._data) - self._at:
            raise KafkaProtocolError(f"an array of {found} elements needs more bytes than are left")
        return max(found, 0)

    def string(self) -> str | None:
        size = self.number("h")
        try:
            return None if size < 0 else self._take(size).decode()
        except UnicodeDecodeError as error:
            raise KafkaProtocolError(f"a name is not valid UTF-8: {error}") from error

    def data(self) -> bytes | None:
        size = self.number("i")
        return None if size < 0 else self._take(size)

    def rest(self) -> bytes:
        """Returns the bytes that were not read yet."""
        return self._data[self._at :]

    def partitions(self) -> list[TopicPartition]:
        found = []
        for _ in range(self.count(6)):
            topic = self.string() or ""
            found += [TopicPartition(topic, self.number("i")) for _ in range(self.count(4))]
        return found


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _data(raw: bytes | None) -> bytes:
    return struct.pack(">i", -1) if raw is None else struct.pack(">i", len(raw)) + raw


def read_partitions(data: bytes) -> tuple[list[TopicPartition], bytes]:
    """Reads the partitions at the beginning. Returns them and the remaining bytes.

    Raises:
        KafkaProtocolError: If the bytes do not begin with a list of partitions.
    """
    reader = _Reader(data)
    return reader.partitions(), reader.rest()


def write_partitions(partitions: Sequence[TopicPartition]) -> bytes:
    """Encodes partitions by topic. Topics are in the order in which they first appear."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    parts = [struct.pack(">i", len(topics))]
    for topic, ids in topics.items():
        parts.append(_string(topic) + struct.pack(f">i{len(ids)}i", len(ids), *ids))
    return b"".join(parts)


class Subscription(NamedTuple):
    """The data that a member sends when it joins (ConsumerProtocolSubscription)."""

    version: int
    topics: list[str]
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = []  # noqa: RUF012 (a tuple's default, not shared state)
    generation_id: int = -1
    rack_id: str | None = None

    @classmethod
    def decode(cls, data: bytes) -> "Subscription":
        """Decodes the bytes that a member sent.

        Raises:
            KafkaProtocolError: If the bytes are not a subscription.
        """
        reader = _Reader(data)
        version = reader.number("h")
        topics = [reader.string() or "" for _ in range(reader.count(2))]
        user_data = reader.data()
        owned = reader.partitions() if version >= 1 else []
        generation = reader.number("i") if version >= 2 else -1
        rack = reader.string() if version >= 3 else None
        return cls(version, topics, user_data, owned, generation, rack)

    def encode(self) -> bytes:
        """Encodes it as Java does: topics and partitions are sorted.

        So a member that joins again without changes sends the same bytes, and the coordinator need
        not rebalance.
        """
        parts = [struct.pack(">hi", self.version, len(self.topics))]
        parts += [_string(topic) for topic in sorted(self.topics)]
        parts.append(_data(self.user_data))
        if self.version >= 1:
            parts.append(write_partitions(sorted(self.owned_partitions)))
        if self.version >= 2:
            parts.append(struct.pack(">i", self.generation_id))
        if self.version >= 3:
            parts.append(_string(self.rack_id))
        return b"".join(parts)


class Assignment(NamedTuple):
    """The data that the leader sends to a member (ConsumerProtocolAssignment)."""

    version: int
    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = None

    @classmethod
    def decode(cls, data: bytes) -> "Assignment":
        """Decodes the bytes that the leader sent.

        Raises:
            KafkaProtocolError: If the bytes are not an assignment.
        """
        reader = _Reader(data)
        return cls(reader.number("h"), reader.partitions(), reader.data())

    def encode(self) -> bytes:
        """Encodes it as Java does."""
        head = struct.pack(">h", self.version)
        return head + write_partitions(self.assigned_partitions) + _data(self.user_data)
