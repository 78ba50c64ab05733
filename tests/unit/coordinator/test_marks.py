"""Marks of processed records: commits stop before the first record that is not processed."""

import contextlib
import random
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from thalweg.coordinator.driver import _marks
from thalweg.coordinator.driver._marks import Marks
from thalweg.errors import IllegalStateError
from thalweg.structs import OffsetAndMetadata, TopicPartition

ZERO = TopicPartition("t", 0)


def record(offset: int, epoch: int | None = None, partition: int = 0) -> Any:
    return SimpleNamespace(topic="t", partition=partition, offset=offset, leader_epoch=epoch)


class Log:
    """Hands out the records of one partition, which may have gaps, and keeps their marks."""

    def __init__(self, offsets: Any = range(1_000_000), start: int = 0) -> None:
        self.offsets = offsets
        self.marks = Marks(self.handed_out)
        self.since = 0
        self.seek(start)

    def seek(self, position: int) -> None:
        self.marks.restart([ZERO])
        self.reset(position)

    def reset(self, position: int) -> None:
        """Moves the position like `auto_offset_reset`."""
        self.since += 1
        self.start = self.position = position
        self.records = 0

    def hand_out(self, until: int) -> list[int]:
        given = [each for each in self.offsets if self.position <= each < until]
        self.position = until
        self.records += len(given)
        return given

    def handed_out(self, partitions: list[TopicPartition]) -> list[Any]:
        assert partitions == [ZERO]
        # Like the core, which knows no start before it has returned a record.
        found = (self.since, self.start, self.position, self.records)
        return [found if self.records else None]

    def mark(self, *offsets: int) -> None:
        self.marks.add([record(each) for each in offsets])

    def committed(self) -> int | None:
        found = self.marks.of([ZERO]).get(ZERO)
        return None if found is None else found.offset


def test_a_commit_stops_before_the_first_unprocessed_record() -> None:
    log = Log()
    log.hand_out(10)
    log.mark(3, 1, 5)
    assert log.committed() is None
    log.mark(0)
    assert log.committed() == 2
    log.mark(2)
    assert log.committed() == 4
    log.mark(9, 8, 7, 6, 4)
    assert log.committed() == 10


def test_records_that_are_handed_out_later_are_waited_for_too() -> None:
    log = Log()
    log.hand_out(3)
    log.mark(0, 1, 2)
    assert log.committed() == 3
    log.hand_out(6)
    log.mark(4, 5)
    assert log.committed() == 3
    log.mark(3)
    assert log.committed() == 6


def test_a_mark_may_come_before_anybody_has_looked_at_what_was_handed_out() -> None:
    log = Log()
    for until in range(1, 8):
        log.hand_out(until)
        log.mark(until - 1)
    assert log.committed() == 7


def test_gaps_in_the_log_are_no_unprocessed_records() -> None:
    log = Log(offsets=[0, 1, 5, 9])
    log.hand_out(10)
    log.mark(9, 0, 5)
    assert log.committed() is None  # it is unknown which record is missing
    log.mark(1)
    assert log.committed() == 10
    log.offsets = [12, 13, 14]
    log.hand_out(12)
    assert log.committed() == 10  # offset 10 may be a transaction's marker
    log.hand_out(15)
    log.mark(12)
    assert log.committed() == 13
    log.mark(13, 14)
    assert log.committed() == 15


def test_what_was_handed_out_between_two_looks_is_committed_as_one_where_there_are_gaps() -> None:
    log = Log(offsets=[0, 2, 4, 6])
    log.hand_out(4)
    log.mark(2)
    assert log.committed() is None
    log.hand_out(8)
    log.mark(0, 6)
    assert log.committed() == 3
    log.mark(4)
    assert log.committed() == 7


def test_reading_that_begins_amid_the_log_commits_from_there() -> None:
    log = Log(start=100)
    log.hand_out(105)
    log.mark(100, 101, 103)
    assert log.committed() == 102


