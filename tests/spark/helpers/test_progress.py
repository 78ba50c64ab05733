"""`ProgressListener`: the lag and the rates of streams."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from tests.spark.conftest import Source, Topics
from tests.support.spark_queries import finish
from tests.support.waiting import wait_until
from thalweg import TopicPartition
from thalweg.spark import Progress, ProgressListener
from thalweg.spark.helpers.progress import progress_of


def test_the_lag_of_each_partition_is_reported(source: Source, topics: Topics) -> None:
    topic = topics.create(2)
    topics.send(topic, [str(n) for n in range(6)], partition=0)
    topics.send(topic, ["a", "b"], partition=1)
    seen: list[Progress] = []
    listener = ProgressListener(seen.append)
    source.spark.streams.addListener(listener)
    try:
        frame = source.stream(
            topics, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="4"
        )
        writer = frame.writeStream.format("noop").queryName(topic).trigger(availableNow=True)
        finish(writer.start)
        own = lambda: [each for each in seen if each.query == topic and each.rows]  # noqa: E731
        wait_until(lambda: len(own()) == 2, 60, what="the progress of two batches")
    finally:
        source.spark.streams.removeListener(listener)
    first, second = own()
    assert (first.batch, first.rows, first.total_lag, first.skipped) == (0, 4, 4, 0)
    assert first.lag == {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 1}
    assert (second.rows, second.total_lag, second.skipped) == (4, 0, 0)
    assert first.processed_rows_per_second > 0


def test_lost_offsets_are_counted(source: Source, both: Topics) -> None:
    topic = both.create(2)
    for partition in range(2):
        both.send(topic, [str(n) for n in range(5)], partition=partition)
    both.delete_before(topic, {0: 3, 1: 1})
    frame = source.stream(
        both,
        subscribe=topic,
        startingOffsets=f'{{"{topic}": {{"0": 0, "1": 0}}}}',
        failOnDataLoss="false",
    )
    query = finish(frame.writeStream.format("noop").trigger(availableNow=True).start)
    # Without the progress of a trigger that had nothing to read, which Spark reports after a while.
    [progress] = [each for one in query.recentProgress for each in progress_of(one) if each.rows]
    assert (progress.rows, progress.skipped) == (6, 4)


def event(*sources: Any) -> Any:
    progress = SimpleNamespace(name=None, id="some-id", batchId=3, sources=sources)
    return SimpleNamespace(progress=progress)


def a_source(end: str | None, latest: str | None, start: str | None = None) -> Any:
    return SimpleNamespace(
        startOffset=start,
        endOffset=end,
        latestOffset=latest,
        numInputRows=5,
        inputRowsPerSecond=1.5,
        processedRowsPerSecond=2.5,
    )


def test_sources_without_offsets_are_passed_over() -> None:
    seen: list[Progress] = []
    others = a_source("7", "9"), a_source(None, None), a_source("not json", '{"t": 4}')
    ours = a_source('{"t": {"0": 4}, "@start": {"t": {"0": 1}}}', '{"t": {"0": 9, "1": 2}}')
    ProgressListener(seen.append).onQueryProgress(event(*others, ours))
    lag = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 2}
    assert seen == [Progress("some-id", 3, 5, 1.5, 2.5, lag, skipped=0)]


@pytest.mark.parametrize(
    ("start", "end", "skipped"),
    [
        ('{"t": {"0": 4}}', '{"t": {"0": 12, "1": 3}}', 6),
        ('{"t": {"0": 9}, "@start": {"t": {"0": 1}}}', '{"t": {"0": 14}}', 0),
        # Batch 0 was the last one. Another source of the query has new rows.
        ('{"t": {"0": 9}, "@start": {"t": {"0": 1}}}',) * 2 + (0,),
        (None, '{"t": {"0": 9}, "@start": {"t": {"0": 1}}}', 3),
        (None, '{"t": {"0": 9}}', None),
    ],
)
def test_offsets_without_rows_are_skipped(start: str, end: str, skipped: int | None) -> None:
    [progress] = progress_of(event(a_source(end, end, start)).progress)
    assert progress.skipped == skipped


def test_a_function_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError("on purpose")

    source = a_source('{"t": {"0": 4}}', '{"t": {"0": 9}}')
    ProgressListener(fail).onQueryProgress(event(source, source))
    assert caplog.text.count("RuntimeError: on purpose") == 2


def test_without_a_function_the_progress_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "thalweg.spark"):
        ProgressListener().onQueryProgress(event(a_source('{"t": {"0": 4}}', '{"t": {"0": 9}}')))
    assert "query some-id: batch 3 has read 5 rows" in caplog.text
    assert "skipped an unknown number of offsets, and 5 offsets are left" in caplog.text
