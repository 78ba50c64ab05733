"""The readers of streams and batches, called as Spark calls them on the driver, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.conftest import Topics
from tests.support.ports import free_port
from thalweg.admin import KafkaAdminClient
from thalweg.consumer import KafkaConsumer
from thalweg.errors import NoBrokersAvailable, UnknownTopicOrPartitionError
from thalweg.spark import offset_reader, stream_reader
from thalweg.spark.data_loss import DataLossError
from thalweg.spark.offset_reader import OffsetReader
from thalweg.spark.options import parse_source
from thalweg.spark.reader import BatchReader
from thalweg.spark.stream_reader import StreamReader
from thalweg.structs import OffsetAndMetadata, TopicPartition


def reader(topics: Topics, **options: str) -> StreamReader:
    quick = {"fetchOffset.retryIntervalMs": "20"}
    servers = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers}
    return StreamReader(parse_source({**servers, **quick, **options}, "stream"))


def batch_reader(topics: Topics, **options: str) -> BatchReader:
    servers = {"kafka.bootstrap.servers": topics.broker.bootstrap_servers}
    return BatchReader(parse_source({**servers, **options}, "batch"))


def ranges(batch: BatchReader) -> list[tuple[str, int, int]]:
    found = [each for task in batch.partitions() for each in task.value]
    return [(each.topic, each.start, each.end) for each in found]


@contextmanager
def deleting(topics: Topics, topic: str, method: str) -> Iterator[None]:
    """Deletes a topic while its offsets are looked up, before this method of `OffsetReader`."""
    original: Callable[..., Any] = getattr(OffsetReader, method)
    is_there = [True]

    def call(self: OffsetReader, *given: Any) -> Any:
        if is_there and is_there.pop():
            topics.delete(topic)
        return original(self, *given)

    with (
        mock.patch.object(OffsetReader, method, call),
        mock.patch.object(offset_reader, "_PATIENCE_MS", 500),
    ):
        yield


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
    # The client itself may warn of a slow machine.
    assert [each for each in caplog.records if each.name == "thalweg.spark"] == []
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


def without(topics: Topics, gone: str, **options: str) -> tuple[StreamReader, dict[str, Any]]:
    """Returns a new reader, and the checkpoint of an earlier one, whose topic was then deleted."""
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false", **options}
    earlier = reader(topics, **options)
    end = end_of(earlier, earlier.initialOffset())
    earlier.stop()
    topics.delete(gone)
    return reader(topics, **options), end


def sleeps_of(stream: StreamReader, start: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Returns how often a trigger sleeps, and its end."""
    with mock.patch.object(stream_reader, "time") as clock:
        end = end_of(stream, start)
    return clock.sleep.call_count, end


def test_available_now_ends_although_a_named_topic_is_gone(both: Topics) -> None:
    kept, gone = both.create(1, prefix="now"), both.create(1, prefix="now")
    both.send(kept, ["a"])
    both.send(gone, ["b", "c"])
    again, end = without(both, gone, subscribe=f"{kept},{gone}")
    both.send(kept, ["d"])
    again.prepareForTriggerAvailableNow()
    first = end_of(again, end)
    assert (first[kept], first[gone]) == ({"0": 2}, {"0": 2})

    both.send(kept, ["e"])
    assert end_of(again, first) == first
    both.broker.wire.create_topic(gone, 1)
    assert end_of(again, first) == first, "a topic that comes back is for the next run"
    again.prepareForTriggerAvailableNow()
    last = end_of(again, first)
    assert (last[kept], last[gone]) == ({"0": 3}, {"0": 0})
    again.stop()


def test_a_topic_that_is_gone_delays_one_trigger(both: Topics) -> None:
    kept, gone = both.create(1, prefix="delay"), both.create(1, prefix="delay")
    both.send(gone, ["a"])
    for choice in (
        {"subscribe": f"{kept},{gone}"},
        {"subscribePattern": f"{kept}|{gone}"},
    ):
        both.send(kept, ["b"])
        stream, end = without(both, gone, **choice)
        sleeps, later = sleeps_of(stream, end)
        assert sleeps == 2, "a broker may not know the topic yet"
        assert sleeps_of(stream, later) == (0, later)
        both.send(kept, ["c"])
        sleeps, last = sleeps_of(stream, later)
        assert (sleeps, last[kept] == later[kept]) == (0, False)
        stream.stop()
        both.broker.wire.create_topic(gone, 1)


def test_triggers_that_wait_do_not_wait_for_a_topic_that_is_gone(both: Topics) -> None:
    kept, gone = both.create(1, prefix="wait"), both.create(1, prefix="wait")
    both.send(gone, ["a"])
    both.send(kept, ["b"])
    stream, end = without(both, gone, subscribePattern=f"{kept}|{gone}", minOffsetsPerTrigger="10")
    limit = stream.getDefaultReadLimit()
    for sleeps in (2, 0, 0):
        with mock.patch.object(stream_reader, "time") as clock:
            clock.monotonic.return_value = 1.0
            stream.latestOffset(end, limit)
        assert clock.sleep.call_count == sleeps
    stream.stop()


