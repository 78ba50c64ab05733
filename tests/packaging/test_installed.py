"""What an installed thalweg does in an empty environment, without the source tree."""

from __future__ import annotations

import importlib.metadata
import textwrap

import pytest

# The first test that needs a wheel builds it, which takes minutes if nothing is built yet.
pytestmark = pytest.mark.timeout(2400)

READ = """
    import os, sys
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from thalweg import EmbeddedBroker, KafkaProducer
    assert "work" in os.getcwd() and "site-packages" in __import__("thalweg").__file__

    broker = EmbeddedBroker()
    broker.start()
    broker.create_topic("numbers", num_partitions=3)
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(1000):
            producer.send("numbers", str(number).encode())
    builder = SparkSession.builder.master("local[2]")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    frame = spark.read.format("thalweg").option("subscribe", "numbers")
    frame = frame.option("kafka.bootstrap.servers", broker.bootstrap_servers).load()
    total, count = frame.selectExpr("sum(int(string(value)))", "count(*)").first()
    print("read", total, count)
    spark.stop()
    broker.close()
"""


def test_a_wheel_from_the_source_distribution_reads_through_spark(full):
    result = full.call("python", "-c", textwrap.dedent(READ))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "read 499500 1000" in result.stdout


def test_the_demo_runs_from_an_installed_wheel(full):
    result = full.call("thalweg", "demo", "--output", str(full.work))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "336,776" in result.stdout
    assert list(full.work.glob("*.png"))


def test_the_demo_without_its_extra_prints_the_line_that_installs_it(bare):
    result = bare.call("thalweg", "demo")
    assert result.returncode != 0
    assert "pip install 'thalweg[demo]'" in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


def test_the_client_works_with_nothing_else_installed(bare):
    program = """
        from thalweg import EmbeddedBroker, KafkaProducer
        broker = EmbeddedBroker()
        broker.start()
        broker.create_topic("t")
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            print("offset", producer.send("t", b"v").get(timeout=60).offset)
        broker.close()
    """
    result = bare.call("python", "-c", textwrap.dedent(program))
    assert result.returncode == 0, result.stderr
    assert "offset 0" in result.stdout


def test_the_command_tells_its_version(bare):
    version = importlib.metadata.version("thalweg")
    for command in (["thalweg", "--version"], ["python", "-m", "thalweg", "--version"]):
        assert version in bare.call(*command).stdout
