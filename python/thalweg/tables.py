"""Columns of consumed records: what `poll_arrow` returns.

    poll_arrow() ──> _core.RecordTable (Arrow's C data) ──> RecordTable ──> pyarrow, pandas, polars

The table is exported by the Arrow PyCapsule interface, any number of times and without a copy,
so any library that reads it (pyarrow, polars, duckdb, ...) takes the object itself. Libraries
are imported only by the method that names them.
"""

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped,unused-ignore]
    import polars as pl
    import pyarrow as pa

    from thalweg import _core

__all__ = ["RecordTable"]

_SHOWN_ROWS = 10


def _require(library: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(library)
    except ImportError as missing:
        raise ImportError(f"{library} is needed: pip install 'thalweg[{extra}]'") from missing


class RecordTable:
    """Records as columns; immutable.

    Columns, also when empty: topic string, partition int32, offset int64, timestamp
    timestamp[ms, UTC], timestamp_type int32, leader_epoch int32, key binary, value binary,
    headers list<struct<key: string, value: binary>>. key, value and headers may be null.
    """

    __slots__ = ("_native",)

    def __init__(self, native: "_core.RecordTable") -> None:
        self._native = native

    @property
    def num_rows(self) -> int:
        """Number of records."""
        return self._native.num_rows

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return self._native.nbytes

    @property
    def column_names(self) -> list[str]:
        """Names in order."""
        return self._native.column_names

    def __len__(self) -> int:
        return self._native.num_rows

    def __arrow_c_schema__(self) -> object:
        """Arrow's PyCapsule interface: the schema."""
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's PyCapsule interface: the columns, as a stream of record batches."""
        return self._native.__arrow_c_stream__(requested_schema)

    def to_pyarrow(self) -> "pa.Table":
        """A pyarrow.Table over the same memory.

        Raises:
            ImportError: Without pyarrow; says what to install.
        """
        return _require("pyarrow", "arrow").table(self)

    def to_pandas(self, **options: Any) -> "pd.DataFrame":
        """A pandas.DataFrame; `options` are those of pyarrow.Table.to_pandas.

        Raises:
            ImportError: Without pyarrow or pandas; says what to install.
        """
        _require("pandas", "spark")
        return self.to_pyarrow().to_pandas(**options)

    def to_polars(self) -> "pl.DataFrame":
        """A polars.DataFrame over the same memory where polars allows it.

        Raises:
            ImportError: Without polars; says what to install.
        """
        frame: pl.DataFrame = _require("polars", "all").DataFrame(self)
        return frame

    def __repr__(self) -> str:
        return f"<RecordTable of {self.num_rows} records, {self.nbytes} bytes>"

    def _repr_html_(self) -> str:
        """The first rows, for notebooks; the summary alone without pyarrow."""
        summary = html.escape(repr(self))
        try:
            rows = self.to_pyarrow().slice(0, _SHOWN_ROWS).to_pylist()
        except ImportError:
            return f"<p>{summary}</p>"
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.column_names)
        body = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row.values())
            + "</tr>"
            for row in rows
        )
        return f"<table><tr>{head}</tr>{body}</table><p>{summary}</p>"
