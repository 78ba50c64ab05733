"""The data source that Spark sees under the name ``thalweg``.

Spark pickles this class and its readers and writers freely, so none of them holds a connection.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from thalweg.spark.options import parse_sink, parse_source
from thalweg.spark.reader import BatchReader
from thalweg.spark.schema import check_source_schema, source_schema
from thalweg.spark.stream_reader import StreamReader
from thalweg.spark.writer import BatchWriter, StreamWriter


class ThalwegDataSource(DataSource):
    """Kafka topics as DataFrames: ``spark.read.format("thalweg")`` and its three siblings."""

    @classmethod
    def name(cls) -> str:
        """The word for ``.format()``; Spark keeps ``kafka`` for its own connector."""
        return "thalweg"

    def schema(self) -> StructType:
        """The fixed columns of a read, headers with ``includeHeaders``."""
        include = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        return source_schema(include_headers=include)

    def reader(self, schema: StructType) -> BatchReader:
        """A batch read; options are checked here, on the driver."""
        options = parse_source(self.options, "batch")
        check_source_schema(schema, source_schema(include_headers=options.include_headers))
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """A stream read; options are checked here, on the driver."""
        options = parse_source(self.options, "stream")
        check_source_schema(schema, source_schema(include_headers=options.include_headers))
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A batch write."""
        return BatchWriter(parse_sink(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """A stream write; complete mode appends each full result, as Spark's own sink does."""
        del overwrite
        return StreamWriter(parse_sink(self.options), schema)
