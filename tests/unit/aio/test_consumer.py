"""AIOKafkaConsumer: how its constructor handles options, and stop its time limit."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from thalweg.aio import AIOKafkaConsumer, _completions
from thalweg.config import resolve
from thalweg.errors import InvalidTopicError, KafkaConfigurationError
from thalweg.structs import TopicPartition


@pytest.mark.parametrize("group_id", [None, "g"])
def test_assignors_are_checked_with_and_without_a_group(group_id):
    with pytest.raises(KafkaConfigurationError, match="names 'rang', which is not an assignor"):
        AIOKafkaConsumer(group_id=group_id, partition_assignment_strategy="rang")


def test_options_as_a_dict_are_refused_with_what_takes_them():
    kind: Any = AIOKafkaConsumer
    with pytest.raises(TypeError, match=r"AIOKafkaConsumer\.from_config\(options\)"):
        kind({"bootstrap.servers": "a:1"})


def test_what_cannot_be_read_is_refused_by_the_call_itself_before_the_start():
    consumer: Any = AIOKafkaConsumer()
    with pytest.raises(InvalidTopicError, match="'a b' is not a topic name: it must be 1 to 249"):
        consumer.subscribe(["a b"])
    with pytest.raises(InvalidTopicError, match="'' is not a topic name"):
        consumer.assign([TopicPartition("", 0)])
    with pytest.raises(TypeError, match="partitions must be a list of TopicPartition"):
        consumer.assign("t")
    with pytest.raises(TypeError, match="topics must be a list of str, not one str 't'"):
        consumer.subscribe("t")
    with pytest.raises(InvalidTopicError, match=r"'\.\.' is not a topic name"):
        AIOKafkaConsumer("..")


def test_a_stop_that_waits_for_an_unsubscribe_has_one_limit_for_both(monkeypatch):
    limits: list[float] = []
    monkeypatch.setattr(_completions, "detach", lambda loop, completions: None)

    def close(autocommit: bool, timeout_ms: int) -> Iterator[Any]:
        limits.append(timeout_ms)
        yield from ()

    async def closed(seconds: float) -> None:
        limits.append(seconds * 1000)

    async def program() -> None:
        consumer: Any = SimpleNamespace(
            config=resolve("c", {"default_api_timeout_ms": 60_000, "request_timeout_ms": 900}),
            _loop=asyncio.get_running_loop(),
            _completions=object(),
            _leaving=asyncio.create_task(asyncio.sleep(0.3)),
            _driver=SimpleNamespace(close=close),
            _calls=SimpleNamespace(close=closed),
            _watch=SimpleNamespace(close=lambda: None),
        )
        await AIOKafkaConsumer._stop(consumer, True)

    asyncio.run(program())
    assert len(limits) == 2
    assert all(0 < each <= 59_710 for each in limits)
