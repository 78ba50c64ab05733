"""The names of options: those of all dialects, and all of Kafka's with its defaults."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg import config as configuration
from thalweg._config.options import CLIENTS, ROWS
from thalweg.config import Config, options_of, resolve
from thalweg.errors import KafkaConfigurationError, KafkaError

# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "given",
    [
        {"linger_ms": 7},
        {"linger.ms": 7},
        {"linger.ms": "7"},
        {"queue.buffering.max.ms": "7"},
        {"linger_ms": 7.0},
    ],
)
def test_an_option_has_kafka_pythons_name_kafkas_and_librdkafkas(given):
    assert resolve("p", given)["linger_ms"] == 7


def test_every_name_of_an_option_leads_to_it_and_to_no_other():
    for client in CLIENTS:
        seen: dict[str, str] = {}
        for row in options_of(client).values():
            for name in {row.name, row.dotted or row.name, *row.aliases}:
                assert seen.setdefault(name, row.name) == row.name, name


def test_an_unknown_option_is_named_with_the_nearest_valid_name():
    assert one_problem("p", linger=5) == "unknown option 'linger' (did you mean 'linger_ms'?)"
    assert "'bootstrap.servers'" in one_problem("p", **{"bootstrap.server": "x"})
    assert "'auto_offset_reset'" in one_problem("c", auto_offest_reset="latest")


def test_an_option_of_another_client_is_named_as_such():
    text = one_problem("p", group_id="g")
    assert text == "'group_id' is an option of KafkaConsumer, not of KafkaProducer"


def test_all_problems_are_named_at_once_and_each_is_an_item():
    found = problems("p", linger=5, acks=7, buffer_memory="much", **{"batch.size": -1})
    assert len(found) == 4
    for name in ("linger", "acks", "buffer_memory", "batch_size"):
        assert any(name in each for each in found), name


def test_the_error_is_a_value_error_and_a_kafka_error():
    with pytest.raises(ValueError):
        resolve("a", {"nonsense": 1})
    assert issubclass(KafkaConfigurationError, KafkaError)


def test_one_option_under_two_names_must_have_one_value():
    assert resolve("p", {"linger_ms": 3, "linger.ms": 3})["linger_ms"] == 3
    text = one_problem("p", **{"linger_ms": 3, "linger.ms": 4})
    assert text == (
        "'linger_ms' and 'linger.ms' are names of the same option, with different values: set only"
        " one of them"
    )


# ---------------------------------------------------------------- compared with Kafka 4.3


def kafka_options() -> list[tuple[str, str, str]]:
    path = Path(__file__).parent / "data" / "kafka-4.3-options.tsv"
    rows = (line.split("\t") for line in path.read_text().splitlines() if line[0] != "#")
    return [(client, name, default) for client, name, _, default in rows]


# Kafka's options that thalweg does not have.
NOT_OURS = {
    "transaction.two.phase.commit.enable": "two-phase commit (KIP-939) is not offered",
}


def same(ours: Any, kafkas: str) -> bool:
    """Whether our default equals the one that Kafka prints."""
    known: dict[str, Any] = {"null": None, "true": True, "false": False, "all": -1, "[]": None}
    if kafkas in known:
        return bool(ours == known[kafkas]) or (kafkas == "[]" and not ours)
    if isinstance(ours, int) and not isinstance(ours, bool):
        return str(ours) == kafkas
    return str(ours if ours is not None else "") == kafkas


@pytest.mark.parametrize("client, name, default", kafka_options())
def test_every_option_of_kafka_is_ours_with_kafkas_default_or_a_reason(client, name, default):
    rows = [row for row in options_of(client).values() if row.dotted == name]
    if name in NOT_OURS:
        assert not rows
        assert name in one_problem(client, **{name: "x"})
        return
    if client == "a" and name == "retries":  # the admin client retries until its timeout
        return
    assert rows, f"{name} of {CLIENTS[client]} is neither in the table nor listed"
    row = rows[0]
    assert same(row.default, default) or row.differs, f"{name}: {row.default!r}, Kafka's {default}"


def test_a_reason_for_another_default_is_given_only_where_it_is_another():
    kafkas: dict[str, set[str]] = {}
    for _, name, default in kafka_options():
        kafkas.setdefault(name, set()).add(default)
    for row in ROWS:
        if row.differs and row.dotted in kafkas:
            assert not all(same(row.default, each) for each in kafkas[row.dotted]), row.name


def test_a_config_is_a_mapping_that_knows_what_was_given():
    found = resolve("p", {"linger.ms": 5, "acks": "all"})
    assert isinstance(found, Config)
    assert found.explicit == {"linger_ms", "acks"}
    assert configuration.Option is type(ROWS[0])
