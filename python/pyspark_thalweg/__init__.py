"""Lets Spark find ``.format("thalweg")`` without registration.

Spark imports every top-level module named ``pyspark_*`` and registers its ``DefaultSource``. An
exception in one of them breaks the lookup of all Python sources, so this module must not raise. It
loads no native code before a query uses the source.
"""

from __future__ import annotations

from typing import NoReturn

from pyspark.sql.datasource import DataSource

DefaultSource: type[DataSource]

try:
    from thalweg.spark.source import ThalwegDataSource

    DefaultSource = ThalwegDataSource
except Exception as error:  # a broken installation must not break other sources
    _cause = f"{type(error).__name__}: {error}"

    class _BrokenSource(DataSource):
        """Takes the place of a source that cannot be imported. Using it raises the reason."""

        @classmethod
        def name(cls) -> str:
            """Returns the name for ``.format()``."""
            return "thalweg"

        def schema(self) -> NoReturn:
            """Raises an ImportError with the reason."""
            raise ImportError(f"thalweg is installed but cannot be imported: {_cause}")

        def writer(self, schema: object, overwrite: bool) -> NoReturn:
            """Raises an ImportError with the reason."""
            self.schema()

        def streamWriter(self, schema: object, overwrite: bool) -> NoReturn:  # noqa: N802
            """Raises an ImportError with the reason."""
            self.schema()

    DefaultSource = _BrokenSource
