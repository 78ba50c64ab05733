"""The columns of the source and the sink: the same as in Spark's Kafka connector.

| column | Spark type | meaning |
|---|---|---|
| key | binary | null if the record has no key |
| value | binary | null for a tombstone |
| topic | string | |
| partition | int | |
| offset | long | |
| timestamp | timestamp | milliseconds, stored as microseconds |
| timestampType | int | 0: create time, 1: log append time |
| headers | array<struct<key: string, value: binary>> | only with `includeHeaders`. May be null |
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from thalweg.config import IgnoredOptionWarning

HEADERS = "headers"

HEADERS_TYPE = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)


_TYPES: Mapping[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: HEADERS_TYPE,
}


def parse_columns(given: Mapping[str, str], *, include_headers: bool) -> tuple[str, ...]:
    """Returns the columns to read, in their order.

    Args:
        given: The options, with names in lower case.
        include_headers: Whether the default has the column headers.

    Raises:
        ValueError: If the option names no column, an unknown one, or one twice.
    """
    value = given.get("columns")
    if value is None:
        return (
            tuple(_TYPES) if include_headers else tuple(name for name in _TYPES if name != HEADERS)
        )
    by_lower = {name.lower(): name for name in _TYPES}
    chosen = [name for name in (part.strip() for part in value.split(",")) if name]
    for name in chosen:
        if name.lower() not in by_lower:
            raise ValueError(
                f"Option 'columns' names '{name}', which is not a column of the source. "
                f"Its columns are {', '.join(_TYPES)}."
            )
    columns = tuple(by_lower[name.lower()] for name in chosen)
    if include_headers and HEADERS not in columns:
        warnings.warn(
            "includeHeaders has no effect: 'columns' names the columns, and headers is not among"
            " them",
            IgnoredOptionWarning,
            stacklevel=4,
        )
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(
            f"Option 'columns' must name at least one column, and none twice, got '{value}'."
        )
    return columns


def source_schema(columns: Iterable[str]) -> StructType:
    """Returns the schema of a read. Every column is nullable, as in the connector."""
    return StructType([StructField(name, _TYPES[name]) for name in columns])


def wanted_columns(schema: StructType) -> tuple[str, ...]:
    """Returns the columns of a schema that the user may have given.

    Raises:
        ValueError: If it is not a choice of the source's columns with their types.
    """
    for field in schema.fields:
        expected = _TYPES.get(field.name)
        if field != StructField(field.name, expected or NullType()):
            known = ", ".join(f"{name} {kind.simpleString()}" for name, kind in _TYPES.items())
            raise ValueError(
                "Kafka source has a fixed schema and cannot be set with a custom one. A schema can "
                f"only choose columns of: {known}. All are nullable. It has "
                f"{field.name} {field.dataType.simpleString()}"
                f"{'' if field.nullable else ' not null'}."
            )
    if not schema.fields or len(set(schema.names)) < len(schema.names):
        raise ValueError("A schema must have at least one column, and none twice.")
    return tuple(schema.names)


def check_sink_schema(schema: StructType, topic_option: str | None) -> None:
    """Checks the columns of a write before any task starts.

    Raises:
        ValueError: If a column is missing or has a wrong type. The message is the connector's.
    """
    types = {field.name: field.dataType for field in schema.fields}
    if "topic" not in types and topic_option is None:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option "
            "for setting a topic."
        )
    if "value" not in types:
        raise ValueError(
            "Required attribute 'value' not found. The columns are"
            f" {', '.join(schema.names) or 'none'}. Rename one of them, for example with"
            " selectExpr('... as value')"
        )
    if "topic" in types:
        _expect(types["topic"], "topic", "string", StringType())
    _expect(types["value"], "value", "string or binary", StringType(), BinaryType())
    if "key" in types:
        _expect(types["key"], "key", "string or binary", StringType(), BinaryType())
    if "partition" in types:
        _expect(types["partition"], "partition", "int", IntegerType())
    if "headers" in types and not _is_headers(types["headers"]):
        raise ValueError(_wrong_type("headers", types["headers"], HEADERS_TYPE.simpleString()))


def _is_headers(actual: DataType) -> bool:
    """Compares the types without nullability, because Spark's literals have non-null fields."""
    return actual.simpleString() == HEADERS_TYPE.simpleString()


def _expect(actual: DataType, column: str, wanted: str, *allowed: DataType) -> None:
    if not any(isinstance(actual, type(one)) for one in allowed):
        raise ValueError(_wrong_type(column, actual, wanted))


def _wrong_type(column: str, actual: DataType, wanted: str) -> str:
    given = actual.simpleString()
    return f"{column} attribute unsupported type {given}. {column} must be a(n) {wanted}"
