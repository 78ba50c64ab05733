"""ConsumerRecord behaves like kafka-python's namedtuple: the same assertions run on both."""

import copy
import pickle
from collections import namedtuple
from typing import Any

import pytest

from thalweg import ConsumerRecord as Native

FIELDS = (
    "topic",
    "partition",
    "leader_epoch",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "checksum",
    "serialized_key_size",
    "serialized_value_size",
    "serialized_header_size",
)
# As in kafka-python's kafka.consumer.fetcher.
ConsumerRecord = namedtuple("ConsumerRecord", FIELDS)  # type: ignore[misc]

VALUES: tuple[Any, ...] = (
    "t",
    3,
    7,
    42,
    1_700_000_000_000,
    0,
    b"k",
    b"v",
    [("h", b"1"), ("h", None)],
    None,
    1,
    1,
    3,
)


@pytest.fixture(params=[ConsumerRecord, Native], ids=["namedtuple", "native"])
def kind(request) -> Any:
    return request.param


def test_it_is_made_by_position_or_keyword(kind):
    record = kind(*VALUES)
    assert kind(**dict(zip(FIELDS, VALUES, strict=True))) == record
    assert kind(*VALUES[:5], **dict(zip(FIELDS[5:], VALUES[5:], strict=True))) == record


@pytest.mark.parametrize("count", [0, 12, 14])
def test_it_takes_all_fields_and_no_more(kind, count):
    with pytest.raises(TypeError):
        kind(*((*VALUES, 1))[:count])
    with pytest.raises(TypeError):
        kind(*VALUES, nonsense=1)


def test_its_fields_are_attributes(kind):
    record = kind(*VALUES)
    for name, value in zip(FIELDS, VALUES, strict=True):
        assert getattr(record, name) == value
    with pytest.raises(AttributeError):
        record.nonsense  # noqa: B018


@pytest.mark.parametrize("name", FIELDS)
def test_it_cannot_be_changed(kind, name):
    record = kind(*VALUES)
    with pytest.raises(AttributeError):
        setattr(record, name, 1)
    with pytest.raises(AttributeError):
        delattr(record, name)
    with pytest.raises(TypeError):
        record[0] = 1


def test_it_has_no_attributes_of_others(kind):
    with pytest.raises(AttributeError):
        kind(*VALUES).mine = 1


def test_it_is_indexed_and_sliced(kind):
    record = kind(*VALUES)
    assert [record[i] for i in range(13)] == list(VALUES)
    assert [record[i] for i in range(-13, 0)] == list(VALUES)
    assert record[3:6] == VALUES[3:6]
    assert record[::-1] == VALUES[::-1]
    assert type(record[:]) is tuple
    assert record[:] == VALUES
    for index in (13, -14):
        with pytest.raises(IndexError):
            record[index]
    with pytest.raises(TypeError):
        record["topic"]


def test_it_unpacks_and_iterates(kind):
    record = kind(*VALUES)
    topic, partition, *rest = record
    assert (topic, partition, len(rest)) == ("t", 3, 11)
    assert list(record) == list(VALUES)
    assert tuple(record) == VALUES
    assert len(record) == 13
    assert bool(record) is True


def test_it_is_searched(kind):
    record = kind(*VALUES)
    assert b"k" in record
    assert b"x" not in record
    assert record.index(42) == 3
    assert record.index(1, 11) == 11
    assert record.count(1) == 2
    for arguments in ((b"x",), (42, 4), ("t", 1, 5)):
        with pytest.raises(ValueError, match=r"x not in tuple|not in"):
            record.index(*arguments)


def test_it_adds_as_a_tuple(kind):
    assert kind(*VALUES) + (1,) == (*VALUES, 1)  # noqa: RUF005
    with pytest.raises(TypeError):
        kind(*VALUES) + [1]  # noqa: RUF005


