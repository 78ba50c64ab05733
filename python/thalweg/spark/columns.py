"""The names of the columns of a read, and the option ``columns``, which chooses some of them.

It imports nothing of Spark: ``schema.py`` has the types.
"""

from __future__ import annotations

from collections.abc import Mapping

HEADERS = "headers"
NAMES = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    HEADERS,
)


def parse_columns(given: Mapping[str, str], *, include_headers: bool) -> tuple[str, ...]:
    """Returns the columns to read, in their order.

    Args:
        given: The options, with names in lower case.
        include_headers: Whether the default has the column headers.

    Raises:
        ValueError: If the option names no column, an unknown one, or one twice.
    """
    value = given.get("columns")
    if value is None:
        return NAMES if include_headers else tuple(name for name in NAMES if name != HEADERS)
    by_lower = {name.lower(): name for name in NAMES}
    chosen = [name for name in (part.strip() for part in value.split(",")) if name]
    for name in chosen:
        if name.lower() not in by_lower:
            raise ValueError(
                f"Option 'columns' names '{name}', which is not a column of the source. "
                f"Its columns are {', '.join(NAMES)}."
            )
    columns = tuple(by_lower[name.lower()] for name in chosen)
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(
            f"Option 'columns' must name at least one column, and none twice, got '{value}'."
        )
    return columns
