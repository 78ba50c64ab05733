"""A member of a consumer group, of any client: writes down what it was given, read and committed.

    python -m tests.support.clients.member CLIENT BOOTSTRAP TOPIC GROUP FILE STRATEGY

Lines of the file, each with the time in ns: "A time generation p,p,..." assigned (generation -1:
the client does not tell), "R time p first last" read, "C time p offset" committed. It leaves the
group and ends at the end of its input.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

SESSION_MS, HEARTBEAT_MS = 6000, 500


class Log:
    """The file, a line at a time: a killed process leaves whole lines."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, kind: str, *fields: object) -> None:
        self._file.write(" ".join([kind, str(time.time_ns()), *map(str, fields)]) + "\n")
        self._file.flush()

    def assigned(self, generation: int, partitions: Iterable[int]) -> None:
        self.write("A", generation, ",".join(map(str, sorted(partitions))))

    def read(self, partition: int, offsets: list[int]) -> None:
        self.write("R", partition, offsets[0], offsets[-1])
        if offsets[-1] - offsets[0] + 1 != len(offsets):
            raise SystemExit(f"gaps in {offsets}")


def kafka_python(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    """kafka-python; thalweg runs the same, with one import changed."""
    library = importlib.import_module("thalweg" if arguments["client"] == "thalweg" else "kafka")
    failed = importlib.import_module(f"{library.__name__}.errors").KafkaError
    strategy = arguments["strategy"]
    if arguments["client"] != "thalweg":
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        known = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}
        strategy = [known[strategy]]

    class Told(library.ConsumerRebalanceListener):  # type: ignore[name-defined,misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            log.write("V", -1, "")

        def on_partitions_assigned(self, assigned: Any) -> None:
            generation = consumer.group_metadata().generation_id
            log.assigned(generation, (each.partition for each in consumer.assignment()))

    consumer = library.KafkaConsumer(
        bootstrap_servers=arguments["bootstrap"],
        group_id=arguments["group"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=strategy,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    consumer.subscribe([arguments["topic"]], listener=Told())
    while not ended.is_set():
        offsets = {}
        for where, records in consumer.poll(timeout_ms=100).items():
            log.read(where.partition, [each.offset for each in records])
            offsets[where] = library.OffsetAndMetadata(records[-1].offset + 1, "", -1)
        try:
            if offsets:
                consumer.commit(offsets)
        except failed:
            continue  # the group rebalances: what was read is read again by whoever has it then
        for where, at in offsets.items():
            log.write("C", where.partition, at.offset)
    consumer.close()


def confluent(arguments: dict[str, Any], log: Log, ended: threading.Event) -> None:
    """confluent-kafka (librdkafka)."""
    import confluent_kafka as ck

    consumer = ck.Consumer(
        {
            "bootstrap.servers": arguments["bootstrap"],
            "group.id": arguments["group"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": arguments["strategy"],
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    )

    def assigned(_: Any, partitions: Any) -> None:
        log.assigned(-1, (each.partition for each in partitions))

    def revoked(_: Any, partitions: Any) -> None:
        log.write("V", -1, "")

    consumer.subscribe([arguments["topic"]], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not ended.is_set():
        read: dict[int, list[int]] = {}
        for message in consumer.consume(1000, 0.1):
            if message.error():
                continue
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
    consumer.close()


RUNS: dict[str, Callable[[dict[str, Any], Log, threading.Event], None]] = {
    "thalweg": kafka_python,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent,
}


def main() -> None:
    names = ["client", "bootstrap", "topic", "group", "file", "strategy"]
    arguments: dict[str, Any] = dict(zip(names, sys.argv[1:], strict=True))
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    with open(arguments["file"], "w", encoding="utf-8") as file:
        RUNS[arguments["client"]](arguments, Log(file), ended)


if __name__ == "__main__":
    main()
