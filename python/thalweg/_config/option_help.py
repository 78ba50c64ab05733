"""Adds the options to `help(KafkaProducer)`, one line for each, from the table.

Types, ranges and aliases are only in docs/configuration.md.
"""

from collections.abc import Callable, Container
from typing import TypeVar

from thalweg._config.options import GROUPS, Option

__all__ = ["options_listed"]

_Class = TypeVar("_Class", bound=type)


def options_listed(client: str, unused: Container[str] = ()) -> Callable[[_Class], _Class]:
    """Decorator that adds the options of a client to the docstring of its class.

    It omits options that the client ignores or always refuses.

    Args:
        client: "p" for producers, "c" for consumers, "a" for admin clients.
        unused: Names of options that have no effect on this class only.
    """

    def add(decorated: _Class) -> _Class:
        lines = [(decorated.__doc__ or "").rstrip(), "", "    Options, with their defaults:"]
        for title, rows in GROUPS:
            listed = [_line(row) for row in rows if _works(row, client) and row.name not in unused]
            if listed:
                lines += ["", f"    {title}", *listed]
        decorated.__doc__ = "\n".join([*lines, "    "])
        return decorated

    return add


def _works(row: Option, client: str) -> bool:
    useless = row.refused is not None or row.deprecated is not None or row.is_ignored(client)
    return client in row.clients and not useless


def _line(row: Option) -> str:
    is_list = row.kind in ("list", "servers") and row.default is not None
    default = ",".join(row.default) if is_list else row.default
    return f"      {row.name}={default!r}: {row.summary}"
