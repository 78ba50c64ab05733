"""Every public call of KafkaAdminClient is in a test of this folder, which runs on real Kafka."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from thalweg import KafkaAdminClient

FOLDER = Path(__file__).parent
CALLS = sorted(name for name in dir(KafkaAdminClient) if not name.startswith("_"))
NO_CALLS = {"DEFAULT_CONFIG"}


def _used() -> set[str]:
    """Returns the names of attributes that the tests of this folder use."""
    files = [each for each in FOLDER.glob("test_*.py") if each.name != Path(__file__).name]
    trees = [ast.parse(each.read_text(encoding="utf-8")) for each in files]
    return {
        node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


@pytest.mark.parametrize("call", [name for name in CALLS if name not in NO_CALLS])
def test_a_call_is_in_a_test(call: str) -> None:
    assert call in _used(), f"no test in {FOLDER.name} calls {call} on real Kafka: add one"
