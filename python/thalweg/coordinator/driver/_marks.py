"""Records that the application has marked as done: what is committed in place of positions."""

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from thalweg.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Marks"]


class Marks:
    """The offset after the last marked record of each partition.

    Marks may be made by any thread: what works on records often has threads of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self._floor: dict[TopicPartition, int] = {}

    def add(self, records: Any) -> None:
        """Marks records; one before a marked one of its partition changes nothing.

        Args:
            records: A ConsumerRecord, several, or what `poll` returned.

        Raises:
            TypeError: If it is something else; then nothing is marked.
        """
        marked = [_mark_of(each) for each in _flat(records)]
        with self._lock:
            for where, at in marked:
                before = self._offsets.get(where)
                known = self._floor.get(where, -1) if before is None else before.offset
                if known < at.offset:
                    self._offsets[where] = at

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets marks: the partitions come or go, and others commit in between."""
        with self._lock:
            for where in partitions:
                self._offsets.pop(where, None)
                self._floor.pop(where, None)

    def begin_at(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Ignores marks before these offsets: others have committed more since they were read."""
        with self._lock:
            for where, at in committed.items():
                if at is None:
                    continue
                self._floor[where] = at.offset
                marked = self._offsets.get(where)
                if marked is not None and marked.offset <= at.offset:
                    del self._offsets[where]  # a late one, made while this was looked for

    def of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit of these partitions would write."""
        with self._lock:
            return {where: at for where, at in self._offsets.items() if where in partitions}


def _flat(records: Any) -> Iterable[Any]:
    if hasattr(records, "leader_epoch"):  # a record, which is iterable, too
        return [records]
    if isinstance(records, Mapping):
        return [each for batch in records.values() for each in batch]
    try:
        return list(records)
    except TypeError:
        raise _not_a_record(records) from None


def _mark_of(record: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
    try:
        where = TopicPartition(record.topic, record.partition)
        epoch = record.leader_epoch
        return where, OffsetAndMetadata(record.offset + 1, "", -1 if epoch is None else epoch)
    except AttributeError:
        raise _not_a_record(record) from None


def _not_a_record(given: Any) -> TypeError:
    kind = type(given).__name__
    return TypeError(f"mark() takes a ConsumerRecord, several, or poll()'s dict, not a {kind}")
