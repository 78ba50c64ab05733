"""RecordTable: conversions with the Arrow PyCapsule interface."""

import sys
from typing import Any

import pyarrow as pa
import pytest

from thalweg.tables import RecordTable

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


class Native:
    """The interface of the core's table, with pyarrow."""

    def __init__(self, rows: int) -> None:
        self.table = pa.table(
            {
                "topic": ["<t>"] * rows,
                "partition": pa.array([0] * rows, pa.int32()),
                "offset": range(rows),
                "timestamp": pa.array([0] * rows, pa.timestamp("ms", "UTC")),
                "key": pa.array([None] * rows, pa.binary()),
                "value": [b"v"] * rows,
            },
            schema=SCHEMA,
        )

    num_rows = property(lambda self: self.table.num_rows)
    nbytes = property(lambda self: self.table.nbytes)
    column_names = property(lambda self: self.table.column_names)

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def table(rows: int = 3) -> RecordTable:
    return RecordTable(Native(rows))  # type: ignore[arg-type]


def test_it_knows_its_size():
    found = table()
    assert len(found) == found.num_rows == 3
    assert found.nbytes > 0
    assert found.column_names == SCHEMA.names
    assert repr(found) == f"<RecordTable of 3 records, {found.nbytes} bytes>"


def test_it_is_exported_any_number_of_times():
    found = table()
    for _ in range(2):
        assert pa.table(found).num_rows == 3
        assert found.to_pyarrow().schema == SCHEMA
    assert pa.schema(found) == SCHEMA


def test_an_empty_table_has_the_same_schema():
    assert table(0).to_pyarrow().schema == SCHEMA
    assert len(table(0).to_pandas()) == 0


def test_pandas_and_polars():
    frame = table().to_pandas()
    assert list(frame["offset"]) == [0, 1, 2]
    assert str(frame["timestamp"].dtype) == "datetime64[ms, UTC]"
    other = table().to_polars()
    assert other["value"].to_list() == [b"v"] * 3
    assert other.columns == SCHEMA.names


def test_notebooks_see_the_first_rows_escaped():
    text = table(30)._repr_html_()
    assert text.count("<tr>") == 11
    assert "&lt;t&gt;" in text
    assert "30 records" in text


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_a_missing_library_says_what_to_install(library, monkeypatch):
    # Made first, because pyarrow itself looks for pandas when it makes the table.
    method: Any = getattr(table(), f"to_{library}")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"{library} is not installed: pip install 'thalweg\["):
        method()
    if library == "pyarrow":
        assert "3 records" in table()._repr_html_()