def test_a_record_that_is_marked_twice_counts_once() -> None:
    log = Log(offsets=[0, 2, 4])
    log.hand_out(5)
    log.mark(0, 0, 0, 2)
    assert log.committed() is None
    log.mark(4)
    assert log.committed() == 5


def test_mark_through_finishes_all_before_it() -> None:
    log = Log()
    log.hand_out(10)
    log.marks.add_through(record(6))
    assert log.committed() == 7
    log.marks.add_through([record(2)])  # a mark never moves back
    assert log.committed() == 7
    log.mark(7, 9)
    assert log.committed() == 8


def test_mark_through_works_where_there_are_gaps() -> None:
    log = Log(offsets=[0, 2, 4, 6])
    log.hand_out(8)
    log.marks.add_through(record(4))
    assert log.committed() == 5
    log.marks.add_through(record(6))
    assert log.committed() == 7


def test_after_a_seek_back_records_are_to_be_marked_again_and_commits_go_forward_only() -> None:
    log = Log()
    log.hand_out(10)
    log.mark(*range(6))
    assert log.committed() == 6
    log.seek(2)
    log.hand_out(8)
    log.mark(2, 3, 4)
    assert log.committed() is None
    log.mark(5, 6)
    assert log.committed() == 7


def test_a_seek_forward_leaves_what_it_passes_over() -> None:
    log = Log()
    log.hand_out(10)
    log.mark(0)
    log.seek(50)
    log.hand_out(55)
    log.mark(50, 51)
    assert log.committed() == 52


def test_a_mark_from_before_a_seek_does_not_count() -> None:
    log = Log()
    log.hand_out(10)
    log.mark(0, 5)
    log.seek(0)
    log.hand_out(10)
    log.mark(0, 1, 2, 3, 4)
    assert log.committed() == 5


def test_a_late_mark_after_a_seek_back_does_not_pass_over_what_is_read_again() -> None:
    log = Log()
    log.hand_out(100)
    log.mark(0)
    assert log.committed() == 1
    log.seek(0)
    log.mark(50)  # by a worker that has heard nothing of the seek
    assert log.committed() is None
    log.hand_out(10)
    assert log.committed() is None
    log.mark(*range(10))
    assert log.committed() == 10


def test_a_log_that_was_cut_is_read_from_where_it_ends() -> None:
    log = Log()
    log.hand_out(10)
    log.mark(*range(10))
    assert log.committed() == 10
    log.reset(6)
    log.hand_out(12)
    log.mark(10, 11)
    assert log.committed() is None
    log.mark(6, 7, 8, 9)
    assert log.committed() == 12


def test_marks_of_a_partition_that_went_are_forgotten() -> None:
    log = Log()
    log.hand_out(10)
    log.mark(*range(10))
    log.marks.forget([ZERO])
    log.seek(0)
    assert log.committed() is None
    log.mark(9)  # by a late worker
    log.hand_out(5)
    log.mark(0)
    assert log.committed() == 1


def test_a_late_mark_does_not_take_back_what_others_committed() -> None:
    """The worker may finish before the committed offset is found, or after."""
    log = Log()
    log.hand_out(41)
    log.mark(12)
    log.marks.forget([ZERO])  # the partition was revoked, others committed 100, it is back
    log.mark(40)
    log.marks.begin_at({ZERO: OffsetAndMetadata(100)})
    log.seek(100)
    assert log.committed() is None
    log.mark(41)
    log.marks.add_through(record(42))
    log.hand_out(105)
    assert log.committed() is None
    log.mark(100)
    assert log.committed() == 101


def test_a_commit_bears_the_epoch_of_the_last_processed_record() -> None:
    log = Log()
    log.hand_out(4)
    log.marks.add([record(2, 7), record(0, 5), record(1, 6)])
    assert log.marks.of([ZERO]) == {ZERO: OffsetAndMetadata(3, "", 7)}
    log.marks.add_through(record(3, 8))
    assert log.marks.of([ZERO]) == {ZERO: OffsetAndMetadata(4, "", 8)}


