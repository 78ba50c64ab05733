"""How Spark finds the source, in the session of all tests."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys

import pytest

from tests.spark.conftest import Source, Topics
from thalweg import __version__
from thalweg import spark as thalweg_spark
from thalweg.range_reader import OffsetRange
from thalweg.spark import options
from thalweg.spark.reader import read_ranges
from thalweg.spark.writer import write_batches


def test_the_source_is_found_by_its_name_alone(source: Source, topics: Topics) -> None:
    # The Spark session of these tests registers nothing manually.
    topic = topics.create()
    topics.send(topic, ["a"])
    assert source.values(topics, subscribe=topic) == ["a"]


def test_register_checks_the_workers_and_makes_the_source_known(
    source: Source, topics: Topics
) -> None:
    thalweg_spark.register(source.spark)
    topic = topics.create()
    topics.send(topic, ["a"])
    assert source.values(topics, subscribe=topic) == ["a"]


@pytest.mark.parametrize("module", ["thalweg", "thalweg.spark", "pyspark_thalweg"])
def test_importing_loads_no_native_code(module: str) -> None:
    code = f"import sys, {module}; sys.exit('thalweg._core' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()


def test_an_executor_of_another_version_names_both(source: Source, topics: Topics) -> None:
    # The plan as a driver of another version would have pickled it.
    given = {"subscribe": "t", "kafka.bootstrap.servers": topics.broker.bootstrap_servers}
    plan = options.parse_source(given, "batch")
    assert plan.planned_by == __version__
    other = dataclasses.replace(plan, planned_by="9.9.9")
    with pytest.raises(RuntimeError, match=r"the driver has 9\.9\.9\. Install the same version"):
        list(read_ranges(other, [OffsetRange("t", 0, 0, 1)]))
    sink = options.SinkOptions("t", planned_by="9.9.9")
    with pytest.raises(RuntimeError, match=rf"executor has thalweg {re.escape(__version__)} "):
        write_batches(sink, iter(()))
