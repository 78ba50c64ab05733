"""A query that copies a topic exactly once, which most tests of the sink use."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as f

from tests.spark.conftest import Source, Topics, texts


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

    def run(
        self,
        kind: str = "thalweg",
        checkpoint: Path | None = None,
        *,
        broken: bool = False,
        **more: str,
    ) -> None:
        """Copies all records that exist now, a few in each batch. Or a row breaks its task."""
        what = {"subscribe": self.origin, "startingOffsets": "earliest"}
        frame = self.source.stream(self.topics, maxOffsetsPerTrigger="6", **what)
        last = f.when(f.expr("value = '9'"), f.raise_error(f.lit("broken")))
        value = last.otherwise(f.col("value")).alias("value") if broken else f.col("value")
        query = (
            frame.select(value)
            .writeStream.format(kind)
            .options(**self.options, **more)
            .option("checkpointLocation", str(checkpoint or self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    def seen(self, isolation: str = "read_committed") -> list[str]:
        """Returns what a reader sees, sorted."""
        level = {"kafka.isolation.level": isolation}
        return texts(self.source.read(self.topics, subscribe=self.target, **level))


@pytest.fixture
def copy(source: Source, both: Topics, tmp_path: Path) -> Copy:
    return Copy(source, both, tmp_path / "checkpoint")
