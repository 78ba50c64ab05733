"""Interceptors of producers and consumers (KIP-42)."""

from __future__ import annotations

import logging
import threading
from decimal import Decimal
from typing import Any

import pytest

from tests.integration.support.clients import Clients, fill, read, read_more
from tests.integration.support.interceptors import Slow
from tests.integration.support.scripted import ScriptedBroker
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from tests.support.waiting import wait_until
from thalweg import (
    ConsumerInterceptor,
    KafkaProducer,
    OffsetAndMetadata,
    ProducerInterceptor,
    ProducerRecord,
    TopicPartition,
)
from thalweg._client import producing
from thalweg.errors import MessageSizeTooLargeError, RecordTooLargeError
from thalweg.interceptor import ClusterResourceListener
from thalweg.structs import ClusterResource

pytestmark = one_real_broker


class Tagging(ProducerInterceptor):
    """Adds its tag to values, and records the calls."""

    def __init__(self, tag: bytes = b"!") -> None:
        self.tag = tag
        self.configs: dict[str, Any] = {}
        self.acknowledged: list[tuple[Any, Any]] = []
        self.closed = False

    def configure(self, configs: Any) -> None:
        self.configs = dict(configs)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=record.value + self.tag)

    def on_acknowledgement(self, metadata: Any, exception: Any) -> None:
        self.acknowledged.append((metadata, exception))

    def close(self) -> None:
        self.closed = True


