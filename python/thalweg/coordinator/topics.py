"""Evaluates a Metadata response for the topics that a consumer looks for.

    Wanted ──┐
    Known ───┴─ Metadata ──> look() ──> Look: found, doubtful and missing topics

Each step is linear in the topics of the response, or sorts them: there may be 50,000 topics.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from thalweg.errors import (
    InvalidTopicError,
    KafkaError,
    RetriableError,
    TopicAuthorizationFailedError,
    for_code,
)
from thalweg.structs import TopicPartition

__all__ = ["Found", "Known", "Look", "Wanted", "look"]

# A known topic survives this many responses that do not know it, or not all of it (a restarting
# broker's), as in the core.
_MISSING_RESPONSES_MAX: Final = 3
_REFUSED: Final = (TopicAuthorizationFailedError, InvalidTopicError)

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """The topics that were found.

    Attributes:
        names: The existing topics of the subscription.
        partitions: {topic: number of partitions} of subscribed, watched and owned topics.
        ids: Their topic ids, in Kafka's text form (URL-safe base64).
        racks: The racks of each partition's replicas. Empty if the brokers have no racks.
    """

    names: frozenset[str]
    partitions: dict[str, int]
    ids: Mapping[str, str]
    racks: Mapping[TopicPartition, frozenset[str]]

    def knows_more(self, name: str, row: _Row | None) -> bool:
        """Whether a later response lacks the topic, or has fewer partitions of the same topic."""
        if row is None:
            return True
        fewer = len(row["Partitions"]) < self.partitions[name]
        return fewer and row.get("TopicId") == self.ids.get(name)

    def with_some_of(self, other: "Found", names: Iterable[str], wanted: "Wanted") -> "Found":
        """Returns a copy that has these topics as in `other`."""
        chosen = set(names)
        partitions = {**self.partitions, **{name: other.partitions[name] for name in chosen}}
        return Found(
            self.names | {name for name in chosen if wanted.subscribes_to(name)},
            dict(sorted(partitions.items())),
            {**self.ids, **{name: other.ids[name] for name in chosen & other.ids.keys()}},
            {**self.racks, **{at: of for at, of in other.racks.items() if at.topic in chosen}},
        )

    def partitions_subscribed(self) -> list[TopicPartition]:
        """Returns all partitions of the subscription, in order."""
        return [
            TopicPartition(name, number)
            for name, count in self.partitions.items()
            if name in self.names
            for number in range(count)
        ]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The topics to look for.

    Attributes:
        named: Topics subscribed to by name.
        pattern: The pattern of the subscription, in place of names.
        also: Topics to look for, whether or not they are subscribed to.
        hides_internal: Whether a pattern excludes internal topics.
    """

    named: frozenset[str]
    pattern: re.Pattern[str] | None
    also: frozenset[str]
    hides_internal: bool

    def subscribes_to(self, name: str) -> bool:
        """Whether a name is subscribed to. Names of internal topics begin with two underscores."""
        return self._means(name, name.startswith("__"))

    def subscribes_to_row(self, row: _Row) -> bool:
        """Whether a topic of a response is subscribed to."""
        return self._means(row["Name"], row["IsInternal"])

    def _means(self, name: str, is_internal: bool) -> bool:
        if self.pattern is None:
            return name in self.named
        hidden = self.hides_internal and is_internal
        return not hidden and self.pattern.match(name) is not None


@dataclass(frozen=True, slots=True)
class Known:
    """The results of earlier responses.

    Attributes:
        last: The last result, also from before a change of the subscription.
        doubts: {topic: number of successive responses that knew less of it}.
        current: The result that the consumer has.
    """

    last: Found | None
    doubts: Mapping[str, int]
    current: Found | None


@dataclass(frozen=True, slots=True)
class Look:
    """The result of one response.

    Attributes:
        found: All topics that exist, also doubtful ones.
        is_news: Whether it differs from the result that the consumer has.
        ids: The topic ids of the response.
        doubts: See `Known`.
        is_missing: Whether topics are missing or doubtful, so that we must ask again soon.
        absent: Topics subscribed to by name that do not exist. Refused topics may exist.
        refusal: A permanent error of a topic subscribed to by name, or None.
    """

    found: Found
    is_news: bool
    ids: frozenset[str]
    doubts: Mapping[str, int]
    is_missing: bool
    absent: frozenset[str]
    refusal: KafkaError | None


def look(response: _Row, wanted: Wanted, known: Known) -> Look:
    """Compares a response with the wanted topics and with earlier responses."""
    all_rows = response["Topics"]
    there = [row for row in all_rows if row["ErrorCode"] == 0]
    names = frozenset(row["Name"] for row in there if wanted.subscribes_to_row(row))
    chosen = names | wanted.also
    # Sorted by name, so that partitions need not be sorted later.
    rows = sorted((row for row in there if row["Name"] in chosen), key=lambda row: str(row["Name"]))
    refused = _refused(all_rows)
    doubts = _doubts(rows, refused, wanted, known)
    missing = wanted.named - names if wanted.pattern is None else frozenset()
    is_missing = bool(missing or doubts)
    found = Found(
        names,
        {row["Name"]: len(row["Partitions"]) for row in rows},
        {row["Name"]: row["TopicId"] for row in rows if "TopicId" in row},
        _racks(response.get("Brokers", ()), rows),
    )
    if known.last is not None and doubts:
        found = found.with_some_of(known.last, doubts, wanted)
    return Look(
        found=found,
        is_news=found != known.current,
        ids=frozenset(row["TopicId"] for row in rows if "TopicId" in row),
        doubts=doubts,
        is_missing=is_missing,
        absent=missing - refused,
        refusal=_refusal(all_rows, wanted.named) if is_missing else None,
    )


def _refused(rows: Iterable[_Row]) -> frozenset[str]:
    """Returns the topics with a permanent error."""
    return frozenset(
        row["Name"]
        for row in rows
        if row["ErrorCode"] and not issubclass(for_code(row["ErrorCode"]), RetriableError)
    )


def _doubts(
    rows: Iterable[_Row], refused: frozenset[str], wanted: Wanted, known: Known
) -> dict[str, int]:
    """Returns the doubtful topics: a response lacks them, or some of their partitions.

    They stay as they were until several responses in a row agree, because a broker that has just
    started knows less than the others.
    """
    last = known.last
    if last is None:
        return {}
    row_of = {row["Name"]: row for row in rows}
    doubts = {
        name: known.doubts.get(name, 0) + 1
        for name in last.partitions
        if last.knows_more(name, row_of.get(name))
        and name not in refused
        and (name in wanted.also or wanted.subscribes_to(name))
    }
    return {name: n for name, n in doubts.items() if n < _MISSING_RESPONSES_MAX}


def _refusal(rows: Iterable[_Row], named: frozenset[str]) -> KafkaError | None:
    for row in rows:
        if row["ErrorCode"] and row["Name"] in named:
            kind = for_code(row["ErrorCode"])
            if issubclass(kind, _REFUSED):
                return kind(f"subscribing to topic {row['Name']}: {kind.description}")
    return None


def _racks(brokers: Iterable[_Row], rows: Iterable[_Row]) -> dict[TopicPartition, frozenset[str]]:
    rack_of = {each["NodeId"]: each["Rack"] for each in brokers if each.get("Rack")}
    if not rack_of:
        return {}
    return {
        TopicPartition(row["Name"], each["PartitionIndex"]): frozenset(
            rack_of[node] for node in each["ReplicaNodes"] if node in rack_of
        )
        for row in rows
        for each in row["Partitions"]
    }
