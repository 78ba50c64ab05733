"""Committed offsets of a group: a stream commits its progress, and a query starts from them."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.conftest import Source, Topics, texts
from tests.spark.parity.engine import Engine
from tests.support.spark_queries import finish
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaConsumer, TopicPartition
from thalweg.config import IgnoredOptionWarning
from thalweg.errors import GroupAuthorizationFailedError, KafkaTimeoutError
from thalweg.spark import group_offsets
from thalweg.spark.client_config import ClientConfig
from thalweg.spark.options import parse_source
from thalweg.spark.stream_reader import StreamReader
from thalweg.structs import OffsetAndMetadata


@pytest.fixture
def admin(both: Topics) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=both.broker.bootstrap_servers) as made:
        yield made


def committed(admin: KafkaAdminClient, group: str) -> dict[int, int]:
    """Returns the committed offsets of a group by partition."""
    found = admin.list_group_offsets({group: None})[group]
    return {tp.partition: at.offset for tp, at in found.items()}


def test_a_stream_commits_the_end_of_each_batch(both: Topics, admin: KafkaAdminClient) -> None:
    topic = both.create(2)
    for partition in range(2):
        both.send(topic, [str(n) for n in range(10)], partition=partition)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    engine = Engine(both, commitGroupId=topic, **options)
    engine.start()
    assert engine.trigger()
    assert committed(admin, topic) == {}
    assert engine.trigger(fail=True)
    assert committed(admin, topic) == {0: 4, 1: 4}, "only what was processed"
    engine.start()
    while engine.trigger():
        pass
    engine.stop()
    assert committed(admin, topic) == {0: 10, 1: 10}
    assert len(engine.values()) == 20


def test_a_stream_in_spark_commits(source: Source, both: Topics, admin: KafkaAdminClient) -> None:
    topic = both.create(2)
    both.send(topic, ["a", "b"], partition=0)
    both.send(topic, ["c"], partition=1)
    frame = source.stream(both, subscribe=topic, startingOffsets="earliest", commitGroupId=topic)
    finish(frame.writeStream.format("noop").trigger(availableNow=True).start)
    assert committed(admin, topic) == {0: 2, 1: 1}


@pytest.mark.parametrize(
    ("word", "expected"), [("group", ["c", "x", "y"]), ("group:latest", ["c"])]
)
def test_a_query_starts_at_the_committed_offsets(
    source: Source, both: Topics, admin: KafkaAdminClient, word: str, expected: list[str]
) -> None:
    topic = both.create(2)
    both.send(topic, ["a", "b", "c"], partition=0)
    both.send(topic, ["x", "y"], partition=1)
    admin.alter_group_offsets(topic, {TopicPartition(topic, 0): OffsetAndMetadata(2)})
    options = {"subscribe": topic, "startingOffsets": word, "commitGroupId": topic}
    engine = Engine(both, **options)
    engine.run()
    assert engine.values() == expected
    if word == "group":
        admin.delete_group_offsets(topic, [TopicPartition(topic, 0), TopicPartition(topic, 1)])
        admin.alter_group_offsets(topic, {TopicPartition(topic, 0): OffsetAndMetadata(2)})
        assert texts(source.read(both, **options)) == expected
        assert committed(admin, topic) == {0: 2}, "a batch commits nothing"


def test_a_group_with_members_costs_a_warning_and_not_the_query(
    both: Topics, admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    topic = both.create()
    both.send(topic, ["a"])
    bootstrap = both.broker.bootstrap_servers
    with KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=topic) as member:
        wait_until(lambda: member.poll(100) or member.assignment(), 60, what="the assignment")
        engine = Engine(both, subscribe=topic, startingOffsets="earliest", commitGroupId=topic)
        with caplog.at_level(logging.WARNING, "thalweg.spark"):
            engine.start()
            assert engine.trigger()
            both.send(topic, ["b"])
            assert engine.trigger()
            assert not engine.trigger()
            engine.stop()
        assert engine.values() == ["a", "b"]
    (record,) = [each for each in caplog.records if each.name == "thalweg.spark"]
    assert f"{topic}-0" in record.getMessage()
    assert "choose a group that only this query uses" in record.getMessage()


def test_brokers_that_refuse_cost_a_warning(
    both: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise GroupAuthorizationFailedError("not authorized to access group 'g'")

    monkeypatch.setattr(KafkaAdminClient, "alter_group_offsets", refuse)
    topic = both.create()
    both.send(topic, ["a"])
    engine = Engine(both, subscribe=topic, startingOffsets="earliest", commitGroupId="g")
    engine.run()
    assert engine.values() == ["a"]
    assert "not authorized to access group 'g'" in caplog.text


def test_a_commit_is_repeated_after_an_hour_and_waits_a_minute_after_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now, failing_from, failing_until = 0, 4_000, 4_100
    commits: list[tuple[int, int]] = []

    def commit(group: str, offsets: Any) -> dict[TopicPartition, Any]:
        commits.append((now, next(iter(offsets.values())).offset))
        if failing_from <= now < failing_until:
            raise KafkaTimeoutError("no response")
        return {}

    admin = SimpleNamespace(alter_group_offsets=commit, close=lambda: None)
    monkeypatch.setattr(group_offsets, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(group_offsets.GroupOffsets, "_open", lambda self: admin)
    group = group_offsets.GroupOffsets(ClientConfig(), "g")
    triggers = [(0, 5), (10, 5), (20, 6), (3_000, 6), (3_700, 6)]
    triggers += [(4_000, 7), (4_010, 7), (4_059, 8), (4_061, 8), (4_110, 8), (4_130, 9)]
    for now, offset in triggers:  # noqa: B007 - `commit` reads it
        group.commit({("t", 0): offset})
    assert commits == [(0, 5), (20, 6), (3_700, 6), (4_000, 7), (4_061, 8), (4_130, 9)]
    assert caplog.text.count("'g' (commitGroupId): t: KafkaTimeoutError: no response") == 1


def test_the_id_of_a_group_has_no_effect(
    source: Source, both: Topics, admin: KafkaAdminClient
) -> None:
    topic = both.create()
    both.send(topic, ["a"])
    given = {"kafka.group.id": topic, "groupIdPrefix": topic}
    with (
        pytest.warns(IgnoredOptionWarning, match="'kafka.group.id' has no effect"),
        pytest.warns(IgnoredOptionWarning, match="groupidprefix"),
    ):
        engine = Engine(both, subscribe=topic, startingOffsets="earliest", **given)
    engine.run()
    assert engine.values() == source.values(both, subscribe=topic, **given) == ["a"]
    assert not [each for each in admin.list_groups() if topic in each["group_id"]]


BASE = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "group"}, "startingOffsets=group needs the option commitGroupId"),
        ({"commitGroupId": " "}, "'commitGroupId' must be the name of a consumer group"),
        ({"startingOffsets": "group:first", "commitGroupId": "g"}, r"Expected e\.g\."),
    ],
)
def test_wrong_options_are_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_source({**BASE, **options}, "stream")


def test_a_batch_without_the_offsets_of_the_group_ignores_it() -> None:
    with pytest.warns(IgnoredOptionWarning, match="commitGroupId is ignored in batch queries"):
        parse_source({**BASE, "commitGroupId": "g"}, "batch")


def test_a_batch_does_not_end_at_committed_offsets() -> None:
    options = {**BASE, "endingOffsets": "group", "commitGroupId": "g", "startingOffsets": "group"}
    with pytest.raises(ValueError, match=r"Expected e\.g\."):
        parse_source(options, "batch")


def test_a_reader_with_a_group_can_be_pickled(both: Topics) -> None:
    topic = both.create()
    given = {"kafka.bootstrap.servers": both.broker.bootstrap_servers, "subscribe": topic}
    reader = StreamReader(parse_source({**given, "commitGroupId": topic}, "stream"))
    reader.latestOffset({topic: {"0": 0}}, ReadAllAvailable())
    copy = pickle.loads(pickle.dumps(reader))
    reader.stop()
    copy.stop()
