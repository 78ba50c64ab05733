"""The crates depend only on what tools/layers.toml allows."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tests.layering import crates
from tests.support.paths import ROOT


def test_every_edge_between_crates_is_in_the_table():
    assert crates.crate_edges(crates.metadata(), crates.rules()) == []


def test_the_table_names_no_crate_that_is_gone():
    rules = crates.rules()
    named = set(rules["crates"]) | {each for edges in rules["crates"].values() for each in edges}
    assert named == set(crates.members(crates.metadata()))


def test_libraries_are_named_only_where_they_belong():
    assert crates.library_users(crates.metadata(), crates.rules()) == []


def test_only_the_simulations_tests_plant_bugs():
    # A dev-dependency: cargo build -p thalweg-python, which makes the wheel, does not use it.
    users = crates.feature_users(crates.metadata(), "planted-bugs")
    assert users == ["simulation (dev dependency)"]


def test_everything_in_a_wheel_has_an_allowed_licence():
    assert crates.licences(crates.metadata(), crates.rules()) == []


def test_cargo_deny_has_the_same_licences():
    deny = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    assert deny["licenses"]["allow"] == crates.rules()["licences"]["allowed"]


def test_cores_have_no_clock_socket_thread_or_random_source():
    assert crates.forbidden_words(crates.rules()) == []


def test_cores_forbid_unsafe_code():
    assert crates.without_forbid_unsafe(crates.rules()) == []


# Tests of the checks themselves: each finds the violation that it is for.


def graph(crate: str, dependency: str, kind: str | None = None) -> dict[str, Any]:
    edge: dict[str, Any] = {"name": dependency, "kind": kind, "features": []}
    packages: list[dict[str, Any]] = [
        {
            "id": name,
            "name": name,
            "license": "MIT",
            "features": {},
            "dependencies": [dict(edge)] if name == crate else [],
        }
        for name in ("thalweg-protocol", "thalweg-cluster", "thalweg-broker")
    ]
    return {"packages": packages, "workspace_members": [p["id"] for p in packages]}


def test_a_feature_is_found_wherever_it_is_enabled():
    found = graph("thalweg-cluster", "thalweg-protocol", kind="dev")
    found["packages"][1]["dependencies"][0]["features"] = ["planted-bugs"]
    found["packages"][2]["features"] = {"default": ["thalweg-protocol/planted-bugs"]}
    users = crates.feature_users(found, "planted-bugs")
    assert users == ["cluster (dev dependency)", "broker (feature default)"]


def test_an_edge_that_is_not_in_the_table_is_found():
    found = crates.crate_edges(graph("thalweg-protocol", "thalweg-cluster"), crates.rules())
    assert found == ["protocol -> cluster (normal dependency)"]
    assert crates.crate_edges(graph("thalweg-cluster", "thalweg-protocol"), crates.rules()) == []


def test_a_library_in_the_wrong_crate_is_found():
    found = crates.library_users(graph("thalweg-cluster", "tokio", "dev"), crates.rules())
    assert found == ["cluster names tokio: cores do no I/O"]


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("MIT/Apache-2.0", True),
        ("MIT AND GPL-3.0-only", False),
        ("(MIT OR GPL-3.0-only) AND Apache-2.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("Apache-2.0 WITH Classpath-exception-2.0", False),
    ],
)
def test_licence_expressions_are_understood(expression, allowed):
    known = set(crates.rules()["licences"]["allowed"])
    assert crates.licence_allowed(expression, known) is allowed


def test_words_are_found_in_code_and_not_in_comments_or_tests():
    text = "\n".join(
        [
            "use std::time::Instant; // Instant::now is not for us",
            "fn a() { Instant::now() }",
            "#[cfg(test)]",
            "mod tests { fn b() { Instant::now() } }",
        ]
    )
    found = crates.words_in(crates.without_tests(text), ["Instant::now", "tokio"])
    assert found == [(2, "Instant::now")]