def test_its_namedtuple_methods(kind):
    record = kind(*VALUES)
    assert record._fields == kind._fields == FIELDS
    assert record._asdict() == dict(zip(FIELDS, VALUES, strict=True))
    assert list(record._asdict()) == list(FIELDS)
    assert type(record._asdict()) is dict
    assert kind._field_defaults == {}
    assert kind._make(VALUES) == record
    assert kind._make(iter(VALUES)) == record
    with pytest.raises(TypeError):
        kind._make(VALUES[:5])
    changed = record._replace(value=b"new", offset=43)
    assert (changed.value, changed.offset, changed.key) == (b"new", 43, b"k")
    assert record.value == b"v"
    assert type(changed) is kind
    with pytest.raises((ValueError, TypeError)):
        record._replace(nonsense=1)


def test_it_equals_tuples_of_its_fields(kind):
    record = kind(*VALUES)
    assert record == kind(*VALUES)
    assert record == VALUES
    assert VALUES == record  # noqa: SIM300 (both ways)
    assert record != VALUES[:-1]
    assert record != kind(*VALUES[:-1], 4)
    assert record != list(VALUES)
    assert (record == 5) is False
    assert (record != 5) is True
    assert record == ConsumerRecord(*VALUES)
    assert ConsumerRecord(*VALUES) == record


def test_it_orders_as_tuples_do(kind):
    one, two = kind(*VALUES), kind(*VALUES[:3], 43, *VALUES[4:])
    assert one < two
    assert two > one
    assert one <= two
    assert two >= one
    assert one <= kind(*VALUES)
    assert one >= VALUES
    assert one < tuple(two)
    assert sorted([two, one]) == [one, two]
    assert max(one, two) is two
    with pytest.raises(TypeError):
        one < 5  # noqa: B015


def test_it_hashes_as_the_tuple_of_its_fields(kind):
    plain = (*VALUES[:8], None, *VALUES[9:])
    assert hash(kind(*plain)) == hash(plain)
    assert {kind(*plain): 1}[plain] == 1
    assert len({kind(*plain), kind(*plain)}) == 1
    # The headers are a list, so a record is not hashable, like a tuple with a list in it.
    with pytest.raises(TypeError, match="unhashable"):
        hash(kind(*VALUES))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_pickles(kind, protocol):
    record = kind(*VALUES)
    if kind is ConsumerRecord:  # pickle finds it by its name in this module
        assert pickle.loads(pickle.dumps(record, protocol)) == record
        return
    again = pickle.loads(pickle.dumps(record, protocol))
    assert again == record
    assert type(again) is kind


def test_it_copies(kind):
    record = kind(*VALUES)
    shallow, deep = copy.copy(record), copy.deepcopy(record)
    assert shallow == deep == record
    assert type(shallow) is type(deep) is kind
    assert deep.headers is not record.headers


def test_it_shows_its_fields(kind):
    expected = (
        "ConsumerRecord(topic='t', partition=3, leader_epoch=7, offset=42,"
        " timestamp=1700000000000, timestamp_type=0, key=b'k', value=b'v',"
        " headers=[('h', b'1'), ('h', None)], checksum=None, serialized_key_size=1,"
        " serialized_value_size=1, serialized_header_size=3)"
    )
    assert repr(kind(*VALUES)) == expected
    assert str(kind(*VALUES)) == expected
    assert kind.__name__ == "ConsumerRecord"


def test_it_is_matched_by_position_and_name(kind):
    assert kind.__match_args__ == FIELDS
    match kind(*VALUES):
        case kind(topic, partition, value=value):
            assert (topic, partition, value) == ("t", 3, b"v")
        case _:
            pytest.fail("did not match")


def test_any_object_may_be_a_key_or_value(kind):
    value = {"a": [1]}
    record = kind(*VALUES[:6], None, value, *VALUES[8:])
    assert record.value is value
    assert record.key is None


def test_headers_are_the_same_list_each_time(kind):
    record = kind(*VALUES)
    assert record.headers is record.headers
    assert record.headers == [("h", b"1"), ("h", None)]


def test_it_is_used_with_deserialized_types_in_annotations():
    assert Native[str, int] is not None
