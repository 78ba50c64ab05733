"""One thread at a time uses a consumer, until poll has returned its records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from thalweg import ConsumerInterceptor, KafkaConsumer, TopicPartition
from thalweg.consumer._offsets import alone
from thalweg.errors import IllegalStateError

pytestmark = one_real_broker

RECORDS = 20
LIMIT_S = 60


class Gate:
    """A callback that blocks once, until the test releases it."""

    def __init__(self) -> None:
        self.entered, self._leave = threading.Event(), threading.Event()

    def __call__(self, given: Any) -> Any:
        self.entered.set()
        assert self._leave.wait(LIMIT_S)
        return given

    def let_go(self) -> None:
        self._leave.set()


class Intercepting(ConsumerInterceptor):
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def on_consume(self, records: Any) -> Any:
        return self._gate(records)


HOOKS: dict[str, Callable[[Gate], dict[str, Any]]] = {
    "deserializer": lambda gate: {"value_deserializer": gate},
    "interceptor": lambda gate: {"interceptors": [Intercepting(gate)]},
}
READS: dict[str, Callable[[Any], Any]] = {
    "poll": lambda consumer: consumer.poll(LIMIT_S * 1000),
    "next": next,
}


@contextmanager
def polling(consumer: KafkaConsumer[Any, Any], gate: Gate, call: str) -> Iterator[list[Any]]:
    """Polls in another thread during the block. Its result is in the list after the block."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(READS[call](consumer)))
    thread.start()
    try:
        assert gate.entered.wait(LIMIT_S)
        yield found
    finally:
        gate.let_go()
        thread.join(LIMIT_S)
    assert len(found) == 1


@pytest.mark.parametrize("call", READS)
@pytest.mark.parametrize("hook", HOOKS)
def test_what_another_thread_is_being_given_is_not_committed(
    broker: Broker, clients: Clients, hook: str, call: str
) -> None:
    topic = broker.create_topic("being-given")
    fill(clients, broker, topic, RECORDS)
    where, gate = TopicPartition(topic, 0), Gate()
    options = {"group_id": topic, "enable_auto_commit": False, **HOOKS[hook](gate)}
    consumer = clients.consumer(broker, topic, **options)
    with polling(consumer, gate, call):
        for meanwhile in (
            consumer.commit,
            consumer.commit_async,
            lambda: consumer.seek(where, 3),
            lambda: consumer.seek_to_end(where),
            consumer.close,
        ):
            with pytest.raises(IllegalStateError, match="another thread"):
                meanwhile()
        assert not consumer.closed
    assert consumer.committed(where) is None
    consumer.commit()
    assert consumer.committed(where) == consumer.position(where)


def test_a_step_of_an_iteration_is_turned_away_while_another_thread_is_in_a_call(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("step")
    fill(clients, embedded, topic, RECORDS)
    gate = Gate()
    consumer = clients.consumer(embedded, topic)
    assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]

    @alone
    def stay(_: KafkaConsumer[Any, Any]) -> None:
        gate(None)

    staying = threading.Thread(target=stay, args=(consumer,))
    staying.start()
    try:
        assert gate.entered.wait(LIMIT_S)
        with pytest.raises(IllegalStateError, match="another thread"):
            next(consumer)
    finally:
        gate.let_go()
        staying.join(LIMIT_S)
    assert next(consumer).offset == 3


@pytest.mark.parametrize("call", READS)
def test_a_seek_of_a_deserializer_is_the_last_word(
    broker: Broker, clients: Clients, call: str
) -> None:
    topic = broker.create_topic("deserializer")
    fill(clients, broker, topic, RECORDS)
    where = TopicPartition(topic, 0)
    sought: list[bytes] = []

    def deserialize(data: bytes) -> bytes:
        if not sought:
            sought.append(data)
            consumer.seek(where, 0)
        return data

    consumer = clients.consumer(broker, topic, value_deserializer=deserialize)
    READS[call](consumer)
    assert sought
    assert consumer.position(where) == 0
    assert [each.offset for each in read(consumer, RECORDS)] == list(range(RECORDS))
