"""poll_arrow(): records as columns."""

from __future__ import annotations

from typing import Any

import pandas as pd  # type: ignore[import-untyped,unused-ignore]
import polars as pl
import pyarrow as pa
import pytest

from tests.integration.support.clients import Clients, fill, within
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.scale import scaled
from thalweg import RecordTable, TopicPartition
from thalweg.errors import IllegalStateError, WakeupError

pytestmark = one_real_broker

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("leader_epoch", pa.int32(), nullable=True),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def _types(schema: Any) -> list[tuple[str, str]]:
    """Returns names and types, without nested nullability and field names inside lists."""
    return [(f.name, str(f.type).replace("element", "item")) for f in schema]


def _plain(kind: str) -> str:
    return kind.replace(" not null", "")


def test_the_schema_is_the_documented_one_also_when_empty(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("schema")
    consumer = clients.consumer(broker, topic)
    empty = consumer.poll_arrow().to_pyarrow()
    assert empty.num_rows == 0
    producer = clients.producer(broker)
    producer.send(topic, b"v", b"k", [("h", b"1")]).get(20)
    full = consumer.poll_arrow(20_000).to_pyarrow()
    assert full.num_rows == 1
    assert empty.schema == full.schema
    wanted = [(name, _plain(kind)) for name, kind in _types(SCHEMA)]
    assert [(name, _plain(kind)) for name, kind in _types(full.schema)] == wanted


def test_columns_hold_what_was_sent(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("columns")
    producer = clients.producer(broker)
    producer.send(topic, b"a", b"k", [("h", b"1"), ("h", None)], timestamp_ms=1000)
    producer.send(topic, None, b"k2", timestamp_ms=2000)
    producer.send(topic, b"c", timestamp_ms=3000)
    producer.flush(20)
    table = clients.consumer(broker, topic).poll_arrow(20_000).to_pyarrow()
    assert table.column("topic").to_pylist() == [topic] * 3
    assert table.column("partition").to_pylist() == [0, 0, 0]
    assert table.column("offset").to_pylist() == [0, 1, 2]
    assert [each.timestamp() for each in table.column("timestamp").to_pylist()] == [1, 2, 3]
    assert table.column("timestamp_type").to_pylist() == [0, 0, 0]
    assert table.column("key").to_pylist() == [b"k", b"k2", None]
    assert table.column("value").to_pylist() == [b"a", None, b"c"]
    headers = table.column("headers").to_pylist()
    assert headers[0] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert headers[1:] == [None, None]


def test_everything_comes_once_and_in_order(broker: Broker, clients: Clients) -> None:
    count = scaled(1_000_000, minimum=2000)
    topic = broker.create_topic("whole", 3)
    producer = clients.producer(broker, linger_ms=5)
    for partition in range(3):
        values = [b"%d-%d" % (partition, number) for number in range(count // 3)]
        producer.send_many(topic, values, partition=partition).get(60)
    consumer = clients.consumer(broker, topic, range(3))
    found: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    while sum(map(len, found.values())) < count // 3 * 3:
        table = consumer.poll_arrow(20_000).to_pyarrow()
        assert table.num_rows
        for partition, value in zip(
            table.column("partition").to_pylist(), table.column("value").to_pylist(), strict=True
        ):
            found[partition].append(value)
    for partition in range(3):
        assert found[partition] == [b"%d-%d" % (partition, n) for n in range(count // 3)]
        assert consumer.position(TopicPartition(topic, partition)) == count // 3
    assert consumer.poll_arrow().num_rows == 0


def test_max_records_bounds_it_and_max_poll_records_does_not(
    broker: Broker, clients: Clients
) -> None:
    topic = broker.create_topic("bounds")
    fill(clients, broker, topic, 1000)
    consumer = clients.consumer(broker, topic, max_poll_records=10)
    first = consumer.poll_arrow(20_000, max_records=7)
    assert len(first) == first.num_rows == 7
    assert consumer.position(TopicPartition(topic, 0)) == 7
    assert consumer.poll_arrow(20_000).num_rows > 10


def test_max_bytes_bounds_it_but_for_one_record(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("bytes")
    producer = clients.producer(broker)
    producer.send_many(topic, [b"x" * 1000] * 100).get(20)
    consumer = clients.consumer(broker, topic)
    table = consumer.poll_arrow(20_000, max_bytes=10_000)
    assert 1 <= table.num_rows <= 10
    assert consumer.poll_arrow(20_000, max_bytes=1).num_rows == 1


def test_poll_and_poll_arrow_share_one_position(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("mixed")
    values = fill(clients, broker, topic, 300)
    consumer = clients.consumer(broker, topic)
    found: list[bytes | None] = []
    arrow = True
    while len(found) < 300:
        if arrow:
            table = consumer.poll_arrow(20_000, max_records=11).to_pyarrow()
            found += table.column("value").to_pylist()
        else:
            for records in consumer.poll(20_000, max_records=7).values():
                found += [record.value for record in records]
        arrow = not arrow
    assert found == values


def test_a_table_may_be_read_by_any_library_and_again(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("libraries")
    fill(clients, broker, topic, 3)
    table = clients.consumer(broker, topic).poll_arrow(20_000)
    values = [b"value-0", b"value-1", b"value-2"]
    assert pa.table(table).column("value").to_pylist() == values
    assert table.to_pyarrow().column("value").to_pylist() == values
    frame = table.to_polars()
    assert isinstance(frame, pl.DataFrame)
    assert frame["value"].to_list() == values
    pandas_frame = table.to_pandas()
    assert isinstance(pandas_frame, pd.DataFrame)
    assert list(pandas_frame["value"]) == values
    assert "value-0" in table._repr_html_()
    assert "3 records" in repr(table)
    assert table.nbytes > 0


def test_a_table_outlives_its_consumer(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("outlives")
    values = fill(clients, broker, topic, 500)
    consumer = clients.consumer(broker, topic)
    tables: list[RecordTable] = []
    while sum(each.num_rows for each in tables) < 500:
        tables.append(consumer.poll_arrow(20_000, max_records=50))
    consumer.close()
    found = [value for table in tables for value in table.to_pyarrow().column("value").to_pylist()]
    assert found == values


def test_it_waits_at_most_its_time(broker: Broker, clients: Clients) -> None:
    consumer = clients.consumer(broker, broker.create_topic("waiting"))
    with within(15, at_least_s=0.35):
        assert consumer.poll_arrow(400).num_rows == 0
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll_arrow(20_000)


def test_a_deserializer_has_no_columns(embedded: Broker, clients: Clients) -> None:
    consumer = clients.consumer(embedded, value_deserializer=bytes.decode)
    with pytest.raises(IllegalStateError, match="value_deserializer"):
        consumer.poll_arrow()
