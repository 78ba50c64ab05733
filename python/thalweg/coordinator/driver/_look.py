"""What an answer to Metadata says of the topics that a consumer looks for. Pure: no I/O, no clock.

    Wanted ──┐
    Known ───┴─ Metadata ──> look() ──> Look: what was found, what is doubtful, what is missing

Each step is linear in the topics of the answer, or sorts them: there may be 50,000.
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

# A known topic survives this many answers that do not know it, or not all of it (a restarting
# broker's), as in the core.
_MISSING_ANSWERS_MAX: Final = 3
_REFUSED: Final = (TopicAuthorizationFailedError, InvalidTopicError)

_Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at the cluster has shown.

    Attributes:
        names: The topics of the subscription that exist.
        partitions: The number of partitions of each topic subscribed to or watched, by name.
        ids: Their topic ids, as Kafka's url-safe base64 text.
        racks: The racks of each partition's replicas; empty where brokers have none.
    """

    names: frozenset[str]
    partitions: Mapping[str, int]
    ids: Mapping[str, str]
    racks: Mapping[TopicPartition, frozenset[str]]

    def knows_more(self, name: str, row: _Row | None) -> bool:
        """Whether a row of a later answer lacks the topic, or partitions of the same topic."""
        if row is None:
            return True
        fewer = len(row["Partitions"]) < self.partitions[name]
        return fewer and row.get("TopicId") == self.ids.get(name)

    def with_some_of(self, other: "Found", names: Iterable[str], wanted: "Wanted") -> "Found":
        """With these topics as the other knows them."""
        chosen = set(names)
        partitions = {**self.partitions, **{name: other.partitions[name] for name in chosen}}
        return Found(
            self.names | {name for name in chosen if wanted.subscribes_to(name)},
            dict(sorted(partitions.items())),
            {**self.ids, **{name: other.ids[name] for name in chosen & other.ids.keys()}},
            {**self.racks, **{at: of for at, of in other.racks.items() if at.topic in chosen}},
        )

    def partitions_subscribed(self) -> list[TopicPartition]:
        """All partitions of the subscription, in order."""
        return [
            TopicPartition(name, number)
            for name, count in self.partitions.items()
            if name in self.names
            for number in range(count)
        ]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for.

    Attributes:
        named: Topics subscribed to by name.
        pattern: The topics subscribed to, in their place.
        also: What is looked for without being subscribed to.
        hides_internal: Whether a pattern means no internal topics.
    """

    named: frozenset[str]
    pattern: re.Pattern[str] | None
    also: frozenset[str]
    hides_internal: bool

    def subscribes_to(self, name: str) -> bool:
        """As far as a name tells: internal topics begin in two underscores."""
        return self._means(name, name.startswith("__"))

    def subscribes_to_row(self, row: _Row) -> bool:
        """Whether a topic of an answer is subscribed to."""
        return self._means(row["Name"], row["IsInternal"])

    def _means(self, name: str, is_internal: bool) -> bool:
        if self.pattern is None:
            return name in self.named
        hidden = self.hides_internal and is_internal
        return not hidden and self.pattern.match(name) is not None


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier looks have shown.

    Attributes:
        last: The last find, also across a change of what is looked for.
        doubts: How many answers in a row have known less of a topic.
        current: What was reported to the consumer.
    """

    last: Found | None
    doubts: Mapping[str, int]
    current: Found | None


@dataclass(frozen=True, slots=True)
class Look:
    """What one answer comes to.

    Attributes:
        found: All that is there, with what is only doubtful.
        is_news: Whether it differs from what was reported to the consumer.
        ids: The topic ids of the answer.
        doubts: See `Known`.
        is_missing: Whether something is to be looked for again soon.
        absent: Topics subscribed to by name that are not there.
        refusal: What no waiting cures, of a topic subscribed to by name.
    """

    found: Found
    is_news: bool
    ids: frozenset[str]
    doubts: Mapping[str, int]
    is_missing: bool
    absent: frozenset[str]
    refusal: KafkaError | None


def look(answer: Mapping[str, Any], wanted: Wanted, known: Known) -> Look:
    """Compares an answer with what is wanted and what was known."""
    all_rows = answer["Topics"]
    there = [row for row in all_rows if row["ErrorCode"] == 0]
    names = frozenset(row["Name"] for row in there if wanted.subscribes_to_row(row))
    chosen = names | wanted.also
    # By name, so that partitions come in order without being sorted later.
    rows = sorted((row for row in there if row["Name"] in chosen), key=lambda row: str(row["Name"]))
    doubts = _doubts(rows, all_rows, wanted, known)
    absent = wanted.named - names if wanted.pattern is None else frozenset()
    is_missing = bool(absent or doubts)
    found = Found(
        names,
        {row["Name"]: len(row["Partitions"]) for row in rows},
        {row["Name"]: row["TopicId"] for row in rows if "TopicId" in row},
        _racks(answer.get("Brokers", ()), rows),
    )
    if known.last is not None and doubts:
        found = found.with_some_of(known.last, doubts, wanted)
    return Look(
        found=found,
        is_news=found != known.current,
        ids=frozenset(row["TopicId"] for row in rows if "TopicId" in row),
        doubts=doubts,
        is_missing=is_missing,
        absent=absent,
        refusal=_refusal(all_rows, wanted.named) if is_missing else None,
    )


def _doubts(
    rows: Iterable[_Row], all_rows: Iterable[_Row], wanted: Wanted, known: Known
) -> dict[str, int]:
    """Topics that there were and of which an answer knows less, or nothing.

    They are taken to be as they were until more answers say so: a broker that has just started
    knows less than others.
    """
    last = known.last
    if last is None:
        return {}
    row_of = {row["Name"]: row for row in rows}
    refused = {
        row["Name"]
        for row in all_rows
        if row["ErrorCode"] and not issubclass(for_code(row["ErrorCode"]), RetriableError)
    }
    doubts = {
        name: known.doubts.get(name, 0) + 1
        for name in last.partitions
        if last.knows_more(name, row_of.get(name))
        and name not in refused
        and (name in wanted.also or wanted.subscribes_to(name))
    }
    return {name: n for name, n in doubts.items() if n < _MISSING_ANSWERS_MAX}


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
