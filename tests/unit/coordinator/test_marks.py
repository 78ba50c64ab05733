"""Marks of records that are done, and the offsets that others have committed meanwhile."""

from types import SimpleNamespace
from typing import Any

from thalweg.coordinator.driver._marks import Marks
from thalweg.structs import OffsetAndMetadata, TopicPartition

ZERO = TopicPartition("t", 0)


def record(offset: int) -> Any:
    return SimpleNamespace(topic="t", partition=0, offset=offset, leader_epoch=None)


def test_a_mark_moves_forward_only() -> None:
    marks = Marks()
    marks.add([record(40), record(7)])
    assert marks.of([ZERO]) == {ZERO: OffsetAndMetadata(41)}


def test_a_late_mark_does_not_take_back_what_others_committed() -> None:
    """Whether the worker is done before the committed offset is found, or after."""
    marks = Marks()
    marks.add(record(12))
    marks.forget([ZERO])  # it went, others committed 100, it is back
    marks.add(record(40))
    marks.begin_at({ZERO: OffsetAndMetadata(100)})
    assert marks.of([ZERO]) == {}
    marks.add(record(41))
    assert marks.of([ZERO]) == {}
    marks.add(record(100))
    assert marks.of([ZERO]) == {ZERO: OffsetAndMetadata(101)}


def test_marks_beyond_the_committed_offset_stay() -> None:
    marks = Marks()
    marks.add(record(40))
    marks.begin_at({ZERO: OffsetAndMetadata(40)})
    assert marks.of([ZERO]) == {ZERO: OffsetAndMetadata(41)}
    marks.begin_at({ZERO: None})
    assert marks.of([ZERO]) == {ZERO: OffsetAndMetadata(41)}
