"""KafkaConsumer: its calls, their arguments and results (on a fake core)."""

from typing import Any

import pytest

from tests.unit import fake_core
from thalweg.coordinator.driver._waits import now_ms
from thalweg.coordinator.listener import ConsumerRebalanceListener
from thalweg.errors import (
    IllegalStateError,
    KafkaConfigurationError,
    TopicAuthorizationFailedError,
)
from thalweg.interceptor import ConsumerInterceptor
from thalweg.serializer import JsonSerializer
from thalweg.structs import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def make(fake) -> Any:
    made: list[Any] = []

    def call(*topics: str, **configs: Any) -> Any:
        made.append(fake.consumer.KafkaConsumer(*topics, **configs))
        return made[-1]

    yield call
    for each in made:
        each.close()


def test_these_tests_have_no_native_core_under_them(fake) -> None:
    assert issubclass(fake.consumer.KafkaConsumer, fake_core.Consumer)


@pytest.fixture
def consumer(make) -> Any:
    found = make()
    found.assign([ZERO, ONE])
    return found


def test_iteration_is_the_cores_own(fake):
    assert "__next__" not in vars(fake.consumer.KafkaConsumer)
    assert "__iter__" not in vars(fake.consumer.KafkaConsumer)


def test_only_what_is_set_is_a_hook(make):
    hooks = make().hooks
    assert (hooks.deserialize_key, hooks.deserialize_value, hooks.on_consume) == (None, None, None)
    hooks = make(value_deserializer=JsonSerializer()).hooks
    assert hooks.deserialize_key is None
    assert hooks.deserialize_value("t", [], b"[1]") == [1]

    class Own(ConsumerInterceptor):
        def on_consume(self, records):
            return {}

    assert make(interceptor_classes=[Own()]).hooks.on_consume({ZERO: []}) == {}


def test_from_config_takes_a_mapping_and_topics(fake):
    with fake.consumer.KafkaConsumer.from_config(
        {"group.id": "g", "fetch.min.bytes": "5"}
    ) as found:
        assert found.core_config["group_id"] == "g"
        assert found.core_config["fetch_min_bytes"] == 5


@pytest.mark.parametrize("group_id", [None, "g"])
@pytest.mark.parametrize(
    "strategy, problem",
    [
        ("rang", "names 'rang', which is not an assignor"),
        (["range", "no.such.Class"], "cannot be imported"),
        ([3], "neither an AbstractPartitionAssignor nor"),
        ([], "is empty"),
        (["range", "range"], "two assignors with the same name"),
    ],
)
def test_assignors_are_checked_with_and_without_a_group(fake, group_id, strategy, problem):
    with pytest.raises(KafkaConfigurationError, match=problem):
        fake.consumer.KafkaConsumer(group_id=group_id, partition_assignment_strategy=strategy)


def test_a_wrong_assignor_is_told_with_all_other_problems(fake):
    with pytest.raises(KafkaConfigurationError) as caught:
        fake.consumer.KafkaConsumer(
            fetch_min_bytes=-1, partition_assignment_strategy=["rang", "cooperativ"], linger=1
        )
    listed = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 4
    assert all(each in listed for each in ("fetch_min_bytes", "'rang'", "'cooperativ'", "'linger'"))


def test_assign_takes_partitions_only(consumer):
    assert consumer.assignment() == {ZERO, ONE}
    with pytest.raises(TypeError, match="TopicPartition"):
        consumer.assign(["t"])


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"timeout_ms": -1}, ValueError),
        ({"max_records": 0}, ValueError),
        ({"max_records": -5}, ValueError),
        ({"max_records": "5"}, TypeError),
        ({"max_records": 1.0}, TypeError),
        ({"update_offsets": False}, ValueError),
    ],
)
def test_poll_checks_its_arguments(consumer, arguments, error):
    with pytest.raises(error):
        consumer.poll(**arguments)


@pytest.mark.parametrize(
    "given, told", [(0, 0), (100, 100), (99.9, 99), (float("inf"), None), (None, None)]
)
def test_poll_tells_the_core_whole_milliseconds(consumer, given, told):
    consumer.poll(given, 7)
    assert consumer.calls[-1] == ("poll", told, 7)


