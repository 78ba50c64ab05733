"""A member of a consumer group, of any client: writes down what it was given, read and committed.

    python -m tests.support.clients.member CLIENT BOOTSTRAP TOPIC GROUP FILE STRATEGY SESSION NUMBER

STRATEGY is `range` or `cooperative-sticky`, or `consumer` for KIP-848's protocol; SESSION is the
session's timeout in ms, which KIP-848 leaves to the broker. It leaves the group and ends at the end
of its input. Lines of the file are "time kind number ...", the time in ns and the kinds those of
tests/support/group_history.py; who does not tell its generation has -1.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

HEARTBEAT_MS = 500
FIRST_MS = 3000  # a poll of who owns nothing
POLL_RECORDS = 1000  # of confluent-kafka, between two commits
CONSUMER = "consumer"  # what group.protocol calls KIP-848's


class Log:
    """The file, a line at a time: a killed process leaves whole lines.

    Attributes:
        owned: the partitions that were assigned and not given up or lost since.
    """

    def __init__(self, file: TextIO, number: str) -> None:
        self._file, self._number = file, number
        self._lock = threading.Lock()  # kafka-python's listeners may run in a thread of its own
        self.owned: set[int] = set()

    def write(self, kind: str, *fields: int) -> None:
        with self._lock:
            line = " ".join([str(time.time_ns()), kind, self._number, *map(str, fields)])
            self._file.write(line + "\n")
            self._file.flush()

    def assigned(self, generation: int, more: Iterable[int]) -> None:
        self.owned.update(more)
        self.write("A", generation, *sorted(self.owned))

    def revoked(self, partitions: Iterable[int]) -> None:
        self._gone("V", partitions)

    def lost(self, partitions: Iterable[int]) -> None:
        self._gone("L", partitions)

    def _gone(self, kind: str, partitions: Iterable[int]) -> None:
        gone = self.owned.intersection(partitions)
        self.owned -= gone
        if gone:
            self.write(kind, -1, *sorted(gone))

    def read(self, partition: int, offsets: list[int]) -> None:
        self.write("R", partition, offsets[0], offsets[-1], 0)
        if offsets[-1] - offsets[0] + 1 != len(offsets):
            raise SystemExit(f"gaps in {offsets}")

    def leaves(self) -> None:
        """From here on nothing is read."""
        self.write("X")


def kafka_python(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    """kafka-python; thalweg runs the same, with one import changed."""
    library = importlib.import_module("thalweg" if arguments["client"] == "thalweg" else "kafka")
    failed = importlib.import_module(f"{library.__name__}.errors").KafkaError

    class Told(library.ConsumerRebalanceListener):  # type: ignore[name-defined,misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            log.revoked(each.partition for each in revoked)

        def on_partitions_lost(self, lost: Any) -> None:
            log.lost(each.partition for each in lost)

        def on_partitions_assigned(self, assigned: Any) -> None:
            generation = consumer.group_metadata().generation_id
            log.assigned(generation, (each.partition for each in consumer.assignment()))

    consumer = library.KafkaConsumer(
        bootstrap_servers=arguments["bootstrap"],
        group_id=arguments["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **kafka_python_options(arguments),
    )
    consumer.subscribe([arguments["topic"]], listener=Told())
    while not ended.is_set():
        offsets = {}
        # kafka-python 3.0 joins before it knows the topic's partitions and then once more; where a
        # poll's time ends while that second SyncGroup is under way, its answer is dropped and never
        # asked for again.
        for where, records in consumer.poll(timeout_ms=100 if log.owned else FIRST_MS).items():
            log.read(where.partition, [each.offset for each in records])
            offsets[where] = library.OffsetAndMetadata(records[-1].offset + 1, "", -1)
        try:
            if offsets:
                consumer.commit(offsets)
        except failed:
            continue  # the group rebalances: what was read is read again by whoever has it then
        for where, at in offsets.items():
            log.write("C", where.partition, at.offset)
    log.leaves()
    consumer.close()


def kafka_python_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """How a group is shared out, in kafka-python's options."""
    strategy = arguments["strategy"]
    if strategy == CONSUMER:
        return {"group_protocol": strategy}
    wanted: Any = strategy
    if arguments["client"] != "thalweg":
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        known = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
        wanted = [known[strategy]]
    return {
        "partition_assignment_strategy": wanted,
        "session_timeout_ms": int(arguments["session_ms"]),
        "heartbeat_interval_ms": HEARTBEAT_MS,
    }