def test_only_the_partitions_that_are_asked_for_are_told() -> None:
    log = Log()
    log.hand_out(4)
    log.mark(0)
    assert log.marks.of([TopicPartition("t", 1)]) == {}
    assert log.committed() == 1


def test_marks_that_wait_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_marks, "RANGES_MAX", 10)
    log = Log()
    log.hand_out(100)
    log.mark(*range(1, 19, 2))
    with pytest.raises(
        IllegalStateError, match=r"10 separate ranges .* t-0\. .* at offset 2 or before"
    ):
        log.mark(30)
    assert log.committed() is None
    log.mark(*range(0, 31))
    assert log.committed() == 31


def test_marks_beyond_the_limit_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_marks, "RANGES_MAX", 10)
    log = Log()
    log.hand_out(1000)
    for offset in range(1, 1000, 2):
        with contextlib.suppress(IllegalStateError):
            log.mark(offset)
    ((_, state),) = log.marks._partitions.items()
    assert len(state.processed) == 10
    log.mark(0, 2)
    assert log.committed() == 4


def test_a_look_that_another_thread_has_overtaken_counts_for_nothing() -> None:
    state = _marks._Partition(-1)
    for offset in range(0, 40, 2):  # every other offset has no record
        state.processed.add(offset, 0)
    state.look(_marks.HandedOut(1, 0, 40, 20))
    state.look(_marks.HandedOut(1, 0, 20, 10))
    assert state.seen == (40, 20)
    assert state.take_prefix() is not None
    state.processed.add(40, 0)
    state.look(_marks.HandedOut(1, 0, 41, 21))
    found = state.take_prefix()
    assert found is not None
    assert found.offset == 41


def test_a_log_with_gaps_does_not_come_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_marks, "RANGES_MAX", 10)
    log = Log(offsets=range(0, 1000, 2))
    for offset in log.offsets:
        log.hand_out(offset + 1)
        log.mark(offset)
    assert log.committed() == 999


@pytest.mark.parametrize("seed", range(300))
def test_no_order_of_marks_commits_an_unprocessed_record_or_stalls(seed: int) -> None:
    chance = random.Random(seed)
    density = chance.choice([1.0, 1.0, 0.9, 0.3])
    log = Log(offsets=[each for each in range(400) if chance.random() < density])
    unprocessed: list[int] = []
    outdated: list[int] = []  # records from before a seek, which late workers still have
    marked_late: set[int] = set()
    best = 0
    for _ in range(200):
        action = chance.random()
        if action < 0.3:
            given = log.hand_out(log.position + chance.randrange(8))
            unprocessed += [each for each in given if each not in marked_late]
        elif action < 0.35 and outdated:
            late = outdated.pop(chance.randrange(len(outdated)))
            log.mark(late)
            marked_late.add(late)
            unprocessed = [each for each in unprocessed if each != late]
        elif action < 0.85 and unprocessed:
            log.mark(unprocessed.pop(chance.randrange(len(unprocessed))))
        elif action < 0.87:
            log.seek(chance.randrange(log.position + 1))
            outdated, unprocessed = unprocessed, []
            marked_late.clear()
        else:
            found = log.committed()
            assert found is None or all(found <= each for each in unprocessed)
            assert found is None or found >= best
            best = found or best
    while unprocessed:
        log.mark(unprocessed.pop())
    found = log.committed()
    handed_out = [each for each in log.offsets if each < log.position]
    if handed_out and handed_out[-1] >= max(best, log.start) and log.records:
        assert found == handed_out[-1] + 1


def test_threads_mark_at_once() -> None:
    log = Log()
    log.hand_out(8_000)
    offsets = list(range(8_000))
    random.Random(1).shuffle(offsets)

    def work(part: list[int]) -> None:
        for each in part:
            log.mark(each)

    threads = [threading.Thread(target=work, args=(offsets[n::8],)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert log.committed() == 8_000
