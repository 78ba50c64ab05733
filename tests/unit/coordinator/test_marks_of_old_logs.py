"""After a reset of the position, offsets mean other records, so older marks do not count."""

import random
from typing import Any

import pytest

from tests.unit.coordinator.test_marks import ZERO, Log, record
from thalweg.errors import IllegalStateError
from thalweg.structs import OffsetAndMetadata, TopicPartition


def read_all_but_50() -> Log:
    log = Log()
    log.hand_out(100)
    log.mark(*(each for each in range(100) if each != 50))
    return log


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("start", [0, 40])
def test_marks_of_an_old_log_do_not_count_for_a_new_one(start: int, is_committed: bool) -> None:
    log = read_all_but_50()
    if is_committed:
        assert log.committed() == 50
    log.reset(start)
    assert log.committed() is None  # before anything of the new log was returned
    log.hand_out(100)
    log.mark(*range(start, 51))
    assert log.committed() == 51


def test_commits_follow_a_reset_back() -> None:
    log = Log()
    log.hand_out(100)
    log.mark(*range(100))
    assert log.committed() == 100
    log.reset(0)
    log.hand_out(20)
    log.mark(*range(20))
    assert log.committed() == 20


def test_a_reset_below_the_committed_offset_is_noticed_without_earlier_marks() -> None:
    log = Log()
    log.marks.forget([ZERO])  # a new assignment
    log.marks.begin_at({ZERO: OffsetAndMetadata(100)})
    log.reset(0)
    log.hand_out(20)
    log.mark(*range(20))
    assert log.committed() == 20


def test_a_seek_before_the_committed_offset_is_known_moves_no_commit_back() -> None:
    """The request for the committed offset is in flight during the seek."""
    log = Log()
    log.marks.forget([ZERO])
    log.seek(0)
    log.marks.begin_at({ZERO: OffsetAndMetadata(80)})
    log.hand_out(20)
    log.mark(*range(20))
    assert log.committed() is None


@pytest.mark.parametrize("place", ["before the core", "after the core", "after the seek"])
def test_a_mark_during_a_seek_moves_no_commit_back(place: str) -> None:
    """Another thread marks a record at each step of a seek. Its look may also be older."""
    log = Log()
    log.hand_out(10)
    log.mark(*range(10))
    assert log.committed() == 10
    log.marks.before_seek([ZERO])
    if place == "before the core":
        log.mark(9)
    log.reset(0)
    if place == "after the core":
        log.hand_out(2)
        log.mark(1)
    log.marks.restart([ZERO])
    if place == "after the seek":
        log.mark(9)
    log.reset(0)
    log.hand_out(2)
    log.mark(0, 1)
    assert log.committed() is None
    log.hand_out(12)
    log.mark(*range(2, 12))
    assert log.committed() == 12


@pytest.mark.parametrize("error", [IllegalStateError, KeyboardInterrupt])
def test_after_a_seek_that_fails_resets_are_noticed_again(error: type[BaseException]) -> None:
    log = Log()
    log.hand_out(10)
    log.mark(*range(10))
    with pytest.raises(error), log.marks.seeking([ZERO]):
        raise error
    log.reset(0)
    log.hand_out(10)
    log.mark(*range(10))
    assert log.committed() == 10


def test_marks_outlive_a_seek_that_the_core_refuses() -> None:
    log = Log()
    log.hand_out(10)
    log.mark(*range(8))
    with pytest.raises(IllegalStateError), log.marks.seeking([ZERO]):
        raise IllegalStateError("another thread polls")
    log.mark(8)
    assert log.committed() == 9
    log.mark(9)
    assert log.committed() == 10


def test_a_look_from_before_a_seek_is_no_reset() -> None:
    """A thread asks the core, then the application seeks, then the thread continues."""
    log = Log()
    log.hand_out(10)
    log.mark(*range(10))
    assert log.committed() == 10
    core = log.handed_out
    marks = log.marks

    def seeks_meanwhile(partitions: list[TopicPartition]) -> list[Any]:
        marks._handed_out = core
        rows = core(partitions)
        marks.before_seek([ZERO])
        log.reset(0)
        marks.restart([ZERO])
        return rows

    marks.restart([ZERO])
    marks._handed_out = seeks_meanwhile
    log.mark(9)
    log.hand_out(2)
    log.mark(0, 1)
    assert log.committed() is None


def test_a_seek_below_the_committed_offset_moves_no_commit_back() -> None:
    log = Log()
    log.marks.begin_at({ZERO: OffsetAndMetadata(100)})
    log.seek(0)
    log.hand_out(20)
    log.mark(*range(20))
    assert log.committed() is None


def test_commits_follow_a_seek_back_after_a_reset() -> None:
    """Without a reset policy, the application must seek after the reset."""
    log = read_all_but_50()
    log.reset(0)
    log.marks.before_seek([ZERO])
    log.seek(0)
    log.hand_out(20)
    log.mark(*range(10))
    assert log.committed() == 10


def test_late_marks_of_an_old_log_do_not_count() -> None:
    log = Log()
    log.hand_out(100)
    log.mark(0)
    log.reset(0)
    log.mark(10)  # nothing of the new log was returned yet
    log.marks.add_through(record(11))
    log.hand_out(20)
    log.mark(50)  # not returned yet
    log.marks.add_through(record(60))
    assert log.committed() is None
    log.hand_out(100)
    log.mark(*range(10))
    assert log.committed() == 10
    log.mark(*range(10, 50))
    assert log.committed() == 50


def test_a_mark_that_the_core_confirms_only_later_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the GIL, another thread may be in an iteration, whose records do not count yet."""
    log = Log()
    log.hand_out(10)
    log.mark(0)
    log.reset(0)
    looks = [[None], [None], [(log.since, 0, 1, 1)]]
    monkeypatch.setattr(log.marks, "_handed_out", lambda _: looks.pop(0) if looks[1:] else looks[0])
    log.mark(0)
    assert log.committed() == 1


def test_marks_after_the_close_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(partitions: object) -> list[None]:
        raise IllegalStateError("the client is closed")

    log = Log()
    monkeypatch.setattr(log.marks, "_handed_out", closed)
    log.mark(0)
    assert log.committed() is None


@pytest.mark.parametrize("seed", range(200))
def test_no_reset_lets_a_commit_pass_an_unprocessed_record(seed: int) -> None:
    chance = random.Random(seed)
    density = chance.choice([1.0, 0.5])
    log = Log(offsets=[each for each in range(300) if chance.random() < density])
    unprocessed: list[int] = []
    old: list[int] = []
    for _ in range(300):
        action = chance.random()
        if action < 0.3:
            unprocessed += log.hand_out(log.position + chance.randrange(8))
        elif action < 0.4:
            # If the new log has returned this offset, nothing tells the two records apart.
            late = [each for each in old if not log.records or each >= log.position]
            log.mark(*late[:3])
        elif action < 0.85 and unprocessed:
            log.mark(unprocessed.pop(chance.randrange(len(unprocessed))))
        elif action < 0.87 and log.records:
            log.mark(log.offsets[0])  # the marks must know the old log
            unprocessed = [each for each in unprocessed if each != log.offsets[0]]
            old, unprocessed = [*old, *unprocessed], []
            log.offsets = [each for each in range(300) if chance.random() < density]
            log.reset(chance.randrange(log.position + 1))
        else:
            found = log.committed()
            assert found is None or all(found <= each for each in unprocessed)
    log.mark(*unprocessed)
    returned = [each for each in log.offsets if log.start <= each < log.position]
    if returned:
        assert log.committed() == returned[-1] + 1
