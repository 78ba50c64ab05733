"""How Metadata responses change the subscribed topics."""

from __future__ import annotations

import re
from typing import Any

import pytest

from thalweg.coordinator.topics import Known, Wanted, look

NOTHING = Known(None, {}, None)


class Visits:
    """Counts the rows and names that are visited."""

    def __init__(self) -> None:
        self.count = 0

    def row(self, name: str) -> dict[str, Any]:
        visits = self

        class Row(dict[str, Any]):
            def __getitem__(self, key: str) -> Any:
                visits.count += 1
                return super().__getitem__(key)

        return Row(
            Name=name,
            TopicId=f"id of {name}",
            ErrorCode=0,
            IsInternal=False,
            Partitions=[{"PartitionIndex": 0, "ReplicaNodes": [1]}],
        )

    def names(self, names: list[str]) -> frozenset[str]:
        visits = self

        class Names(frozenset[str]):
            def __or__(self, other: Any) -> Any:
                visits.count += len(self) + len(other)
                return super().__or__(other)

            def __ror__(self, other: Any) -> Any:
                visits.count += len(self) + len(other)
                return frozenset(other).union(self)

        return Names(names)


def _visits(topics: int, *, matching: bool) -> int:
    visits = Visits()
    names = [f"events-{number:06}" for number in range(topics)]
    response = {
        "Brokers": [{"NodeId": 1, "Rack": "r"}],
        "Topics": [visits.row(name) for name in names],
    }
    pattern = re.compile("events-.*" if matching else "other-.*")
    wanted = Wanted(frozenset(), pattern, visits.names(names[::2]), hides_internal=True)
    first = look(response, wanted, NOTHING)
    # Half of them are missing in the next response, so all are checked once more.
    less = {**response, "Topics": response["Topics"][::2]}
    second = look(less, wanted, Known(first.found, {}, first.found))
    assert len(second.found.names) == (topics if matching else 0)
    return visits.count


@pytest.mark.parametrize("matching", [True, False])
def test_a_look_visits_twice_as_much_of_twice_as_many_topics(matching: bool) -> None:
    assert _visits(2_000, matching=matching) <= 2.2 * _visits(1_000, matching=matching)


def test_partitions_come_in_order_whatever_the_order_of_the_response() -> None:
    visits = Visits()
    rows = [visits.row(name) for name in ("b", "c", "a")]
    wanted = Wanted(frozenset("abc"), None, frozenset(), hides_internal=True)
    found = look({"Topics": rows}, wanted, NOTHING).found
    assert [each.topic for each in found.partitions_subscribed()] == ["a", "b", "c"]


def test_what_one_response_lacks_stays_in_order_among_the_others() -> None:
    visits = Visits()
    wanted = Wanted(frozenset("abc"), None, frozenset(), hides_internal=True)
    whole = look({"Topics": [visits.row(name) for name in "abc"]}, wanted, NOTHING).found
    seen = look({"Topics": [visits.row("c"), visits.row("a")]}, wanted, Known(whole, {}, whole))
    assert seen.doubts == {"b": 1}
    assert not seen.is_news
    assert [each.topic for each in seen.found.partitions_subscribed()] == ["a", "b", "c"]
