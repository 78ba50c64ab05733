"""The cases: which two contestants do which job, and the goal for the ratio of their rates."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Final

# The sinks' own defaults differ. Some cases compare the cost of records, not linger settings.
PRODUCER: Final = {"kafka.linger.ms": "5", "kafka.acks": "all"}


@dataclass(frozen=True)
class Contestant:
    """One side of a case, which has a Spark session of its own.

    Attributes:
        name: Its name in the report.
        format: The name of the data source.
        options: Options of the read or of the write, as the job needs them.
        needs_spark_4_0: Whether it runs only on PySpark 4.0.0: streams of the JVM connector.
    """

    name: str
    format: str
    options: dict[str, str] = field(default_factory=dict)
    needs_spark_4_0: bool = False


@dataclass
class Case:
    """One measurement of two contestants.

    Attributes:
        name: The case.
        job: A function of `program.py`.
        sides: The contestants. The first is divided by the second.
        goal: The project's goal for the ratio. None: the case only explains others.
        share: The part of ``--rows`` that it moves.
        partitions: The number of partitions of its topic.
        unit: What is counted in a second.
    """

    name: str
    job: str
    sides: tuple[Contestant, Contestant]
    goal: float | None
    share: float = 1.0
    partitions: int = 4
    unit: str = "rows"
    rates: dict[str, list[float]] = field(default_factory=dict)
    spark: dict[str, str] = field(default_factory=dict)
    missing: str = ""

    def ratio(self) -> float | None:
        """Returns the median of the ratios within a round."""
        first, second = (self.rates.get(side.name, []) for side in self.sides)
        ratios = [a / b for a, b in zip(first, second, strict=False)]
        return statistics.median(ratios) if ratios else None


OURS: Final = Contestant("thalweg", "thalweg")
JVM: Final = Contestant("jvm", "kafka")
JVM_STREAM: Final = Contestant("jvm", "kafka", needs_spark_4_0=True)
CEILING: Final = Contestant("constant source", "constant")


def with_batch(size: int) -> tuple[Contestant, Contestant]:
    """Returns both connectors, with the same producer options."""
    options = {**PRODUCER, "kafka.batch.size": str(size)}
    return Contestant("thalweg", "thalweg", options), Contestant("jvm", "kafka", options)


def all_cases() -> list[Case]:
    """Returns every case, in the order of the report."""
    two_tasks = Contestant("thalweg", "thalweg", {"maxPartitions": "2"})
    offsets = Contestant("offset, timestamp", "thalweg", {"columns": "offset,timestamp"})
    few = Contestant("constant, two columns", "constant", {"columns": "offset,timestamp"})
    once = Contestant("exactly once", "thalweg", {"delivery.guarantee": "exactly-once"})
    discard = Contestant("discarding sink", "discard")
    return [
        Case("read", "read", (OURS, JVM), 3.5),
        Case("read: ceiling", "read", (CEILING, JVM), None),
        Case("stream", "stream", (OURS, JVM_STREAM), 1.8),
        Case("stream: ceiling", "stream", (CEILING, JVM_STREAM), None),
        Case("steady", "steady", (OURS, JVM_STREAM), 2.5),
        Case("steady, 2 tasks", "steady", (two_tasks, JVM_STREAM), 2.5),
        Case("steady: ceiling", "steady", (CEILING, JVM_STREAM), None),
        Case("write", "write", (OURS, JVM), 2.0, share=1 / 3),
        Case("write 128 KiB", "write", with_batch(131_072), None, share=1 / 3),
        Case("write 1 MiB", "write", with_batch(1_000_000), None, share=1 / 3),
        Case("write: ceiling", "write", (discard, JVM), None, share=1 / 3),
        Case("small", "read", (OURS, JVM), 5.0, share=1 / 60, partitions=1_000),
        Case("empty", "empty", (OURS, JVM_STREAM), 1.0, unit="triggers"),
        Case("projection", "read", (offsets, OURS), 2.0),
        Case("projection: ceiling", "read", (few, CEILING), None),
        Case("exactly-once", "copy", (once, OURS), 0.8, share=1 / 3),
    ]
