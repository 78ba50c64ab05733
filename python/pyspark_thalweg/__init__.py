"""Lets Spark find ``.format("thalweg")`` by itself.

Spark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource``. One
that raises breaks the look-up of every other Python source, so nothing here may raise, and no
native code is loaded before a query uses the source.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSource

DefaultSource: type[DataSource]

try:
    from thalweg.spark.source import ThalwegDataSource

    DefaultSource = ThalwegDataSource
except Exception as error:  # a broken install must harm its own users only
    _cause = f"{type(error).__name__}: {error}"

    class _BrokenSource(DataSource):
        """Stands for a source that cannot be imported, and says why when it is used."""

        @classmethod
        def name(cls) -> str:
            """The word for ``.format()``."""
            return "thalweg"

        def schema(self) -> NoReturn:
            """Raises the import's error to whoever uses the source."""
            raise ImportError(f"thalweg is installed but cannot be imported: {_cause}")

        def writer(self, schema: object, overwrite: bool) -> NoReturn:
            """Raises the import's error to whoever uses the source."""
            self.schema()

        def streamWriter(self, schema: object, overwrite: bool) -> NoReturn:  # noqa: N802
            """Raises the import's error to whoever uses the source."""
            self.schema()

    DefaultSource = _BrokenSource
