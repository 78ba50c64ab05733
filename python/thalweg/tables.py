"""RecordTable: records as Arrow columns, the result of `poll_arrow`.

    poll_arrow() ──> _core.RecordTable (Arrow's C data) ──> RecordTable ──> pyarrow, pandas, polars

The table implements the Arrow PyCapsule interface, so you can pass it to any library that reads
this interface (pyarrow, polars, duckdb, ...). You can export it several times, without a copy.
Each method imports only the library in its name.
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
        raise ImportError(
            f"{library} is not installed: pip install 'thalweg[{extra}]'"
        ) from missing


class RecordTable:
    """Records as Arrow columns. The table is immutable.

    The columns, even of an empty table: topic string, partition int32, offset int64, timestamp
    timestamp[ms, UTC], timestamp_type int32, leader_epoch int32, key binary, value binary,
    headers list<struct<key: string, value: binary>>. key, value and headers may be null.
    """

    __slots__ = ("_native",)

    def __init__(self, native: "_core.RecordTable") -> None:
        self._native = native

    @property
    def num_rows(self) -> int:
        """The number of records."""
        return self._native.num_rows

    @property
    def nbytes(self) -> int:
        """The size of all columns in bytes."""
        return self._native.nbytes

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return self._native.column_names

    def __len__(self) -> int:
        return self._native.num_rows

    def __arrow_c_schema__(self) -> object:
        """Exports the schema (Arrow's PyCapsule interface)."""
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the columns as a stream of record batches (Arrow's PyCapsule interface)."""
        return self._native.__arrow_c_stream__(requested_schema)

    def to_pyarrow(self) -> "pa.Table":
        """Returns a pyarrow.Table that shares the memory.

        Raises:
            ImportError: If pyarrow is not installed. The message says what to install.
        """
        return _require("pyarrow", "arrow").table(self)

    def to_pandas(self, **options: Any) -> "pd.DataFrame":
        """Returns a pandas.DataFrame. `options` go to pyarrow.Table.to_pandas.

        Raises:
            ImportError: If pyarrow or pandas is not installed. The message says what to install.
        """
        _require("pandas", "spark")
        return self.to_pyarrow().to_pandas(**options)

    def to_polars(self) -> "pl.DataFrame":
        """Returns a polars.DataFrame. It shares the memory if polars can.

        Raises:
            ImportError: If polars is not installed. The message says what to install.
        """
        frame: pl.DataFrame = _require("polars", "all").DataFrame(self)
        return frame

    def __repr__(self) -> str:
        return f"<RecordTable of {self.num_rows} records, {self.nbytes} bytes>"

    def _repr_html_(self) -> str:
        """Returns the first rows, for notebooks. Without pyarrow, only the summary."""
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
