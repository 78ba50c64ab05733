"""A panic of the native code ends one callback, or one poll, and no other.

Rust code panics again when it meets its own `PanicException`. So a function of the application that
raises it makes the calling thread panic.
"""

import asyncio
import logging
import time
from functools import partial
from typing import Any

import pytest

from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition, _core
from thalweg._logging import refresh
from thalweg.aio import AIOKafkaProducer
from thalweg.broker import EmbeddedBroker


def _panics() -> list[type[BaseException]]:
    classes = BaseException.__subclasses__()
    return [found for found in classes if found.__module__ == "pyo3_runtime"]


class _Panic:
    """Raises each existing `PanicException` class in turn: each native module has its own."""

    calls = 0

    def __call__(self, *_: object) -> None:
        classes = _panics()
        _Panic.calls += 1
        raise classes[_Panic.calls % len(classes)]("a bug")


_panic = _Panic()


@pytest.fixture(autouse=True)
def _panic_class() -> None:
    """Makes the class exist: the native code creates it at its first exception."""

    def fails() -> None:
        raise ValueError

    timer = _core.call_every(0.005, fails)
    wait_until(_panics, what="a PanicException")
    timer.cancel()


def test_a_function_that_panics_is_called_again_and_so_are_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    called: list[int] = []
    broken = _core.call_every(0.005, _panic)
    before = _Panic.calls
    whole = _core.call_every(0.005, lambda: called.append(1))
    try:
        wait_until(lambda: _Panic.calls > before + 2 * len(_panics()), what="calls of the one")
        seen = len(called)
        wait_until(lambda: len(called) > seen, what="calls of the other")
        told = wait_until(
            lambda: [one for one in caplog.messages if "native code" in one], what="a log record"
        )
        assert told
    finally:
        broken.cancel()
        whole.cancel()


def test_callbacks_of_records_outlive_one_that_panics() -> None:
    with (
        EmbeddedBroker() as broker,
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        broker.create_topic("t")
        called: list[int] = []
        for number in range(4 * len(_panics())):
            future = producer.send("t", b"value")
            future.add_callback(_panic)
            future.add_callback(lambda _, number=number: called.append(number))
        producer.flush()
        wait_until(lambda: len(called) == 4 * len(_panics()), what="the callbacks after them")


def test_a_poll_after_a_deserializer_that_panics_returns_its_records() -> None:
    left = 2 * len(_panics())

    def deserialize(value: bytes) -> bytes:
        nonlocal left
        if value == b"3" and left:
            left -= 1
            _panic()
        return value

    with (
        EmbeddedBroker() as broker,
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        broker.create_topic("t")
        sent = [b"%d" % number for number in range(6)]
        for each in sent:
            producer.send("t", each)
        producer.flush()
        with KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            value_deserializer=deserialize,
        ) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            values: list[bytes] = []
            end = time.monotonic() + 30
            while len(values) < len(sent):
                assert time.monotonic() < end, "the partition is silent"
                try:
                    polled = consumer.poll(timeout_ms=500)
                except tuple(_panics()):
                    continue
                values += [record.value for records in polled.values() for record in records]
            assert values == sent
            assert left == 0


# The class of another native module counts as an ordinary exception.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_log_records_outlive_one_whose_handler_panics() -> None:
    class Handler(logging.Handler):
        seen = 0

        def emit(self, record: logging.LogRecord) -> None:
            Handler.seen += 1
            _panic()

    def more_than(before: int) -> bool:
        return Handler.seen > before

    logger = logging.getLogger("thalweg.network")
    handler = Handler()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    refresh()
    try:
        with EmbeddedBroker() as broker:
            for number in range(1 + len(_panics())):
                before = Handler.seen
                with KafkaProducer(bootstrap_servers=broker.bootstrap_servers):
                    wait_until(partial(more_than, before), what=f"log records of {number}")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        refresh()


def test_futures_of_asyncio_outlive_a_loop_whose_method_panics() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with EmbeddedBroker() as broker:
            broker.create_topic("t")
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                calls = 0
                usual = loop.call_soon

                def call_soon(function: Any, *args: Any, **kwargs: Any) -> asyncio.Handle:
                    nonlocal calls
                    if any(type(arg).__name__ == "RecordFuture" for arg in args):
                        calls += 1
                        if calls <= len(_panics()):
                            _panic()
                    return usual(function, *args, **kwargs)

                loop.call_soon = call_soon  # type: ignore[assignment, method-assign]
                told: list[object] = []
                try:
                    futures = [await producer.send("t", b"value") for _ in range(20)]
                    for future in futures:
                        future.add_done_callback(told.append)
                    await asyncio.wait_for(producer.flush(), 30)
                    async with asyncio.timeout(30):
                        while len(told) < 20 - len(_panics()):
                            await asyncio.sleep(0.01)
                finally:
                    loop.call_soon = usual  # type: ignore[method-assign]

    asyncio.run(main())
