"""`python -m benches.spark`: this source and Spark's own connector, in turn, on one real broker.

--quick            fewer rows, three rounds
--rows 6000000     rows of 100 bytes for the reads. A write uses a third of them
--rounds 5         A B A B ... The median counts, of rates and of the ratios within a round
--cases read       only cases whose name starts with one of these (separated by commas)
--bootstrap H:P    a running broker, instead of one started here
--spark-4.0 PY     a Python with pyspark 4.0.0, for the connector's streams

The connector is spark-sql-kafka-0-10 4.0.0, the newest in the registry (`make spark-kafka`). Its
batch reads and writes run on this environment's pyspark. Its streams need pyspark 4.0.0, so those
cases run it in a virtual environment of its own (`make spark-4.0`). `cases.py` lists the cases.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benches.broker import bench_broker
from benches.spark.cases import Case, Contestant, all_cases
from tests.support.java import java_home
from tests.support.paths import CACHE, ROOT
from tests.support.wire import Wire

PROGRAM = Path(__file__).with_name("program.py")
JARS = CACHE / "spark-kafka" / "jars"
SPARK_4_0 = CACHE / "spark-4.0" / "bin" / "python"
VALUE_BYTES = 100
QUICK_ROWS = 300_000
_numbers = itertools.count(1)


class Session:
    """A Spark session in its own process, which runs one contestant."""

    def __init__(self, python: Path, who: Contestant, bootstrap: str) -> None:
        env = {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": str(python)}
        env["PYTHONPATH"] = str(ROOT)  # for the workers, which import the sources of `ceilings.py`
        env.pop("SPARK_HOME", None)
        self._process = subprocess.Popen(
            [str(python), str(PROGRAM)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        setup = {
            "format": who.format,
            "options": who.options,
            "jars": sorted(str(jar) for jar in JARS.glob("*.jar")) if who.format == "kafka" else [],
            "bootstrap": bootstrap,
        }
        self.spark: str = self._ask(setup)["spark"]

    def run(self, job: dict[str, Any]) -> tuple[int, float]:
        """Returns what one job has counted, and its seconds."""
        response = self._ask(job)
        return int(response["counted"]), float(response["seconds"])

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(60)

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the Spark session ended early; run its program.py to see why")
        response: dict[str, Any] = json.loads(line)
        return response


def main() -> None:
    options = parse()
    if not list(JARS.glob("spark-sql-kafka*.jar")):
        sys.exit(f"no connector in {JARS}: run `make spark-kafka`")
    wanted = tuple(filter(None, options.cases.split(",")))
    cases = [case for case in all_cases() if not wanted or case.name.startswith(wanted)]
    with ExitStack() as stack:
        bootstrap = options.bootstrap
        if not bootstrap:
            print("starting a broker ...", flush=True)
            bootstrap = stack.enter_context(bench_broker()).bootstrap_servers
        sources: dict[tuple[int, int], str] = {}
        for case in cases:
            rows = rows_of(case, options)
            where = (case.partitions, rows)
            if case.job != "write" and where not in sources:
                sources[where] = new_topic(bootstrap, case.partitions)
                print(f"filling {sources[where]} with {rows:,} rows ...", flush=True)
                fill(bootstrap, sources[where], rows)
            measure(case, bootstrap, sources.get(where, ""), options)
            print(line(case), flush=True)
            write_json(options.out, cases, options)
    print(f"written: {options.out}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benches.spark", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--cases", default="")
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--spark-4.0", dest="spark_4_0", type=Path, default=SPARK_4_0)
    name = time.strftime("spark-%Y%m%d-%H%M%S.json")
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "benches" / name)
    options = parser.parse_args()
    options.rows = options.rows or (QUICK_ROWS if options.quick else 6_000_000)
    options.rounds = options.rounds or (3 if options.quick else 5)
    return options


def rows_of(case: Case, options: argparse.Namespace) -> int:
    return max(1, int(options.rows * case.share))


def new_topic(bootstrap: str, partitions: int = 4) -> str:
    name = f"bench-spark-{os.getpid()}-{next(_numbers)}"
    Wire(bootstrap).create_topic(name, partitions, configs={"retention.ms": "-1"})
    return name


def fill(bootstrap: str, topic: str, rows: int) -> None:
    from thalweg import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, batch_size=131_072) as producer:
        for begin in range(0, rows, 100_000):
            values = [b"%0*d" % (VALUE_BYTES, n) for n in range(begin, min(rows, begin + 100_000))]
            producer.send_many(topic, values).get(timeout=120)


def measure(case: Case, bootstrap: str, source: str, options: argparse.Namespace) -> None:
    """Runs a case with two extra rounds, which warm up both sessions and do not count."""
    with ExitStack() as stack:
        sessions: dict[str, Session] = {}
        for side in case.sides:
            python = options.spark_4_0 if side.needs_spark_4_0 else Path(sys.executable)
            if not python.exists():
                case.missing = f"no pyspark 4.0.0 at {python} (run `make spark-4.0`)"
                continue
            sessions[side.name] = session = Session(python, side, bootstrap)
            stack.callback(session.close)
            case.spark[side.name] = session.spark
        for number in range(options.rounds + 2):
            for side in case.sides:
                if side.name in sessions:
                    rate = one_round(case, side, sessions[side.name], bootstrap, source, options)
                    if number > 1:
                        case.rates.setdefault(side.name, []).append(rate)


def one_round(
    case: Case,
    side: Contestant,
    session: Session,
    bootstrap: str,
    source: str,
    options: argparse.Namespace,
) -> float:
    """Returns what a contestant did in a second."""
    rows = rows_of(case, options)
    writes = case.job in ("write", "copy") and side.format != "discard"
    job = {"job": case.job, "topic": source, "rows": rows}
    if writes:
        job["target"] = new_topic(bootstrap)
    else:
        job["target"] = ""
    counted, seconds = session.run(job)
    if case.unit == "rows" and counted != rows:
        raise RuntimeError(f"{case.name} moved {counted:,} rows instead of {rows:,}")
    if writes:
        check_written(bootstrap, str(job["target"]), rows)
    return counted / seconds


def check_written(bootstrap: str, topic: str, rows: int) -> None:
    from thalweg import KafkaConsumer, TopicPartition

    found = 0
    with KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = [TopicPartition(topic, number) for number in range(4)]
        consumer.assign(places)
        until = time.monotonic() + 60
        while found < rows and time.monotonic() < until:
            found += consumer.poll_arrow(timeout_ms=200).num_rows
        found += consumer.poll_arrow(timeout_ms=200).num_rows
    if found != rows:
        raise RuntimeError(f"{topic} has {found:,} records instead of {rows:,}")
    Wire(bootstrap).delete_topic(topic)


def line(case: Case) -> str:
    parts = [f"{case.name:16}"]
    for side in case.sides:
        rates = case.rates.get(side.name)
        if rates:
            rate = statistics.median(rates)
            parts.append(f"{side.name} {rate:,.0f} {case.unit}/s (Spark {case.spark[side.name]})")
    ratio = case.ratio()
    goal = "" if case.goal is None else f" (goal {case.goal})"
    parts.append(case.missing if ratio is None else f"ratio {ratio:.2f}{goal}")
    return "   ".join(parts)


def write_json(path: Path, cases: list[Case], options: argparse.Namespace) -> None:
    found = {
        "machine": {"cpu": platform.machine(), "cores": os.cpu_count()},
        "cases": [
            {
                "name": case.name,
                "rows": rows_of(case, options),
                "rates": case.rates,
                "spark": case.spark,
                "ratio": case.ratio(),
                "goal": case.goal,
            }
            for case in cases
            if case.rates
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
