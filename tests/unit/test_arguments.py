"""Wrong arguments of constructors and calls: refused at once, and named (on a fake core)."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from thalweg.errors import InvalidTopicError

CLIENTS = pytest.mark.parametrize(
    "part, name",
    [("producer", "KafkaProducer"), ("consumer", "KafkaConsumer"), ("admin", "KafkaAdminClient")],
)


def check(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).endswith(text)


# ---------------------------------------------------------------- constructors


@pytest.fixture
def closed_core(fake, monkeypatch) -> Any:
    """The clients on a core that nobody may open: it would connect."""

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("it connects")

    monkeypatch.setattr(fake.core.Producer, "_open", opened)
    monkeypatch.setattr(fake.core.Consumer, "_open", opened)
    monkeypatch.setattr(fake.core.Client, "__init__", opened)
    return fake


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
    text = f"{name} takes keywords only, as in {name}(bootstrap_servers='host:9092'), got str 'a:1'"
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
