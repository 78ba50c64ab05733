"""help() of a client lists its options, and thalweg.typing has their types."""

import pydoc
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import thalweg.typing
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer
from thalweg._config.options import GROUPS, ROWS, Option
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer

CLASSES = [
    (KafkaProducer, "p"),
    (KafkaConsumer, "c"),
    (KafkaAdminClient, "a"),
    (AIOKafkaProducer, "p"),
    (AIOKafkaConsumer, "c"),
]
HEADING = "Options, with their defaults:"
COLUMNS_MAX = 100


def listed(client: Any) -> dict[str, dict[str, str]]:
    """Reads help(): {group: {option: the line after its name}}."""
    _, _, text = client.__doc__.partition(HEADING)
    found: dict[str, dict[str, str]] = {}
    title = ""
    for line in filter(str.strip, text.splitlines()):
        if line.startswith("      "):
            name, _, rest = line.strip().partition("=")
            found[title][name] = rest
        else:
            title = line.strip()
            found[title] = {}
    return found


def works(row: Option, letter: str) -> bool:
    useless = row.refused is not None or row.deprecated is not None or row.is_ignored(letter)
    return letter in row.clients and not useless


@pytest.mark.parametrize("client, letter", CLASSES)
def test_help_lists_what_the_table_has_in_its_groups_and_order(client: Any, letter: str) -> None:
    unused = {"consumer_timeout_ms"} if client is AIOKafkaConsumer else set()
    expected = {
        title: [row.name for row in rows if works(row, letter) and row.name not in unused]
        for title, rows in GROUPS
    }
    found = {title: list(rows) for title, rows in listed(client).items()}
    assert list(found.items()) == [(title, names) for title, names in expected.items() if names]


@pytest.mark.parametrize("client, letter", CLASSES)
def test_a_line_of_help_has_default_and_meaning(client: Any, letter: str) -> None:
    rows = {row.name: row for row in ROWS if letter in row.clients}
    for lines in listed(client).values():
        for name, line in lines.items():
            default, _, meaning = line.partition(": ")
            assert meaning == rows[name].summary
            if rows[name].kind not in ("list", "servers"):
                assert default == repr(rows[name].default)


def test_help_shows_the_lines() -> None:
    text = pydoc.plain(pydoc.render_doc(KafkaConsumer))
    servers = "bootstrap_servers='localhost:9092': Addresses of brokers, as 'host:port,host:port'"
    assert f" |    {servers} or a list\n" in text
    assignors = "partition_assignment_strategy='range,cooperative-sticky': Assignors in order"
    assert f" |    {assignors} of preference\n" in text


def test_a_line_of_help_fits_on_a_line() -> None:
    for client, _ in CLASSES:
        assert [line for line in str(client.__doc__).splitlines() if len(line) > COLUMNS_MAX] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_option_says_in_one_sentence_what_it_is(row: Option) -> None:
    assert row.doc.endswith(".")
    assert row.summary[:1].isupper()
    assert len(row.summary.split()) >= 2


@pytest.mark.parametrize(
    "name, letter, more",
    [
        ("ProducerConfig", "p", set()),
        ("ConsumerConfig", "c", set()),
        ("AdminConfig", "a", set()),
        ("AIOProducerConfig", "p", {"loop", "max_batch_size"}),
        ("AIOConsumerConfig", "c", {"loop"}),
    ],
)
def test_the_types_of_options_are_public(name: str, letter: str, more: set[str]) -> None:
    hints = get_type_hints(getattr(thalweg.typing, name))
    expected = {row.name for row in ROWS if letter in row.clients} | more
    assert set(hints) == {each for each in expected if not each.endswith("serializer")}


def test_the_type_of_secrets_is_public() -> None:
    hints = get_type_hints(thalweg.typing.ProducerConfig)
    assert hints["sasl_plain_password"] == thalweg.typing.SecretText | None


def test_options_with_few_values_have_a_public_literal() -> None:
    literals = {name for name in thalweg.typing.__all__ if not name.endswith("Config")}
    literals.remove("SecretText")
    rows = {"".join(map(str.capitalize, row.name.split("_"))): row for row in ROWS}
    for name in literals:
        assert get_origin(getattr(thalweg.typing, name)) is Literal
        if rows[name].choices:
            assert get_args(getattr(thalweg.typing, name)) == rows[name].choices
    assert literals == {name for name, row in rows.items() if row.choices or name == "Acks"}
