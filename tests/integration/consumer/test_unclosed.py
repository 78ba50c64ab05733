"""Consumers that are never closed cause a ResourceWarning when collected, and only then."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest

from tests.integration.support.scripts import run
from tests.support.brokers import Broker
from thalweg import KafkaConsumer, TopicPartition
from thalweg.errors import NoBrokersAvailable


def _consumer(broker: Broker, **options: Any) -> KafkaConsumer[Any, Any]:
    return KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, **options)


class Knowing:
    """A deserializer that refers to its consumer, which is then collected as a cycle."""

    consumer: KafkaConsumer[Any, Any]

    def __call__(self, data: bytes) -> bytes:
        return data


def _forget_cycle(broker: Broker) -> None:
    deserializer = Knowing()
    deserializer.consumer = _consumer(broker, value_deserializer=deserializer)
    del deserializer
    gc.collect()


def test_a_consumer_that_is_collected_unclosed_is_warned_of(embedded: Broker) -> None:
    with pytest.warns(ResourceWarning, match="KafkaConsumer client_id=forgotten .*was not closed"):
        _consumer(embedded, client_id="forgotten")
    with pytest.warns(ResourceWarning, match="was not closed"):
        _forget_cycle(embedded)


def test_a_consumer_that_was_closed_or_never_opened_goes_quietly(embedded: Broker) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()  # what earlier tests have left
        caught.clear()
        consumer = _consumer(embedded)
        consumer.close()
        del consumer
        with _consumer(embedded) as another:
            another.assign([TopicPartition("t", 0)])
        del another
        with pytest.raises(NoBrokersAvailable):
            KafkaConsumer(bootstrap_servers="127.0.0.1:1", bootstrap_timeout_ms=200)
        gc.collect()
    assert [str(each.message) for each in caught if each.category is ResourceWarning] == []


def test_neither_the_end_of_a_program_nor_a_forked_child_warns(embedded: Broker) -> None:
    source = """
    import gc, warnings
    warnings.simplefilter("always", ResourceWarning)
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1])
    child = os.fork()
    if child == 0:
        del consumer
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """
    assert run(source, embedded.bootstrap_servers).err == ""
