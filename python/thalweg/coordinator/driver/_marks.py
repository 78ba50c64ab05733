"""Records that the application has marked as finished: what is committed in place of positions.

    mark(record) ──> _Finished: ranges of offsets ──┐
    what was handed out, by the core ──> chunks ────┴──> the finished prefix ──> commit

Marks come in any order, as several workers finish at different times. A commit covers only the
records before the first one that was handed out and is not finished. Where a log has gaps, offsets
do not tell which records were handed out, but the core tells how many. So a chunk, what was handed
out between two looks, is finished once as many of its records are.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from thalweg.errors import IllegalStateError
from thalweg.structs import OffsetAndMetadata, TopicPartition

__all__ = ["RANGES_MAX", "HandedOut", "Marks"]

# Of a partition's finished records behind an unfinished one: about 10 MB.
RANGES_MAX: Final = 100_000


class HandedOut(NamedTuple):
    """What the core handed out of a partition since its last assignment, seek or reset.

    Attributes:
        since: Another number after each of these.
        start: The position before the first record.
        end: The position after the last one.
        records: How many.
    """

    since: int
    start: int
    end: int
    records: int


class _Finished:
    """Offsets of finished records, as ranges in ascending order that do not touch."""

    __slots__ = ("ends", "epochs", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.epochs: list[int] = []  # of each range's last record

    def add(self, offset: int, epoch: int) -> bool:
        """Adds one; whether that made a range more."""
        starts, ends = self.starts, self.ends
        at = len(ends) if ends and ends[-1] < offset else bisect_left(ends, offset)
        # The first range that ends at or behind the offset.
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
        """Removes a range of this offset alone."""
        at = bisect_left(self.starts, offset)
        if at < len(self.starts) and (self.starts[at], self.ends[at]) == (offset, offset + 1):
            del self.starts[at], self.ends[at], self.epochs[at]

    def covered_from(self, offset: int) -> int:
        """The first offset from this one on that is not finished."""
        at = bisect_right(self.starts, offset) - 1
        return max(offset, self.ends[at]) if at >= 0 else offset

    def count(self, start: int, end: int) -> int:
        """How many of the offsets from `start` to before `end` are finished."""
        first, last = bisect_right(self.ends, start), bisect_left(self.starts, end)
        ranges = zip(self.starts[first:last], self.ends[first:last], strict=True)
        return sum(min(e, end) - max(s, start) for s, e in ranges)

    def last_before(self, offset: int) -> tuple[int, int] | None:
        """The offset after the last finished record before this one, and its leader epoch."""
        at = bisect_left(self.starts, offset) - 1
        if at < 0:
            return None
        end = self.ends[at]
        # Within a range nobody knows the epoch.
        return (end, self.epochs[at]) if end <= offset else (offset, -1)

    def forget_before(self, offset: int) -> None:
        """Drops what lies before this offset."""
        count = bisect_right(self.ends, offset)
        del self.starts[:count], self.ends[:count], self.epochs[:count]
        if self.starts and self.starts[0] < offset:
            self.starts[0] = offset

    def __len__(self) -> int:
        return len(self.starts)


class _Partition:
    """The marks of one partition."""

    __slots__ = ("base", "chunks", "finished", "floor", "seen", "since", "start")

    def __init__(self, floor: int) -> None:
        self.floor = floor  # nothing up to here is committed
        self.base: tuple[int, int] | None = None  # all before it is finished; leader epoch
        self.finished = _Finished()
        self.since: int | None = None
        self.start: int | None = None  # where reading began; None: nothing was handed out
        self.seen = (0, 0)  # position and records at the last look
        self.chunks: list[HandedOut] = []  # handed out and not finished yet

    def look(self, out: HandedOut) -> None:
        """Takes note of what was handed out since the last look."""
        if self.since is not None and (out.since, out.records) < (self.since, self.seen[1]):
            return  # another thread has looked after this one
        if out.since != self.since:
            if self.since is not None and self.base is not None and out.start < self.base[0]:
                self._go_back()  # a reset: the log has less than it had
            self.since, self.start = out.since, out.start
            self.seen, self.chunks = (out.start, 0), []
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
        """The application reads on elsewhere: what it reads again is to be marked again."""
        self._go_back()
        self.finished, self.since, self.start, self.chunks = _Finished(), None, None, []

    def _go_back(self) -> None:
        if self.base is not None:  # commits go forward only
            self.floor, self.base = max(self.floor, self.base[0]), None

    def finish(self) -> OffsetAndMetadata | None:
        """The end of the finished prefix, if it may be committed; forgets what lies before it."""
        base = self.base[0] if self.base is not None else -1
        prefix = None
        for at, chunk in enumerate(self.chunks):
            prefix = self._unfinished(chunk, base)
            if prefix is not None:
                del self.chunks[:at]
                break
        else:
            self.chunks.clear()
        end = self.seen[0] if prefix is None else prefix
        found = self.finished.last_before(end)
        if found is not None and (self.base is None or found[0] > base):
            self.base = found
        self.finished.forget_before(end)
        # What was marked before the partition came is others' to commit.
        if self.base is None or self.start is None or self.base[0] <= max(self.floor, self.start):
            return None
        return OffsetAndMetadata(self.base[0], "", self.base[1])

    def _unfinished(self, chunk: HandedOut, base: int) -> int | None:
        """Where a chunk's first unfinished record may be; None if it is finished."""
        if _is_dense(chunk):
            until = self.finished.covered_from(max(chunk.start, base))
            return until if until < chunk.end else None
        if base >= chunk.end or self.finished.count(chunk.start, chunk.end) >= chunk.records:
            return None
        return max(chunk.start, base)


