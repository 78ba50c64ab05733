"""Runs another client's transactions, or reads committed records with that client.

    python -m tests.support.clients.transactions aiokafka write BOOTSTRAP TOPIC ID commit:3 abort:2
    python -m tests.support.clients.transactions aiokafka read BOOTSTRAP TOPIC

Each step is a transaction. `commit:3` and `abort:2` write that many records to partition 0. Numbers
of records continue through all steps. `commit-offset:GROUP:7` and `abort-offset:GROUP:7` write one
record and send an offset for partition 0. A last transaction commits the record `end`. A reader
reads only committed records, stops there, and prints the values before it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any, Protocol

END = "end"
# A coordinator may need long for its first request.
LIMIT_S = 120


class Writer(Protocol):
    """The calls that a client's transactional producer must support."""

    def begin(self) -> None: ...
    def send(self, topic: str, value: bytes) -> None: ...
    def offset(self, topic: str, group: str, offset: int) -> None: ...
    def finish(self, *, commit: bool) -> None: ...
    def close(self) -> None: ...


class Confluent:
    """Writes with confluent-kafka (librdkafka)."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        import confluent_kafka as ck

        self._ck, self._bootstrap = ck, bootstrap
        options = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id}
        self._producer = ck.Producer({**options, "linger.ms": 0, "compression.type": "lz4"})
        self._producer.init_transactions(LIMIT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value=value, partition=0)

    def offset(self, topic: str, group: str, offset: int) -> None:
        consumer = self._ck.Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        where = self._ck.TopicPartition(topic, 0, offset)
        metadata = consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([where], metadata, LIMIT_S)
        consumer.close()

    def finish(self, *, commit: bool) -> None:
        # An abort discards unsent records. Without a flush there would be nothing to roll back.
        self._producer.flush(LIMIT_S)
        if commit:
            self._producer.commit_transaction(LIMIT_S)
        else:
            self._producer.abort_transaction(LIMIT_S)

    def close(self) -> None:
        self._producer.flush(LIMIT_S)


class KafkaPython:
    """Writes with kafka-python."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        import kafka

        self._kafka = kafka
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value=value, partition=0).get(timeout=LIMIT_S)

    def offset(self, topic: str, group: str, offset: int) -> None:
        from kafka.structs import OffsetAndMetadata

        where = self._kafka.TopicPartition(topic, 0)
        offsets = {where: OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def finish(self, *, commit: bool) -> None:
        if commit:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close()


class AioKafka:
    """Writes with aiokafka. Each call runs the event loop until it is done."""

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        import aiokafka

        self._loop = asyncio.new_event_loop()

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=transactional_id
            )
            await producer.start()
            return producer

        self._aiokafka = aiokafka
        self._producer = self._loop.run_until_complete(start())

    def begin(self) -> None:
        self._loop.run_until_complete(self._producer.begin_transaction())

    def send(self, topic: str, value: bytes) -> None:
        sent = self._producer.send_and_wait(topic, value, partition=0)
        self._loop.run_until_complete(sent)

    def offset(self, topic: str, group: str, offset: int) -> None:
        where = self._aiokafka.TopicPartition(topic, 0)
        sent = self._producer.send_offsets_to_transaction({where: offset}, group)
        self._loop.run_until_complete(sent)

    def finish(self, *, commit: bool) -> None:
        done = self._producer.commit_transaction if commit else self._producer.abort_transaction
        self._loop.run_until_complete(done())

    def close(self) -> None:
        self._loop.run_until_complete(self._producer.stop())


_WRITERS: dict[str, Callable[[str, str], Writer]] = {
    "confluent-kafka": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
}


def write(client: str, bootstrap: str, topic: str, transactional_id: str, *steps: str) -> None:
    """Runs the transactions."""
    writer = _WRITERS[client](bootstrap, transactional_id)
    number = 0
    for step in steps:
        kind, *details = step.split(":")
        end, _, offsets = kind.partition("-")
        writer.begin()
        for _ in range(1 if offsets else int(details[0])):
            writer.send(topic, f"{end}-{number}".encode())
            number += 1
        if offsets:
            writer.offset(topic, details[0], int(details[1]))
        writer.finish(commit=end == "commit")
    writer.begin()
    writer.send(topic, END.encode())
    writer.finish(commit=True)
    writer.close()


def read(client: str, bootstrap: str, topic: str) -> list[str]:
    """Returns the values of all committed records before the last one."""
    if client == "confluent-kafka":
        return _read_confluent(bootstrap, topic)
    if client == "kafka-python":
        return _read_kafka_python(bootstrap, topic)
    return asyncio.run(_read_aiokafka(bootstrap, topic))


def _read_confluent(bootstrap: str, topic: str) -> list[str]:
    import confluent_kafka as ck

    options = {"group.id": "unused", "isolation.level": "read_committed"}
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, **options})
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    values: list[str] = []
    while END not in values:
        message = consumer.poll(LIMIT_S)
        if message is None:
            raise TimeoutError(f"nothing more after {values}")
        if message.error():
            raise RuntimeError(str(message.error()))
        values.append(message.value().decode())
    consumer.close()
    return values[:-1]


def _read_kafka_python(bootstrap: str, topic: str) -> list[str]:
    import kafka

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=LIMIT_S * 1000,
    )
    consumer.assign([kafka.TopicPartition(topic, 0)])
    values: list[str] = []
    for record in consumer:
        if record.value.decode() == END:
            break
        values.append(record.value.decode())
    else:
        raise TimeoutError(f"nothing more after {values}")
    consumer.close()
    return values


async def _read_aiokafka(bootstrap: str, topic: str) -> list[str]:
    import aiokafka

    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    consumer.assign([aiokafka.TopicPartition(topic, 0)])
    values: list[str] = []
    try:
        while END not in values:
            record = await asyncio.wait_for(consumer.getone(), LIMIT_S)
            values.append(record.value.decode())
    finally:
        await consumer.stop()
    return values[:-1]


def main(client: str, role: str, *arguments: str) -> None:
    if role == "write":
        write(client, *arguments)
    else:
        print(json.dumps(read(client, *arguments)))


if __name__ == "__main__":
    main(*sys.argv[1:])
