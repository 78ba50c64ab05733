"""Hides secrets before anything can fail: in a traceback, the variables of each frame are visible.

{"sasl.password": "hunter2", "acks": 1} ──> concealed() ──> {"sasl.password": <hidden>, "acks": 1}
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from thalweg._config.formats.pem import is_text
from thalweg._config.formats.url import may_be_secret
from thalweg._config.options import ROWS, Option
from thalweg._config.secret import Secret, hidden

__all__ = ["concealed", "hide", "is_veiled", "mappings_hidden", "names_of"]


def names_of(row: Option) -> Iterator[str]:
    """Yields every name of an option."""
    for name in (row.name.replace("_", "."), row.dotted, *row.aliases, row.name):
        if name:
            yield name


@lru_cache(maxsize=1)
def _rows() -> dict[str, Option]:
    return {name: row for row in ROWS for name in names_of(row)}


def hide(row: Option | None, value: Any) -> Any:
    """Returns a value, as a Secret if it is one. `row` is None for an unknown option."""
    if isinstance(value, Secret) or value is None:
        return value
    if row is None:  # perhaps the misspelled name of a secret
        return hidden(value) if isinstance(value, str | bytes) else value
    if row.kind == "pem":
        is_path = isinstance(value, str) and not is_text(value)
        is_data = isinstance(value, str | bytes | bytearray | list | tuple | dict)
        return hidden(value) if is_data and not is_path else value
    if row.kind == "url":
        return hidden(value) if isinstance(value, str) and may_be_secret(value) else value
    # What the application's own objects show is up to them.
    is_data = isinstance(value, str | bytes | bytearray | int | float | list | tuple | dict | set)
    return hidden(value) if row.secret and is_data else value


def is_veiled(row: Option, value: Any) -> bool:
    """Returns whether a value came as a Secret, although the option usually does not hold one.

    It does so from a config provider, or if the application gave a Secret.
    """
    return isinstance(value, Secret) and not isinstance(hide(row, value.reveal()), Secret)


def concealed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given options with a Secret in place of each value that is secret.

    A constructor assigns the result to the variable that held the options, so that no frame of a
    traceback has them any more.
    """
    rows = _rows()
    return {name: hide(rows.get(name), value) for name, value in {**given}.items()}


def mappings_hidden(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Hides positional arguments that are mappings: options in the wrong place."""
    return tuple(hidden(each) if isinstance(each, Mapping) else each for each in given)
