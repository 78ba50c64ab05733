"""Lookups of subscribed topics (on a fake client)."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.fake_core import Client, ClusterMetadata
from thalweg.coordinator.driver import _topics
from thalweg.coordinator.driver._topics import Topics
from thalweg.errors import (
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from thalweg.structs import TopicPartition


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The topics of a client, its assignment, and the time."""
    found = SimpleNamespace(now_ms=0.0, client=Client(), assigned=set())
    monkeypatch.setattr(_topics, "now_ms", lambda: found.now_ms)
    config: Any = {
        "allow_auto_create_topics": False,
        "exclude_internal_topics": True,
        "group_protocol": "consumer",
        "metadata_max_age_ms": 300_000,
        "retry_backoff_ms": 100,
        "retry_backoff_max_ms": 400,
    }
    core: Any = SimpleNamespace(_core_client=found.client, assignment=lambda: found.assigned)
    found.topics = Topics(core, config, lambda _: None)
    return found


def row(name: str, partitions: int = 1, *, topic_id: str = "id", code: int = 0) -> dict[str, Any]:
    return {
        "Name": name,
        "TopicId": topic_id,
        "ErrorCode": code,
        "IsInternal": False,
        "Partitions": [{"PartitionIndex": each} for each in range(partitions)],
    }


def responds(world: Any, *rows: dict[str, Any]) -> Any:
    """Advances the time to the next lookup, responds to it, and returns what is new."""
    world.client.responses["Metadata"] = {"Brokers": [], "Topics": list(rows)}
    world.now_ms = max(world.now_ms, world.topics.due_ms)
    return world.topics.poll()


UNKNOWN = UnknownTopicOrPartitionError.errno
UNKNOWN_ID = UnknownTopicIdError.errno


@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_topic_survives_two_responses_that_do_not_know_it(world: Any, by_pattern: bool) -> None:
    if by_pattern:
        world.topics.subscribe([], re.compile("t|u"))
        without = [row("u")]
    else:
        world.topics.subscribe(["t", "u"], None)
        without = [row("t", code=UNKNOWN), row("u")]
    assert responds(world, row("t", 3), row("u")).names == {"t", "u"}
    began_ms = world.now_ms
    for _ in range(2):
        world.topics._names_due_ms = world.now_ms
        assert responds(world, *without) is None, "as it was"
    assert responds(world, row("t", 3), row("u")) is None, "it is back"
    for _ in range(2):
        world.topics._names_due_ms = world.now_ms
        assert responds(world, *without) is None
    assert responds(world, *without).names == {"u"}
    assert world.now_ms - began_ms < 10_000, "looked for soon again"


def test_a_name_that_is_no_topic_is_warned_of_once(world: Any, caplog: Any) -> None:
    def warned() -> int:
        return caplog.text.count("the subscribed topic tpyo does not exist")

    world.topics.subscribe(["t", "tpyo"], None)
    responds(world, row("t"), row("tpyo", code=UNKNOWN))
    assert warned() == 0, "it may just have been made"
    for _ in range(3):
        responds(world, row("t"), row("tpyo", code=UNKNOWN))
        assert warned() == 1
    responds(world, row("t"), row("tpyo"))
    assert caplog.text.count("does not exist") == 1


def test_a_topic_that_was_refused_is_not_called_absent(world: Any, caplog: Any) -> None:
    world.topics.subscribe(["t", "secret"], None)
    refused = row("secret", 0, code=TopicAuthorizationFailedError.errno)
    assert responds(world, row("t"), refused).names == {"t"}
    refusals = 0
    for _ in range(6):
        try:
            responds(world, row("t"), refused)
        except TopicAuthorizationFailedError:
            refusals += 1
    assert refusals == 6
    assert "does not exist" not in caplog.text


def test_a_response_with_fewer_partitions_of_the_same_topic_is_doubted(world: Any) -> None:
    world.topics.subscribe(["t"], None)
    responds(world, row("t", 3))
    for _ in range(2):
        world.topics._names_due_ms = world.now_ms
        assert responds(world, row("t", 1)) is None
    assert responds(world, row("t", 5)).partitions == {"t": 5}
    found = responds(world, row("t", 2, topic_id="made again"))
    assert (found.partitions, found.ids) == ({"t": 2}, {"t": "made again"})


def test_a_topic_that_was_refused_is_not_kept(world: Any) -> None:
    world.topics.subscribe(["t"], None)
    responds(world, row("t"))
    with pytest.raises(TopicAuthorizationFailedError):
        responds(world, row("t", 0, code=TopicAuthorizationFailedError.errno))


def test_what_is_not_subscribed_to_any_more_is_not_kept(world: Any) -> None:
    world.topics.subscribe(["t"], None)
    responds(world, row("t"))
    world.topics.subscribe(["u"], None)
    assert responds(world, row("u")).names == {"u"}


