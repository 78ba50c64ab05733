"""What a type checker infers for consumers. This file is never run."""

import asyncio
from collections.abc import Collection
from typing import Any, assert_type

from thalweg import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    Deserializer,
    JsonSerializer,
    KafkaConsumer,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordTable,
    TopicPartition,
)
from thalweg.aio import AIOKafkaConsumer


def decode(data: bytes) -> str:
    return data.decode()


class IntDeserializer(Deserializer[int]):
    def deserialize(self, topic: str, headers: list[tuple[str, bytes]], data: bytes) -> int:
        return int.from_bytes(data, "big")


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None: ...
    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None: ...


def plain() -> None:
    consumer = KafkaConsumer("t", "u", bootstrap_servers=["h:1"], group_id=None)
    assert_type(consumer, KafkaConsumer[bytes | None, bytes | None])
    for record in consumer:
        assert_type(record, ConsumerRecord[bytes | None, bytes | None])
        assert_type(record.value, bytes | None)
        assert_type(record.offset, int)
        assert_type(record.headers, list[tuple[str, bytes | None]])
    where = TopicPartition("t", 0)
    assert_type(
        consumer.poll(100), dict[TopicPartition, list[ConsumerRecord[bytes | None, bytes | None]]]
    )
    assert_type(consumer.poll_arrow(max_bytes=5), RecordTable)
    assert_type(consumer.assignment(), set[TopicPartition])
    assert_type(consumer.position(where), int)
    assert_type(consumer.end_offsets([where]), dict[TopicPartition, int])
    assert_type(
        consumer.offsets_for_times({where: 1}), dict[TopicPartition, OffsetAndTimestamp | None]
    )
    assert_type(consumer.committed(where), int | OffsetAndMetadata | None)
    assert_type(consumer.highwater(where), int | None)
    consumer.assign([where])
    consumer.seek(where, 5)
    consumer.pause(where)
    consumer.subscribe(pattern="t.*", listener=Listener())
    consumer.commit({where: OffsetAndMetadata(1)})
    consumer.poll("soon")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    KafkaConsumer(fetch_min_byte=5)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
    KafkaConsumer(isolation_level="any")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]


def deserializers() -> None:
    by_function = KafkaConsumer("t", value_deserializer=decode)
    assert_type(by_function, KafkaConsumer[bytes | None, str])
    for record in by_function:
        assert_type(record.value, str)
        assert_type(record.key, bytes | None)
    both = KafkaConsumer(
        key_deserializer=IntDeserializer(), value_deserializer=decode, check_crcs=False
    )
    assert_type(both, KafkaConsumer[int, str])
    for records in both.poll().values():
        assert_type(records, list[ConsumerRecord[int, str]])
    key = KafkaConsumer(key_deserializer=IntDeserializer())
    assert_type(key, KafkaConsumer[int, bytes | None])
    json = KafkaConsumer(value_deserializer=JsonSerializer())
    assert_type(json, KafkaConsumer[bytes | None, Any])
    with both as entered:
        assert_type(entered, KafkaConsumer[int, str])


def without_parameters(consumer: KafkaConsumer) -> KafkaConsumer:
    """A class without type parameters accepts every type."""
    assert_type(consumer, KafkaConsumer[Any, Any])
    for record in KafkaConsumer("t", value_deserializer=decode):
        one(record)
    return KafkaConsumer("t", value_deserializer=lambda data: decode(data))


def one(record: ConsumerRecord) -> None:
    assert_type(record, ConsumerRecord[Any, Any])


def records(record: ConsumerRecord[int, str]) -> None:
    assert_type(record._replace(offset=1), ConsumerRecord[int, str])
    assert_type(record._asdict(), dict[str, Any])
    assert_type(record[3:5], tuple[Any, ...])
    match record:
        case ConsumerRecord(topic=topic, value=value):
            assert_type(topic, str)
            assert_type(value, str)


async def asyncio_consumers() -> None:
    consumer = AIOKafkaConsumer("t", "u", bootstrap_servers=["h:1"], group_id="g", loop=None)
    assert_type(consumer, AIOKafkaConsumer[bytes | None, bytes | None])
    await consumer.start()
    async for record in consumer:
        assert_type(record, ConsumerRecord[bytes | None, bytes | None])
    where = TopicPartition("t", 0)
    assert_type(await consumer.getone(where), ConsumerRecord[bytes | None, bytes | None])
    assert_type(
        asyncio.create_task(consumer.getone()),
        asyncio.Task[ConsumerRecord[bytes | None, bytes | None]],
    )
    batches = await consumer.getmany(where, timeout_ms=5, max_records=3)
    assert_type(batches, dict[TopicPartition, list[ConsumerRecord[bytes | None, bytes | None]]])
    assert_type(await consumer.poll_arrow(), RecordTable)
    assert_type(await consumer.position(where), int)
    assert_type(await consumer.seek_to_committed(), dict[TopicPartition, int | None])
    assert_type(await consumer.committed(where), int | OffsetAndMetadata | None)
    assert_type(consumer.highwater(where), int | None)
    consumer.unsubscribe()
    await consumer.commit({where: 5})
    decoded = AIOKafkaConsumer(value_deserializer=decode)
    assert_type(decoded, AIOKafkaConsumer[bytes | None, str])
    assert_type((await decoded.getone()).value, str)
    kept: AIOKafkaConsumer = AIOKafkaConsumer(value_deserializer=decode)
    one(await kept.getone())
    AIOKafkaConsumer(fetch_min_byte=5)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
