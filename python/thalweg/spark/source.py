"""The data source that Spark finds under the name ``thalweg``.

Spark pickles this class, its readers and its writers, so none of them holds a connection. Streams
need base classes that PySpark 4.0 does not have, so their modules are imported at first use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from thalweg.spark.options import SourceOptions, parse_sink, parse_source
from thalweg.spark.reader import BatchReader
from thalweg.spark.schema import parse_columns, source_schema, wanted_columns
from thalweg.spark.workers.files import shipped_folder
from thalweg.spark.writer import BatchWriter

if TYPE_CHECKING:
    from thalweg.spark.stream_reader import StreamReader
    from thalweg.spark.stream_writer import StreamWriter


class ThalwegDataSource(DataSource):
    """Kafka topics as DataFrames: read and write, batch and stream.

    It serves ``read``, ``readStream``, ``write`` and ``writeStream`` with ``.format("thalweg")``.
    """

    # Spark creates this object before the tasks of each batch. To commit the batch, Spark uses the
    # pickled object of the query.
    _was_pickled = False
    _files: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": self._driver_files}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _was_pickled=True)

    @classmethod
    def name(cls) -> str:
        """Returns the name for ``.format()``. ``kafka`` remains Spark's own connector."""
        return "thalweg"

    def schema(self) -> StructType:
        """Returns the columns of a read. ``includeHeaders`` adds one, ``columns`` chooses some."""
        include = str(self.options.get("includeHeaders", "false")).strip().lower() == "true"
        given = {name.lower(): value for name, value in self.options.items()}
        return source_schema(parse_columns(given, include_headers=include))

    def reader(self, schema: StructType) -> BatchReader:
        """Creates a batch reader. The driver checks the options here."""
        options = parse_source(self.options, "batch")
        completed = self._completed(options, schema)
        if not options.push_filters:
            return BatchReader(completed)
        try:
            from thalweg.spark.pushdown.reader import FilteringReader
        except ImportError as error:
            raise _explained(error, "The option pushFilters", "4.1", "remove the option") from error
        return FilteringReader(completed)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """Creates a stream reader. The driver checks the options here."""
        try:
            from thalweg.spark.stream_reader import StreamReader
        except ImportError as error:
            raise _explained(error, "A stream read", "4.2", "read in batches") from error
        options = parse_source(self.options, "stream")
        return StreamReader(self._completed(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Creates a batch writer."""
        options = replace(parse_sink(self.options), driver_files=self._driver_files)
        if options.exactly_once is None:
            return BatchWriter(options, schema, overwrite=overwrite)
        from thalweg.spark.exactly_once.batch_writer import TransactionalBatchWriter

        return TransactionalBatchWriter(options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        """Creates a stream writer.

        In complete mode it appends each complete result, as Spark's own sink does.
        """
        del overwrite
        options = replace(parse_sink(self.options), driver_files=self._driver_files)
        try:
            from thalweg.spark.stream_writer import StreamWriter
        except ImportError as error:
            raise _explained(error, "A stream write", "4.1", "write in batches") from error
        if options.exactly_once is None:
            return StreamWriter(options, schema)
        from thalweg.spark.exactly_once.stream_writer import TransactionalStreamWriter

        return TransactionalStreamWriter(options, schema, is_first=not self._was_pickled)

    @property
    def _driver_files(self) -> str | None:
        """The folder with the files that Spark has shipped to the process that created this."""
        return self._files or shipped_folder()

    def _completed(self, options: SourceOptions, schema: StructType) -> SourceOptions:
        return replace(options, columns=wanted_columns(schema), driver_files=self._driver_files)


def _explained(error: ImportError, what: str, needed: str, instead: str) -> ImportError:
    """Returns an error that names the needed PySpark, if PySpark is too old."""
    if not (error.name or "").startswith("pyspark"):
        return error
    return ImportError(
        f"{what} of thalweg needs PySpark {needed} or newer, and this is PySpark "
        f"{pyspark.__version__}. Update PySpark, or {instead}."
    )
