"""AIOKafkaProducer: stop() sends what is buffered, ends waits, and is final."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from functools import partial
from typing import Any

import pytest

from tests.integration.aio.producers import MEMORY, Ticks, WithoutReaders, made
from tests.integration.support.aio import run, until
from tests.integration.support.clients import Clients
from tests.integration.support.interceptors import Slow
from tests.integration.support.scripts import run as run_program
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker
from thalweg.aio import AIOKafkaProducer
from thalweg.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from thalweg.serializer import JsonSerializer


@one_real_broker
def test_stop_sends_what_is_buffered_and_is_final(broker: Broker) -> None:
    topic = broker.create_topic("aio-final")

    async def program() -> None:
        producer = made(broker, linger_ms=60_000)
        await producer.start()
        futures = [await producer.send(topic, b"v") for _ in range(500)]
        await asyncio.gather(producer.stop(), producer.stop())
        assert [each.result().offset for each in futures] == list(range(500))
        await producer.stop()
        for call in (producer.send(topic, b"v"), producer.flush(), producer.partitions_for(topic)):
            with pytest.raises(IllegalStateError, match="closed"):
                await call
        with pytest.raises(IllegalStateError, match="already started"):
            await producer.start()

    run(program())
    assert broker.wire.end_offsets(topic) == {0: 500}


def test_stop_with_a_limit_counts_what_is_left(
    silent: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    async def program() -> None:
        producer = made(silent)
        await producer.start()
        futures = [await producer.send("full", b"v") for _ in range(7)]
        await producer.stop(timeout=0.3)
        for each in futures:
            with pytest.raises(KafkaTimeoutError, match="7 records"):
                await each

    with caplog.at_level(logging.WARNING, "thalweg"):
        run(program())
        assert "stopped with 7 records not acknowledged" in caplog.text


def test_a_stop_that_fails_releases_the_loop_and_closes_the_serializer(
    silent: EmbeddedBroker,
) -> None:
    closed: list[object] = []

    class Own(JsonSerializer):
        def close(self) -> None:
            closed.append(self)

    class Failing(AIOKafkaProducer[Any, Any]):
        async def _close(self, timeout: float | None = None) -> None:
            await super()._close(timeout)
            raise KafkaError("the client failed")

    async def program() -> None:
        loop = asyncio.get_running_loop()
        servers = silent.bootstrap_servers
        producer = Failing(bootstrap_servers=servers, value_serializer=Own())
        await producer.start()
        assert producer._completions is not None
        descriptor = producer._completions.fileno()
        with pytest.raises(KafkaError, match="the client failed"):
            await producer.stop()
        assert len(closed) == 1
        assert not loop.remove_reader(descriptor), "the loop watches it no longer"
        await producer.stop()
        assert len(closed) == 1

    run(program())


def test_stop_ends_sends_that_wait(silent: EmbeddedBroker) -> None:
    async def program() -> None:
        producer = made(silent, buffer_memory=MEMORY, allow_auto_create_topics=False)
        await producer.start()
        waiting = [asyncio.create_task(producer.send("full", bytes(9000))) for _ in range(200)]
        waiting.append(asyncio.create_task(producer.send("nothing-here", b"v")))
        await asyncio.sleep(0.1)
        await producer.stop(timeout=0)
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(found[-1], IllegalStateError)
        # A late record may have fitted into an open batch. Then the future of that one fails.
        refused = [each for each in found if isinstance(each, IllegalStateError)]
        accepted = [each for each in found if not isinstance(each, BaseException)]
        assert len(refused) > 50
        assert len(refused) + len(accepted) == len(found)
        assert all(isinstance(each.exception(), KafkaTimeoutError) for each in accepted)

    run(program())


@one_real_broker
def test_unsent_records_are_sent_at_the_interpreters_exit(broker: Broker) -> None:
    topic = broker.create_topic("aio-exit")
    source = """
    import asyncio
    from thalweg._client import closing
    from thalweg.aio import AIOKafkaProducer

    closing.AT_EXIT_SECONDS = 20.0  # a second may be too short on a busy machine

    async def main():
        global producer
        producer = AIOKafkaProducer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        await producer.start()
        for _ in range(100):
            await producer.send(sys.argv[2], b"v")

    asyncio.run(main())
    """
    ended = run_program(source, broker.bootstrap_servers, topic)
    assert ended.code == 0, ended.err
    assert broker.wire.end_offsets(topic) == {0: 100}


def test_a_loop_that_closes_first_does_no_harm(
    start_embedded: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_embedded()
    broker.create_topic("late")
    broker.faults.on("Produce").then_delay(200, times=None)

    async def program(producer: Any) -> Any:
        await producer.start()
        return await producer.send("late", b"v")

    for loop_factory in (asyncio.new_event_loop, WithoutReaders):
        producer = made(broker)
        loop = loop_factory()
        with caplog.at_level(logging.DEBUG, "thalweg"):
            future = loop.run_until_complete(program(producer))
            loop.close()
            wait_until(partial(acknowledged, producer), what="the record being written")
            producer._close_blocking(5)
        # The batch has its result, whatever happened to the loop.
        assert future.result().topic == "late"


def acknowledged(producer: Any) -> bool:
    metrics: dict[str, Any] = producer.metrics()["producer-metrics"]
    return bool(metrics["record-send-total"] >= 1 and metrics["requests-in-flight"] == 0)


def test_an_idle_producer_gets_new_credentials(start_embedded: Any) -> None:
    broker = start_embedded(
        security_protocol="SASL_PLAINTEXT", users={"alice": "old"}, sasl_mechanisms=["PLAIN"]
    )
    broker.create_topic("t")
    options = broker.client_config("alice")

    async def program() -> None:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("t", b"0")
            broker.add_user("alice", "new")
            producer.set_sasl_credentials("alice", "new")
            broker.stop_node(1)
            broker.start_node(1)
            assert (await producer.send_and_wait("t", b"1")).offset == 1

    run(program())


def test_a_cancelled_stop_ends_in_the_background(start_embedded: Any) -> None:
    broker = start_embedded()
    broker.create_topic("t")

    class Serializer:
        is_closed = False

        def serialize(self, topic: str, headers: Any, data: Any) -> Any:
            return data

        def close(self) -> None:
            self.is_closed = True

    async def program() -> None:
        serializer = Serializer()
        producer = made(broker, value_serializer=serializer)
        await producer.start()
        with broker.faults.on("Produce").then_fail("NOT_ENOUGH_REPLICAS", times=None):
            sent = await producer.send("t", b"v")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.stop(), 0.1)
        assert (await sent).offset == 0
        await until(lambda: serializer.is_closed)
        await producer.stop()

    run(program())


def test_stop_closes_interceptors_after_the_last_outcome(embedded: Broker) -> None:
    topic = embedded.create_topic("outcomes")

    async def program(timeout: float | None) -> list[str]:
        slow = Slow()
        producer = made(embedded, interceptor_classes=[slow])
        await producer.start()
        for _ in range(5):
            await producer.send(topic, b"v")
        async with Ticks() as ticks:
            await asyncio.gather(producer.stop(timeout), producer.stop(timeout))
        assert ticks.count > 1, "other tasks run meanwhile"
        return slow.calls

    for timeout in (None, 30.0, math.inf):
        assert run(program(timeout)) == ["written"] * 5 + ["closed"]


def test_stop_does_not_wait_for_another_client_s_statistics(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("outcomes")
    began, may_end = threading.Event(), threading.Event()

    def statistics(text: str) -> None:
        began.set()
        may_end.wait(60)

    async def program() -> list[str]:
        slow = Slow()
        producer = made(embedded, interceptor_classes=[slow])
        await producer.start()
        await producer.send_and_wait(topic, b"v")
        await until(lambda: slow.calls == ["written"])
        clients.producer(embedded, stats_cb=statistics, statistics_interval_ms=1)
        await until(began.is_set)
        await asyncio.wait_for(producer.stop(), 20)
        return slow.calls

    try:
        assert run(program()) == ["written", "closed"]
    finally:
        may_end.set()
