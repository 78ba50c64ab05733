"""A Ctrl-C between any two lines of the group's work costs a rebalance, but never a partition."""

from __future__ import annotations

import contextlib
import linecache
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import thalweg.coordinator
from tests.integration.support.clients import Clients
from tests.support.scale import scaled
from thalweg import EmbeddedBroker, KafkaConsumer
from thalweg.errors import IllegalStateError

COORDINATOR = thalweg.coordinator.__path__[0]
# Every n-th line is interrupted. A full run interrupts every line of a third of them all.
STRIDE = 151 - scaled(148)
LIMIT_S = 60.0
TOPIC = "interrupted"
# Members learn of a rebalance from a heartbeat. If a response with a new member id is lost, the
# group waits for that member until its session times out.
QUICK = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "20",
    "group.consumer.heartbeat.interval.ms": "20",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.assignment.interval.ms": "0",
}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {
        "group_protocol": "classic",
        "heartbeat_interval_ms": 20,
        "session_timeout_ms": 1000,
    },
    "consumer": {"group_protocol": "consumer"},
}


class Interrupter:
    """Raises KeyboardInterrupt at one line of the package `coordinator`, in this thread.

    It stands for a signal handler, which also runs between two instructions of the main thread.

    Attributes:
        lines: The number of lines seen.
    """

    def __init__(self, at: int | None) -> None:
        self.lines = 0
        self._at = at

    def __enter__(self) -> Interrupter:
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename.startswith(COORDINATOR) else None

    def _line(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        if event == "line":
            self.lines += 1
            if self._at is not None and self.lines >= self._at and not _is_with(frame):
                self._at = None
                raise KeyboardInterrupt
        return self._line


def _is_with(frame: FrameType) -> bool:
    """Whether a frame is at a `with`. Its end is a line too, at which no signal handler can run."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return line.lstrip().startswith("with ")


class Pair:
    """Two members of a group. Only the first is interrupted."""

    def __init__(
        self, broker: EmbeddedBroker, group: str, protocol: str, interrupter: Interrupter
    ) -> None:
        self._broker, self._group, self._protocol = broker, group, protocol
        self._interrupter = interrupter
        self._clients = Clients()
        self._producer = self._clients.producer(broker)
        self._sent = 0
        self.first = self._member()
        self.members = [self.first]

    def _member(self) -> KafkaConsumer:
        return self._clients.consumer(
            self._broker,
            group_id=self._group,
            **PROTOCOLS[self._protocol],
            auto_offset_reset="latest",
        )

    def join(self) -> None:
        """The first member joins alone, then with a second one."""
        try:
            with self._interrupter:
                self.first.subscribe([TOPIC])
        except KeyboardInterrupt:
            self.first.subscribe([TOPIC])
        self.poll_until(lambda: len(self.first.assignment()) == 2)
        second = self._member()
        self.members.append(second)
        second.subscribe([TOPIC])
        self.poll_until(lambda: all(len(each.assignment()) == 1 for each in self.members))

    def poll_until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not done():
            assert time.monotonic() < deadline, [each.assignment() for each in self.members]
            try:
                with self._interrupter:
                    self.first.poll(1)
            except KeyboardInterrupt:
                pass
            for each in self.members[1:]:
                each.poll(1)

    def check(self) -> None:
        """Each partition is read by one of the members."""
        self.poll_until(self._all_is_assigned)
        missing: set[int] = {0, 1}
        deadline = time.monotonic() + LIMIT_S
        while missing:
            assert time.monotonic() < deadline, f"nobody reads partition {missing}"
            for partition in missing:
                self._producer.send(TOPIC, b"record", partition=partition)
            self._producer.flush(30)
            for each in self.members:
                missing -= {where.partition for where in each.poll(20)}

    def _all_is_assigned(self) -> bool:
        return sorted(where for each in self.members for where in each.assignment()) == [
            (TOPIC, 0),
            (TOPIC, 1),
        ]

    def close(self) -> None:
        self._clients.close()


def interrupted_at(broker: EmbeddedBroker, protocol: str, line: int | None) -> int:
    """Interrupts the first member at a line of its work. Returns the number of lines seen."""
    interrupter = Interrupter(line)
    pair = Pair(broker, f"{protocol}-{line}", protocol, interrupter)
    try:
        pair.join()
        lines = interrupter.lines
        pair.check()
    finally:
        pair.close()
    return lines


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_interrupted_member_reads_its_partitions_again(
    start_embedded: Callable[..., EmbeddedBroker], protocol: str
) -> None:
    broker = start_embedded(configs=QUICK)
    broker.create_topic(TOPIC, 2)
    lines = interrupted_at(broker, protocol, None)
    assert lines > 500
    for line in range(1, lines, STRIDE):
        interrupted_at(broker, protocol, line)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_is_interrupted_while_it_unsubscribes_leaves(
    start_embedded: Callable[..., EmbeddedBroker], protocol: str
) -> None:
    broker = start_embedded(configs=QUICK)
    broker.create_topic(TOPIC, 2)
    for line in range(1, 400, 21 - scaled(20)):
        pair = Pair(broker, f"{protocol}-{line}", protocol, Interrupter(None))
        try:
            pair.join()
            try:
                with Interrupter(line):
                    pair.first.unsubscribe()
            except KeyboardInterrupt:
                pass
            first, second = pair.members
            if first.subscription():  # interrupted before anything was done
                continue
            deadline = time.monotonic() + LIMIT_S
            while len(second.assignment()) < 2 or first.assignment():
                assert time.monotonic() < deadline, f"line {line}: {second.assignment()}"
                with contextlib.suppress(IllegalStateError):  # without a subscription
                    first.poll(1)
                second.poll(10)
        finally:
            pair.close()


def test_a_second_interruption_does_not_stop_the_first_ones_repair(
    start_embedded: Callable[..., EmbeddedBroker],
) -> None:
    broker = start_embedded(configs=QUICK)
    broker.create_topic(TOPIC, 2)
    for line in range(1, 60, 3):
        pair = Pair(broker, f"twice-{line}", "classic", Interrupter(None))
        try:
            pair.join()
            pair.first._driver._interruptions.is_broken = True
            with contextlib.suppress(KeyboardInterrupt), Interrupter(line):
                pair.first.poll(1)
            pair.check()
        finally:
            pair.close()
