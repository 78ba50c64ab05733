"""The options of a write that choose how often a row may arrive: `delivery.guarantee`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_TIMEOUT_MS: Final = 900_000  # the default of the brokers' transaction.max.timeout.ms
_GUARANTEES: Final = ("at-least-once", "exactly-once")
_LOST: Final = ("fail", "skip")
_OTHERS: Final = ("transactional.id.prefix", "delivery.decisionTopic", "delivery.lostTransactions")


@dataclass(frozen=True)
class ExactlyOnce:
    """The options of exactly-once delivery.

    Attributes:
        prefix: All transactional IDs of the query begin with it. A group also has this name.
        topic: The topic whose name the committed offsets of the decisions have.
        timeout_ms: The time after which the coordinator aborts a transaction.
        skips_lost: Whether the query continues after it has lost a decided transaction.
    """

    prefix: str
    topic: str
    timeout_ms: int
    skips_lost: bool


def parse_delivery(
    given: Mapping[str, str], topic: str | None, timeout_ms: str | None
) -> ExactlyOnce | None:
    """Returns the options of exactly-once delivery, or None for at-least-once.

    Args:
        given: All options of the write, with names in lower case.
        topic: The option `topic`.
        timeout_ms: The option `kafka.transaction.timeout.ms`.

    Raises:
        ValueError: If an option is missing or wrong.
    """
    guarantee = given.get("delivery.guarantee", _GUARANTEES[0]).strip().lower()
    if guarantee not in _GUARANTEES:
        raise ValueError(
            f"Option 'delivery.guarantee' must be {' or '.join(_GUARANTEES)}, got '{guarantee}'"
        )
    if guarantee == _GUARANTEES[0]:
        useless = [name for name in _OTHERS if name.lower() in given]
        if useless:
            raise ValueError(
                f"Option '{useless[0]}' needs delivery.guarantee=exactly-once: set that, or omit"
                f" '{useless[0]}'"
            )
        return None
    if given.get("asyncprogresstrackingenabled", "").strip().lower() == "true":
        raise ValueError(
            "delivery.guarantee=exactly-once needs a checkpoint of each micro-batch: omit"
            " asyncProgressTrackingEnabled"
        )
    prefix = given.get("transactional.id.prefix", "").strip()
    if not prefix:
        raise ValueError(
            "delivery.guarantee=exactly-once needs the option 'transactional.id.prefix': a name"
            " that no other query uses, and that stays the same when the query restarts"
        )
    where = given.get("delivery.decisiontopic", topic or "").strip()
    if not where:
        raise ValueError(
            "delivery.guarantee=exactly-once without the option 'topic' needs the option"
            " 'delivery.decisionTopic': an existing topic. The sink stores its decisions as"
            " committed offsets of this topic, and writes no records to it"
        )
    lost = given.get("delivery.losttransactions", _LOST[0]).strip().lower()
    if lost not in _LOST:
        raise ValueError(
            f"Option 'delivery.lostTransactions' must be {' or '.join(_LOST)}, got '{lost}'"
        )
    return ExactlyOnce(prefix, where, _milliseconds(timeout_ms), lost == "skip")


def _milliseconds(given: str | None) -> int:
    if given is None:
        return _TIMEOUT_MS
    if not re.fullmatch(r"\s*[1-9][0-9]{0,9}\s*", given):
        raise ValueError(
            f"kafka.transaction.timeout.ms must be a positive whole number, got '{given}'"
        )
    return int(given)