def test_what_is_only_watched_is_no_subscription(world: Any) -> None:
    world.topics.subscribe([], re.compile("x|y"))
    responds(world, row("x"), row("y"))
    world.topics.subscribe([], re.compile("y"))
    world.topics.watch(frozenset({"x"}))
    found = responds(world, row("y"))
    assert found.names == {"y"}
    assert found.partitions == {"x": 1, "y": 1}


def asked(world: Any) -> list[str]:
    """Returns what the last request named: topics, or IDs."""
    _, body, _ = world.client.requests[-1]
    return [each["Name"] or each["TopicId"] for each in body["Topics"]]


def watching_ids(world: Any) -> float:
    """Watches two IDs, one of them unknown to the broker, and returns the time of the lookup."""
    world.topics.subscribe(["t"], None)
    responds(world, row("t"))
    world.topics.watch(frozenset(), frozenset({"X", "Y"}))
    rows = row("y", topic_id="Y"), row("", topic_id="X", code=UNKNOWN_ID)
    assert responds(world, *rows) is None
    assert asked(world) == ["X", "Y"]
    looked_ms: float = world.now_ms
    found = responds(world, row("t"), row("y", topic_id="Y"))
    assert asked(world) == ["t", "y"]
    assert found.ids == {"t": "id", "y": "Y"}
    assert world.now_ms == looked_ms
    return looked_ms


def test_a_topic_id_that_a_broker_does_not_know_is_asked_for_again(world: Any) -> None:
    """The request may have gone to a broker whose metadata is older than the coordinator's."""
    looked_ms = watching_ids(world)
    assert responds(world, row("", topic_id="X", code=UNKNOWN_ID)) is None
    assert asked(world) == ["X"]
    assert world.now_ms - looked_ms == 1000, "not in a loop"
    assert responds(world, row("x", topic_id="X")) is None
    assert world.now_ms - looked_ms == 2000
    found = responds(world, row("t"), row("x", topic_id="X"), row("y", topic_id="Y"))
    assert found.ids["x"] == "X"
    assert world.topics.due_ms - world.now_ms == 300_000, "nothing is missing any more"


def test_a_topic_that_was_named_by_its_id_is_asked_for_until_it_is_found(world: Any) -> None:
    """The next broker may be the one with the older metadata."""
    watching_ids(world)
    assert responds(world, row("x", topic_id="X")) is None
    assert responds(world, row("t"), row("y", topic_id="Y"), row("x", code=UNKNOWN)) is None
    assert responds(world, row("x", topic_id="X")) is None
    assert asked(world) == ["X"]
    assert responds(world, row("t"), row("x", topic_id="X"), row("y", topic_id="Y")).ids["x"] == "X"


@pytest.mark.parametrize(
    "names, pattern, creates",
    [(["t"], None, True), ([], re.compile("t"), False), ([], None, False)],
)
def test_only_topics_that_are_subscribed_to_by_name_are_created(
    world: Any, names: list[str], pattern: Any, creates: bool
) -> None:
    """Not topics of a pattern or from the broker, which may have just been deleted."""
    world.topics._config["allow_auto_create_topics"] = True
    world.topics.subscribe(names, pattern)
    responds(world, row("t"))
    assert world.client.requests[-1][1]["AllowAutoTopicCreation"] is creates


@pytest.mark.parametrize("names, pattern", [(["u"], None), ([], None), ([], re.compile("u"))])
def test_a_topic_is_looked_for_until_its_partitions_are_given_up(
    world: Any, names: list[str], pattern: Any
) -> None:
    """No names: the broker evaluates the pattern. Otherwise the topic would count as deleted."""
    world.topics.subscribe(["t"], None)
    responds(world, row("t"))
    world.assigned = {TopicPartition("t", 0)}
    world.topics.subscribe(names, pattern)
    found = responds(world, row("t"), *(row(name) for name in names))
    assert found.names == set(names)
    assert found.ids.keys() == {"t", *names}
    if pattern is None:
        assert asked(world) == ["t", *names]
    assert world.topics.names() == set(names)
    assert world.topics.due_ms - world.now_ms == 300_000, "nothing is missing"
    world.assigned = set()
    found = responds(world, *(row(name) for name in names))
    assert found.ids.keys() == set(names)
    if pattern is None:
        assert asked(world) == names