def test_poll_arrow_wraps_the_cores_table(consumer, fake):
    table = consumer.poll_arrow(timeout_ms=5, max_records=6, max_bytes=7)
    assert consumer.calls[-1] == ("poll_arrow", 5, 6, 7)
    assert isinstance(table, fake.consumer.RecordTable)
    assert len(table) == table.num_rows == 0


def test_poll_arrow_refuses_deserializers(make):
    with pytest.raises(IllegalStateError, match="value_deserializer is set"):
        make(value_deserializer=bytes.decode).poll_arrow()


@pytest.mark.parametrize(
    "where, offset, error",
    [
        (("t", 0), 1, TypeError),
        (ZERO, -1, ValueError),
        (ZERO, "1", ValueError),
        (ZERO, True, ValueError),
        (ZERO, 1.5, ValueError),
        (TopicPartition("other", 0), 1, ValueError),
    ],
)
def test_seek_checks_its_arguments(consumer, where, offset, error):
    with pytest.raises(error):
        consumer.seek(where, offset)


def test_seek_takes_an_offset_with_its_epoch(consumer):
    consumer.seek(ZERO, 5)
    assert consumer.calls[-1] == ("seek", ZERO, 5, -1)
    consumer.seek(ZERO, OffsetAndMetadata(6, "", 3))
    assert consumer.calls[-1] == ("seek", ZERO, 6, 3)


def test_seeking_to_the_ends_takes_all_partitions_or_those_named(consumer, make):
    consumer.seek_to_beginning()
    assert consumer.calls[-1] == ("seek_to", [ZERO, ONE], "earliest")
    consumer.seek_to_end(ONE)
    assert consumer.calls[-1] == ("seek_to", [ONE], "latest")
    with pytest.raises(ValueError, match="other-0 is not assigned"):
        consumer.seek_to_end(TopicPartition("other", 0))
    with pytest.raises(TypeError):
        consumer.seek_to_end(("t", 0))
    with pytest.raises(ValueError, match="No partitions are currently assigned"):
        make().seek_to_beginning()


def test_pause_and_resume_take_partitions(consumer):
    consumer.pause(ZERO, ONE)
    assert consumer.calls[-1] == ("pause_partitions", [ZERO, ONE])
    consumer.resume(ZERO)
    assert consumer.calls[-1] == ("resume_partitions", [ZERO])
    with pytest.raises(TypeError):
        consumer.pause(("t", 0))


def test_position_and_highwater_want_an_assigned_partition(consumer):
    assert consumer.position(ZERO) == 5
    assert consumer.calls[-1] == ("position", ZERO, 60_000)
    assert consumer.position(ZERO, timeout_ms=7) == 5
    assert consumer.calls[-1] == ("position", ZERO, 7)
    assert consumer.highwater(ONE) == 9
    for call in (consumer.position, consumer.highwater):
        with pytest.raises(IllegalStateError, match="not assigned"):
            call(TopicPartition("other", 0))
        with pytest.raises(TypeError):
            call(("t", 0))


def test_offsets_are_looked_up_by_end_and_by_time(consumer):
    consumer.offsets = {
        ("t", 0, -2): (3, -1, 0),
        ("t", 0, -1): (9, -1, 0),
        ("t", 0, 100): (5, 101, 2),
        ("t", 1, 200): (-1, -1, -1),
    }
    assert consumer.beginning_offsets([ZERO]) == {ZERO: 3}
    assert consumer.end_offsets([ZERO], timeout_ms=5) == {ZERO: 9}
    assert consumer.calls[-1][2] == 5
    found = consumer.offsets_for_times({ZERO: 100, ONE: 200})
    assert found == {ZERO: OffsetAndTimestamp(5, 101, 2), ONE: None}
    with pytest.raises(ValueError, match="cannot be negative"):
        consumer.offsets_for_times({ZERO: -1})


