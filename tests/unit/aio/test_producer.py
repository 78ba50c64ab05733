"""AIOKafkaProducer: how its constructor handles options, before it is started."""

import asyncio
import gc
import warnings
from typing import Any

import pytest

from thalweg.aio import AIOKafkaProducer
from thalweg.errors import IllegalStateError, KafkaConfigurationError
from thalweg.serializer import JsonSerializer


def test_all_problems_are_named_at_once_and_as_this_class():
    with pytest.raises(KafkaConfigurationError) as raised:
        AIOKafkaProducer.from_config({"linger": 5, "acks": "some", "max_batch_size": -1})
    text = str(raised.value)
    assert "AIOKafkaProducer has 3 problems" in text
    assert "did you mean 'linger_ms'" in text


def test_aiokafkas_names_are_taken():
    producer = AIOKafkaProducer(max_batch_size=1000, acks="all", retry_backoff_ms=50)
    assert producer.config["batch_size"] == 1000
    assert AIOKafkaProducer.from_config({"linger.ms": 7}).config["linger_ms"] == 7
    with pytest.raises(KafkaConfigurationError, match="names of the same option"):
        AIOKafkaProducer(max_batch_size=1000, batch_size=2000)


def test_options_as_a_dict_are_refused_with_what_takes_them():
    kind: Any = AIOKafkaProducer
    with pytest.raises(TypeError, match=r"AIOKafkaProducer\.from_config\(options\)"):
        kind({"bootstrap.servers": "a:1"})


def test_loop_is_deprecated_and_must_be_the_one_that_starts_it():
    other = asyncio.new_event_loop()
    with pytest.warns(DeprecationWarning, match="loop") as warned:
        producer = AIOKafkaProducer(loop=other)
    assert warned[0].filename == __file__
    with pytest.raises(IllegalStateError, match="another event loop"):
        asyncio.run(producer.start())
    other.close()


def test_nothing_works_before_start():
    async def program():
        producer = AIOKafkaProducer()
        assert not producer.closed
        with pytest.raises(IllegalStateError, match="start"):
            await producer.send("t", b"v")
        with pytest.raises(IllegalStateError, match="start"):
            await producer.flush()
        await producer.stop()

    asyncio.run(program())


def test_a_producer_that_was_never_started_goes_without_a_word():
    gc.collect()  # what other tests of this process have left may warn
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AIOKafkaProducer()
        gc.collect()


def test_batches_use_the_producers_serializers_and_limit():
    producer = AIOKafkaProducer(value_serializer=JsonSerializer(), max_batch_size=100)
    batch = producer.create_batch()
    while batch.append(timestamp=None, key=None, value={"a": 1}):
        pass
    assert batch.values[0] == b'{"a": 1}'
    assert batch.size() <= 100
