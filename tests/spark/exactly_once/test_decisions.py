"""The stored form of decisions, and the options of the exactly-once sink."""

from __future__ import annotations

import random

import pytest

from thalweg.config import resolve
from thalweg.errors import KafkaConfigurationError
from thalweg.spark.exactly_once.decisions import Attempt, Decision, count, pack, unpack
from thalweg.spark.exactly_once.driver import for_one_write, plan
from thalweg.spark.exactly_once.tasks import producer_config
from thalweg.spark.options import parse_sink

QUERY = "7d3a1c2e-9a7e-4a5b-8f0e-000000000000"
GIVEN = {
    "kafka.bootstrap.servers": "localhost:9092",
    "topic": "t",
    "delivery.guarantee": "exactly-once",
    "transactional.id.prefix": "copy",
}


def attempts(number: int) -> tuple[Attempt, ...]:
    draw = random.Random(number)
    return tuple(
        Attempt(each, draw.randrange(4), draw.randrange(1 << 40), draw.randrange(1 << 15))
        for each in range(number)
    )


@pytest.mark.parametrize("number", [0, 1, 200, 5_000])
def test_what_is_packed_is_unpacked(number: int) -> None:
    decision = Decision(QUERY, 12, attempts(number))
    pieces = pack(decision)
    assert unpack(12, pieces) == decision
    assert {count(piece) for piece in pieces} == {len(pieces)}
    assert max(map(len, pieces)) <= 4096
    assert len(pieces) <= 1 + number // 150


@pytest.mark.parametrize(
    "piece",
    ["", "1", "2 0/1 q x", "1 0/0 q x", "1 0/x q x", "1 0/99999999999 q x", "metadata of another"],
)
def test_another_metadata_is_no_piece(piece: str) -> None:
    with pytest.raises(ValueError, match="another form"):
        count(piece)


def test_pieces_that_do_not_belong_together_are_refused() -> None:
    pieces = pack(Decision(QUERY, 1, attempts(1_000)))
    others = pack(Decision("another", 1, attempts(1_000)))
    for wrong in (pieces[:-1], pieces[::-1], [pieces[0], *others[1:]], [pieces[0], ""]):
        with pytest.raises(ValueError, match=r"missing|several queries"):
            unpack(1, wrong)


@pytest.mark.parametrize(
    "text",
    ["!", "AAAA", "eJwDAAAAAAE=", "eJyLjjbUMdIxjo0FAAvNAl8=", "eJyLjlZKVNIx0jHWMYmNBQAWigMz"],
)
def test_damaged_metadata_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack(1, [f"1 0/1 {QUERY} {text}"])


@pytest.mark.parametrize(
    "change, words",
    [
        ({"delivery.guarantee": "at-most-once"}, "must be at-least-once or exactly-once"),
        ({"transactional.id.prefix": " "}, "needs the option 'transactional.id.prefix'"),
        ({"topic": ""}, "needs the option 'delivery.decisionTopic'"),
        ({"delivery.lostTransactions": "ignore"}, "must be fail or skip"),
        ({"delivery.guarantee": "at-least-once"}, "needs delivery.guarantee=exactly-once"),
        ({"asyncProgressTrackingEnabled": "true"}, "omit asyncProgressTrackingEnabled"),
        ({"kafka.transaction.timeout.ms": "soon"}, "must be a positive whole number"),
    ],
)
def test_wrong_options_are_named(change: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_sink(GIVEN | change)


@pytest.mark.parametrize("name", ["transaction.timeout.ms", "transaction_timeout_ms"])
def test_the_timeout_may_have_both_of_its_names(name: str) -> None:
    options = parse_sink(GIVEN | {f"kafka.{name}": "60000"})
    config = resolve("p", producer_config(options, "copy-0-0"))
    assert config["transaction_timeout_ms"] == 60_000


@pytest.mark.parametrize(
    ("option", "value"), [("acks", "1"), ("enable.idempotence", "false"), ("retries", "0")]
)
def test_options_against_exactly_once_are_refused_on_the_driver(option: str, value: str) -> None:
    options = parse_sink(GIVEN | {f"kafka.{option}": value})
    for plans in (plan, for_one_write):
        with pytest.raises(KafkaConfigurationError, match=option.replace(".", "_")):
            plans(options)


def test_the_options_have_defaults() -> None:
    found = parse_sink(GIVEN).exactly_once
    assert found is not None
    assert (found.prefix, found.topic, found.timeout_ms, found.skips_lost) == (
        *("copy", "t"),
        900_000,
        False,
    )
    assert parse_sink({"kafka.bootstrap.servers": "x:1", "topic": "t"}).exactly_once is None
