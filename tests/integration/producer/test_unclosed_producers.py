"""Producers that are never closed are collected and send their records, also in a cycle."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.aio.producers import made
from tests.integration.support.aio import run
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import KafkaProducer
from thalweg._client import closing
from thalweg.interceptor import ProducerRecord


class Service:
    """Has a producer, and is also its serializer, interceptor or partitioner."""

    suffix = "!"
    producer: Any = None

    def encode(self, value: str) -> bytes:
        return (value + self.suffix).encode()

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: Any, exception: Any) -> None: ...

    def choose(self, key: bytes | None, partitions: list[int], available: list[int]) -> int:
        return partitions[-len(self.suffix)]


STEPS: dict[str, Callable[[Service], dict[str, Any]]] = {
    "serializer": lambda service: {"value_serializer": service.encode},
    "interceptor": lambda service: {"interceptor_classes": [service]},
    "partitioner": lambda service: {"partitioner": service.choose},
}
each_step = pytest.mark.parametrize("step", STEPS)


def _collect(forgotten: Callable[[], weakref.ref[Service]]) -> None:
    reference = forgotten()

    def is_gone() -> bool:
        gc.collect()
        return reference() is None

    # The callback thread may still call the interceptors.
    wait_until(is_gone, 30, what="the end of the producer")


@each_step
def test_a_producer_in_a_cycle_is_collected_and_warned_of(embedded: Broker, step: str) -> None:
    def forgotten() -> weakref.ref[Service]:
        service = Service()
        service.producer = KafkaProducer(
            bootstrap_servers=embedded.bootstrap_servers, client_id=step, **STEPS[step](service)
        )
        return weakref.ref(service)

    with pytest.warns(ResourceWarning, match=f"KafkaProducer client_id={step} .*was not closed"):
        _collect(forgotten)


def test_the_records_of_a_producer_in_a_cycle_are_sent(
    embedded: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = embedded.create_topic("cycle")
    # So long a collected producer waits. A busy machine may pause for longer than a second.
    monkeypatch.setattr(closing, "AT_EXIT_SECONDS", 20.0)

    def forgotten() -> weakref.ref[Service]:
        service = Service()
        service.producer = KafkaProducer(
            bootstrap_servers=embedded.bootstrap_servers,
            linger_ms=60_000,
            value_serializer=service.encode,
        )
        service.producer.send(topic, "v")
        return weakref.ref(service)

    with pytest.warns(ResourceWarning, match="was not closed"):
        _collect(forgotten)
    assert embedded.wire.end_offsets(topic) == {0: 1}


@each_step
def test_a_producer_of_asyncio_in_a_cycle_is_collected_and_warned_of(
    embedded: Broker, step: str
) -> None:
    topic = embedded.create_topic("aio-cycle")

    async def program() -> weakref.ref[Service]:
        service = Service()
        service.producer = made(embedded, client_id=step, **STEPS[step](service))
        await service.producer.start()
        await service.producer.send_and_wait(topic, "v" if step == "serializer" else b"v")
        return weakref.ref(service)

    with pytest.warns(ResourceWarning, match=f"AIOKafkaProducer client_id={step}> was not stopped"):
        _collect(lambda: run(program()))


def test_a_call_of_asyncio_keeps_the_steps_that_it_needs(embedded: Broker) -> None:
    topic = embedded.create_topic("aio-in-progress")

    async def begin() -> tuple[Any, weakref.ref[Service]]:
        service = Service()
        service.producer = made(embedded, value_serializer=service.encode)
        await service.producer.start()
        return service.producer.send(topic, "v"), weakref.ref(service)

    async def program() -> weakref.ref[Service]:
        call, gone = await begin()
        with warnings.catch_warnings():
            # A warning that is caught would itself keep the producer.
            warnings.simplefilter("ignore")
            gc.collect()
        assert (await (await call)).offset == 0
        return gone

    with pytest.warns(ResourceWarning, match="was not stopped"):
        _collect(lambda: run(program()))