def _is_dense(chunk: HandedOut) -> bool:
    return chunk.records == chunk.end - chunk.start


class Marks:
    """The finished records of each partition.

    Marks may be made by any thread: what works on records often has threads of its own.

    Args:
        handed_out: Asks the core what was handed out of partitions; from any thread. None of one
            that is not assigned, or of which nothing was.
    """

    def __init__(self, handed_out: Callable[[list[TopicPartition]], list[Any]]) -> None:
        self._handed_out = handed_out
        self._lock = threading.Lock()
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._floor: dict[TopicPartition, int] = {}

    def add(self, records: Any) -> None:
        """Marks records as finished, in any order.

        Args:
            records: A ConsumerRecord, several, or what `poll` returned.

        Raises:
            TypeError: If it is something else; then nothing is marked.
            IllegalStateError: If the finished records of a partition, behind an unfinished one,
                come to RANGES_MAX ranges. From then on only marks that join them are kept.
        """
        for where, offset, epoch in [_mark_of(each) for each in _flat(records, "mark")]:
            with self._lock:
                finished = self._of(where).finished
                is_more = finished.add(offset, epoch)
                is_full = len(finished) >= RANGES_MAX
            if not is_full:
                continue
            # In a log with gaps they are many also where all are finished.
            self.of([where])
            with self._lock:
                if len(finished) < RANGES_MAX:
                    continue
                if is_more and len(finished) > RANGES_MAX:
                    finished.take_back(offset)
                raise _too_many(where, finished.ends[0])

    def add_through(self, records: Any) -> None:
        """Marks records and all before them in their partitions as finished.

        Args:
            records: A ConsumerRecord, several, or what `poll` returned.

        Raises:
            TypeError: If it is something else; then nothing is marked.
        """
        marked = [_mark_of(each) for each in _flat(records, "mark_through")]
        with self._lock:
            for where, offset, epoch in marked:
                state = self._of(where)
                if state.base is None or state.base[0] <= offset:
                    state.base = (offset + 1, epoch)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets marks: the partitions come or go, and others commit in between."""
        with self._lock:
            if self._partitions or self._floor:
                for where in partitions:
                    self._partitions.pop(where, None)
                    self._floor.pop(where, None)

    def restart(self, partitions: Iterable[TopicPartition]) -> None:
        """The application reads these from another position on."""
        with self._lock:
            for where in partitions:
                if where in self._partitions:
                    self._partitions[where].restart()

    def begin_at(self, committed: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
        """Ignores marks before these offsets: others have committed more since they were read."""
        with self._lock:
            for where, at in committed.items():
                if at is None:
                    continue
                self._floor[where] = at.offset
                if where in self._partitions:
                    self._partitions[where].floor = at.offset

    def of(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a commit of these partitions would write."""
        with self._lock:
            marked = [where for where in self._partitions if where in partitions]
        found = {}
        # Without the lock: the core may have to wait for a thread that marks.
        looks = zip(marked, self._handed_out(marked), strict=True) if marked else ()
        with self._lock:
            for where, out in looks:
                state = self._partitions.get(where)
                if state is None:
                    continue
                if out is not None:
                    state.look(HandedOut(*out))
                at = state.finish()
                if at is not None:
                    found[where] = at
        return found

    def _of(self, where: TopicPartition) -> _Partition:
        state = self._partitions.get(where)
        if state is None:
            state = self._partitions[where] = _Partition(self._floor.get(where, -1))
        return state


def _flat(records: Any, call: str) -> Iterable[Any]:
    if hasattr(records, "leader_epoch"):  # a record, which is iterable, too
        return [records]
    try:
        if isinstance(records, Mapping):
            records = [each for batch in records.values() for each in batch]
        found: Sequence[Any] = list(records)
    except TypeError:
        raise _not_a_record(records, call) from None
    for each in found:
        if not hasattr(each, "leader_epoch"):
            raise _not_a_record(each, call)
    return found


def _mark_of(record: Any) -> tuple[TopicPartition, int, int]:
    epoch = record.leader_epoch
    where = TopicPartition(record.topic, record.partition)
    return where, record.offset, -1 if epoch is None else epoch


def _not_a_record(given: Any, call: str) -> TypeError:
    kind = type(given).__name__
    return TypeError(f"{call}() takes a ConsumerRecord, several, or poll()'s dict, not a {kind}")


def _too_many(where: TopicPartition, offset: int) -> IllegalStateError:
    return IllegalStateError(
        f"mark(): {RANGES_MAX} ranges of finished records of {where.topic}-{where.partition} wait"
        f" for unfinished records between them, the first one at offset {offset} or before. Mark"
        " those, or say with mark_through() that all before a record is finished."
    )
