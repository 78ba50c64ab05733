"""Options as the clients' constructors accept them. tests/unit checks the table itself."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.integration.support.clients import Clients, read, within
from tests.support.brokers import Broker
from tests.support.runs.selection import one_real_broker
from thalweg import (
    IgnoredOptionWarning,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
)
from thalweg.aio import AIOKafkaConsumer
from thalweg.errors import KafkaConfigurationError

CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]


@pytest.mark.parametrize("client", CLIENTS)
def test_all_problems_are_named_at_once_with_the_nearest_name(client: Any) -> None:
    with within(15), pytest.raises(KafkaConfigurationError) as caught:
        client(bootstrap_server="x", request_timeout_ms=-1, security_protocol="TLS", nonsense=1)
    text = str(caught.value)
    assert len(caught.value.problems) == 4
    for part in ("bootstrap_servers", "request_timeout_ms", "security_protocol", "nonsense"):
        assert part in text
    assert isinstance(caught.value, ValueError)


def test_an_option_of_another_client_is_told_apart() -> None:
    with pytest.raises(KafkaConfigurationError, match="KafkaConsumer"):
        KafkaProducer(group_id="g")  # type: ignore[call-overload]


@one_real_broker
def test_dotted_names_do_the_same(broker: Broker) -> None:
    topic = broker.create_topic("dotted")
    servers = broker.bootstrap_servers
    with KafkaProducer.from_config(
        {"bootstrap.servers": servers, "compression.type": "lz4", "linger.ms": "1", "acks": "all"}
    ) as producer:
        assert producer.send(topic, b"value").get(20).offset == 0
    config = {"bootstrap.servers": servers, "auto.offset.reset": "earliest"}
    with KafkaConsumer.from_config(config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert read(consumer, 1)[0].value == b"value"
    with KafkaAdminClient.from_config({"bootstrap.servers": servers}) as admin:
        assert topic in admin.list_topics()


@one_real_broker
def test_a_switch_without_effect_warns_and_the_client_works(broker: Broker) -> None:
    topic = broker.create_topic("ignored")
    with (
        pytest.warns(IgnoredOptionWarning, match="api_version"),
        KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, api_version=(2, 6, 0)
        ) as producer,
    ):
        assert producer.send(topic, b"value").get(20).offset == 0


def test_async_iteration_has_no_timeout() -> None:
    with pytest.warns(IgnoredOptionWarning, match="consumer_timeout_ms .* getmany"):
        AIOKafkaConsumer(consumer_timeout_ms=5)


@one_real_broker
@pytest.mark.parametrize("client", CLIENTS)
def test_credentials_without_sasl_warn_once_and_the_client_works(
    broker: Broker, client: Any
) -> None:
    with pytest.warns(IgnoredOptionWarning, match="sasl_mechanism, .*without effect") as caught:
        opened = client(
            bootstrap_servers=broker.bootstrap_servers,
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password="unused",
        )
    # The collector may tell of other tests' objects meanwhile.
    assert len([each for each in caught if each.category is IgnoredOptionWarning]) == 1
    opened.close()


@pytest.mark.parametrize("options", [{"acks": 1}, {"retries": 0}])
def test_idempotence_left_at_its_default_gives_way_with_a_warning(
    broker: Broker, options: Any
) -> None:
    """KIP-679: options that conflict with the default disable idempotence."""
    topic = broker.create_topic("givesway")
    with (
        pytest.warns(UserWarning, match="idempotence"),
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **options) as producer,
    ):
        assert producer.send(topic, b"value").get(20).offset == 0
    (batch,) = broker.wire.batches(topic, 0)
    assert batch.producer_id == -1


def test_producers_are_idempotent_by_default(broker: Broker) -> None:
    topic = broker.create_topic("bydefault")
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"a").get(20)
        producer.send(topic, b"b").get(20)
    first, second = broker.wire.batches(topic, 0)
    assert first.producer_id == second.producer_id >= 0
    assert (first.base_sequence, second.base_sequence) == (0, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"enable_idempotence": True, "acks": 1},
        {"enable_idempotence": True, "retries": 0},
        {"enable_idempotence": True, "max_in_flight_requests_per_connection": 6},
        {"delivery_timeout_ms": 10, "request_timeout_ms": 100},
        {"compression_type": "brotli"},
        {"compression_type": "gzip", "compression_level": 22},
        {"acks": 2},
        {"transactional_id": "t", "acks": 1},
        {"batch_size": -1},
    ],
)
def test_contradictions_open_nothing(options: Any) -> None:
    with warnings.catch_warnings(), within(15), pytest.raises(KafkaConfigurationError):
        KafkaProducer(bootstrap_servers="127.0.0.1:1", **options)


def test_secrets_are_in_no_message_and_no_repr(embedded: Broker) -> None:
    with pytest.raises(KafkaConfigurationError) as caught:
        KafkaProducer.from_config(
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "NTLM",
                "sasl_plain_username": "alice",
                "sasl_plain_password": "hunter2",
                "ssl_password": "hunter2",
                "acks": 7,
            }
        )
    assert "hunter2" not in str(caught.value)
    with (
        pytest.warns(UserWarning, match="sasl_plain_password"),
        KafkaProducer(
            bootstrap_servers=embedded.bootstrap_servers, sasl_plain_password="hunter2"
        ) as producer,
    ):
        assert "hunter2" not in repr(producer.config) + repr(producer)


@one_real_broker
def test_a_subclass_may_have_an_init_of_its_own(broker: Broker) -> None:
    class Mine(KafkaProducer[str, str]):
        def __init__(self, servers: str, topic: str) -> None:
            super().__init__(
                bootstrap_servers=servers, key_serializer=str.encode, value_serializer=str.encode
            )
            self.topic = topic

        def say(self, text: str) -> Any:
            return self.send(self.topic, text, key="key")

    topic = broker.create_topic("subclass")
    with Mine(broker.bootstrap_servers, topic) as producer:
        assert producer.say("hello").get(20).offset == 0


def test_client_ids_are_made_up_and_told_apart(embedded: Broker, clients: Clients) -> None:
    first, second = clients.producer(embedded), clients.producer(embedded, client_id="mine")
    assert first.config["client_id"].startswith("thalweg-producer-")
    assert second.config["client_id"] == "mine"
    assert "mine" in repr(second)


def test_a_message_larger_than_receive_message_max_bytes_is_refused(
    broker: Broker, clients: Clients
) -> None:
    """The client refuses before it allocates memory. A consumer's limit covers what it requests."""
    topic = broker.create_topic("receive")
    producer = clients.producer(broker)
    producer.send_many(topic, [bytes(10_000)] * 50).get(30)
    with pytest.warns(UserWarning, match="receive_message_max_bytes is raised"):
        consumer = clients.consumer(broker, topic, receive_message_max_bytes=1000)
    assert len(read(consumer, 50)) == 50
