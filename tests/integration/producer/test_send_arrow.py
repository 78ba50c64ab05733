"""send_arrow(): columns of any Arrow library, and back with poll_arrow()."""

from __future__ import annotations

import pickle
from array import array
from datetime import UTC, datetime
from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import polars as pl
import pyarrow as pa
import pytest

from tests.integration.support.clients import Clients, by_partition, read
from tests.integration.support.load import RECORDS, Numbers
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from thalweg import TopicPartition
from thalweg.errors import BatchSendError, IllegalStateError, RecordTooLargeError

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@one_real_broker
def test_all_columns_become_records(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("arrow", 2)
    table = pa.table(
        {
            "key": pa.array([b"1", None, b"3"], pa.binary()),
            "value": pa.array([b"a", b"b", None], pa.binary()),
            "partition": pa.array([1, 0, 1], pa.int32()),
            "timestamp": pa.array([1000, 2000, 3000], pa.timestamp("ms", "UTC")),
            "headers": pa.array(
                [[{"key": "h", "value": b"x"}, {"key": "h", "value": None}], None, []], HEADERS
            ),
        }
    )
    metadata = clients.producer(broker).send_arrow(topic, table).get(20)
    assert metadata.count == 3
    assert metadata.partitions == {
        TopicPartition(topic, 0): (1, 0, 0),
        TopicPartition(topic, 1): (2, 0, 1),
    }
    assert list(metadata.offsets) == [0, 0, 1]
    records = by_partition(read(clients.consumer(broker, topic, (0, 1)), 3))
    rows = [(r.key, r.value, r.timestamp, r.headers) for r in records[0] + records[1]]
    assert rows == [
        (None, b"b", 2000, []),
        (b"1", b"a", 1000, [("h", b"x"), ("h", None)]),
        (b"3", None, 3000, []),
    ]


@one_real_broker
def test_one_partition_for_all_rows_stands_for_their_column(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("arrowpartition", 3)
    producer = clients.producer(broker)
    values = pa.array([b"%d" % number for number in range(100)])
    metadata = producer.send_arrow(topic, pa.table({"value": values}), partition=2).get(20)
    assert metadata.partitions == {TopicPartition(topic, 2): (100, 0, 99)}
    elsewhere = pa.table({"value": values, "partition": pa.array([7] * 100)})
    metadata = producer.send_arrow(topic, elsewhere, 1).get(20)
    assert metadata.partitions == {TopicPartition(topic, 1): (100, 0, 99)}
    with pytest.raises(BatchSendError, match="3 partitions"):
        producer.send_arrow(topic, pa.table({"value": values}), partition=3).get(20)


@pytest.mark.parametrize(
    "partition, wrong", [(-1, ValueError), ("1", TypeError), ([0], TypeError), (2**31, ValueError)]
)
def test_a_partition_that_cannot_be_is_refused_before_anything_is_sent(
    embedded: Broker, clients: Clients, partition: Any, wrong: type[Exception]
) -> None:
    topic = embedded.create_topic("arrownopartition")
    producer = clients.producer(embedded)
    with pytest.raises(wrong, match="partition"):
        producer.send_arrow(topic, pa.table({"value": [b"a"]}), partition=partition)
    if wrong is ValueError and partition > 0:
        with pytest.raises(ValueError, match="partition"):
            producer.send_many(topic, [b"a"], partition=partition)
    producer.flush(5)
    assert embedded.wire.end_offsets(topic) == {0: 0}


def _dictionary(values: list[Any]) -> Any:
    return pa.array(values, pa.binary()).dictionary_encode()


@one_real_broker
@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([b"a", b"bb", None], pa.binary()), id="binary"),
        pytest.param(pa.array([b"a", b"bb", None], pa.large_binary()), id="large_binary"),
        pytest.param(pa.array([b"a", b"bb", None], pa.binary_view()), id="binary_view"),
        pytest.param(pa.array(["a", "bb", None], pa.string()), id="string"),
        pytest.param(pa.array(["a", "bb", None], pa.large_string()), id="large_string"),
        pytest.param(pa.array(["a", "bb", None], pa.string_view()), id="string_view"),
        pytest.param(_dictionary([b"a", b"bb", None]), id="dictionary"),
        pytest.param(pa.chunked_array([[b"a"], [b"bb", None]], pa.binary()), id="chunked"),
        pytest.param(pa.array([b"no", b"a", b"bb", None], pa.binary())[1:], id="sliced"),
    ],
)
def test_values_may_be_of_any_binary_or_text_type(
    broker: Broker, clients: Clients, column: Any
) -> None:
    topic = broker.create_topic("types")
    table = pa.table({"value": column, "key": pa.array([b"k"] * 3, pa.binary())})
    assert clients.producer(broker).send_arrow(topic, table).get(20).count == 3
    assert [r.value for r in read(clients.consumer(broker, topic), 3)] == [b"a", b"bb", None]


