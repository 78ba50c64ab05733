"""What a type checker infers for producers. This file is never run."""

import json
from collections.abc import Callable
from typing import Any, assert_type

from thalweg import (
    BatchMetadata,
    FutureBatchMetadata,
    FutureRecordMetadata,
    JsonSerializer,
    KafkaProducer,
    RecordMetadata,
    Serializer,
    TopicPartition,
)
from thalweg.aio import AIOKafkaProducer, RecordFuture


def encode(text: str) -> bytes:
    return text.encode()


class IntSerializer(Serializer[int]):
    def serialize(self, topic: str, headers: list[tuple[str, bytes]], data: int) -> bytes:
        return data.to_bytes(4, "big")


def plain() -> None:
    producer = KafkaProducer(bootstrap_servers="h:1", linger_ms=5, compression_type="lz4")
    assert_type(producer, KafkaProducer[bytes, bytes])
    future = producer.send("t", b"v", key=b"k", headers=[("h", b"x")], partition=1, timestamp_ms=5)
    assert_type(future, FutureRecordMetadata)
    assert_type(future.get(timeout=1), RecordMetadata)
    assert_type(future.get().topic_partition, TopicPartition)
    assert_type(future.exception, BaseException | None)
    assert_type(producer.send_many("t", [b"1", None]), FutureBatchMetadata)
    assert_type(producer.send_many("t", [b"1"]).get(), BatchMetadata)
    assert_type(producer.partitions_for("t"), set[int])
    with producer as entered:
        assert_type(entered, KafkaProducer[bytes, bytes])
    producer.send("t", "text")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    KafkaProducer(linger=5)  # type: ignore[call-overload] # pyright: ignore[reportCallIssue]
    KafkaProducer(linger_ms="x")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]
    KafkaProducer(compression_type="zip")  # type: ignore[call-overload] # pyright: ignore[reportCallIssue, reportArgumentType]


def serializers() -> None:
    by_function = KafkaProducer(value_serializer=encode)
    assert_type(by_function, KafkaProducer[bytes, str])
    by_function.send("t", "text", key=b"k")
    by_function.send("t", b"bytes")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    both = KafkaProducer(key_serializer=IntSerializer(), value_serializer=encode, acks="all")
    assert_type(both, KafkaProducer[int, str])
    both.send("t", "text", key=5)
    key = KafkaProducer(key_serializer=IntSerializer())
    assert_type(key, KafkaProducer[int, bytes])
    json = KafkaProducer(value_serializer=JsonSerializer())
    assert_type(json, KafkaProducer[bytes, Any])


def lambdas() -> None:
    """A lambda has no parameter types, so the producer accepts any values."""
    values = KafkaProducer(value_serializer=lambda v: json.dumps(v).encode())
    values.send("t", {"a": 1}, key=b"k")
    values.send("t", 5)
    values.send_many("t", [{"a": 1}, "text", None])
    values.send("t", {"a": 1}, key="k")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    keys = KafkaProducer(key_serializer=lambda k: k.encode())
    keys.send("t", b"v", key="k")
    keys.send("t", "text", key="k")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    both = KafkaProducer(key_serializer=str.encode, value_serializer=lambda v: v.encode("utf-8"))
    both.send("t", "text", key="k")
    both.send("t", "text", key=5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    KafkaProducer(value_serializer=json.dumps)  # type: ignore[arg-type] # pyright: ignore[reportCallIssue, reportArgumentType]


def without_parameters(producer: KafkaProducer) -> KafkaProducer | None:
    """A class without type parameters accepts every type."""
    assert_type(producer, KafkaProducer[Any, Any])
    producer.send("t", {"a": 1}, key="k")
    kept: KafkaProducer | None = None
    kept = KafkaProducer(value_serializer=lambda v: json.dumps(v).encode())
    without_parameters(kept)
    without_parameters(KafkaProducer(value_serializer=encode))
    return without_parameters(KafkaProducer())


def callbacks(producer: KafkaProducer, done: Callable[[RecordMetadata], None]) -> None:
    assert_type(producer.send("t", b"v").add_callback(done), FutureRecordMetadata)
    assert_type(producer.send("t", b"v").add_errback(print, "x", sep=","), FutureRecordMetadata)


def mappings() -> None:
    assert_type(
        KafkaProducer[str, str].from_config({"bootstrap.servers": "h:1"}), KafkaProducer[str, str]
    )


async def asynchronous() -> None:
    producer = AIOKafkaProducer(bootstrap_servers="h:1", max_batch_size=5)
    assert_type(producer, AIOKafkaProducer[bytes, bytes])
    assert_type(await producer.send("t", b"v", key=b"k"), RecordFuture)
    assert_type(await (await producer.send("t", b"v")), RecordMetadata)
    assert_type(await producer.send_and_wait("t", b"v"), RecordMetadata)
    assert_type(await (await producer.send_many("t", [b"v"])), BatchMetadata)
    assert_type(await producer.partitions_for("t"), set[int])
    async with AIOKafkaProducer(value_serializer=encode) as texts:
        assert_type(texts, AIOKafkaProducer[bytes, str])
        await texts.send("t", "text")
    async with AIOKafkaProducer(value_serializer=lambda v: json.dumps(v).encode()) as values:
        await values.send("t", {"a": 1})
        await values.send_and_wait("t", {"a": 1}, key=b"k")
    kept: AIOKafkaProducer = AIOKafkaProducer(value_serializer=encode)
    await kept.send("t", "text")
    await producer.send("t", "text")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
