"""A program: members of one group, a thread each, that come and go as they are told.

    python -m tests.integration.storm_members BOOTSTRAP TOPIC GROUP PROTOCOL OPTIONS FILE

OPTIONS are more options of the consumers, as JSON. Its input is lines "join N", "leave N" (closes),
"stall N" (never polls again, and does not close). It ends with its input, and may be killed at any
time. What a member does it writes down in lines "time kind member numbers...", the time monotonic
and in ns; support/group_history.py says which.
Members of odd numbers commit by auto-commit, the others after each poll and when told to give up.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from tests.support.group_history import HEARTBEAT_MS, MAX_POLL_INTERVAL_MS, SESSION_MS
from thalweg import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from thalweg.errors import CommitFailedError, RebalanceInProgressError
from thalweg.interceptor import ConsumerInterceptor

AUTO_COMMIT_MS = 200
POLL_MS = 100


class Journal:
    """The file of all members of this process: whole lines, whenever it is killed."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def write(self, kind: str, member: int, rows: Iterable[Iterable[int]] = ((),)) -> None:
        """A line for each row, all at one time."""
        now = time.monotonic_ns()
        lines = [" ".join(map(str, (now, kind, member, *row))) + "\n" for row in rows]
        with self._lock:
            self._file.write("".join(lines))
            self._file.flush()


class Member(ConsumerRebalanceListener, ConsumerInterceptor):
    """One consumer and its thread."""

    def __init__(
        self, number: int, journal: Journal, topic: str, config: Mapping[str, Any]
    ) -> None:
        self._number, self._journal, self._topic = number, journal, topic
        self._auto = number % 2 == 1
        self._config = {
            **config,
            "enable_auto_commit": self._auto,
            "auto_commit_interval_ms": AUTO_COMMIT_MS,
            "interceptor_classes": [self],
        }
        self.leaves, self.stalls = threading.Event(), threading.Event()
        # A daemon: one that stalls never ends.
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        with KafkaConsumer.from_config(self._config) as consumer:
            self._consumer = consumer
            self._write("S")
            consumer.subscribe([self._topic], listener=self)
            polled_ns = time.monotonic_ns()
            while not self.leaves.is_set() and not self.stalls.is_set():
                found = consumer.poll(POLL_MS)
                polled_ns = time.monotonic_ns()
                self._read(found)  # and commits, which may take its time
            if self.stalls.is_set():
                self._write("Z", (time.monotonic_ns() - polled_ns) // 1_000_000)
                threading.Event().wait()
            self._write("X")
        self._write("E")

    def _write(self, kind: str, *numbers: int) -> None:
        self._journal.write(kind, self._number, [numbers])

    def _read(self, found: Mapping[TopicPartition, list[Any]]) -> None:
        rows = []
        now_ms = time.time() * 1000
        for where, records in found.items():
            offsets = [each.offset for each in records]
            if offsets != list(range(offsets[0], offsets[-1] + 1)):
                raise SystemExit(f"not in order, or gaps: {where} {offsets}")
            waited_ms = max(0, int(now_ms - records[0].timestamp))
            rows.append((where.partition, offsets[0], offsets[-1], waited_ms))
        if rows:
            self._journal.write("R", self._number, rows)
            if not self._auto:
                self._commit()

    def _commit(self) -> None:
        # During a rebalance a later commit covers it, of this member or of whoever reads it again.
        with contextlib.suppress(CommitFailedError, RebalanceInProgressError):
            self._consumer.commit()

    # ------------------------------------------------------------------ what it is told

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        rows = [(where.partition, at.offset) for where, at in offsets.items()]
        self._journal.write("C", self._number, rows)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._tell("A", self._consumer.assignment())

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        try:
            if not self._auto:
                self._commit()
        finally:  # they go all the same
            self._tell("V", revoked)

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._tell("L", lost)

    def _tell(self, kind: str, partitions: Iterable[TopicPartition]) -> None:
        generation = self._consumer.group_metadata().generation_id
        self._write(kind, generation, *sorted(each.partition for each in partitions))


def main(bootstrap: str, topic: str, group: str, protocol: str, options: str, path: str) -> None:
    config: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
        "default_api_timeout_ms": 20_000,
    }
    if protocol == "classic":
        config |= {
            "partition_assignment_strategy": "cooperative-sticky",
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
        }
    config |= json.loads(options)
    members: dict[int, Member] = {}
    with open(path, "w", encoding="utf-8") as file:
        journal = Journal(file)
        for line in sys.stdin:
            what, number = line.split()
            match what:
                case "join":
                    members[int(number)] = Member(int(number), journal, topic, config)
                case "leave":
                    members[int(number)].leaves.set()
                case "stall":
                    members[int(number)].stalls.set()
        end(list(members.values()))


def end(members: list[Member]) -> None:
    """All leave, but those that stall."""
    staying = [each for each in members if not each.stalls.is_set()]
    for each in staying:
        each.leaves.set()
    for each in staying:
        each.thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