@pytest.mark.parametrize("unit, factor", [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_timestamps_may_be_of_any_unit(
    embedded: Broker, clients: Clients, unit: str, factor: int
) -> None:
    topic = embedded.create_topic("units")
    stamps = pa.array([1_700_000_000 * factor, None], pa.timestamp(unit))
    table = pa.table({"value": pa.array([b"a", b"b"]), "timestamp": stamps})
    before = int(datetime.now(UTC).timestamp() * 1000)
    clients.producer(embedded).send_arrow(topic, table).get(20)
    first, second = read(clients.consumer(embedded, topic), 2)
    assert first.timestamp == 1_700_000_000_000
    assert second.timestamp >= before


@one_real_broker
def test_record_batches_readers_and_polars_are_taken(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("sources")
    producer = clients.producer(broker)
    table = pa.table({"value": pa.array([b"a", b"b"])})
    sources: list[Any] = [
        table.to_batches()[0],
        table.to_reader(),
        pl.DataFrame({"value": [b"a", b"b"]}),
        pl.DataFrame({"value": ["a", "b"]}),
    ]
    for source in sources:
        assert producer.send_arrow(topic, source).get(20).count == 2
    values = [r.value for r in read(clients.consumer(broker, topic), 8)]
    assert values == [b"a", b"b"] * 4


@one_real_broker
def test_what_poll_arrow_gives_goes_to_another_topic(broker: Broker, clients: Clients) -> None:
    count = scaled(500_000, minimum=1000)
    source, target = broker.create_topic("source", 2), broker.create_topic("target", 2)
    producer = clients.producer(broker, linger_ms=5)
    for number in range(count):
        key = None if number % 3 else b"key-%d" % number
        headers = [("n", b"%d" % number)] if number % 4 == 0 else None
        producer.send(source, b"value-%d" % number, key, headers, number % 2, 1000 + number)
    producer.flush(60)
    consumer = clients.consumer(broker, source, (0, 1))
    copied = 0
    while copied < count:
        table = consumer.poll_arrow(timeout_ms=30_000)
        assert table.num_rows
        copied += producer.send_arrow(target, table).get(60).count
    assert copied == count
    copies = by_partition(read(clients.consumer(broker, target, (0, 1)), count))
    originals = by_partition(read(clients.consumer(broker, source, (0, 1)), count))

    def parts(record: Any) -> tuple[Any, ...]:
        return (record.offset, record.timestamp, record.key, record.value, record.headers)

    for partition in (0, 1):
        assert list(map(parts, copies[partition])) == list(map(parts, originals[partition]))


@one_real_broker
def test_keys_spread_rows_as_single_sends_do(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("arrowkeys", 7)
    producer = clients.producer(broker)
    keys = [b"key-%d" % number for number in range(100)]
    single = [producer.send(topic, b"single", key=key).get(20).partition for key in keys]
    table = pa.table({"value": pa.array([b"arrow"] * 100), "key": pa.array(keys)})
    producer.send_arrow(topic, table).get(20)
    records = read(clients.consumer(broker, topic, range(7)), 200)
    placed = {each.key: each.partition for each in records if each.value == b"arrow"}
    assert placed == dict(zip(keys, single, strict=True))


@pytest.mark.parametrize(
    "table, named",
    [
        ({"value": [b"a"], "colour": [b"red"]}, "colour"),
        ({"value": [1.5]}, "value"),
        ({"value": [b"a"], "key": [7]}, "key"),
        ({"value": [b"a"], "partition": ["one"]}, "partition"),
        ({"value": [b"a"], "headers": [[b"x"]]}, "headers"),
        ({"value": [b"a"], "timestamp": ["noon"]}, "timestamp"),
    ],
)
def test_a_wrong_column_is_named_before_anything_is_sent(
    embedded: Broker, clients: Clients, table: dict[str, Any], named: str
) -> None:
    topic = embedded.create_topic("wrong")
    producer = clients.producer(embedded)
    with pytest.raises((ValueError, TypeError), match=named):
        producer.send_arrow(topic, pa.table(table)).get(20)
    producer.flush(5)
    assert embedded.wire.end_offsets(topic) == {0: 0}


def test_the_index_of_a_filtered_frame_is_not_sent(embedded: Broker, clients: Clients) -> None:
    topic = embedded.create_topic("index")
    frame = pd.DataFrame({"value": ["a", "b", "c"]})
    clients.producer(embedded).send_arrow(topic, frame[frame["value"] > "a"]).get(20)
    consumer = clients.consumer(embedded, topic, auto_offset_reset="earliest")
    assert [record.value for record in read(consumer, 2)] == [b"b", b"c"]


def test_a_row_of_a_time_before_1970_is_named_and_nothing_is_sent(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("early")
    producer = clients.producer(embedded)
    times = pa.array([0, -5], pa.timestamp("ms"))
    with pytest.raises(ValueError, match=r'^row 1: column "timestamp": -5 is negative$'):
        producer.send_arrow(topic, pa.table({"value": [b"a", b"b"], "timestamp": times}))
    producer.flush(5)
    assert embedded.wire.end_offsets(topic) == {0: 0}


def test_what_is_no_arrow_is_a_type_error(embedded: Broker, clients: Clients) -> None:
    producer = clients.producer(embedded)
    for data in ([b"a"], {"value": [b"a"]}, b"bytes", None, pa.array([b"a"])):
        with pytest.raises(TypeError):
            producer.send_arrow("t", data)


def test_a_row_that_is_null_as_a_whole_is_named(embedded: Broker, clients: Clients) -> None:
    producer = clients.producer(embedded)
    rows = pa.array([{"value": b"a"}, None], pa.struct([("value", pa.binary())]))
    with pytest.raises(ValueError, match="row 1 is null"):
        producer.send_arrow("t", rows)


def test_a_serializer_has_no_columns(embedded: Broker, clients: Clients) -> None:
    producer = clients.producer(embedded, value_serializer=str.encode)
    with pytest.raises(IllegalStateError, match="serializer"):
        producer.send_arrow("t", pa.table({"value": ["a"]}))


@one_real_broker
def test_rows_that_are_too_large_are_named(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("large")
    producer = clients.producer(broker, max_request_size=10_000)
    table = pa.table({"value": pa.array([b"a", b"x" * 20_000, b"b"])})
    with pytest.raises(BatchSendError) as caught:
        producer.send_arrow(topic, table).get(20)
    ((row, error),) = caught.value.errors
    assert row == 1
    assert isinstance(error, RecordTooLargeError)
    assert list(caught.value.metadata.offsets) == [0, -1, 1]
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.errors == caught.value.errors
    assert list(again.metadata.offsets) == [0, -1, 1]
    assert again.metadata.partitions == caught.value.metadata.partitions


def test_an_empty_table_is_done_at_once(embedded: Broker, clients: Clients) -> None:
    topic = embedded.create_topic("nothing")
    empty = pa.table({"value": pa.array([], pa.binary())})
    assert clients.producer(embedded).send_arrow(topic, empty).get(5).count == 0


def test_columns_survive_a_broker_that_fails(start_embedded: Any, clients: Clients) -> None:
    broker = start_embedded()
    broker.create_topic("failing")
    producer = clients.producer(broker)
    table = pa.table({"value": pa.array([b"%d" % number for number in range(RECORDS)])})
    with broker.faults.on("Produce").apply_then_disconnect(times=5) as fault:
        metadata = producer.send_arrow("failing", table).get(60)
        assert fault.hits == 5
    assert metadata.count == RECORDS
    # -1: the broker forgot the offset of a batch that it had written before.
    assert all(offset in (at, -1) for at, offset in enumerate(metadata.offsets))
    assert max(metadata.offsets) >= 0, "no row has its offset"
    log, consumer = Numbers(), clients.consumer(broker, "failing")
    log.read(consumer, RECORDS)
    log.read_more(consumer)
    log.check(0, array("q", range(RECORDS)))


class Given:
    """Returns capsules that were made before."""

    def __init__(self, **capsules: Any) -> None:
        for name, capsule in capsules.items():
            setattr(self, name, lambda requested_schema=None, capsule=capsule: capsule)


def test_what_is_released_is_refused(embedded: Broker, clients: Clients) -> None:
    producer, topic = clients.producer(embedded), embedded.create_topic("released")
    table = pa.table({"value": pa.array([b"a"])})
    stream = Given(__arrow_c_stream__=table.__arrow_c_stream__())
    array = Given(__arrow_c_array__=table.to_batches()[0].__arrow_c_array__())
    for given in (stream, array):
        assert producer.send_arrow(topic, given).get(20).count == 1
        with pytest.raises(ValueError, match="already released"):
            producer.send_arrow(topic, given)


@pytest.mark.parametrize(
    "given, error",
    [
        pytest.param(Given(__arrow_c_stream__=b"no capsule"), TypeError, id="no capsule"),
        pytest.param(Given(__arrow_c_array__=3), TypeError, id="no pair"),
        pytest.param(
            Given(__arrow_c_stream__=pa.int32().__arrow_c_schema__()), ValueError, id="other name"
        ),
        pytest.param(pa.array([1, 2]), TypeError, id="no table"),
    ],
)
def test_what_is_no_table_is_refused(
    embedded: Broker, clients: Clients, given: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        clients.producer(embedded).send_arrow(embedded.create_topic("no-table"), given)


def _bytes_at(offsets: list[int]) -> Any:
    """Makes two values whose bytes are at the given offsets."""
    buffers = [None, pa.py_buffer(array("i", offsets)), pa.py_buffer(b"abcdef")]
    return pa.Array.from_buffers(pa.binary(), 2, buffers)


def _text(data: bytes) -> Any:
    buffers = [None, pa.py_buffer(array("i", [0, len(data)])), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), 1, buffers)


def _key_of_nothing() -> Any:
    keys = pa.array([0, 7], pa.int8())
    return pa.DictionaryArray.from_arrays(keys, pa.array([b"a"]), safe=False)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(_bytes_at([0, 5, 3]), id="offsets that fall"),
        pytest.param(_bytes_at([0, 900, 6]), id="an offset beyond the data"),
        pytest.param(_text(b"\xff\xfe"), id="text that is none"),
        pytest.param(_key_of_nothing(), id="a key without a value"),
    ],
)
def test_malformed_columns_are_refused(embedded: Broker, clients: Clients, column: Any) -> None:
    producer, topic = clients.producer(embedded), embedded.create_topic("malformed")
    batch = pa.RecordBatch.from_arrays([column], ["value"])
    for table in (batch, pa.Table.from_batches([batch])):
        with pytest.raises(ValueError):
            producer.send_arrow(topic, table)
    # Nothing was appended, and the producer still works.
    assert producer.send(topic, b"value").get(20).offset == 0