def confluent(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    """confluent-kafka (librdkafka)."""
    import confluent_kafka as ck

    consumer = ck.Consumer(
        {
            "bootstrap.servers": arguments["bootstrap"],
            "group.id": arguments["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **confluent_options(arguments),
        }
    )

    def generation() -> int:
        # Told by nothing but what a producer's transaction is given: a magic, this, the ids.
        _, number = struct.unpack_from("=7si", consumer.consumer_group_metadata())
        return int(number)

    def assigned(_: Any, partitions: Any) -> None:
        log.assigned(generation(), (each.partition for each in partitions))

    # Callbacks run within `poll`: what was read and not told yet goes with its partition, which may
    # be back, from its committed offset, before the next record.
    read: dict[int, list[int]] = {}

    def drop(partitions: Any) -> list[int]:
        numbers = [each.partition for each in partitions]
        for each in numbers:
            read.pop(each, None)
        return numbers

    def revoked(_: Any, partitions: Any) -> None:
        log.revoked(drop(partitions))

    def lost(_: Any, partitions: Any) -> None:
        log.lost(drop(partitions))

    consumer.subscribe([arguments["topic"]], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not ended.is_set():
        read.clear()
        for _ in range(POLL_RECORDS):
            message = consumer.poll(0 if read else 0.1)
            if message is None:
                break
            if not message.error() and message.partition() in log.owned:
                read.setdefault(message.partition(), []).append(message.offset())
        for partition, offsets in read.items():
            log.read(partition, offsets)
        wanted = [
            ck.TopicPartition(arguments["topic"], partition, offsets[-1] + 1)
            for partition, offsets in read.items()
        ]
        try:
            done = consumer.commit(offsets=wanted, asynchronous=False) if wanted else []
        except ck.KafkaException:
            continue
        for each in done:
            if each.error is None:
                log.write("C", each.partition, each.offset)
    log.leaves()
    consumer.close()


def confluent_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """The same in librdkafka's options, which refuses the classic ones beside `consumer`."""
    strategy = arguments["strategy"]
    if strategy == CONSUMER:
        return {"group.protocol": strategy}
    return {
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": int(arguments["session_ms"]),
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }


def aiokafka(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    """aiokafka, which speaks the classic protocol and knows no cooperative assignor."""
    asyncio.run(_aiokafka(arguments, log, ended))


async def _aiokafka(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    import aiokafka as library
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    assert arguments["strategy"] == RangePartitionAssignor.name

    def generation() -> int:
        return int(consumer._coordinator.generation)  # told by nothing public

    class Told(library.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            # Called for what was lost, too: who has no generation is no member any more.
            tell = log.revoked if generation() >= 0 else log.lost
            tell(each.partition for each in revoked)

        def on_partitions_assigned(self, assigned: Any) -> None:
            log.assigned(generation(), (each.partition for each in assigned))

    consumer = library.AIOKafkaConsumer(
        bootstrap_servers=arguments["bootstrap"],
        group_id=arguments["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=int(arguments["session_ms"]),
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    await consumer.start()
    consumer.subscribe([arguments["topic"]], listener=Told())
    while not ended.is_set():
        offsets = {}
        for where, records in (await consumer.getmany(timeout_ms=100)).items():
            # It rebalances in a task of its own, and hands out until it has the next assignment.
            if where.partition in log.owned:
                log.read(where.partition, [each.offset for each in records])
                offsets[where] = records[-1].offset + 1
        try:
            if offsets:
                await consumer.commit(offsets)
        except KafkaError:
            continue
        for where, offset in offsets.items():
            log.write("C", where.partition, offset)
    log.leaves()
    await consumer.stop()


RUNS: dict[str, Callable[[dict[str, Any], Log, threading.Event], None]] = {
    "thalweg": kafka_python,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
    "aiokafka": aiokafka,
}


def main() -> None:
    names = ["client", "bootstrap", "topic", "group", "file", "strategy", "session_ms", "number"]
    arguments: dict[str, Any] = dict(zip(names, sys.argv[1:], strict=True))
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    threading.Thread(target=wait, daemon=True).start()
    with open(arguments["file"], "w", encoding="utf-8") as file:
        log = Log(file, arguments["number"])
        RUNS[arguments["client"]](arguments, log, ended)
        log.write("E")


if __name__ == "__main__":
    main()
