"""The consumer protocol's bytes are those that Java writes and reads."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.coordinator.protocol import Assignment, Subscription
from thalweg.errors import KafkaProtocolError
from thalweg.structs import TopicPartition

NAMES = st.text("abcdefü.-_", min_size=1, max_size=8)
PARTITIONS = st.lists(st.builds(TopicPartition, NAMES, st.integers(0, 99)), max_size=6, unique=True)


def grouped(partitions):
    """Orders partitions as on the wire: by topic, in the order in which topics appear."""
    topics = list(dict.fromkeys(topic for topic, _ in partitions))
    return sorted(partitions, key=lambda each: topics.index(each.topic))


@given(
    st.integers(0, 3),
    st.lists(NAMES, max_size=5),
    st.none() | st.binary(max_size=9),
    PARTITIONS,
    st.integers(-1, 2**31 - 1),
    st.none() | NAMES,
)
def test_subscriptions_survive_the_wire_as_far_as_their_version_goes(
    version, topics, data, owned, generation, rack
):
    given_one = Subscription(version, topics, data, owned, generation, rack)
    found = Subscription.decode(given_one.encode())
    assert found.topics == sorted(topics)
    assert found.user_data == data
    assert found.owned_partitions == (sorted(owned) if version >= 1 else [])
    assert found.generation_id == (generation if version >= 2 else -1)
    assert found.rack_id == (rack if version >= 3 else None)


@given(st.integers(0, 3), PARTITIONS, st.none() | st.binary(max_size=9))
def test_assignments_survive_the_wire(version, partitions, data):
    given_one = Assignment(version, grouped(partitions), data)
    assert Assignment.decode(given_one.encode()) == given_one


def test_the_bytes_are_javas():
    # ConsumerProtocol sorts topics: serializeSubscription(new Subscription(List.of("foo", "bar"),
    #     ByteBuffer.wrap("hello".getBytes()), List.of(new TopicPartition("foo", 3)), 7,
    #     Optional.of("rack")), 3)
    expected = bytes.fromhex(
        "0003"  # version
        "00000002"
        "0003"
        "626172"
        "0003"
        "666f6f"  # topics
        "00000005"
        "68656c6c6f"  # user data
        "00000001"
        "0003"
        "666f6f"
        "00000001"
        "00000003"  # owned partitions
        "00000007"  # generation
        "0004"
        "7261636b"  # rack
    )
    partitions = [TopicPartition("foo", 3)]
    assert Subscription(3, ["foo", "bar"], b"hello", partitions, 7, "rack").encode() == expected


def test_fields_behind_the_known_ones_are_a_newer_versions():
    data = Subscription(3, ["t"]).encode() + b"more"
    assert Subscription.decode(data).topics == ["t"]


@given(st.binary(max_size=40))
def test_hostile_bytes_are_an_error_and_never_more(data):
    for kind in (Subscription, Assignment):
        with contextlib.suppress(KafkaProtocolError):
            kind.decode(data)


def test_a_name_that_is_no_utf_8_is_an_error():
    with pytest.raises(KafkaProtocolError, match="not valid UTF-8"):
        Subscription.decode(bytes.fromhex("0000 00000001 0001 ff"))


@pytest.mark.parametrize("data", [b"", b"\x00", bytes.fromhex("00007fffffff")])
def test_short_bytes_and_huge_counts_are_errors(data):
    with pytest.raises(KafkaProtocolError):
        Subscription.decode(data)
