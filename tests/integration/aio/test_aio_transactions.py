"""AIOKafkaProducer's transactions: as those of KafkaProducer, but awaited."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.support.aio import LIMIT_S, run, until
from tests.integration.support.clients import Clients, committed
from tests.support.brokers import Broker
from thalweg import EmbeddedBroker, TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import (
    AbortableTransactionError,
    IllegalStateError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
    TransactionAbortedError,
)
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata


def made(
    broker: Broker | EmbeddedBroker, name: str | None = None, **options: Any
) -> AIOKafkaProducer[Any, Any]:
    name = name or uuid.uuid4().hex
    return AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id=name, **options
    )


def test_commits_are_seen_and_aborts_are_not(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-commits")

    async def program() -> None:
        async with made(broker) as producer:
            for number in range(6):
                await producer.begin_transaction()
                await producer.send(topic, b"%d a" % number, partition=0)
                await producer.send_and_wait(topic, b"%d b" % number, partition=0)
                if number % 2 == 0:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()

    run(program())
    expected = [b"%d %s" % (number, part) for number in (0, 2, 4) for part in (b"a", b"b")]
    assert committed(clients, broker, topic, len(expected)) == expected


def test_a_block_commits_at_its_end_and_aborts_if_it_raises(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("aio-block")

    async def program() -> None:
        async with made(broker) as producer:

            async def fails() -> None:
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"a", partition=0)
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fails()
            async with producer.transaction():
                await producer.send_many(topic, [b"b", b"c"], partition=0)

    run(program())
    assert committed(clients, broker, topic, 2) == [b"b", b"c"]


def test_a_block_that_is_cancelled_aborts(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-cancelled")

    async def program() -> None:
        async with made(broker) as producer:
            inside = asyncio.Event()

            async def block() -> None:
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"a", partition=0)
                    inside.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(block())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with producer.transaction():
                await producer.send(topic, b"b", partition=0)

    run(program())
    assert committed(clients, broker, topic, 1) == [b"b"]


def test_start_fences_an_older_producer(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-fencing")
    name = uuid.uuid4().hex

    async def program() -> None:
        first = made(broker, name)
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait(topic, b"left open", partition=0)
        async with made(broker, name) as second, second.transaction():
            await second.send(topic, b"second", partition=0)
        with pytest.raises((AbortableTransactionError, ProducerFencedError)) as caught:
            await first.commit_transaction()
        if isinstance(caught.value, AbortableTransactionError):
            with pytest.raises(ProducerFencedError):
                await first.abort_transaction()
        with pytest.raises(ProducerFencedError):
            await first.begin_transaction()
        await first.stop()

    run(program())
    assert committed(clients, broker, topic, 1) == [b"second"]


def test_offsets_are_committed_with_the_records(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-offsets")
    group = f"g-{uuid.uuid4().hex}"
    where = TopicPartition(topic, 0)
    reader = clients.consumer(broker, group_id=group, enable_auto_commit=False)
    reader.assign([where])
    forms: list[tuple[Any, Any]] = [
        (OffsetAndMetadata(3, "note"), group),
        (4, ConsumerGroupMetadata(group)),
        ((5, "pair"), reader.group_metadata()),
    ]

    async def program() -> None:
        async with made(broker) as producer:
            for number, (at, named) in enumerate(forms):
                async with producer.transaction():
                    await producer.send_offsets_to_transaction({where: at}, named)
                found = reader.committed(where, metadata=True)
                assert isinstance(found, OffsetAndMetadata)
                assert (found.offset, found.metadata) == (3 + number, ("note", "", "pair")[number])
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({where: 9}, group)
            await producer.abort_transaction()
            assert reader.committed(where) == 5
            await producer.begin_transaction()
            for offsets, named, error in (
                ({where: -1}, group, ValueError),
                ({where: "7"}, group, TypeError),
                ({where: 7}, "", ValueError),
            ):
                with pytest.raises(error):
                    await producer.send_offsets_to_transaction(offsets, named)

    run(program())


def test_a_record_that_fails_costs_the_transaction(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-failing", configs={"max.message.bytes": "2000"})

    async def program() -> None:
        async with made(broker) as producer:
            with pytest.raises(AbortableTransactionError) as caught:
                async with producer.transaction():
                    future = await producer.send(topic, b"x" * 5000, partition=0)
            assert isinstance(caught.value.__cause__, MessageSizeTooLargeError)
            with pytest.raises(MessageSizeTooLargeError):
                await future
            async with producer.transaction():
                await producer.send(topic, b"b", partition=0)

    run(program())
    assert committed(clients, broker, topic, 1) == [b"b"]


def test_records_not_sent_yet_fail_with_the_abort(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-dropped")

    async def program() -> None:
        async with made(embedded, linger_ms=60_000) as producer:
            await producer.begin_transaction()
            future = await producer.send(topic, b"a", partition=0)
            await producer.abort_transaction()
            with pytest.raises(TransactionAbortedError):
                await future

    run(program())


def test_calls_in_the_wrong_state_name_it(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-states")

    async def program() -> None:
        async with made(embedded) as producer:
            for call in (
                lambda: producer.send(topic, b"a"),
                producer.commit_transaction,
                producer.abort_transaction,
            ):
                with pytest.raises(IllegalStateError, match="READY"):
                    await call()
        async with AIOKafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as plain:
            with pytest.raises(IllegalStateError, match="transactional_id"):
                await plain.begin_transaction()

    run(program())


def test_a_commit_that_is_cancelled_goes_on_and_is_awaited_again(
    start_embedded: Any, clients: Clients
) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("t")
    loading = broker.faults.on("EndTxn").then_fail("COORDINATOR_LOAD_IN_PROGRESS", times=None)

    async def program() -> None:
        async with made(broker) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"a", partition=0)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await producer.commit_transaction()
            loading.remove()
            with pytest.raises(IllegalStateError, match="commit_transaction was called before"):
                await producer.begin_transaction()
            await producer.commit_transaction()
            async with producer.transaction():
                await producer.send("t", b"b", partition=0)

    run(program())
    assert committed(clients, broker, "t", 2) == [b"a", b"b"]


def test_a_begin_that_is_cancelled_leaves_no_transaction_open(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-begin")

    async def program() -> int:
        tries = cancelled = 0
        end = time.monotonic() + LIMIT_S / 4
        # The client's thread may be so quick that the begin has ended before the cancellation.
        async with made(embedded) as producer, busy(embedded):
            while tries < 50 or (not cancelled and time.monotonic() < end):
                tries += 1
                task = asyncio.create_task(producer.begin_transaction())
                await asyncio.sleep(0)  # until it waits for the client's thread
                task.cancel()
                try:
                    await task
                    await producer.abort_transaction()
                except asyncio.CancelledError:
                    cancelled += 1
                    async with producer.transaction():
                        await producer.send(topic, b"v", partition=0)
        return cancelled

    assert run(program()) > 0


@asynccontextmanager
async def busy(broker: Broker) -> AsyncIterator[None]:
    """Keeps the client's thread busy with fetches, which get their responses at once."""
    topic = broker.create_topic("aio-busy")
    consumer: AIOKafkaConsumer[Any, Any] = AIOKafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap_servers, fetch_max_wait_ms=0
    )
    async with consumer:
        waiting = asyncio.ensure_future(consumer.getone())
        yield
        waiting.cancel()


