"""Marks: the records that the application has processed, to commit them in place of positions.

    mark(record) ──> _Processed: ranges of offsets ──┐
    returned records, from the core ──> chunks ──────┴──> the processed prefix ──> commit

Marks may arrive in any order, as several workers finish at different times. A commit covers only
the records before the first returned record that is not processed. In a log with gaps, the offsets
do not show which records were returned, but the core knows how many. So a chunk (the records that
were returned between two looks) is processed when the same number of its records is processed.

If the consumer resets a position, for example because the topic was created again, the same offsets
mean other records. Each call that marks records asks the core for this first, and then drops the
marks of the old log.
"""

import contextlib
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from thalweg.errors import IllegalStateError
from thalweg.structs import OffsetAndMetadata, TopicPartition

__all__ = ["RANGES_MAX", "HandedOut", "Marks"]

# The maximum number of ranges of processed records after an unprocessed one, per partition: 10 MB.
RANGES_MAX: Final = 100_000
# How often to ask the core before a mark counts as one of an old log. Without the GIL, the core
# does not count the records of an iteration while another thread takes the next one.
_LOOKS_MAX: Final = 20


class _Record(Protocol):
    """A ConsumerRecord, as far as marks need it."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int | None: ...


class HandedOut(NamedTuple):
    """The records that polls have returned of a partition since its assignment, seek or reset.

    Attributes:
        since: A number that each assignment, seek and reset changes.
        start: The position before the first record.
        end: The position after the last record.
        records: The number of records.
    """

    since: int
    start: int
    end: int
    records: int


class _Processed:
    """The offsets of processed records, as separate ranges in ascending order."""

    __slots__ = ("ends", "epochs", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.epochs: list[int] = []  # leader epoch of the last record of each range

    def add(self, offset: int, epoch: int) -> bool:
        """Adds an offset. Returns whether that added a range."""
        starts, ends = self.starts, self.ends
        at = len(ends) if ends and ends[-1] < offset else bisect_left(ends, offset)
        # `at` is the first range that ends at or after the offset.
        if at < len(ends) and starts[at] <= offset:
            if ends[at] > offset:
                return False
            ends[at], self.epochs[at] = offset + 1, epoch
            if at + 1 < len(starts) and starts[at + 1] == offset + 1:
                self.epochs[at] = self.epochs.pop(at + 1)
                ends[at] = ends.pop(at + 1)
                del starts[at + 1]
        elif at < len(starts) and starts[at] == offset + 1:
            starts[at] = offset
        else:
            starts.insert(at, offset)
            ends.insert(at, offset + 1)
            self.epochs.insert(at, epoch)
            return True
        return False

    def take_back(self, offset: int) -> None:
        """Removes a range that has only this offset."""
        at = bisect_left(self.starts, offset)
        if at < len(self.starts) and (self.starts[at], self.ends[at]) == (offset, offset + 1):
            del self.starts[at], self.ends[at], self.epochs[at]

    def covered_from(self, offset: int) -> int:
        """Returns the first offset >= `offset` that is not processed."""
        at = bisect_right(self.starts, offset) - 1
        return max(offset, self.ends[at]) if at >= 0 else offset

    def count(self, start: int, end: int) -> int:
        """Returns how many of the offsets in [start, end) are processed."""
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end)
        ranges = zip(self.starts[first:last], self.ends[first:last], strict=True)
        return sum(min(e, end) - max(s, start) for s, e in ranges)

    def last_before(self, offset: int) -> tuple[int, int] | None:
        """Returns the offset after the last processed record before `offset`, and its epoch."""
        at = bisect_left(self.starts, offset) - 1
        if at < 0:
            return None
        end = self.ends[at]
        # Inside a range, the leader epoch is not known.
        return (end, self.epochs[at]) if end <= offset else (offset, -1)

    def forget_before(self, offset: int) -> None:
        """Drops everything before this offset."""
        count = bisect_right(self.ends, offset)
        del self.starts[:count], self.ends[:count], self.epochs[:count]
        if self.starts and self.starts[0] < offset:
            self.starts[0] = offset

    def __len__(self) -> int:
        return len(self.starts)


class _Partition:
    """The marks of one partition."""

    __slots__ = (
        "base",
        "chunks",
        "floor",
        "is_sought",
        "processed",
        "seen",
        "since",
        "start",
        "was_reset",
    )

    def __init__(self, floor: int, *, is_sought: bool = False) -> None:
        self.floor = floor  # never commit an offset up to here
        self.is_sought = is_sought  # whether the application has moved the position
        self.was_reset = False  # whether a reset has moved it since
        self.base: tuple[int, int] | None = None  # (offset, epoch): everything before is processed
        self.processed = _Processed()
        self.since: int | None = None
        self.start: int | None = None  # where reading began. None: no record was returned
        self.seen = (0, 0)  # position and number of records at the last look
        self.chunks: list[HandedOut] = []  # returned, but not processed yet

    def notice(self, out: HandedOut) -> None:
        """Drops the marks of an old log, if the position was reset since the last look."""
        if out.since == self.since or self._is_outdated(out):
            return
        # A position below the committed offset was reset, unless the application has sought.
        if self.since is not None or (out.start < self.floor and not self.is_sought):
            self.drop_log()
        self.since, self.start = out.since, out.start
        self.seen, self.chunks = (out.start, 0), []

    def drop_log(self) -> None:
        """Drops the marks after a reset: in the new log, the same offsets mean other records."""
        self.processed, self.base, self.chunks = _Processed(), None, []
        self.since = self.start = None
        # The reset has moved the position back, so commits move back, too.
        self.floor, self.was_reset = -1, True

    def is_of_an_old_log(self, offset: int, out: HandedOut | None) -> bool:
        """Whether a mark is about a record that was returned before a reset, as far as we know."""
        if out is None:
            return self.was_reset or self.since is not None
        return self._is_outdated(out) or (self.was_reset and offset >= out.end)

    def _is_outdated(self, out: HandedOut) -> bool:
        """Whether another thread has noticed a later reset."""
        return self.since is not None and out.since < self.since

    def look(self, out: HandedOut) -> None:
        """Notes the records that were returned since the last look."""
        self.notice(out)
        if self._is_outdated(out) or out.records < self.seen[1]:
            return  # another thread has a newer look
        position, records = self.seen
        more = out.records - records
        self.seen = (out.end, out.records)
        if more <= 0:
            return
        chunk = HandedOut(out.since, position, out.end, more)
        last = self.chunks[-1] if self.chunks else None
        if last is not None and _is_dense(last) and _is_dense(chunk) and last.end == position:
            self.chunks[-1] = last._replace(end=chunk.end, records=last.records + more)
        else:
            self.chunks.append(chunk)

    def restart(self) -> None:
        """Starts again after a seek: records that are read again must be marked again."""
        if (at := self._committable()) is not None:  # a seek never moves a commit back
            self.floor = at.offset
        self.base, self.is_sought, self.was_reset = None, True, False
        self.processed, self.since, self.start, self.chunks = _Processed(), None, None, []
        # Until a record is returned, nothing that a late mark follows counts as processed.
        self.seen = (0, 0)

    def take_prefix(self) -> OffsetAndMetadata | None:
        """Returns the end of the processed prefix if it may be committed, and drops the prefix."""
        base = self.base[0] if self.base is not None else -1
        prefix = None
        for at, chunk in enumerate(self.chunks):
            prefix = self._unprocessed(chunk, base)
            if prefix is not None:
                del self.chunks[:at]
                break
        else:
            self.chunks.clear()
        end = self.seen[0] if prefix is None else prefix
        found = self.processed.last_before(end)
        if found is not None and (self.base is None or found[0] > base):
            self.base = found
        self.processed.forget_before(end)
        return self._committable()

    def _committable(self) -> OffsetAndMetadata | None:
        # Do not commit marks from before the assignment: another member may have committed more.
        if self.base is None or self.start is None or self.base[0] <= max(self.floor, self.start):
            return None
        return OffsetAndMetadata(self.base[0], "", self.base[1])

    def _unprocessed(self, chunk: HandedOut, base: int) -> int | None:
        """Returns where the first unprocessed record of a chunk may be. None: it is processed."""
        if _is_dense(chunk):
            until = self.processed.covered_from(max(chunk.start, base))
            return until if until < chunk.end else None
        if base >= chunk.end or self.processed.count(chunk.start, chunk.end) >= chunk.records:
            return None
        return max(chunk.start, base)


def _is_dense(chunk: HandedOut) -> bool:
    return chunk.records == chunk.end - chunk.start


_HandedOut = Callable[[list[TopicPartition]], list[tuple[int, int, int, int] | None]]


class Marks:
    """The processed records of each partition.

    Any thread may mark records, because applications often process them in several threads.

    Args:
        handed_out: Asks the core for the returned records of partitions, from any thread. The row
            is None for a partition that is not assigned, or has returned no record.
    """

    def __init__(self, handed_out: _HandedOut) -> None:
        self._handed_out = handed_out
        self._lock = threading.Lock()
        self._partitions: dict[TopicPartition, _Partition] = {}
        # The committed offsets, and whether the application has sought since.
        self._floor: dict[TopicPartition, tuple[int, bool]] = {}
        # A seek in the core and here is not one step. What another thread sees between them would
        # look like a reset. Several threads may seek.
        self._seeking: Counter[TopicPartition] = Counter()
        self._seeks = 0

    def add(self, records: object) -> None:
        """Marks records as processed, in any order.

        Args:
            records: A ConsumerRecord, several of them, or the result of `poll`.

        Raises:
            TypeError: If `records` is anything else. Then nothing is marked.
            IllegalStateError: If a partition has RANGES_MAX ranges of processed records after an
                unprocessed one. From then on, only marks that extend or join ranges are kept.
        """
        for where, offset, epoch in self._current(_flat(records, "mark")):
            with self._lock:
                processed = self._of(where).processed
                is_more = processed.add(offset, epoch)
                is_full = len(processed) >= RANGES_MAX
            if not is_full:
                continue
            # In a log with gaps there are many ranges even if all records are processed.
            self.of([where])
            with self._lock:
                if len(processed) < RANGES_MAX:
                    continue
                if is_more and len(processed) > RANGES_MAX:
                    processed.take_back(offset)
                raise _too_many(where, processed.ends[0])

    def add_through(self, records: object) -> None:
        """Marks records, and all earlier records of their partitions, as processed.

        Args:
            records: A ConsumerRecord, several of them, or the result of `poll`.

        Raises:
            TypeError: If `records` is anything else. Then nothing is marked.
        """
        marked = self._current(_flat(records, "mark_through"))
        with self._lock:
            for where, offset, epoch in marked:
                state = self._of(where)
                if state.base is None or state.base[0] <= offset:
                    state.base = (offset + 1, epoch)

    def _current(self, records: Iterable[_Record]) -> list[tuple[TopicPartition, int, int]]:
        """Returns the marks of records that are not from before a reset."""
        marked = [_mark_of(each) for each in records]
        if len(marked) == 1 and self._is_as_before(marked[0][0]):
            return marked
        old = self._old(marked)
        for _ in range(_LOOKS_MAX if old else 0):
            old = self._old(old)
        dropped = set(old)
        return [each for each in marked if each not in dropped] if old else marked

    def _is_as_before(self, where: TopicPartition) -> bool:
        """Whether nothing was ever reset. Most calls mark one record, so this takes no lock."""
        state = self._partitions.get(where)
        if state is None or state.was_reset or state.since is None:
            return False
        try:
            row = self._handed_out([where])[0]
        except IllegalStateError:
            return False
        return row is not None and row[0] == state.since

    def _old(
        self, marked: list[tuple[TopicPartition, int, int]]
    ) -> list[tuple[TopicPartition, int, int]]:
        with self._lock:
            seeks, asked = self._seeks, {each[0] for each in marked} - self._seeking.keys()
        looks = self._looks(list(asked))
        with self._lock:
            if seeks != self._seeks:
                return []
            for where, out in looks.items():
                if out is not None:
                    self._of(where).notice(out)
            return [
                (where, offset, epoch)
                for where, offset, epoch in marked
                if where in looks and self._of(where).is_of_an_old_log(offset, looks[where])
            ]

    def _looks(self, partitions: list[TopicPartition]) -> dict[TopicPartition, HandedOut | None]:
        """Asks the core. The caller does not hold the lock, for which the core may have to wait."""
        if not partitions:
            return {}
        try:
            rows = self._handed_out(partitions)
        except IllegalStateError:  # the consumer is not started, or closed
            return dict.fromkeys(partitions)
        looks = zip(partitions, rows, strict=True)
        return {where: None if row is None else HandedOut(*row) for where, row in looks}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets the marks of partitions that are assigned or revoked."""
        with self._lock:
            if self._partitions or self._floor:
                for where in partitions:
                    self._partitions.pop(where, None)
                    self._floor.pop(where, None)
                    self._seeking.pop(where, None)

    @contextlib.contextmanager
    def seeking(self, partitions: Collection[TopicPartition]) -> Iterator[None]:
        """Surrounds the call of the core that seeks for the application. It must not wait."""
        try:
            self.before_seek(partitions)
            yield
            self.restart(partitions)
        except BaseException:
            # The core refused the seek, so the marks stay. From now on, notice resets again.
            with self._lock:
                self._has_sought(partitions)
            raise

    def before_seek(self, partitions: Iterable[TopicPartition]) -> None:
        """Notices resets, before the application seeks in these partitions."""
        with self._lock:
            self._seeks += 1
            self._seeking.update(partitions)
            marked = [where for where in partitions if where in self._partitions]
        looks = self._looks(marked)
        with self._lock:
            for where, out in looks.items():
                state = self._partitions.get(where)
                if state is None:
                    continue
                if out is not None:
                    state.notice(out)
                elif state.since is not None:
                    state.drop_log()

    def _has_sought(self, partitions: Iterable[TopicPartition]) -> None:
        self._seeks += 1
        for where in partitions:
            self._seeking[where] -= 1
        self._seeking = +self._seeking  # without those that nobody seeks in any more

    def restart(self, partitions: Iterable[TopicPartition]) -> None:
        """Starts these partitions again, after the application has sought in them."""
        with self._lock:
            self._has_sought(partitions)
            for where in partitions:
                if where in self._partitions:
                    self._partitions[where].restart()
                floor, _ = self._floor.get(where, (-1, False))
                self._floor[where] = floor, True

    def begin_at(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Ignores marks before the committed offsets: another member has committed them."""
        with self._lock:
            for where, at in committed.items():
                if at is None:
                    continue
                # The application may have sought while the request was in flight.
                _, is_sought = self._floor.get(where, (-1, False))
                self._floor[where] = at.offset, is_sought
                if where in self._partitions:
                    self._partitions[where].floor = at.offset

    def of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns what a commit of these partitions would write."""
        with self._lock:
            marked = [where for where in self._partitions if where in partitions]
        found = {}
        looks = self._looks(marked)
        with self._lock:
            for where, out in looks.items():
                state = self._partitions.get(where)
                if state is None or (out is None and state.since is not None):
                    continue  # if it was reset, the marks may be of an old log
                if out is not None:
                    state.look(out)
                at = state.take_prefix()
                if at is not None:
                    found[where] = at
        return found

    def _of(self, where: TopicPartition) -> _Partition:
        state = self._partitions.get(where)
        if state is None:
            floor, is_sought = self._floor.get(where, (-1, False))
            state = self._partitions[where] = _Partition(floor, is_sought=is_sought)
        return state


def _flat(records: Any, call: str) -> Sequence[_Record]:
    """Returns the records of an argument that the application may have given wrongly."""
    if hasattr(records, "leader_epoch"):  # one record, which is also iterable
        return [records]
    try:
        if isinstance(records, Mapping):
            records = [each for batch in records.values() for each in batch]
        found: Sequence[_Record] = list(records)
    except TypeError:
        raise _not_a_record(records, call) from None
    for each in found:
        if not hasattr(each, "leader_epoch"):
            raise _not_a_record(each, call)
    return found


def _mark_of(record: _Record) -> tuple[TopicPartition, int, int]:
    epoch = record.leader_epoch
    where = TopicPartition(record.topic, record.partition)
    return where, record.offset, -1 if epoch is None else epoch


def _not_a_record(given: object, call: str) -> TypeError:
    kind = type(given).__name__
    return TypeError(
        f"{call}() takes a ConsumerRecord, several of them, or the dict that poll() returned, not a"
        f" {kind}"
    )


def _too_many(where: TopicPartition, offset: int) -> IllegalStateError:
    return IllegalStateError(
        f"mark() cannot store more than {RANGES_MAX} separate ranges of marked records of"
        f" {where.topic}-{where.partition}. The first record without a mark is at offset {offset}"
        " or before. Mark the missing records, or call mark_through() to mark a record and every"
        " earlier record."
    )
