"""Wrong arguments of constructors and calls are refused at once and named (on a fake core)."""

import functools
import inspect
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from thalweg._client import arguments
from thalweg.errors import IllegalStateError, InvalidTopicError
from thalweg.structs import OffsetAndMetadata, TopicPartition

ZERO, ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("other", 0)
NO_NAMES = ["", ".", "..", "a b", "é", "a/b", "a\n", "x" * 250]
CLIENTS = pytest.mark.parametrize(
    "part, name",
    [("producer", "KafkaProducer"), ("consumer", "KafkaConsumer"), ("admin", "KafkaAdminClient")],
)

A_PARTITION = "must be a TopicPartition(topic, partition), got"
PARTITIONS = "partitions must be a list of TopicPartition(topic, partition)"
OFFSETS = "offsets must be {TopicPartition: OffsetAndMetadata or int}"
MILLISECONDS = "timeout_ms must be a number of milliseconds"


@pytest.fixture
def consumer(fake) -> Iterator[Any]:
    with fake.consumer.KafkaConsumer(group_id="g", enable_auto_commit=False) as made:
        made.assign([ZERO, ONE])
        yield made


def check(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).endswith(text)


# ---------------------------------------------------------------- constructors


@pytest.fixture
def closed_core(fake, monkeypatch) -> Any:
    """The clients on a core that must not be opened, because it would connect."""

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("it connects")

    monkeypatch.setattr(fake.core.Producer, "_open", opened)
    monkeypatch.setattr(fake.core.Consumer, "_open", opened)
    monkeypatch.setattr(fake.core.Client, "__init__", opened)
    return fake


def test_named_tuples_of_kafka_python_and_aiokafka_are_taken():
    theirs = namedtuple("theirs", ["topic", "partition"])
    old = namedtuple("old", ["offset", "metadata"])
    other = namedtuple("other", ["topic", "number"])
    assert arguments.partition_given(theirs("t", 0)) == ZERO
    found = arguments.partitions_given([theirs("t", 0), ONE])
    assert found == [ZERO, ONE]
    assert {type(each) for each in found} == {TopicPartition}
    assert arguments.partitions_named((theirs("t", 0),)) == [ZERO]
    offsets = arguments.offsets_given({theirs("t", 0): old(5, "x")})
    assert offsets == {ZERO: OffsetAndMetadata(5, "x")}
    assert type(offsets[ZERO]) is OffsetAndMetadata
    numbers = arguments.offsets_given({ZERO: 5, ONE: (6, "x")})
    assert numbers == {ZERO: OffsetAndMetadata(5), ONE: OffsetAndMetadata(6, "x")}
    for wrong in (("t", 0), other("t", 0)):
        with pytest.raises(TypeError):
            arguments.partition_given(wrong)


@pytest.mark.parametrize("given", [{"pattern": "a.*"}, {"topics": None, "pattern": "a.*"}])
def test_a_pattern_needs_no_topics(consumer, given):
    consumer.unsubscribe()
    consumer.subscribe(**given)
    assert consumer.subscription() == set()


def test_an_empty_pattern_is_none(consumer):
    consumer.unsubscribe()
    consumer.subscribe(["t"], pattern="")
    assert consumer.subscription() == {"t"}
    with pytest.raises(ValueError, match="Must provide topics or pattern"):
        consumer.subscribe(pattern="")


def test_a_limit_may_be_infinite_and_must_be_a_number(consumer):
    consumer.commit({}, timeout_ms=float("inf"))
    with pytest.raises(ValueError, match="timeout_ms must be a number of milliseconds, got nan"):
        consumer.commit({ZERO: OffsetAndMetadata(1)}, timeout_ms=float("nan"))


@CLIENTS
def test_options_as_a_dict_are_refused_before_anything_is_opened(closed_core, part, name):
    options = {"bootstrap.servers": "nowhere:1", "sasl.password": "hunter2"}
    with pytest.raises(TypeError) as caught:
        getattr(getattr(closed_core, part), name)(options)
    assert f"{name}.from_config(options)" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "part, name", [("producer", "KafkaProducer"), ("admin", "KafkaAdminClient")]
)
def test_an_option_without_its_name_is_refused(closed_core, part, name):
    kind = getattr(getattr(closed_core, part), name)
    example = f"{name}(bootstrap_servers='host:9092')"
    text = f"{name} takes only keyword arguments, for example {example}, got str 'a:1'"
    check(lambda: kind("a:1"), TypeError, text)
    assert [each.kind.name for each in inspect.signature(kind).parameters.values()] == [
        "VAR_KEYWORD"
    ]


