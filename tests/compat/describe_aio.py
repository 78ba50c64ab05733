"""Prints a class of aiokafka or of thalweg.aio, as JSON.

    python describe_aio.py MODULE CLASS ──> its public members with their parameters, __init__'s
    python describe_aio.py PACKAGE ──> the public names of its modules, the codes of its errors

It runs in the interpreter that has the package.
"""

import importlib
import inspect
import json
import sys
from typing import Any


def parameters(function: Any) -> list[list[Any]]:
    """Returns [name, kind, default's repr] of each parameter except self."""
    return [
        [each.name, each.kind.name, None if each.default is each.empty else repr(each.default)]
        for each in inspect.signature(function).parameters.values()
        if each.name not in ("self", "cls")
    ]


def describe(kind: Any) -> dict[str, Any]:
    """Returns everything that is compared."""
    members = {
        name: parameters(member) if callable(member) else None
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_")
    }
    return {"members": members, "constructor": parameters(kind.__init__)}


def described(package: str) -> dict[str, Any]:
    """Returns names that applications import, by module, and (error, code) of protocol errors."""
    names = {
        part: defined(importlib.import_module(package + part))
        for part in ("", ".abc", ".errors", ".helpers", ".structs")
    }
    errors = importlib.import_module(f"{package}.errors")
    codes = [
        (name, code)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if isinstance(code := getattr(kind, "errno", None), int)
    ]
    return {"names": names, "codes": codes}


def defined(module: Any) -> list[str]:
    """Returns the names a module lists, and the classes and functions that it defines."""
    own = {
        name
        for name, each in vars(module).items()
        if not name.startswith("_")
        and callable(each)
        and getattr(each, "__module__", "") == module.__name__
    }
    return sorted(own | set(getattr(module, "__all__", ())))


if __name__ == "__main__" and len(sys.argv) == 2:
    print(json.dumps(described(sys.argv[1])))
elif __name__ == "__main__":
    print(json.dumps(describe(getattr(importlib.import_module(sys.argv[1]), sys.argv[2]))))
