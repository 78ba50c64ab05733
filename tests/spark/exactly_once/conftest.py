"""A query that copies a topic exactly once, which most tests of the sink use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql import functions as f

from tests.spark.conftest import Source, Topics, texts
from tests.support.brokers import Broker
from tests.support.spark_queries import finish
from tests.support.waiting import wait_until
from thalweg import KafkaConsumer, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

AVAILABLE_NOW: Final = {"availableNow": True}
AT_ONCE: Final = {"processingTime": "0 seconds"}


class Copy:
    """A query that copies a topic into another one, exactly once."""

    def __init__(self, source: Source, topics: Topics, checkpoint: Path, **options: str) -> None:
        self.source, self.topics, self.checkpoint = source, topics, checkpoint
        self.origin, self.target = topics.create(2), topics.create(3)
        self.options = {
            "topic": self.target,
            "delivery.guarantee": "exactly-once",
            "transactional.id.prefix": self.target,
            "kafka.bootstrap.servers": topics.broker.bootstrap_servers,
            **options,
        }

    def start(
        self,
        kind: str = "thalweg",
        checkpoint: Path | None = None,
        *,
        broken: bool = False,
        trigger: Mapping[str, Any] = AVAILABLE_NOW,
        **more: str,
    ) -> StreamingQuery:
        """Starts the query, with a few records in each batch. Or a row breaks its task."""
        what = {"subscribe": self.origin, "startingOffsets": "earliest"}
        frame = self.source.stream(self.topics, maxOffsetsPerTrigger="6", **what)
        last = f.when(f.expr("value = '9'"), f.raise_error(f.lit("broken")))
        value = last.otherwise(f.col("value")).alias("value") if broken else f.col("value")
        return (
            frame.select(value)
            .writeStream.format(kind)
            .options(**self.options, **more)
            .option("checkpointLocation", str(checkpoint or self.checkpoint))
            .trigger(**trigger)
            .start()
        )

    def run(self, *given: Any, **named: Any) -> None:
        """Copies all records that exist now. The arguments are those of `start`."""
        finish(lambda: self.start(*given, **named))

    def seen(self, isolation: str = "read_committed") -> list[str]:
        """Returns what a reader sees, sorted."""
        level = {"kafka.isolation.level": isolation}
        return texts(self.source.read(self.topics, subscribe=self.target, **level))

    def sees(self, *values: str) -> None:
        """Checks what a reader sees. A coordinator acknowledges the end before readers see it."""
        wait_until(
            lambda: self.seen() == sorted(values), 60, what=lambda: f"{values}: {self.seen()}"
        )


def committed(broker: Broker, topic: str) -> list[str]:
    """Returns the values that a reader sees now, before the first open transactions."""
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        found: list[str] = []
        wanted = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic)]
        consumer.assign(wanted)
        ends = consumer.end_offsets(wanted)  # the last stable offsets
        while any(consumer.position(each) < end for each, end in ends.items()):
            for records in consumer.poll(timeout_ms=500).values():
                found += [str(record.value, "utf-8") for record in records if record.value]
        return found


@pytest.fixture
def copy(source: Source, both: Topics, tmp_path: Path) -> Copy:
    return Copy(source, both, tmp_path / "checkpoint")