@pytest.mark.parametrize(
    "topics, error, text",
    [
        (["a", "b"], TypeError, "KafkaConsumer('a', 'b'), got list ['a', 'b']"),
        (5, TypeError, "a topic's name must be a str, got int 5"),
        ("a b", InvalidTopicError, "and not '.' or '..'"),
    ],
)
def test_what_is_no_topic_is_refused_before_a_consumer_is_opened(closed_core, topics, error, text):
    check(lambda: closed_core.consumer.KafkaConsumer(topics), error, text)


# ---------------------------------------------------------------- topics


@pytest.mark.parametrize("name", NO_NAMES, ids=ascii)
def test_a_name_that_no_topic_can_have_is_refused_with_the_rule(consumer, name):
    for call in (
        lambda: consumer.subscribe(["good", name]),
        lambda: consumer.assign([ZERO, TopicPartition(name, 0)]),
        lambda: consumer.end_offsets([TopicPartition(name, 0)]),
    ):
        with pytest.raises(InvalidTopicError) as caught:
            call()
        assert f"{name!r} is not a topic name: it must be 1 to 249" in str(caught.value)
    assert consumer.assignment() == {ZERO, ONE}


def test_the_longest_name_and_every_character_of_the_rule_are_taken(fake):
    with fake.consumer.KafkaConsumer() as consumer:
        consumer.subscribe(["x" * 249, "Az09._-", "..."])
        assert consumer.subscription() == {"x" * 249, "Az09._-", "..."}


# ---------------------------------------------------------------- calls of a consumer


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda c: c.poll("x"), TypeError, f"{MILLISECONDS}, got str 'x'"),
        (lambda c: c.poll(-1), ValueError, f"{MILLISECONDS}, 0 or more, got -1"),
        (lambda c: c.poll(float("nan")), ValueError, f"{MILLISECONDS}, 0 or more, got nan"),
        (lambda c: c.poll_arrow([]), TypeError, f"{MILLISECONDS}, got list []"),
        (lambda c: c.position(ZERO, "x"), TypeError, f"{MILLISECONDS}, got str 'x'"),
        (
            lambda c: c.poll(max_records="5"),
            TypeError,
            "max_records must be an int, 1 or more, got str '5'",
        ),
        (lambda c: c.poll(max_records=0), ValueError, "max_records must be at least 1, got 0"),
        (lambda c: c.poll_arrow(max_bytes=-1), ValueError, "max_bytes must be at least 1, got -1"),
    ],
)
def test_a_number_that_is_none_is_named(consumer, call, error, text):
    check(lambda: call(consumer), error, text)
    assert not [each for each in consumer.calls if each[0] in ("poll", "poll_arrow", "position")]


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda c: c.seek("t", 5), TypeError, f"partition {A_PARTITION} str 't'"),
        (lambda c: c.position("t"), TypeError, f"partition {A_PARTITION} str 't'"),
        (lambda c: c.highwater(None), TypeError, f"partition {A_PARTITION} None"),
        (lambda c: c.committed("t"), TypeError, f"partition {A_PARTITION} str 't'"),
        (lambda c: c.pause("t"), TypeError, f"each partition {A_PARTITION} str 't'"),
        (
            lambda c: c.resume([ZERO]),
            TypeError,
            "pass partitions as separate arguments, not as a list",
        ),
        (
            lambda c: c.seek_to_end([ZERO]),
            TypeError,
            "pass partitions as separate arguments, not as a list",
        ),
        (lambda c: c.assign("t"), TypeError, f"{PARTITIONS}, got str 't'"),
        (lambda c: c.assign(5), TypeError, f"{PARTITIONS}, got int 5"),
        (lambda c: c.assign([ZERO, "t"]), TypeError, f"{PARTITIONS}, but partitions[1] is str 't'"),
        (lambda c: c.assign(ZERO), TypeError, f"{PARTITIONS}, not one: use [{ZERO!r}]"),
        (lambda c: c.end_offsets(ZERO), TypeError, f"{PARTITIONS}, not one: use [{ZERO!r}]"),
        (
            lambda c: c.assign([TopicPartition._make(["t", "0"])]),
            TypeError,
            "the partition of topic t must be an int, got str '0'",
        ),
        (
            lambda c: c.assign([TopicPartition("t", -1)]),
            ValueError,
            "partition -1 of topic t: a partition is 0 or more",
        ),
        (
            lambda c: c.offsets_for_times("t"),
            TypeError,
            "timestamps must be {TopicPartition: milliseconds since 1970}, got str 't'",
        ),
        (
            lambda c: c.offsets_for_times({ZERO: "now"}),
            TypeError,
            "the target time of t-0 must be a number of milliseconds since 1970, got str 'now'",
        ),
    ],
)
def test_what_is_no_partition_is_named_with_what_is_expected(consumer, call, error, text):
    check(lambda: call(consumer), error, text)
    assert consumer.assignment() == {ZERO, ONE}


