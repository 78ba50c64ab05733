"""BatchBuilder: what it accepts, counts and refuses."""

import pytest

from thalweg.aio.batch import BatchBuilder


def test_a_batch_counts_the_bytes_that_kafka_writes():
    batch = BatchBuilder(16384)
    assert (batch.size(), batch.record_count(), batch.closed()) == (61, 0, False)
    taken = batch.append(timestamp=1_700_000_000_000, key=None, value=b"0123456789")
    # length, attributes, timestamp delta, offset delta, no key, value's length, value, no headers
    assert taken == (0, 1 + 1 + 1 + 1 + 1 + 1 + 10 + 1, 1_700_000_000_000, None)
    taken = batch.append(
        timestamp=1_700_000_000_300, key=b"k" * 100, value=None, headers=[("h", b"v"), ("n", None)]
    )
    body = 1 + 2 + 1 + (2 + 100) + 1 + 1 + (2 + 2) + (2 + 1)
    assert taken is not None
    assert taken.size == 2 + body
    assert batch.size() == 61 + 17 + 2 + body


def test_a_full_batch_takes_no_more_and_a_first_record_always_fits():
    batch = BatchBuilder(200)
    assert batch.append(timestamp=None, key=None, value=bytes(500)) is not None
    assert batch.append(timestamp=None, key=None, value=b"v") is None
    assert batch.closed()
    assert batch.record_count() == 1


def test_a_closed_batch_takes_nothing():
    batch = BatchBuilder(200)
    batch.close()
    batch.close()
    assert batch.append(timestamp=None, key=b"k", value=b"v") is None


def test_records_are_serialized_as_they_are_added():
    def serialize(topic, headers, key, value):
        headers.append(("by", b"serializer"))
        return key, value.encode()

    batch = BatchBuilder(200, serialize)
    assert batch.append(timestamp=5, key=None, value="text") is not None
    assert (batch.values, batch.headers) == ([b"text"], [[("by", b"serializer")]])


def test_what_is_no_record_is_refused():
    batch = BatchBuilder(200)
    with pytest.raises(ValueError, match="Need at least one"):
        batch.append(timestamp=None, key=None, value=None)
    with pytest.raises(TypeError, match="not str"):
        batch.append(timestamp=None, key=None, value="text")
    assert batch.record_count() == 0