def test_an_owned_topic_that_was_deleted_is_neither_created_nor_reported(
    world: Any, caplog: Any
) -> None:
    world.topics._config["allow_auto_create_topics"] = True
    world.topics.subscribe(["t"], None)
    responds(world, row("t"))
    world.assigned = {TopicPartition("t", 0)}
    world.topics.subscribe(["u"], None)
    unknown = row("t", code=UNKNOWN)
    assert responds(world, unknown, row("u")).ids.keys() == {"t", "u"}, "one response is not enough"
    assert responds(world, unknown, row("u")) is None
    assert responds(world, unknown, row("u")).ids.keys() == {"u"}
    creations = [body["AllowAutoTopicCreation"] for _, body, _ in world.client.requests]
    assert creations == [True, False, False, False]
    assert world.topics.due_ms - world.now_ms == 300_000
    assert "does not exist" not in caplog.text
    world.assigned = set()
    responds(world, row("u"))
    assert world.client.requests[-1][1]["AllowAutoTopicCreation"] is True


def test_a_topic_that_was_once_found_by_its_id_does_not_stop_others_from_being_created(
    world: Any,
) -> None:
    world.topics._config["allow_auto_create_topics"] = True
    watching_ids(world)
    world.topics.subscribe(["u"], None)
    responds(world, row("u", code=UNKNOWN), row("y", topic_id="Y"))
    assert "u" in asked(world)
    assert world.client.requests[-1][1]["AllowAutoTopicCreation"] is True


def test_owned_topics_are_looked_for_only_in_groups_that_name_them_by_id(world: Any) -> None:
    world.topics._config["group_protocol"] = "classic"
    world.topics.subscribe(["t"], None)
    responds(world, row("t"))
    world.assigned = {TopicPartition("t", 0)}
    world.topics.subscribe(["u"], None)
    responds(world, row("u"))
    assert asked(world) == ["u"]


def test_topic_ids_are_asked_for_no_longer_than_they_are_wanted(world: Any) -> None:
    watching_ids(world)
    sent = len(world.client.requests)
    world.topics.watch(frozenset(), frozenset())
    assert world.topics.due_ms - world.now_ms == 300_000
    assert len(world.client.requests) == sent


def test_a_look_by_name_that_is_due_does_not_wait_for_topic_ids(world: Any) -> None:
    watching_ids(world)
    world.topics._names_due_ms = world.now_ms + 500
    assert responds(world, row("t", 3), row("y", topic_id="Y")).partitions["t"] == 3
    responds(world, row("", topic_id="X", code=UNKNOWN_ID))
    assert asked(world) == ["X"]


def test_without_subscription_nothing_is_watched(world: Any) -> None:
    """Otherwise the result would replace what the user assigned after unsubscribing."""
    world.topics.subscribe(["t"], None)
    responds(world, row("t"))
    world.topics.clear()
    world.topics.watch(frozenset({"x"}))
    assert world.topics.due_ms is None


def test_internal_topics_are_not_kept_for_a_pattern(world: Any) -> None:
    world.topics.subscribe(["__t"], None)
    responds(world, row("__t"))
    world.topics.subscribe([], re.compile(".*"))
    assert responds(world, row("u")).names == {"u"}


def test_it_goes_on_looking_after_what_no_retry_cures(world: Any) -> None:
    world.topics.subscribe(["t"], None)
    waits = []
    for _ in range(4):
        world.client.responses["Metadata"] = SaslAuthenticationFailedError("the password")
        world.now_ms = world.topics.due_ms
        with pytest.raises(SaslAuthenticationFailedError):
            world.topics.poll()
        waits.append(world.topics.due_ms - world.now_ms)
    assert 80 <= waits[0] <= 120
    assert 320 <= waits[3] <= 480, "longer and longer, within its limit"
    assert responds(world, row("t")).names == {"t"}


def test_a_topic_is_looked_at_again_once_the_core_knows_more_partitions(world: Any) -> None:
    """The topic was deleted and created again. The core knows it from a fetch."""
    world.topics.subscribe(["t", "u"], None)
    assert responds(world, row("t"), row("u")).partitions == {"t": 1, "u": 1}
    requests = len(world.client.requests)
    for version in range(3):
        world.client.responses["cluster"] = ClusterMetadata({"t": 1, "else": 9}, version)
        assert world.topics.next_call_ms - world.now_ms <= 1000
        world.now_ms = world.topics.next_call_ms
        assert world.topics.poll() is None
    assert len(world.client.requests) == requests
    world.client.responses["cluster"] = ClusterMetadata({"t": 3}, 4)
    world.now_ms = world.topics.next_call_ms
    world.topics.poll()  # the broker that gets this request does not know it yet
    world.client.responses["Metadata"] = {"Brokers": [], "Topics": [row("t", 3), row("u")]}
    world.now_ms = world.topics.next_call_ms
    assert world.topics.poll().partitions == {"t": 3, "u": 1}
    requests = len(world.client.requests)
    world.now_ms = world.topics.next_call_ms
    assert world.topics.poll() is None
    assert len(world.client.requests) == requests
