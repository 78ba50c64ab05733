"""The choice of partitions to read: assign, subscribe or subscribePattern."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

_STRATEGIES = ("assign", "subscribe", "subscribepattern")


@dataclass(frozen=True)
class Strategy:
    """The choice of partitions, by exactly one of three options."""

    kind: Literal["assign", "subscribe", "subscribepattern"]
    assigned: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""

    def matches(self, topic: str) -> bool:
        """Returns whether the pattern matches the complete name, as Java's ``Matcher.matches``."""
        return re.fullmatch(self.pattern, topic) is not None

    def missing(self, partitions: Iterable[tuple[str, int]]) -> set[str]:
        """Returns the topics of the option ``subscribe`` that have none of the partitions."""
        return set(self.topics).difference(topic for topic, _ in partitions)


def parse_strategy(given: Mapping[str, str]) -> Strategy:
    """Reads the one option that names the partitions.

    Args:
        given: The options, with names in lower case.

    Raises:
        ValueError: If none or several of the options are given, or the value is wrong.
    """
    named = [name for name in _STRATEGIES if name in given]
    choices = "assign, subscribe, subscribePattern"
    if not named:
        raise ValueError(
            f"One of the following options must be specified for Kafka source: {choices}. "
            "See the docs for more details."
        )
    if len(named) > 1:
        raise ValueError(
            f"Only one of the following options can be specified for Kafka source: {choices}. "
            "See the docs for more details."
        )
    value = given[named[0]].strip()
    if named[0] == "assign":
        return Strategy("assign", assigned=_assigned(value))
    if named[0] == "subscribe":
        topics = tuple(topic for topic in (part.strip() for part in value.split(",")) if topic)
        if not topics:
            raise ValueError(
                "No topics to subscribe to as specified value for option 'subscribe' is "
                f"'{given['subscribe']}'"
            )
        return Strategy("subscribe", topics=topics)
    if not value:
        raise ValueError(
            "Pattern to subscribe is empty as specified value for option 'subscribePattern' is "
            f"'{given['subscribepattern']}'"
        )
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(
            f"Option 'subscribePattern' is not a regular expression: '{value}': {error}"
        ) from None
    return Strategy("subscribepattern", pattern=value)


def _assigned(value: str) -> tuple[tuple[str, int], ...]:
    if not value.startswith("{"):
        raise ValueError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{value}'"
        )
    hint = f'Option \'assign\': Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {value}'
    try:
        parsed = unique_json(value)
        pairs = sorted({(topic, partition_index(p)) for topic, ps in parsed.items() for p in ps})
    except (ValueError, TypeError, AttributeError):
        raise ValueError(hint) from None
    if not pairs:
        raise ValueError(
            f"No topicpartitions to assign as specified value for option 'assign' is '{value}'"
        )
    return tuple(pairs)


def partition_index(value: Any) -> int:
    """Returns a number that can be a partition's.

    Raises:
        ValueError: If it is not a whole number from 0 to 2**31 - 1.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(value)
    return value


def unique_json(text: str) -> Any:
    """Parses JSON, and refuses a duplicate name, whose first value would be lost."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError(pairs)
        return found

    return json.loads(text, object_pairs_hook=unique)
