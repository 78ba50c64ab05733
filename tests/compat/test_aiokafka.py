"""Code written for aiokafka 0.14 runs with one import changed.

Names, parameters and defaults of its clients are compared with ours; differences only where
differences_aio.py lists them, and each entry there still is a difference.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat import differences_aio as differences
from tests.support import peers
from thalweg._options import ROWS, Option

ROOT = Path(__file__).resolve().parents[2]


def description(python: str, module: str, kind: str) -> dict[str, Any]:
    """What describe_aio.py prints of a class."""
    program = Path(__file__).parent / "describe_aio.py"
    command = [python, str(program), module, kind]
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": f"{ROOT}/python"}
    )
    assert found.returncode == 0, found.stderr
    printed: dict[str, Any] = json.loads(found.stdout)
    return printed


@pytest.fixture(scope="module", params=["AIOKafkaProducer", "AIOKafkaConsumer"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def theirs(kind: str) -> dict[str, Any]:
    return description(str(peers.python_of("aiokafka")), "aiokafka", kind)


@pytest.fixture(scope="module")
def ours(kind: str) -> dict[str, Any]:
    return description(sys.executable, "thalweg.aio", kind)


@pytest.fixture(scope="module")
def options(kind: str) -> dict[str, Option]:
    """Our class's options by each of their names."""
    letter = {"AIOKafkaProducer": "p", "AIOKafkaConsumer": "c"}[kind]
    rows = [row for row in ROWS if letter in row.clients]
    return {name: row for row in rows for name in (*row.aliases, row.name)}


def test_every_public_member_is_there(theirs, ours):
    # `client` and the like are attributes of instances, and of aiokafka's inside.
    assert set(theirs["members"]) <= set(ours["members"])


def test_methods_take_the_same_parameters_or_are_listed(kind, theirs, ours):
    both = set(theirs["members"]) & set(ours["members"])
    differ = {
        name for name in both if named(theirs["members"][name]) != named(ours["members"][name])
    }
    assert differ == set(differences.SIGNATURES[kind])
    for name in differ:  # and then they take more, never less
        more = named(ours["members"][name])
        assert more[: len(theirs["members"][name])] == named(theirs["members"][name])


def named(parameters: list[list[Any]]) -> list[list[Any]]:
    """Parameters without the spelling of an empty default."""
    return [[name, kind, default] for name, kind, default in parameters]


def test_every_option_is_taken_or_listed(kind, theirs, options):
    names = {name for name, _, _ in theirs["constructor"]} - {"loop", "topics"}
    assert names - set(options) == set(differences.MISSING[kind])


def test_defaults_are_the_same_or_listed(kind, theirs, options):
    def plain(value: Any) -> Any:
        return "object" if " object at 0x" in repr(value) else value

    differ = set()
    for name, _, default in theirs["constructor"]:
        if name in ("loop", "topics") or name in differences.MISSING[kind]:
            continue
        value = options[name].default
        if default is None or repr(plain(value)) != default:
            differ.add(name)
    assert differ == set(differences.DEFAULTS[kind])


def test_builders_are_used_as_aiokafkas_are():
    from thalweg.aio import BatchBuilder

    for name in ("append", "close", "closed", "record_count", "size"):
        assert callable(getattr(BatchBuilder, name))
