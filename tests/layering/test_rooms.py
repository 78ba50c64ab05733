"""The rooms of the Rust crates know only the rooms that tools/layers.toml allows."""

from __future__ import annotations

import copy

import pytest

from tests.layering import rooms
from tests.layering.crates import rules, without_tests

CRATES = ("consumer", "producer", "network", "broker", "python")
EACH = pytest.mark.parametrize("crate", CRATES)


@EACH
def test_a_room_knows_only_rooms_that_the_table_allows(crate):
    assert rooms.forbidden(rules(), crate, rooms.uses(crate)) == []


@EACH
def test_the_table_has_all_rooms_and_no_cycle_without_a_reason(crate):
    assert rooms.misplaced(rules(), crate, rooms.rooms_of(crate)) == []


@EACH
def test_the_table_allows_nothing_that_no_room_needs(crate):
    assert rooms.unused(rules(), crate, rooms.uses(crate)) == []


def test_the_table_names_no_other_crate_and_gives_each_reason():
    table = rules()["rust"]
    assert set(table["rooms"]) == set(CRATES)
    for rule in table["against_the_order"]:
        assert rule["crate"] in CRATES, rule
        assert rule["why"], rule


# Tests of the checks themselves: each finds the violation that it is for.

LIB = """\
mod partitions;
pub use fetching::fetcher::Fetcher;
pub use metrics::{Counter, Lag as Distance};
"""
SOURCE = """\
use super::super::sync;
use super::sibling;
use crate::{Fetcher, positions::{absence, leaders::Leaders}};
use crate::metrics::{
    Counter,
};
// crate::draining is a comment
pub(in crate::partitions) fn f() -> crate::Distance { crate::partitions::g() }
fn helper() { crate::nowhere(); }
#[cfg(test)]
mod tests { use crate::consumer; }
"""
ROOMS = {"partitions", "fetching", "metrics", "sync", "positions", "draining", "consumer"}


@pytest.fixture
def found():
    files = {"lib.rs": LIB, "partitions/state.rs": without_tests(SOURCE)}
    return list(rooms.uses_in("consumer", ROOMS, files))


def test_paths_are_read_with_their_place(found):
    assert [(each.line, each.used) for each in found] == [
        (1, "sync"),
        (3, "fetching"),
        (3, "positions"),
        (4, "metrics"),
        (8, "metrics"),
        (9, "nowhere"),
    ]
    assert found[0].place == "crates/consumer/src/partitions/state.rs:1"
    assert {each.room for each in found} == {"partitions"}


def test_a_file_next_to_lib_is_a_room():
    files = {"lib.rs": LIB, "sync.rs": "use super::positions;\nuse super::positions::absence;\n"}
    found = [(each.line, each.used) for each in rooms.uses_in("consumer", ROOMS, files)]
    assert found == [(1, "positions"), (2, "positions")]


def test_a_use_that_the_table_does_not_allow_is_found(found):
    place = "crates/consumer/src/partitions/state.rs:9"
    assert rooms.forbidden(rules(), "consumer", found) == [
        f"{place}: partitions may not know nowhere: see [rust.rooms.consumer]"
    ]
    use = rooms.Use("consumer", "sync.rs", 3, "sync", "positions")
    assert rooms.forbidden(rules(), "consumer", [use]) == [
        "crates/consumer/src/sync.rs:3: sync may not know positions: see [rust.rooms.consumer]"
    ]


def test_an_edge_that_nothing_needs_is_found():
    table = copy.deepcopy(rules())
    table["rust"]["rooms"]["consumer"]["sync"].append("signals")
    extra = {"crate": "consumer", "from": "pending", "to": ["positions"], "why": "x"}
    table["rust"]["against_the_order"].append(extra)
    assert rooms.unused(table, "consumer", rooms.uses("consumer")) == [
        "consumer: pending does not use positions",
        "consumer: sync does not use signals",
    ]


def test_a_new_room_a_gone_one_and_a_cycle_are_found():
    table = copy.deepcopy(rules())
    table["rust"]["rooms"]["producer"]["sync"].append("sender")
    there = rooms.rooms_of("producer") - {"batch"} | {"retries"}
    missing, gone, cycle = rooms.misplaced(table, "producer", there)
    assert missing == "producer: retries is not in the table"
    assert gone == "producer: batch is gone"
    assert cycle.startswith("producer: sync -> sender: sender is not above sync.")
