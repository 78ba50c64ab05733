"""One Spark session for all tests of the source, and helpers to read and write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import spark_home
from tests.support.brokers import Broker
from tests.support.java import java_home
from tests.support.paths import CACHE
from tests.support.spark_queries import finish
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaProducer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import DataStreamReader, StreamingQuery


@pytest.fixture(scope="session")
def java() -> Path:
    """Makes Spark start with the tests' Java, and its workers with this Python."""
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    os.environ["SPARK_SUBMIT_OPTS"] = spark_home.quick_start()["SPARK_SUBMIT_OPTS"]
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return home


def connector_jars() -> list[str]:
    """Returns the files of Spark's own Kafka connector, with which tests compare this source."""
    jars = sorted(str(jar) for jar in (CACHE / "spark-kafka" / "jars").glob("*.jar"))
    assert jars, "Spark's own Kafka connector is missing: run `make spark-kafka`"
    return jars


@pytest.fixture(scope="session")
def spark(java: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session's Spark: two cores of this machine, without manual registration."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .appName("thalweg tests")
        .config("spark.driver.memory", "1g")
        .config("spark.jars", ",".join(connector_jars()))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_HOME", str(spark_home.spark_home()))
        session = builder.getOrCreate()
    yield session
    session.stop()


@dataclass
class Topics:
    """A broker, and what a test does on it from outside of Spark."""

    broker: Broker

    def create(self, num_partitions: int = 1, prefix: str = "spark") -> str:
        """Creates a topic."""
        return self.broker.create_topic(prefix, num_partitions)

    def send(self, topic: str, values: Any, partition: int | None = None, **fields: Any) -> None:
        """Sends values (text or bytes) and waits for their acknowledgements."""
        with KafkaProducer(bootstrap_servers=self.broker.bootstrap_servers) as producer:
            sent = [
                producer.send(topic, _encoded(value), partition=partition, **fields)
                for value in values
            ]
            for future in sent:
                future.get(timeout=60)

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Deletes the records before the offsets."""
        with closing(self._admin()) as admin:
            admin.delete_records({TopicPartition(topic, p): o for p, o in offsets.items()})

    def add_partitions(self, topic: str, total: int) -> None:
        """Adds partitions to a topic."""
        self.broker.add_partitions(topic, total)

    def delete(self, topic: str) -> None:
        """Deletes a topic, and waits until the broker does not report it any more."""
        self.broker.wire.delete_topic(topic)
        wait_until(
            lambda: not self.broker.wire.metadata(topic).topics.get(topic),
            what=f"the end of {topic}",
        )

    def recreate(self, topic: str, num_partitions: int = 1) -> None:
        """Deletes a topic, and creates an empty one with the same name."""
        self.delete(topic)
        self.broker.wire.create_topic(topic, num_partitions, configs={"retention.ms": "-1"})

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.broker.bootstrap_servers)


def _encoded(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


@pytest.fixture
def topics(embedded: Broker) -> Topics:
    """Topics of the embedded broker."""
    return Topics(embedded)


@pytest.fixture
def both(modern_broker: Broker) -> Topics:
    """Runs the test on the embedded broker and on a real Kafka."""
    return Topics(modern_broker)


@pytest.fixture
def every_broker(broker: Broker) -> Topics:
    """Runs the test on the embedded broker, on Kafka 4.3 and on Kafka 3.9."""
    return Topics(broker)


@dataclass
class Source:
    """Reads and writes with ``.format("thalweg")``. Options are keyword arguments."""

    spark: SparkSession

    def read(self, topics: Topics, *, connector: str = "thalweg", **options: str) -> DataFrame:
        """Makes a batch read. The connector ``kafka`` is Spark's own."""
        reader = self.spark.read.format(connector).options(**options)
        return reader.option("kafka.bootstrap.servers", topics.broker.bootstrap_servers).load()

    def stream(self, topics: Topics, **options: str) -> DataFrame:
        """Makes a stream read."""
        reader: DataStreamReader = self.spark.readStream.format("thalweg").options(**options)
        return reader.option("kafka.bootstrap.servers", topics.broker.bootstrap_servers).load()

    def values(self, topics: Topics, **options: str) -> list[str]:
        """Returns the values of a batch read, sorted."""
        return texts(self.read(topics, **options))

    def write(
        self,
        frame: DataFrame,
        topics: Topics,
        mode: str = "append",
        *,
        connector: str = "thalweg",
        **options: str,
    ) -> None:
        """Runs a batch write. The connector ``kafka`` is Spark's own."""
        writer = frame.write.format(connector).mode(mode).options(**options)
        writer.option("kafka.bootstrap.servers", topics.broker.bootstrap_servers).save()


def first(frame: DataFrame) -> Row:
    """Returns the only row of a frame."""
    [row] = frame.collect()
    return row


def texts(frame: DataFrame) -> list[str]:
    """Returns the values of a frame as text, sorted."""
    return sorted(row.v for row in frame.selectExpr("cast(value as string) as v").collect())


@pytest.fixture
def source(spark: SparkSession) -> Source:
    """Helpers to read and write."""
    return Source(spark)


class Stream:
    """A query that collects its batches in the test's process. It restarts from its checkpoint."""

    def __init__(self, make: Callable[[], DataFrame], checkpoint: Path) -> None:
        self._make = make
        self.checkpoint = checkpoint
        self.batches: dict[int, list[str]] = {}
        self.fail_next = False
        # Called with the number of a batch that is planned, and not read yet.
        self.before: Callable[[int], object] = lambda batch_id: None
        # Called with the number of a batch that is read.
        self.after: Callable[[int], object] = lambda batch_id: None

    def run(self) -> StreamingQuery:
        """Runs until all records that exist now are read (Trigger.AvailableNow)."""
        return finish(lambda: self.start(availableNow=True))

    def start(self, **trigger: Any) -> StreamingQuery:
        """Starts the query."""
        writer = self._make().writeStream.option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(self._take).trigger(**trigger).start()

    def values(self) -> list[str]:
        """Returns all values read so far, sorted. A value that was read twice is in it twice."""
        # A copy, because a thread of Spark may add a batch meanwhile.
        return sorted(value for batch in list(self.batches.values()) for value in batch)

    def _take(self, frame: DataFrame, batch_id: int) -> None:
        self.before(batch_id)
        if self.fail_next:
            self.fail_next = False
            raise RuntimeError("the batch fails on purpose")
        self.batches[batch_id] = texts(frame)
        self.after(batch_id)


@pytest.fixture
def stream_of(tmp_path: Path, spark: SparkSession) -> Iterator[Callable[..., Stream]]:
    """Makes collecting streams, and stops those that still run at the test's end."""

    def make(frame: Callable[[], DataFrame], name: str = "checkpoint") -> Stream:
        return Stream(frame, tmp_path / name)

    yield make
    for query in spark.streams.active:
        with suppress(Exception):
            query.stop()