@pytest.mark.parametrize("offset", ["5", 1.5, None, True, -1])
def test_an_offset_that_is_none_is_named_with_its_partition(consumer, offset):
    with pytest.raises(ValueError, match=r"^the offset of t-0 must be an int, 0 or more, got "):
        consumer.seek(ZERO, offset)


def test_a_partition_that_is_not_assigned_is_named_with_those_that_are(consumer, fake):
    text = "partition other-0 is not assigned to this consumer, which has t-0, t-1"
    check(lambda: consumer.seek(OTHER, 5), ValueError, text)
    check(lambda: consumer.seek_to_end(OTHER), ValueError, text)
    check(lambda: consumer.position(OTHER), IllegalStateError, text)
    consumer.assign([TopicPartition("t", number) for number in range(9)])
    text = "which has t-0, t-1, t-2, t-3, t-4 and 4 more"
    check(lambda: consumer.position(OTHER), IllegalStateError, text)
    how = "or call subscribe() and then read records until the group assigns partitions"
    with fake.consumer.KafkaConsumer("t") as subscribed:  # has not polled yet
        check(lambda: subscribed.seek(ZERO, 0), ValueError, how)
        check(lambda: subscribed.seek_to_beginning(), ValueError, how)


@pytest.mark.parametrize(
    "given, text",
    [
        ({"topics": "t"}, "topics must be a list of str, not one str 't': use ['t']"),
        ({"topics": 5}, "topics must be a list of str, got int 5"),
        ({"topics": ["t", 5]}, "a topic's name must be a str, got int 5"),
        (
            {"pattern": 5},
            "pattern must be a str, a re.Pattern or a SubscriptionPattern, got int 5",
        ),
        (
            {"topics": ["t"], "listener": 5},
            "listener must be a ConsumerRebalanceListener, got int 5",
        ),
    ],
)
def test_what_cannot_be_subscribed_to_is_named(fake, given, text):
    with fake.consumer.KafkaConsumer() as consumer:
        check(lambda: consumer.subscribe(**given), TypeError, text)
        assert consumer.subscription() is None


@pytest.mark.parametrize(
    "given, error, text",
    [
        ("x", TypeError, f"{OFFSETS}, got str 'x'"),
        ({"t": 5}, TypeError, f"{OFFSETS}, but one key is str 't'"),
        ({ZERO: True}, TypeError, f"{OFFSETS}, but the value of t-0 is bool True"),
        ({ZERO: -1}, ValueError, "the offset of t-0 must not be negative, got -1"),
        ({ZERO: (1, "a", 2)}, TypeError, f"{OFFSETS}, but the value of t-0 is tuple (1, 'a', 2)"),
        ({ZERO: "5"}, TypeError, f"{OFFSETS}, but the value of t-0 is str '5'"),
        (
            {ZERO: OffsetAndMetadata._make(["5", "", -1])},
            TypeError,
            "the offset of t-0 must be an int, got str '5'",
        ),
        (
            {ZERO: OffsetAndMetadata(-1)},
            ValueError,
            "the offset of t-0 must not be negative, got -1",
        ),
    ],
)
def test_what_cannot_be_committed_is_named(consumer, given, error, text):
    for call in (consumer.commit, consumer.commit_async):
        check(functools.partial(call, given), error, text)
    assert consumer.client.requests == []


# ---------------------------------------------------------------- calls of a producer


def test_a_close_wants_seconds(fake):
    with fake.producer.KafkaProducer() as producer:
        text = "timeout must be a number of seconds, got str '5'"
        check(lambda: producer.close("5"), TypeError, text)
        assert producer.calls == []
