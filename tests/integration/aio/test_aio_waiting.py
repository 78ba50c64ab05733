"""AIOKafkaProducer: waits for memory, topics and brokers do not block the loop, and end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.integration.aio.producers import MEMORY, Ticks, made
from tests.integration.support.aio import run, until
from tests.integration.support.clients import Clients, read, within
from tests.support.brokers import Broker
from tests.support.ports import free_port
from thalweg import EmbeddedBroker
from thalweg.aio import AIOKafkaProducer
from thalweg.errors import (
    BufferExhaustedError,
    IllegalStateError,
    KafkaTimeoutError,
    NoBrokersAvailable,
)


def test_a_full_buffer_suspends_the_send_and_not_the_loop(
    start_embedded: Any, clients: Clients
) -> None:
    broker = start_embedded()
    broker.create_topic("slow")
    # First the buffer stays full until the loop has had its turns.
    refusing = broker.faults.on("Produce").then_fail("NOT_ENOUGH_REPLICAS", times=None)
    broker.faults.on("Produce").then_delay(10, times=None)

    async def program() -> None:
        options = {"buffer_memory": MEMORY, "batch_size": 20_000, "linger_ms": 0}
        async with made(broker, **options) as producer, Ticks() as ticks:

            def figures() -> Any:
                return producer.metrics()["producer-metrics"]

            async def send_all() -> None:
                for _ in range(4000):
                    await producer.send("slow", bytes(1000))
                    assert 0 <= figures()["buffer-available-bytes"] <= MEMORY

            sending = asyncio.create_task(send_all())
            await until(lambda: figures()["waiting-threads"] > 0 or sending.done(), "a full buffer")
            before = ticks.count
            await until(lambda: ticks.count > before + 10, "turns of the loop")
            assert not sending.done()
            refusing.remove()
            await sending
            assert figures()["bufferpool-wait-time-ns-total"] > 0
            assert figures()["buffer-exhausted-total"] == 0
            await producer.flush()

    run(program())
    assert len(read(clients.consumer(broker, "slow"), 4000)) == 4000


def test_a_wait_for_memory_ends_with_max_block_ms(silent: EmbeddedBroker) -> None:
    async def program() -> None:
        producer = made(silent, buffer_memory=MEMORY, max_block_ms=300)
        await producer.start()
        await until_known(producer, "full")
        accepted: list[Any] = []

        async def fill() -> None:
            while True:
                accepted.append(await producer.send("full", bytes(1000)))

        with pytest.raises(BufferExhaustedError, match="max_block_ms"):
            await fill()
        assert 0.5 * MEMORY <= len(accepted) * 1000 <= MEMORY
        async with Ticks() as ticks:
            with pytest.raises(BufferExhaustedError):
                await producer.send("full", bytes(1000))
        assert ticks.count > 0
        assert not any(each.done() for each in accepted)
        await producer.stop(timeout=0)
        assert all(isinstance(each.exception(), KafkaTimeoutError) for each in accepted)

    run(program())


async def until_known(producer: AIOKafkaProducer[Any, Any], topic: str) -> None:
    """Asks for a topic until the answer comes within max_block_ms."""
    while True:
        with suppress(KafkaTimeoutError):
            await producer.partitions_for(topic)
            return


def test_columns_wait_for_memory_too(silent: EmbeddedBroker) -> None:
    async def program() -> None:
        producer = made(silent, buffer_memory=MEMORY)
        await producer.start()
        values = [bytes(1000)] * 5000
        sending = asyncio.create_task(producer.send_many("full", values))
        exhausted = lambda: producer.metrics()["producer-metrics"]["waiting-threads"]  # noqa: E731
        await until(exhausted, "a full buffer")
        assert not sending.done()
        silent.faults.clear()
        # The swallowed requests are lost on this connection. The test only checks that all
        # records are sent once memory is available.
        await producer.stop(timeout=0)
        future = await sending
        error: Any = future.exception()
        assert error is not None
        assert len(error.errors) == 5000 - error.metadata.count

    run(program())


def test_waiting_for_a_topic_does_not_block_and_ends(broker: Broker) -> None:
    async def program() -> None:
        options = {"max_block_ms": 400, "allow_auto_create_topics": False}
        async with made(broker, **options) as producer, Ticks() as ticks:
            with pytest.raises(KafkaTimeoutError, match="max_block_ms"):
                await producer.send("aio-there-is-none", b"v")
            with pytest.raises(KafkaTimeoutError):
                await producer.partitions_for("aio-there-is-none")
        assert ticks.count > 1  # in each of the two waits

    run(program())


def test_a_topic_that_appears_ends_the_wait(embedded: Broker) -> None:
    topic = embedded.unused_name("aio-appears")

    async def program() -> Any:
        async with made(embedded, allow_auto_create_topics=False) as producer:
            send = asyncio.create_task(producer.send_and_wait(topic, b"v"))
            await asyncio.sleep(0.05)
            assert not send.done()
            await asyncio.to_thread(embedded.wire.create_topic, topic)
            return await send

    with within(30):  # max_block_ms would allow 60 s
        record = run(program())
    assert (record.topic, record.offset) == (topic, 0)


def test_start_does_not_block_and_names_each_broker() -> None:
    address = f"127.0.0.1:{free_port()}"

    async def program() -> None:
        patient = AIOKafkaProducer(bootstrap_servers=address, bootstrap_timeout_ms=60_000)
        starting = asyncio.create_task(patient.start())
        async with Ticks() as ticks:
            await until(lambda: ticks.count > 20, "turns of the loop")
        assert not starting.done()
        starting.cancel()
        await asyncio.wait([starting])
        producer = AIOKafkaProducer(bootstrap_servers=address, bootstrap_timeout_ms=500)
        with pytest.raises(NoBrokersAvailable, match=address):
            await producer.start()
        with pytest.raises(IllegalStateError, match="start"):
            await producer.send("t", b"v")
        await producer.stop()

    run(program())