def test_the_loop_goes_on_while_a_commit_waits(start_embedded: Any) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.create_topic("t")

    async def program() -> None:
        async with made(broker) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait("t", b"a", partition=0)
            loading = broker.faults.on("EndTxn")
            with loading.then_fail("COORDINATOR_LOAD_IN_PROGRESS", times=None) as fault:
                commit = asyncio.create_task(producer.commit_transaction())
                await until(lambda: fault.hits > 0, "a request of the commit")
                for _ in range(10):
                    await asyncio.sleep(0.005)
                assert not commit.done()
            await commit

    run(program())


def test_a_start_without_a_coordinator_stops_the_producer(start_embedded: Any) -> None:
    broker: EmbeddedBroker = start_embedded()
    broker.faults.on("InitProducerId").then_silence(times=None)

    async def program() -> None:
        producer = made(broker, max_block_ms=200)
        with pytest.raises(KafkaTimeoutError, match="init_transactions"):
            await producer.start()
        assert producer.closed
        with pytest.raises(IllegalStateError):
            await producer.begin_transaction()

    run(program())


def test_the_time_of_each_call_is_summed_up(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-times")

    async def program() -> dict[str, float]:
        async with made(embedded) as producer:
            async with producer.transaction():
                await producer.send(topic, b"a", partition=0)
                offsets = {TopicPartition(topic, 0): 1}
                await producer.send_offsets_to_transaction(offsets, "g")
            await producer.begin_transaction()
            await producer.abort_transaction()
            figures: dict[str, dict[str, float]] = producer.metrics()
            return figures["producer-metrics"]

    figures = run(program())
    for call in ("init", "begin", "send-offsets", "commit", "abort"):
        assert figures[f"txn-{call}-time-ns-total"] > 0
