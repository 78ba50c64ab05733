"""Rebalance listeners and commit callbacks of asyncio consumers.

The loop and the consumer continue to work while they run.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.support.aio import filled, made, read_one, run, until
from tests.integration.support.clients import Clients
from tests.support.brokers import Broker
from thalweg import AsyncConsumerRebalanceListener, TopicPartition
from thalweg.errors import ConsumerStoppedError, IllegalStateError, WakeupError


def test_the_loop_goes_on_while_a_stop_waits(start_embedded: Any) -> None:
    """A heartbeat has failed before the stop. Its next try must not delay the listener."""
    broker = start_embedded()
    broker.create_topic("slow", 2)

    heard: list[Any] = []

    class Slow(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await asyncio.sleep(0.5)
            heard.append(revoked)

        async def on_partitions_assigned(self, assigned: Any) -> None:
            pass

    async def program() -> None:
        consumer = made(broker, group_id="g", group_protocol="consumer")
        consumer.subscribe(["slow"], listener=Slow())
        await consumer.start()
        waiting = asyncio.ensure_future(consumer.getone())
        await asyncio.sleep(0.05)
        fault = broker.faults.on("ConsumerGroupHeartbeat").then_fail("COORDINATOR_NOT_AVAILABLE")
        with fault:
            consumer.subscribe(["slow", "other"])  # a heartbeat, which fails
            consumer.subscribe(["slow"], listener=Slow())
            await until(lambda: fault.hits > 0)
            await asyncio.sleep(0.05)
            await asyncio.wait_for(consumer.stop(), 20)
        assert heard, "the listener had its turn"
        waiting.cancel()
        await asyncio.wait([waiting])

    run(program())


def test_without_a_group_a_listener_is_awaited_too(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("aio-heard")
    producer = clients.producer(broker)
    for number in range(10):
        producer.send(topic, b"%d" % number)
    producer.flush(30)

    class Seeking(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            pass

        async def on_partitions_assigned(self, assigned: Any) -> None:
            await asyncio.sleep(0.2)
            consumer.seek(TopicPartition(topic, 0), 5)

    consumer = made(broker)

    async def program() -> None:
        consumer.subscribe([topic], listener=Seeking())
        async with consumer:
            assert (await consumer.getone()).offset == 5

    run(program())


def test_who_unsubscribes_while_a_listener_is_told_reads_nothing(broker: Broker) -> None:
    topic = broker.create_topic("aio-given-up")

    class Slow(AsyncConsumerRebalanceListener):
        at_work = False

        async def on_partitions_revoked(self, revoked: Any) -> None:
            self.at_work = True
            await asyncio.sleep(0.2)
            self.at_work = False

        async def on_partitions_assigned(self, assigned: Any) -> None:
            pass

    async def program() -> None:
        heard = Slow()
        async with made(broker) as consumer:
            consumer.subscribe([topic], listener=heard)
            waiting = asyncio.ensure_future(consumer.getone())
            await until(lambda: consumer.assignment())
            broker.wire.create_topic(f"{topic}-next", 1)
            consumer.subscribe([f"{topic}-next"], listener=heard)
            await until(lambda: heard.at_work)
            waiting.cancel()
            await consumer.unsubscribe()
            await until(lambda: not heard.at_work)
            await asyncio.sleep(0.05)
            assert consumer.assignment() == set()

    run(program())


@pytest.mark.parametrize("when", ["assigned", "revoked"])
def test_a_listener_that_awaits_the_stop_of_its_consumer_gets_an_error_at_once(
    start_embedded: Any, when: str
) -> None:
    broker = start_embedded()
    broker.create_topic("stopped")
    raised: list[IllegalStateError] = []
    tasks: list[asyncio.Task[None]] = []

    class Stopping(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if when == "revoked":
                await self.stop()

        async def on_partitions_assigned(self, assigned: Any) -> None:
            if when == "assigned":
                await self.stop()

        async def stop(self) -> None:
            with pytest.raises(IllegalStateError, match="must not await stop") as caught:
                await consumer.stop()
            raised.append(caught.value)
            # As the error says.
            tasks.append(asyncio.create_task(consumer.stop()))

    consumer = made(broker, group_id="g")

    async def program() -> None:
        await consumer.start()
        consumer.subscribe(["stopped"], listener=Stopping())
        reading = asyncio.ensure_future(consumer.getone())
        if when == "revoked":
            await until(consumer.assignment)
            await asyncio.wait_for(consumer.stop(), 20)
        await until(lambda: tasks)
        await asyncio.wait_for(tasks[0], 20)
        with pytest.raises(ConsumerStoppedError):
            await reading
        assert len(raised) == 1
        assert consumer.closed

    run(program())


@pytest.mark.parametrize("when", ["assigned", "revoked", "in unsubscribe"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_listener_may_await_the_unsubscribe_of_its_consumer(
    start_embedded: Any, protocol: Any, when: str
) -> None:
    """The consumer leaves after the listener has returned. Otherwise, the two would wait."""
    broker = start_embedded()
    broker.create_topic("before")
    broker.create_topic("after")
    after = TopicPartition("after", 0)
    seconds: list[float] = []

    class Leaving(AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if when != "assigned" and not seconds:
                await self.leave()

        async def on_partitions_assigned(self, assigned: Any) -> None:
            if when == "assigned":
                await self.leave()

        async def leave(self) -> None:
            began = asyncio.get_running_loop().time()
            await consumer.unsubscribe()
            seconds.append(asyncio.get_running_loop().time() - began)
            consumer.assign([after])  # begins when the consumer has left

    consumer = made(broker, group_id="g", group_protocol=protocol, default_api_timeout_ms=40_000)

    async def program() -> None:
        async with consumer:
            consumer.subscribe(["before"], listener=Leaving())
            reading = asyncio.ensure_future(consumer.getone())
            if when != "assigned":
                await until(consumer.assignment)
            if when == "revoked":
                consumer.subscribe(["after"], listener=Leaving())
            if when == "in unsubscribe":
                await consumer.unsubscribe()
            await until(lambda: seconds and consumer.assignment() == {after})
            assert consumer.subscription() == set()
            assert seconds[0] < 20
            reading.cancel()

    run(program())


@pytest.mark.parametrize("in_group", [False, True])
def test_a_listener_that_awaits_the_task_that_it_cancels_keeps_no_partitions_away(
    start_embedded: Any, caplog: pytest.LogCaptureFixture, in_group: bool
) -> None:
    broker = start_embedded()

    class Working(AsyncConsumerRebalanceListener):
        def __init__(self) -> None:
            self.assigned: list[Any] = []

        async def on_partitions_revoked(self, revoked: Any) -> None:
            self.worker.cancel()
            await self.worker  # raises CancelledError

        async def on_partitions_assigned(self, assigned: Any) -> None:
            self.assigned.append(assigned)
            self.worker = asyncio.create_task(asyncio.sleep(100))

    async def program() -> None:
        heard = Working()
        async with made(broker, group_id="g" if in_group else None) as consumer:
            reading = asyncio.ensure_future(consumer.getone())

            async def change_to(topic: str) -> None:
                broker.create_topic(topic)
                consumer.subscribe([topic], listener=heard)
                await until(lambda: consumer.assignment() == {TopicPartition(topic, 0)})
                await until(lambda: heard.assigned[-1:] == [consumer.assignment()])

            await change_to("before")
            await change_to("after")
            reading.cancel()

    run(program())
    assert any("a rebalance listener raised" in each.message for each in caplog.records)


def test_a_wakeup_in_a_commit_callback_ends_no_call(
    embedded: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    """Asyncio has no wakeup. The callback may have used a KafkaConsumer that a thread woke."""
    topic = filled(embedded, clients, 1)
    outcomes: list[Any] = []

    def callback(_: Any, outcome: Any) -> None:
        outcomes.append(outcome)
        raise WakeupError("poll() was ended")

    async def program() -> None:
        options = {"auto_commit_interval_ms": 10, "default_offset_commit_callback": callback}
        async with made(embedded, topic, group_id=topic, **options) as consumer:
            assert await read_one(consumer) == 0
            while not outcomes:
                assert await consumer.getmany(timeout_ms=20) == {}
            for _ in range(5):
                assert await consumer.getmany(timeout_ms=20) == {}

    run(program())
    assert any("the callback of a commit raised" in each.message for each in caplog.records)