def test_topics_and_partitions_are_asked_of_the_cluster(consumer):
    row = {"ErrorCode": 0, "IsInternal": False, "Partitions": [{"PartitionIndex": 0}]}
    consumer.client.responses["Metadata"] = {
        "Topics": [
            {"Name": "t", **row},
            {"Name": "__offsets", **row, "IsInternal": True},
            {"Name": "secret", **row, "ErrorCode": 29},
        ]
    }
    assert consumer.topics() == {"t"}

    class Cluster:
        def partitions_for_topic(self, topic):
            return {0, 1} if topic == "known" else None

    consumer.client.responses["cluster"] = Cluster()
    assert consumer.partitions_for_topic("known") == {0, 1}
    consumer.client.responses["Metadata"] = {"Topics": [{"Name": "t", **row}]}
    assert consumer.partitions_for_topic("t") == {0}
    consumer.client.responses["Metadata"] = {"Topics": [{"Name": "t", **row, "Partitions": []}]}
    assert consumer.partitions_for_topic("t") == set()


# ---------------------------------------------------------------- subscriptions


def test_topics_and_partitions_do_not_mix(consumer, make):
    with pytest.raises(IllegalStateError, match="only one way"):
        consumer.subscribe(["t"])
    subscribed = make("t")
    with pytest.raises(IllegalStateError, match="only one way"):
        subscribed.assign([ZERO])
    with pytest.raises(IllegalStateError, match="only one way"):
        make().subscribe(["t"], pattern="t.*")


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({}, ValueError),
        ({"topics": "t"}, TypeError),
        ({"topics": [5]}, TypeError),
        ({"topics": ["t"], "listener": object()}, TypeError),
    ],
)
def test_subscribe_checks_its_arguments(make, arguments, error):
    with pytest.raises(error):
        make().subscribe(**arguments)


def metadata(**topics: int) -> dict[str, Any]:
    return {
        "Topics": [
            {
                "Name": name,
                "ErrorCode": 0,
                "IsInternal": name.startswith("__"),
                "Partitions": [{"PartitionIndex": each} for each in range(count)],
            }
            for name, count in topics.items()
        ]
    }


def test_without_group_all_partitions_of_the_topics_are_read(make, clock):
    consumer = make("t")
    assert consumer.subscription() == {"t"}
    consumer.client.responses["Metadata"] = metadata(t=2, other=1)
    assert consumer.hooks.before_poll(1000) <= 1001  # then it compares with the core's metadata
    assert 299_000 < consumer._driver._topics.due_ms - now_ms() <= 300_000
    assert consumer.assigned == [ZERO, ONE]
    api, body, _ = consumer.client.requests[-1]
    assert (api, body["Topics"], body["AllowAutoTopicCreation"]) == (
        "Metadata",
        [{"Name": "t"}],
        True,
    )


def test_a_topic_that_does_not_exist_is_looked_for_again_soon(make, clock):
    consumer = make("t")
    consumer.client.responses["Metadata"] = metadata()
    assert consumer.hooks.before_poll(0) <= 1001
    assert consumer.assigned == []
    assert consumer.hooks.before_poll(0) > 0
    assert len(consumer.client.requests) == 1


def test_a_subscribed_topic_that_is_refused_is_told_of_and_looked_for_again(make, clock):
    consumer = make("t")
    refused = {"Name": "t", "ErrorCode": 29, "IsInternal": False, "Partitions": []}
    consumer.client.responses["Metadata"] = {"Topics": [refused]}
    with pytest.raises(TopicAuthorizationFailedError, match="topic t"):
        consumer.hooks.before_poll(0)
    assert consumer.hooks.before_poll(0) <= 1001


def test_a_pattern_is_matched_with_all_topics_but_internal_ones(make):
    consumer = make()
    consumer.subscribe(pattern="a|__")
    consumer.client.responses["Metadata"] = metadata(a1=1, b=1, xa=1, __a=1)
    consumer.hooks.before_poll(0)
    assert consumer.assigned == [TopicPartition("a1", 0)]
    assert consumer.subscription() == {"a1"}
    assert consumer.client.requests[-1][1]["Topics"] is None


def test_a_listener_hears_what_changes(make):
    heard: list[Any] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            heard.append(("assigned", list(assigned)))

        def on_partitions_revoked(self, revoked):
            heard.append(("revoked", list(revoked)))

    consumer = make(metadata_max_age_ms=0)
    consumer.subscribe(["t"], listener=Listener())
    for partitions in (1, 1, 2):
        consumer.client.responses["Metadata"] = metadata(t=partitions)
        consumer.hooks.before_poll(0)
    assert heard == [("assigned", [ZERO]), ("assigned", [ONE])]


