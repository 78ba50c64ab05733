"""KafkaProducer: how options, hooks and calls reach the core (on a fake core)."""

from dataclasses import dataclass
from typing import Any

import pytest

from thalweg.errors import KafkaConfigurationError, KafkaError
from thalweg.interceptor import ProducerInterceptor
from thalweg.partitioner import DefaultPartitioner, Partitioner
from thalweg.serializer import JsonSerializer, Serializer


@pytest.fixture
def make(fake) -> Any:
    made: list[Any] = []

    def call(**configs: Any) -> Any:
        made.append(fake.producer.KafkaProducer(**configs))
        return made[-1]

    yield call
    for each in made:
        each.close()


def test_without_python_code_there_are_no_hooks(make):
    assert make().hooks is None
    assert make(partitioner=DefaultPartitioner()).hooks is None
    assert make(interceptor_classes=[]).hooks is None


def test_send_is_the_cores_own(fake):
    for name in ("send", "send_many", "send_arrow", "flush", "partitions_for"):
        assert name not in vars(fake.producer.KafkaProducer)


def test_the_core_is_told_canonical_options_only(make):
    producer = make(**{"bootstrap.servers": "a:1,b", "linger.ms": "7", "acks": "all"})
    assert producer.core_config["bootstrap_servers"] == [("a", 1), ("b", 9092)]
    assert producer.core_config["linger_ms"] == 7
    assert not any(name.endswith("_serializer") for name in producer.core_config)
    assert producer.config["linger_ms"] == 7


def test_from_config_takes_a_mapping(fake):
    with fake.producer.KafkaProducer.from_config({"bootstrap.servers": "a:1"}) as producer:
        assert producer.core_config["bootstrap_servers"] == [("a", 1)]


def test_producers_without_client_id_get_numbered_ones(make):
    first, second = make(), make()
    assert first.config["client_id"].startswith("thalweg-producer-")
    assert first.config["client_id"] != second.config["client_id"]
    assert make(client_id="mine").core_config["client_id"] == "mine"


def test_key_and_value_are_serialized_in_this_order_with_the_headers(make):
    seen = []

    class Own(Serializer[Any]):
        def __init__(self, name: str) -> None:
            self.name = name

        def serialize(self, topic, headers, data):
            seen.append((self.name, topic, data))
            headers.append((self.name, b""))
            return str(data).encode()

    producer = make(key_serializer=Own("key"), value_serializer=Own("value"))
    headers: list[tuple[str, bytes]] = []
    assert producer.hooks.serialize("t", headers, 1, 2) == (b"1", b"2")
    assert seen == [("key", "t", 1), ("value", "t", 2)]
    assert [name for name, _ in headers] == ["key", "value"]


def test_one_serializer_leaves_the_other_side_alone(make):
    assert make(value_serializer=JsonSerializer()).hooks.serialize("t", [], b"k", [1]) == (
        b"k",
        b"[1]",
    )
    assert make(key_serializer=str.encode).hooks.serialize("t", [], "k", b"v") == (b"k", b"v")


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_serializer_that_raises_says_which_and_for_which_topic(make, part):
    def bad(data: Any) -> bytes:
        raise KeyError("x")

    producer = make(**{f"{part}_serializer": bad})
    with pytest.raises(KeyError) as caught:
        producer.hooks.serialize("t", [], b"k", b"v")
    assert caught.value.__notes__ == [f"while serializing the {part} of a record for topic 't'"]


def test_an_exception_that_takes_no_notes_reaches_the_caller_unchanged(make):
    @dataclass(frozen=True)
    class FrozenError(Exception):
        text: str

    def bad(data: Any) -> bytes:
        raise FrozenError("x")

    with pytest.raises(FrozenError):
        make(value_serializer=bad).hooks.serialize("t", [], b"k", b"v")


