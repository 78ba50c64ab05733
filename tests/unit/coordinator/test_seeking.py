"""Seeks to committed offsets: a thread and an asyncio task run the same steps."""

import asyncio
import time
from typing import Any

import pytest

from thalweg.aio._waits import awaited
from thalweg.coordinator.driver import run
from thalweg.coordinator.driver._committed_offsets import Seeking
from thalweg.errors import IllegalStateError, KafkaTimeoutError, NoOffsetForPartitionError
from thalweg.structs import OffsetAndMetadata, TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
COMMITTED = OffsetAndMetadata(5, "m", 3)
HOUR_MS = 3_600_000


class Core:
    """Records its calls. `rows` is the result of a lookup, or its error."""

    def __init__(self) -> None:
        self.assigned = {ZERO, ONE}
        self.calls: list[Any] = []
        self.rows: Any = [("t", 0, 7, 1_000, 2), ("t", 1, -1, -1, -1)]
        self.targets: list[Any] = []
        self.limits: list[int] = []

    def assignment(self) -> set[TopicPartition]:
        return self.assigned

    def seek(self, where: TopicPartition, at: int | OffsetAndMetadata) -> None:
        self.calls.append(("seek", where, at))

    def seek_to(self, partitions: list[TopicPartition], where: str) -> None:
        self.calls.append(("seek_to", partitions, where))

    def _list_offsets(self, targets: list[Any], timeout_ms: int) -> Any:
        self.targets += targets
        self.limits.append(timeout_ms)
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows


class Calls:
    """The core's calls for asyncio."""

    def __init__(self, core: Core) -> None:
        self.core = core

    async def _list_offsets(self, targets: list[Any], timeout_ms: int) -> Any:
        return self.core._list_offsets(targets, timeout_ms)

    async def position(self, where: TopicPartition, timeout_ms: int) -> int:
        self.core.calls.append(("position", where))
        self.core.limits.append(timeout_ms)
        return 0


def sought(
    core: Core, api: str, policy: str, found: dict[TopicPartition, OffsetAndMetadata | None]
) -> list[Any]:
    """Returns the calls that set the positions for the found offsets."""
    config: Any = {"auto_offset_reset": policy, "default_api_timeout_ms": 60_000}
    fake: Any = core
    steps = Seeking(fake, config, core.seek, core.seek_to, is_eager=api == "task").to(found)
    if api == "thread":
        run(steps)
    else:
        calls: Any = Calls(core)
        asyncio.run(awaited(steps, calls))
    assert all(30_000 < limit <= 60_000 for limit in core.limits)
    return core.calls


APIS = pytest.mark.parametrize("api", ["thread", "task"])


def looked_up(api: str) -> list[Any]:
    """The calls that look up positions: only asyncio waits for that of ONE, set by the policy."""
    return [("position", ONE)] if api == "task" else []


@APIS
def test_what_the_policy_decides_is_sought_before_what_is_committed(api):
    calls = sought(Core(), api, "earliest", {ZERO: COMMITTED, ONE: None})
    assert calls == [("seek_to", [ONE], "earliest"), *looked_up(api), ("seek", ZERO, COMMITTED)]


@APIS
def test_a_policy_by_duration_seeks_what_it_finds_and_else_the_end(api):
    core = Core()
    calls = sought(core, api, "by_duration:PT1H", {ZERO: None, ONE: None})
    assert calls == [("seek", ZERO, 7), ("seek_to", [ONE], "latest"), *looked_up(api)]
    assert [TopicPartition(*target[:2]) for target in core.targets] == [ZERO, ONE]
    since_ms = time.time() * 1000 - HOUR_MS
    assert [target[2] for target in core.targets] == pytest.approx([since_ms] * 2, abs=60_000)


@APIS
def test_without_a_policy_no_position_moves(api):
    core = Core()
    with pytest.raises(NoOffsetForPartitionError, match="t-1"):
        sought(core, api, "none", {ZERO: COMMITTED, ONE: None})
    assert core.calls == []


@APIS
def test_a_lookup_that_fails_is_raised_and_no_position_moves(api):
    core = Core()
    core.rows = KafkaTimeoutError("late")
    with pytest.raises(KafkaTimeoutError, match="late"):
        sought(core, api, "by_duration:PT1H", {ZERO: COMMITTED, ONE: None})
    assert core.calls == []


def test_a_partition_that_goes_meanwhile_is_not_waited_for():
    core = Core()
    core.assigned = {ZERO}
    with pytest.raises(IllegalStateError, match="not assigned"):
        sought(core, "task", "latest", {ONE: None})
