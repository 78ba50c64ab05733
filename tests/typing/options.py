"""What a type checker infers for the types of options. This file is never run."""

from typing import Unpack, assert_type

from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.typing import (
    Acks,
    AdminConfig,
    AIOConsumerConfig,
    AIOProducerConfig,
    CompressionType,
    ConsumerConfig,
    IsolationLevel,
    ProducerConfig,
    SecretText,
    SecurityProtocol,
)


def producer(**options: Unpack[ProducerConfig]) -> KafkaProducer[bytes, bytes]:
    return KafkaProducer(**options)


def consumer(*topics: str, **options: Unpack[ConsumerConfig]) -> None:
    assert_type(KafkaConsumer(*topics, **options), KafkaConsumer[bytes | None, bytes | None])


def admin(**options: Unpack[AdminConfig]) -> KafkaAdminClient:
    return KafkaAdminClient(**options)


def aio_producer(**options: Unpack[AIOProducerConfig]) -> AIOKafkaProducer[bytes, bytes]:
    return AIOKafkaProducer(**options)


def aio_consumer(**options: Unpack[AIOConsumerConfig]) -> None:
    assert_type(AIOKafkaConsumer(**options), AIOKafkaConsumer[bytes | None, bytes | None])


def calls() -> None:
    producer(acks="all", compression_type="zstd", linger_ms=5)
    producer(linger="5")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    consumer("t", group_id="g", isolation_level="read_committed")
    consumer(isolation_level="any")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    admin(client_id=None)
    admin(group_id="g")  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
    aio_producer(loop=None, max_batch_size=5)
    aio_consumer(loop=None, group_id="g")


def secrets(password: SecretText) -> None:
    producer(sasl_plain_password=password)
    producer(sasl_plain_password=lambda: "s3cret")
    producer(sasl_plain_password=5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def dicts() -> ProducerConfig:
    options: ProducerConfig = {"bootstrap_servers": ["h:1"], "acks": 1}
    options["compression_type"] = "lz4"
    options["acks"] = "some"  # type: ignore[typeddict-item] # pyright: ignore[reportArgumentType]
    return options


def literals(
    acks: Acks, compression: CompressionType, isolation: IsolationLevel, security: SecurityProtocol
) -> None:
    producer(acks=acks, compression_type=compression, security_protocol=security)
    consumer(isolation_level=isolation)
    wrong: CompressionType = "zip"  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]
    del wrong
