"""The reader of a stream, called as Spark calls it on the driver, without Spark."""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.conftest import Topics
from tests.support.ports import free_port
from thalweg.errors import NoBrokersAvailable, UnknownTopicOrPartitionError
from thalweg.spark.data_loss import DataLossError
from thalweg.spark.offset_reader import OffsetReader
from thalweg.spark.options import parse_source
from thalweg.spark.reader import BatchReader
from thalweg.spark.stream_reader import StreamReader


def reader(topics: Topics, **options: str) -> StreamReader:
    quick = {"fetchOffset.retryIntervalMs": "20"}
    servers = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers}
    return StreamReader(parse_source({**servers, **quick, **options}, "stream"))


def end_of(stream: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, ReadAllAvailable())


def test_a_restart_within_the_first_batch_does_not_need_the_start_again(both: Topics) -> None:
    topic = both.create(1)
    both.send(topic, ["a", "b", "c"])
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}": {{"0": 1}}}}'}
    first = reader(both, **options)
    end = end_of(first, first.initialOffset())
    first.stop()
    both.add_partitions(topic, 2)  # now the option lacks a partition

    again = reader(both, **options)
    start = again.initialOffset()
    (planned,) = again.partitions(start, end)
    assert [(each.start, each.end) for each in planned.value] == [(1, 3)]
    both.send(topic, ["d"], partition=1)
    assert end_of(again, end)[topic] == {"0": 3, "1": 1}
    again.stop()

    new = reader(both, **options)
    with pytest.raises(ValueError, match=f"Specified: .*{topic}-0"):
        end_of(new, new.initialOffset())
    new.stop()


def test_a_broker_that_does_not_know_a_topic_yet_deletes_nothing(both: Topics) -> None:
    topic, other = both.create(1, prefix="stale"), both.create(1, prefix="stale")
    both.send(topic, ["a"])
    both.send(other, ["b"])
    stream = reader(both, subscribePattern=f"{topic}|{other}", startingOffsets="earliest")
    end = end_of(stream, stream.initialOffset())
    asked = OffsetReader.partitions
    results = iter([{(topic, 0)}])

    def stale(offsets: OffsetReader, **given: bool) -> Any:
        return next(results, None) or asked(offsets, **given)

    with mock.patch.object(OffsetReader, "partitions", stale):
        assert end_of(stream, end) == end
    both.delete(other)
    assert set(end_of(stream, end)) == {topic}
    stream.stop()


def test_a_named_topic_that_is_deleted_is_lost(
    both: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    kept, gone = both.create(1, prefix="named"), both.create(1, prefix="named")
    both.send(kept, ["a"])
    both.send(gone, ["b", "c"])
    options = {"subscribe": f"{kept},{gone}", "startingOffsets": "earliest"}
    strict, lax = reader(both, **options), reader(both, failOnDataLoss="false", **options)
    start = lax.initialOffset()
    end = end_of(lax, start)
    asked = OffsetReader.partitions
    results = iter([{(kept, 0)}])

    def stale(offsets: OffsetReader, **given: bool) -> Any:
        return next(results, None) or asked(offsets, **given)

    with mock.patch.object(OffsetReader, "partitions", stale):
        assert end_of(lax, end) == end, "a broker may not know the topic yet"
    assert caplog.text == ""
    both.delete(gone)
    both.send(kept, ["d"])

    with pytest.raises(DataLossError, match=rf"Deleted: {gone}-0 at 2\."):
        end_of(strict, end)
    later = end_of(lax, end)
    assert later[kept] == {"0": 2}
    assert later[gone] == {"0": 2}
    (planned,) = lax.partitions(end, later)
    assert [(each.topic, each.start, each.end) for each in planned.value] == [(kept, 1, 2)]
    assert end_of(lax, later) == later
    assert caplog.text.count(f"Topic '{gone}' does not exist. The query continues") == 1
    for stream in (strict, lax):
        stream.stop()

    again = reader(both, failOnDataLoss="false", **options)
    again.prepareForTriggerAvailableNow()
    assert end_of(again, later) == later
    both.send(kept, ["e"])
    again.prepareForTriggerAvailableNow()
    last = end_of(again, later)
    (planned,) = again.partitions(later, last)
    assert [(each.topic, each.start, each.end) for each in planned.value] == [(kept, 2, 3)]
    again.stop()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_that_does_not_exist_at_the_start_is_an_error(both: Topics, fail: str) -> None:
    topic = both.create(1)
    options = {"subscribe": f"{topic},{topic}-x", "failOnDataLoss": fail}
    for available_now in (False, True):
        stream = reader(both, **options)
        if available_now:
            stream.prepareForTriggerAvailableNow()
        with pytest.raises(UnknownTopicOrPartitionError, match=f"Topic '{topic}-x' does not"):
            end_of(stream, stream.initialOffset())
        stream.stop()


def test_without_any_named_topic_the_offsets_stay(both: Topics) -> None:
    topic = both.create(1)
    both.send(topic, ["a"])
    stream = reader(both, subscribe=topic, startingOffsets="earliest", failOnDataLoss="false")
    end = end_of(stream, stream.initialOffset())
    both.delete(topic)
    assert end_of(stream, end) == end
    stream.stop()


def test_an_unreachable_cluster_is_tried_once_for_its_timeout() -> None:
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{free_port()}",
        "kafka.bootstrap.timeout.ms": "1000",
        "subscribe": "t",
    }
    begin = time.monotonic()
    with pytest.raises(NoBrokersAvailable):
        BatchReader(parse_source(options, "batch")).partitions()
    assert time.monotonic() - begin < 2.5, "three times would take more than 3 s"