def test_a_partitioner_of_the_users_own_is_a_hook_and_its_batch_callback_too(make):
    class Own(Partitioner):
        def partition(self, topic, key, serialized_key, value, serialized_value, cluster):
            return 1

        def on_new_batch(self, topic, cluster, prev_partition):
            pass

    own = Own()
    hooks = make(partitioner=own).hooks
    assert hooks.partition == own.partition
    assert hooks.on_new_batch == own.on_new_batch
    assert hooks.serialize is None

    def plain(key: Any, all_partitions: Any, available: Any) -> int:
        return 0

    hooks = make(partitioner=plain).hooks
    assert hooks.partition is not None
    assert hooks.on_new_batch is None


def test_interceptors_are_configured_without_secrets_and_become_hooks(make):
    class Own(ProducerInterceptor):
        def configure(self, configs):
            self.configs = configs

        def on_send(self, record):
            return record._replace(value=b"x")

        def on_acknowledgement(self, metadata, exception):
            pass

    own = Own()
    producer = make(
        interceptor_classes=[own],
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_plain_username="u",
        sasl_plain_password="hunter2",
    )
    assert own.configs["sasl_plain_password"] == "<hidden>"
    assert "hunter2" not in repr(own.configs)
    assert producer.hooks.on_send is not None
    assert producer.hooks.on_acknowledgement is not None


def test_closing_closes_what_the_user_gave_once_even_if_one_raises(make, caplog):
    closed = []

    class Own(JsonSerializer):
        def close(self):
            closed.append(self)
            raise ValueError("no")

    key, value = Own(), Own()
    producer = make(key_serializer=key, value_serializer=value)
    producer.close(timeout=3)
    producer.close()
    assert closed == [key, value]
    assert producer.calls[0] == ("close", 3)
    assert "raised" in caplog.text


def test_a_close_that_fails_closes_what_the_user_gave(fake, monkeypatch):
    closed = []

    class Own(JsonSerializer):
        def close(self):
            closed.append(self)

    def fails(self, timeout=None):
        self.closed = True
        raise KafkaError("the client failed")

    monkeypatch.setattr(fake.core.Producer, "close", fails)
    producer = fake.producer.KafkaProducer(value_serializer=Own())
    with pytest.raises(KafkaError, match="the client failed"):
        producer.close()
    assert len(closed) == 1


def test_a_negative_timeout_is_refused(make):
    with pytest.raises(ValueError, match="timeout must be a number of seconds, 0 or more, got -1"):
        make().close(timeout=-1)


def test_a_with_block_closes(fake):
    with fake.producer.KafkaProducer() as producer:
        assert not producer.closed
    assert producer.closed


def test_a_producer_that_was_forgotten_warns_and_is_closed(fake):
    made = [fake.producer.KafkaProducer(client_id="forgotten")]
    calls = made[0].calls
    with pytest.warns(ResourceWarning, match="forgotten"):
        made.clear()
    assert calls == [("close", 1.0)]


def test_metrics_are_grouped_or_flat_or_off(make):
    assert make().metrics() == {"group": {"name": 1.0}}
    (flat,) = make().metrics(raw=True).items()
    assert (flat[0].group, flat[0].name, flat[1].value()) == ("group", "name", 1.0)
    assert make(metrics_enabled=False).metrics() is None


def test_a_subclass_may_have_a_constructor_of_its_own(fake):
    class Mine(fake.producer.KafkaProducer):  # type: ignore[misc, name-defined]
        def __init__(self, where):
            super().__init__(bootstrap_servers=where)

    with Mine("a:1") as producer:
        assert producer.core_config["bootstrap_servers"] == [("a", 1)]


def test_bad_options_open_nothing(fake):
    with pytest.raises(KafkaConfigurationError):
        fake.producer.KafkaProducer(nonsense=1)


def test_its_repr_shows_its_name_and_no_secret(make):
    assert repr(make(client_id="me")) == "<KafkaProducer client_id=me transactional_id=None>"


def test_kafka_python_2s_magic(fake):
    magic = fake.producer.KafkaProducer.max_usable_produce_magic
    assert [magic(version) for version in ((0, 9), (0, 10, 1), (0, 11), (4, 3))] == [0, 1, 2, 2]