class Raising(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        raise RuntimeError("on_send is broken")

    def on_acknowledgement(self, metadata: Any, exception: Any) -> None:
        raise RuntimeError("on_acknowledgement is broken")


def test_a_chain_changes_records_in_order(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("chain")
    first, second = Tagging(b"-1"), Tagging(b"-2")
    with clients.producer(broker, interceptor_classes=[first, second]) as producer:
        producer.send(topic, b"value").get(20)
    assert [each.value for each in read(clients.consumer(broker, topic), 1)] == [b"value-1-2"]
    assert first.closed
    assert second.closed
    assert first.configs["linger_ms"] == 0


def test_rows_of_a_list_pass_through_one_by_one(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("rows")
    producer = clients.producer(broker, interceptor_classes=[Tagging()])
    producer.send_many(topic, [b"a", b"b"]).get(20)
    assert [each.value for each in read(clients.consumer(broker, topic), 2)] == [b"a!", b"b!"]


def test_interceptors_see_what_the_serializer_will(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("before")
    seen: list[Any] = []

    class Looking(ProducerInterceptor):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append(record)
            return record._replace(value=record.value * 2, headers=[("h", b"1")], timestamp_ms=9)

    producer = clients.producer(
        broker, value_serializer=lambda n: b"%d" % n, interceptor_classes=[Looking()]
    )
    producer.send(topic, 21, key=b"k", partition=0).get(20)
    assert seen == [ProducerRecord(topic, 21, b"k", None, 0, None)]
    (record,) = read(clients.consumer(broker, topic), 1)
    assert (record.value, record.headers, record.timestamp) == (b"42", [("h", b"1")], 9)


def test_one_that_raises_is_logged_and_skipped(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.create_topic("skipped")
    last = Tagging()
    producer = clients.producer(broker, interceptor_classes=[Tagging(), Raising(), last])
    with caplog.at_level(logging.ERROR, "thalweg"):
        assert producer.send(topic, b"value").get(20).offset == 0
        wait_until(lambda: last.acknowledged, 10)
    assert "on_send is broken" in caplog.text
    assert "on_acknowledgement is broken" in caplog.text
    assert [each.value for each in read(clients.consumer(broker, topic), 1)] == [b"value!!"]


def test_every_record_is_acknowledged_once(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("acknowledged", configs={"max.message.bytes": "5000"})
    seen = Tagging(b"")
    producer = clients.producer(broker, interceptor_classes=[seen], max_request_size=100_000)
    producer.send(topic, b"good")
    producer.send(topic, bytes(50_000))  # the broker refuses it
    with pytest.raises(RecordTooLargeError):
        producer.send(topic, bytes(200_000))  # never appended
    producer.flush(20)
    wait_until(lambda: len(seen.acknowledged) == 3, 10)
    kinds = {type(error) for _, error in seen.acknowledged}
    assert kinds == {type(None), MessageSizeTooLargeError, RecordTooLargeError}
    (metadata,) = [m for m, error in seen.acknowledged if error is None]
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)


def test_secrets_are_hidden_from_interceptors(embedded: Broker, clients: Clients) -> None:
    seen = Tagging()
    with pytest.warns(UserWarning, match="sasl_plain_password"):
        clients.producer(embedded, interceptor_classes=[seen], sasl_plain_password="hunter2")
    assert "hunter2" not in repr(seen.configs)


def test_listeners_hear_of_the_cluster_and_of_another_one(
    scripted: ScriptedBroker, clients: Clients
) -> None:
    heard: list[str] = []

    class Listens(ClusterResourceListener):
        def on_update(self, cluster_resource: ClusterResource) -> None:
            heard.append(cluster_resource.cluster_id)

    scripted.logs["t", 0] = []
    clients.consumer(scripted, "t", interceptor_classes=[Listens()], metadata_max_age_ms=100)
    wait_until(lambda: heard == ["scripted"], 10)
    scripted.cluster_id = "another"
    wait_until(lambda: heard == ["scripted", "another"], 10)
    clients.producer(scripted, metric_reporters=[Listens()], enable_idempotence=False)
    wait_until(lambda: heard == ["scripted", "another", "another"], 10)


class Dropping(ConsumerInterceptor):
    """Drops odd offsets, and records commits."""

    def __init__(self) -> None:
        self.commits: list[Any] = []
        self.closed = False

    def on_consume(self, records: Any) -> Any:
        return {
            where: [record for record in batch if record.offset % 2 == 0]
            for where, batch in records.items()
        }

    def on_commit(self, offsets: Any) -> None:
        self.commits.append(dict(offsets))

    def close(self) -> None:
        self.closed = True


class Broken(ConsumerInterceptor):
    def on_consume(self, records: Any) -> Any:
        raise RuntimeError("on_consume is broken")


def test_a_consumers_chain_changes_what_poll_returns(
    broker: Broker, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    topic = broker.create_topic("consume")
    fill(clients, broker, topic, 20)
    interceptor = Dropping()
    where = TopicPartition(topic, 0)
    group = f"group-of-{topic}"
    with clients.consumer(
        broker,
        topic,
        interceptor_classes=[Broken(), interceptor],
        group_id=group,
        enable_auto_commit=False,
    ) as consumer:
        with caplog.at_level(logging.ERROR, "thalweg"):
            assert [each.offset for each in read(consumer, 10)] == list(range(0, 20, 2))
        assert "on_consume is broken" in caplog.text
        assert consumer.position(where) == 20
        consumer.commit({where: OffsetAndMetadata(20)})
    assert interceptor.commits == [{where: OffsetAndMetadata(20)}]
    assert interceptor.closed


def test_iteration_passes_through_the_chain(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("iterated")
    fill(clients, broker, topic, 10)
    consumer = clients.consumer(broker, topic, interceptor_classes=[Dropping()])
    assert [next(consumer).offset for _ in range(5)] == [0, 2, 4, 6, 8]
    assert read_more(consumer) == []


class KeepingAll(ConsumerInterceptor):
    """Keeps every record except the last for itself."""

    def on_consume(self, records: Any) -> Any:
        return {
            where: [each for each in found if each.value == b"last"]
            for where, found in records.items()
        }

    def on_commit(self, offsets: Any) -> None:
        """Does nothing: nothing is committed here."""


def test_iteration_passes_over_many_records_that_are_kept(
    embedded: Broker, clients: Clients
) -> None:
    topic = embedded.create_topic("kept")
    producer = clients.producer(embedded, batch_size=131_072)
    producer.send_many(topic, [*[b"kept"] * 200_000, b"last"], partition=0).get(60)
    consumer = clients.consumer(embedded, topic, interceptor_classes=[KeepingAll()])
    assert next(consumer).offset == 200_000


def test_threads_that_close_a_producer_at_once_close_its_interceptor_once(
    embedded: Broker,
) -> None:
    closed = []

    class Counted(ProducerInterceptor):
        def close(self) -> None:
            closed.append(self)

    for number in range(1, 21):
        producer = KafkaProducer(
            bootstrap_servers=embedded.bootstrap_servers, interceptor_classes=[Counted()]
        )
        threads = [threading.Thread(target=producer.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert len(closed) == number


@pytest.mark.parametrize(
    "timeout",
    [None, 1.5, Decimal("1.5")],
    ids=["delivery timeout", "timeout of the close", "Decimal"],
)
def test_close_closes_interceptors_after_the_last_outcome(
    start_embedded: Any, monkeypatch: pytest.MonkeyPatch, timeout: Any
) -> None:
    monkeypatch.setattr(producing, "_CALLBACKS_GRACE_S", 30.0)  # a machine may pause
    embedded = start_embedded()
    embedded.create_topic("t")
    slow, errors = Slow(), list[Exception]()
    producer = KafkaProducer(
        bootstrap_servers=embedded.bootstrap_servers,
        interceptor_classes=[slow],
        request_timeout_ms=1_000,
        delivery_timeout_ms=1_500 if timeout is None else 60_000,
        linger_ms=0,
    )
    embedded.faults.on("Produce").then_silence(times=None)
    for _ in range(5):
        producer.send("t", b"v").add_errback(errors.append)
    producer.close(timeout)
    assert (slow.calls, len(errors)) == (["failed"] * 5 + ["closed"], 5)