@pytest.mark.parametrize("ends", ["unsubscribe", "close"])
def test_a_listener_without_group_may_end_the_subscription(make, ends):
    heard: list[Any] = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned):
            heard.append(("assigned", list(assigned)))

        def on_partitions_revoked(self, revoked):
            heard.append(("revoked", list(revoked)))
            getattr(consumer, ends)()

    consumer = make()
    consumer.client.responses["Metadata"] = metadata(t=1, u=1)
    consumer.subscribe(["t"], listener=Listener())
    consumer.hooks.before_poll(0)
    consumer.subscribe(["u"], listener=Listener())
    consumer.hooks.before_poll(0)
    assert heard == [("assigned", [ZERO]), ("revoked", [ZERO])]
    assert ("assign", [TopicPartition("u", 0)]) not in consumer.calls


def test_polling_does_not_wait_for_metadata(make):
    consumer = make("t")
    held: list[Any] = []
    consumer.client.held = held
    assert consumer.hooks.before_poll(1000) is None
    assert consumer.hooks.before_poll(1000) is None
    assert len(held) == 1
    held[0].complete(metadata(t=1))
    assert consumer.calls[-1] == "reenter"
    consumer.hooks.before_poll(1000)
    assert consumer.assigned == [ZERO]


def test_the_core_hears_whether_topics_are_subscribed_to(make):
    consumer = make("t")
    assert ("subscribed", True) in consumer.calls
    consumer.unsubscribe()
    assert consumer.calls[-2:] == [("subscribed", False), ("assign", [])]


def test_unsubscribing_gives_everything_up(make):
    consumer = make("t")
    consumer.client.responses["Metadata"] = metadata(t=1)
    consumer.hooks.before_poll(0)
    consumer.unsubscribe()
    assert consumer.assigned == []
    assert consumer.subscription() is None
    consumer.assign([ONE])
    assert consumer.assigned == [ONE]


# ---------------------------------------------------------------- the client itself


def test_group_metadata_is_that_of_no_member(make):
    assert make().group_metadata() == ConsumerGroupMetadata()
    found = make(group_id="g", group_instance_id="i").group_metadata()
    assert found == ConsumerGroupMetadata("g", -1, "", "i")


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.commit(),
        lambda consumer: consumer.commit_async(),
        lambda consumer: consumer.committed(ZERO),
        lambda consumer: consumer.seek_to_committed(),
    ],
)
def test_commits_need_a_group(consumer, call):
    with pytest.raises(IllegalStateError, match="Requires group_id"):
        call(consumer)


def test_committed_wants_a_partition(make):
    with pytest.raises(TypeError):
        make(group_id="g").committed(("t", 0))


def test_closing_closes_what_the_user_gave(make):
    closed = []

    class Own(JsonSerializer):
        def close(self):
            closed.append(self)

    own = Own()
    consumer = make(value_deserializer=own)
    consumer.close(timeout_ms=500)
    consumer.close()
    assert closed == [own]
    assert consumer.calls == [("shutdown", 500)]


def test_metrics_are_grouped_or_flat_or_off(make):
    waited = {"commit-sync-time-ns-total": 0, "committed-time-ns-total": 0}
    assert make().metrics() == {"group": {"name": 1.0}, "consumer-metrics": waited}
    flat = {(each.group, each.name): at.value() for each, at in make().metrics(raw=True).items()}
    assert flat["group", "name"] == 1.0
    assert flat["consumer-metrics", "committed-time-ns-total"] == 0
    assert make(metrics_enabled=False).metrics() is None


def test_bootstrap_asks_again_only_if_told_to(make):
    consumer = make()
    consumer.bootstrap()
    assert consumer.client.requests == []
    consumer.client.responses["Metadata"] = metadata()
    consumer.bootstrap(timeout_ms=100, refresh=True)
    assert len(consumer.client.requests) == 1


def test_bad_options_open_nothing(fake):
    with pytest.raises(KafkaConfigurationError):
        fake.consumer.KafkaConsumer(nonsense=1)


def test_its_repr(make):
    text = repr(make(client_id="me", group_id="g"))
    assert text == "<KafkaConsumer client_id=me group_id=g>"
