"""Runs a group member of any client, which writes its assignments, reads and commits to a file.

    python -m tests.support.clients.member CLIENT BOOTSTRAP TOPIC GROUP FILE STRATEGY SESSION NUMBER

STRATEGY is `range` or `cooperative-sticky`, or `consumer` for KIP-848's protocol. SESSION is the
session timeout in ms. With KIP-848 the broker sets it instead. At the end of its input the program
leaves the group and ends. Lines of the file are "time kind number ...". The time is in ns, and
tests/support/groups/history.py lists the kinds. A client that does not report its generation has
-1.
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
FIRST_MS = 3000  # the poll timeout of a member without partitions
POLL_RECORDS = 1000  # of confluent-kafka, between two commits
CONSUMER = "consumer"  # group.protocol's name for KIP-848


class Log:
    """Writes the file line by line, so a killed process leaves complete lines.

    Attributes:
        owned: the partitions that are assigned and not yet revoked or lost.
    """

    def __init__(self, file: TextIO, number: str) -> None:
        self._file, self._number = file, number
        self._lock = threading.Lock()  # kafka-python may run listeners in its own thread
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
        """Writes that the member reads nothing more."""
        self.write("X")


def kafka_python(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    """Runs a member with kafka-python, or with thalweg, which needs one changed import."""
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
        # kafka-python 3.0 joins before it knows the topic's partitions, and then once more. If the
        # timeout of a poll ends while that second SyncGroup is in flight, it drops the response and
        # never sends the request again.
        for where, records in consumer.poll(timeout_ms=100 if log.owned else FIRST_MS).items():
            log.read(where.partition, [each.offset for each in records])
            offsets[where] = library.OffsetAndMetadata(records[-1].offset + 1, "", -1)
        try:
            if offsets:
                consumer.commit(offsets)
        except failed:
            continue  # the group rebalances: the next owner reads these records again
        for where, at in offsets.items():
            log.write("C", where.partition, at.offset)
    log.leaves()
    consumer.close()


def kafka_python_options(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns kafka-python's options for the protocol, the assignor and the timeouts."""
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
    """Runs a member with confluent-kafka (librdkafka)."""
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
        # Only the group metadata for transactions has it: a magic, the generation, the IDs.
        _, number = struct.unpack_from("=7si", consumer.consumer_group_metadata())
        return int(number)

    def assigned(_: Any, partitions: Any) -> None:
        log.assigned(generation(), (each.partition for each in partitions))

    # Callbacks run inside `poll`. Offsets that were read but not logged yet are dropped with their
    # partition. It may come back, from its committed offset, before the next record.
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
    """Returns librdkafka's options for the same. With `consumer` it refuses the classic ones."""
    strategy = arguments["strategy"]
    if strategy == CONSUMER:
        return {"group.protocol": strategy}
    return {
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": int(arguments["session_ms"]),
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }


def aiokafka(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    """Runs a member with aiokafka, which has the classic protocol and no cooperative assignor."""
    asyncio.run(_aiokafka(arguments, log, ended))


async def _aiokafka(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    import aiokafka as library
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError

    assert arguments["strategy"] == RangePartitionAssignor.name

    def generation() -> int:
        return int(consumer._coordinator.generation)  # no public name has it

    class Told(library.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            # Also called for lost partitions. Without a generation it is no longer a member.
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
            # It rebalances in its own task, and returns records until it has the next assignment.
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
