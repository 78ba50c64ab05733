"""The deadlines of many groups."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thalweg.coordinator.deadlines import Deadlines

TIMES = st.none() | st.integers(0, 20).map(float)


@given(st.lists(st.tuples(st.sampled_from("abcd"), TIMES), max_size=200))
def test_it_finds_what_a_search_of_all_deadlines_finds(changes):
    deadlines, expected = Deadlines(), {}
    for name, time in changes:
        deadlines.set(name, time)
        expected[name] = time
        known = {key: each for key, each in expected.items() if each is not None}
        assert deadlines.first() == min(known.values(), default=None)
        assert set(deadlines.due(10)) == {key for key, each in known.items() if each <= 10}
        assert deadlines.first() == min(known.values(), default=None)


def test_a_deadline_that_often_changes_takes_no_more_and_more_memory():
    deadlines = Deadlines()
    deadlines.set("first", 0.0)
    for time in range(10_000):
        deadlines.set("a", float(time + 1))
    assert len(deadlines._heap) < 100
    assert deadlines.due(1e9) == ["first", "a"]
