"""`python -m benches.spark`: this source and Spark's own connector, in turn, on one real broker.

--quick            fewer rows, three rounds
--rows 6000000     rows of 100 bytes for the reads. A write uses a third of them
--rounds 5         A B A B ... The median counts, of rates and of the ratios within a round
--cases read       only these of read, stream, write (several: separated by commas)
--bootstrap H:P    a running broker, instead of one started here
--jvm-stream PY    a Python with pyspark 4.0.0, for the connector's stream

The connector is spark-sql-kafka-0-10 4.0.0, the newest in the registry (`make spark-kafka`). Its
batch read and write run on this environment's pyspark. Its stream needs pyspark 4.0.0, so that case
runs it in its own virtual environment (`make spark-4.0`).
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.broker import bench_broker
from tests.support.java import java_home
from tests.support.paths import CACHE, ROOT
from tests.support.wire import Wire

PROGRAM = Path(__file__).with_name("program.py")
JARS = CACHE / "spark-kafka" / "jars"
JVM_STREAM = CACHE / "spark-4.0" / "bin" / "python"
PARTITIONS = 4
VALUE_BYTES = 100
# The project's own goals. benches/README.md says where they come from.
GOALS = {"read": 3.0, "stream": 2.5, "write": 2.0}
QUICK_ROWS = 300_000
# The sinks' own defaults differ. The benchmark compares the cost of records, not linger settings.
PRODUCER = {"kafka.linger.ms": "5", "kafka.batch.size": "131072", "kafka.acks": "all"}
_numbers = itertools.count(1)


@dataclass
class Case:
    """One measurement of both connectors."""

    name: str
    rows: int
    rates: dict[str, list[float]] = field(default_factory=lambda: {"thalweg": [], "jvm": []})
    spark: dict[str, str] = field(default_factory=dict)
    missing: str = ""

    def ratio(self) -> float | None:
        pairs = zip(self.rates["thalweg"], self.rates["jvm"], strict=False)
        ratios = [ours / theirs for ours, theirs in pairs]
        return statistics.median(ratios) if ratios else None


class Session:
    """A Spark session in its own process, which runs one connector."""

    def __init__(self, python: Path, name: str, bootstrap: str) -> None:
        env = {**os.environ, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": str(python)}
        env.pop("SPARK_HOME", None)
        self._process = subprocess.Popen(
            [str(python), str(PROGRAM)],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        jvm = name == "jvm"
        setup = {
            "format": "kafka" if jvm else "thalweg",
            "jars": sorted(str(jar) for jar in JARS.glob("*.jar")) if jvm else [],
            "bootstrap": bootstrap,
            "producer": PRODUCER,
        }
        self.spark: str = self._ask(setup)["spark"]

    def rate(self, what: str, topic: str, rows: int) -> float:
        """Returns the rows per second of one job."""
        answer = self._ask({"what": what, "topic": topic, "rows": rows})
        if answer["rows"] != rows:
            raise RuntimeError(f"{what} moved {answer['rows']:,} rows instead of {rows:,}")
        return rows / float(answer["seconds"])

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
        answer: dict[str, Any] = json.loads(line)
        return answer


def main() -> None:
    options = parse()
    if not list(JARS.glob("spark-sql-kafka*.jar")):
        sys.exit(f"no connector in {JARS}: run `make spark-kafka`")
    cases = [Case(name, rows) for name, rows in sizes(options.rows).items()]
    cases = [case for case in cases if not options.cases or case.name in options.cases.split(",")]
    with ExitStack() as stack:
        bootstrap = options.bootstrap
        if not bootstrap:
            print("starting a broker ...", flush=True)
            bootstrap = stack.enter_context(bench_broker()).bootstrap_servers
        source = new_topic(bootstrap)
        if any(case.name != "write" for case in cases):
            print(f"filling {source} with {options.rows:,} rows ...", flush=True)
            fill(bootstrap, source, options.rows)
        for case in cases:
            measure(case, bootstrap, source, options)
            print(line(case), flush=True)
            write_json(options.out, cases)
    print(f"written: {options.out}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benches.spark", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--cases", default="")
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--jvm-stream", type=Path, default=JVM_STREAM)
    name = time.strftime("spark-%Y%m%d-%H%M%S.json")
    parser.add_argument("--out", type=Path, default=ROOT / "artifacts" / "benches" / name)
    options = parser.parse_args()
    options.rows = options.rows or (QUICK_ROWS if options.quick else 6_000_000)
    options.rounds = options.rounds or (3 if options.quick else 5)
    return options


def sizes(rows: int) -> dict[str, int]:
    return {"read": rows, "stream": rows, "write": max(1, rows // 3)}


def new_topic(bootstrap: str) -> str:
    name = f"bench-spark-{os.getpid()}-{next(_numbers)}"
    Wire(bootstrap).create_topic(name, PARTITIONS, configs={"retention.ms": "-1"})
    return name


def fill(bootstrap: str, topic: str, rows: int) -> None:
    from thalweg import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, batch_size=131_072) as producer:
        for begin in range(0, rows, 100_000):
            values = [b"%0*d" % (VALUE_BYTES, n) for n in range(begin, min(rows, begin + 100_000))]
            producer.send_many(topic, values).get(timeout=120)


def measure(case: Case, bootstrap: str, source: str, options: argparse.Namespace) -> None:
    """Runs a case with one extra round: the first warms up both sessions and does not count."""
    python = Path(sys.executable)
    jvm_python = options.jvm_stream if case.name == "stream" else python
    entrants = {"thalweg": python}
    if jvm_python.exists():
        entrants["jvm"] = jvm_python
    else:
        case.missing = f"no pyspark 4.0.0 at {jvm_python} (run `make spark-4.0`)"
    with ExitStack() as stack:
        sessions = {}
        for name, interpreter in entrants.items():
            sessions[name] = session = Session(interpreter, name, bootstrap)
            stack.callback(session.close)
            case.spark[name] = session.spark
        for number in range(options.rounds + 1):
            for name, session in sessions.items():
                topic = new_topic(bootstrap) if case.name == "write" else source
                rate = session.rate(case.name, topic, case.rows)
                if case.name == "write":
                    check_written(bootstrap, topic, case.rows)
                if number:
                    case.rates[name].append(rate)


def check_written(bootstrap: str, topic: str, rows: int) -> None:
    wire = Wire(bootstrap)
    found = sum(wire.end_offsets(topic).values())
    if found != rows:
        raise RuntimeError(f"{topic} has {found:,} records instead of {rows:,}")
    wire.delete_topic(topic)


def line(case: Case) -> str:
    parts = [f"{case.name:8}{case.rows:>11,} rows"]
    for name, rates in case.rates.items():
        if rates:
            spark = case.spark[name]
            parts.append(f"{name} {statistics.median(rates):>11,.0f} rows/s (Spark {spark})")
    ratio = case.ratio()
    goal = GOALS[case.name]
    parts.append(case.missing if ratio is None else f"ratio {ratio:.2f} (goal {goal:.1f})")
    return "   ".join(parts)


def write_json(path: Path, cases: list[Case]) -> None:
    found = {
        "machine": {"cpu": platform.machine(), "cores": os.cpu_count()},
        "cases": [
            {**case.__dict__, "ratio": case.ratio(), "goal": GOALS[case.name]}
            for case in cases
            if case.rates["thalweg"]
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
