"""Prints a class of aiokafka or of thalweg.aio, as JSON: run as a program of its own.

    python describe_aio.py MODULE CLASS ──> its public members with their parameters, __init__'s

It runs in the interpreter that has the package.
"""

import importlib
import inspect
import json
import sys
from typing import Any


def parameters(function: Any) -> list[list[Any]]:
    """[name, kind, default's repr] of each parameter but self."""
    return [
        [each.name, each.kind.name, None if each.default is each.empty else repr(each.default)]
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls")
    ]


def describe(kind: Any) -> dict[str, Any]:
    """Everything that is compared."""
    members = {
        name: parameters(member) if callable(member) else None
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_")
    }
    return {"members": members, "constructor": parameters(kind.__init__)}


if __name__ == "__main__":
    print(json.dumps(describe(getattr(importlib.import_module(sys.argv[1]), sys.argv[2]))))
