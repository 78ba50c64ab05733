"""help() of a client lists its options, and thalweg.typing has their types."""

from typing import Any, get_type_hints

import pytest

import thalweg.typing
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer
from thalweg._config.options import ROWS
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer

CLASSES = [
    (KafkaProducer, "p"),
    (KafkaConsumer, "c"),
    (KafkaAdminClient, "a"),
    (AIOKafkaProducer, "p"),
    (AIOKafkaConsumer, "c"),
]


@pytest.mark.parametrize("client, letter", CLASSES)
def test_help_lists_each_option_that_works_in_one_line(client: Any, letter: str) -> None:
    lines = client.__doc__.splitlines()
    listed = [line.strip().partition("=")[0] for line in lines if line.startswith("      ")]
    assert len(listed) == len(set(listed))
    unused = {"consumer_timeout_ms"} if client is AIOKafkaConsumer else set()
    works = {
        row.name
        for row in ROWS
        if letter in row.clients
        and row.refused is None
        and row.deprecated is None
        and not row.is_ignored(letter)
    }
    assert works - unused <= set(listed)
    assert not {row.name for row in ROWS if row.name not in works} & set(listed)
    assert not unused & set(listed)


def test_a_line_of_help_has_default_and_meaning() -> None:
    assert KafkaProducer.__doc__ is not None
    assert (
        "      linger_ms=5: How long a batch that is not full waits for more records\n"
        in KafkaProducer.__doc__
    )


def test_the_types_of_options_are_public() -> None:
    for name in thalweg.typing.__all__:
        letter = name[0].lower()
        hints = get_type_hints(getattr(thalweg.typing, name))
        expected = {row.name for row in ROWS if letter in row.clients}
        assert set(hints) == {each for each in expected if not each.endswith("serializer")}