def test_records_that_come_while_a_run_starts_are_no_loss(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, ["a"])
    stream = reader(topics, subscribe=topic, **{"fetchOffset.numRetries": "1"})
    stream.prepareForTriggerAvailableNow()
    topics.send(topic, ["b", "c"])
    start = stream.initialOffset()
    end = end_of(stream, start)
    assert (start[topic], end[topic]) == ({"0": 3}, {"0": 3})
    assert stream.partitions(start, end) == []
    stream.stop()


def test_a_word_of_a_deleted_topic_is_not_stored_as_an_offset(topics: Topics) -> None:
    topic = topics.create(1)
    topics.send(topic, ["a"])
    options = {"startingOffsets": f'{{"{topic}": "earliest"}}', "failOnDataLoss": "false"}
    stream = reader(topics, subscribe=topic, **options)
    with deleting(topics, topic, "earliest"):
        start = stream.initialOffset()
    topics.broker.wire.create_topic(topic, 1)
    topics.send(topic, ["b", "c"])
    end = end_of(stream, start)
    (planned,) = stream.partitions(start, end)
    assert [(each.start, each.end) for each in planned.value] == [(0, 2)]
    stream.stop()


@pytest.mark.parametrize("option", ["subscribe", "subscribePattern"])
def test_the_offsets_of_a_topic_that_is_gone_are_not_committed(
    both: Topics, caplog: pytest.LogCaptureFixture, option: str
) -> None:
    kept, gone = both.create(1, prefix="commit"), both.create(1, prefix="commit")
    both.send(gone, ["a"])
    both.send(kept, ["b"])
    names = f"{kept},{gone}" if option == "subscribe" else f"{kept}|{gone}"
    stream, end = without(both, gone, commitGroupId=kept, **{option: names})
    later = end_of(stream, end_of(stream, end))
    assert later.get(gone) == (end[gone] if option == "subscribe" else None)
    end_of(stream, later)
    stream.stop()
    assert "could not commit" not in caplog.text
    with KafkaAdminClient(bootstrap_servers=both.broker.bootstrap_servers) as admin:
        assert list(admin.list_group_offsets({kept: None})[kept]) == [TopicPartition(kept, 0)]


def test_a_topic_that_comes_back_with_fewer_partitions_delays_one_trigger(
    both: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    kept, gone = both.create(1, prefix="fewer"), both.create(2, prefix="fewer")
    both.send(kept, ["a"])
    stream, end = without(both, gone, subscribe=f"{kept},{gone}")
    later = end_of(stream, end)
    assert later[gone] == {"0": 0, "1": 0}
    both.broker.wire.create_topic(gone, 1)

    sleeps, last = sleeps_of(stream, later)
    assert sleeps == 2, "a broker may not know all partitions of the topic yet"
    assert last == {kept: {"0": 1}, gone: {"0": 0}}
    assert stream.partitions(later, last) == []
    assert f"Deleted: {gone}-1 at 0." in caplog.text
    assert sleeps_of(stream, last) == (0, last)
    stream.stop()


def test_an_unreachable_cluster_is_tried_once_for_its_timeout() -> None:
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{free_port()}",
        "kafka.bootstrap.timeout.ms": "500",
        "subscribe": "t",
    }
    connect = mock.patch.object(KafkaConsumer, "from_config", wraps=KafkaConsumer.from_config)
    with connect as connecting, pytest.raises(NoBrokersAvailable):
        BatchReader(parse_source(options, "batch")).partitions()
    assert connecting.call_count == 1


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("starting", ["earliest", '{{"{0}": {{"0": -2}}, "{1}": "earliest"}}'])
@pytest.mark.parametrize("method", ["earliest", "latest"])
def test_a_topic_that_is_deleted_between_the_lookups_is_lost(
    topics: Topics, caplog: pytest.LogCaptureFixture, method: str, starting: str
) -> None:
    kept = topics.create(1, prefix="kept")
    topics.send(kept, ["a", "b"])
    for fail in ("true", "false"):
        gone = topics.create(1, prefix="gone")
        topics.send(gone, ["c"])
        batch = batch_reader(
            topics,
            subscribe=f"{kept},{gone}",
            startingOffsets=starting.format(kept, gone),
            failOnDataLoss=fail,
        )
        with deleting(topics, gone, method):
            if fail == "true":
                with pytest.raises(DataLossError, match=f"PARTITIONS_DELETED.*{gone}-0"):
                    batch.partitions()
            else:
                assert ranges(batch) == [(kept, 0, 2)]
                assert f"Deleted: {gone}-0" in caplog.text


def test_a_group_that_is_ahead_of_a_new_topic_is_data_loss(
    both: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topic = both.create(1)
    both.send(topic, ["a", "b"])
    with KafkaAdminClient(bootstrap_servers=both.broker.bootstrap_servers) as admin:
        admin.alter_group_offsets(topic, {TopicPartition(topic, 0): OffsetAndMetadata(5)})
    options = {"subscribe": topic, "startingOffsets": "group", "commitGroupId": topic}
    words = f"committed offset 5 of {topic}-0, but the query can read only up to 2"
    with pytest.raises(DataLossError, match=words):
        batch_reader(both, **options).partitions()
    assert ranges(batch_reader(both, failOnDataLoss="false", **options)) == []
    assert words in caplog.text
    # An end that the user has given is not data loss.
    end = f'{{"{topic}": {{"0": 1}}}}'
    with pytest.raises(ValueError, match="greater than its end offset 1"):
        batch_reader(both, endingOffsets=end, **options).partitions()
