"""Checkpoint offsets: the connector's JSON, in a stable form, with the start of batch 0."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.spark.offsets import embedded_start, from_json, to_json

OFFSETS = st.dictionaries(
    st.tuples(st.text("abz-_.0", min_size=1), st.integers(0, 1_000)),
    st.integers(0, 2**63 - 1),
)


def test_the_form_is_the_connectors_and_sorted() -> None:
    text = json.dumps(to_json({("b", 10): 1, ("a", 0): 3, ("b", 2): 0}))
    assert text == '{"a": {"0": 3}, "b": {"2": 0, "10": 1}}'


@given(OFFSETS, OFFSETS)
def test_offsets_survive_json(end: dict, start: dict) -> None:
    value = json.loads(json.dumps(to_json(end, start)))
    assert from_json(value) == end
    assert embedded_start(value) == start


@given(OFFSETS)
def test_equal_offsets_make_equal_text(offsets: dict) -> None:
    backwards = dict(reversed(list(offsets.items())))
    assert json.dumps(to_json(offsets)) == json.dumps(to_json(backwards))


def test_an_end_without_a_start_has_none() -> None:
    assert embedded_start(to_json({("a", 0): 3})) is None


def test_parity_46_a_checkpoint_of_a_newer_version_is_refused() -> None:
    with pytest.raises(ValueError, match="'@lag', which this version of thalweg does not know"):
        from_json({"a": {"0": 3}, "@lag": {"a": {"0": 1}}})


@pytest.mark.parametrize("value", [{"a": 1}, {"a": {"x": 1}}, {"a": {"0": None}}, {"a": [1]}])
def test_a_foreign_checkpoint_is_refused(value: dict) -> None:
    with pytest.raises(ValueError, match="Expected checkpoint offsets of the form"):
        from_json(value)
