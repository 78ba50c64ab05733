//! Defines which columns a table of records has, and their exact Arrow types.
//!
//! There are two layouts: that of `poll_arrow`, and that of Spark's Kafka connector. Spark compares
//! names, order, inner names and nullability exactly with the schema it announced. Both can be
//! projected: columns that are not requested are not filled at all.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::error::ColumnsError;

/// The content of a column, whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    Key,
    Value,
    Topic,
    Partition,
    Offset,
    Timestamp,
    TimestampType,
    LeaderEpoch,
    Headers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimestampUnit {
    Millisecond,
    Microsecond,
}

/// The columns of a table, in order.
#[derive(Clone, Debug)]
pub struct Layout {
    columns: Vec<Column>,
    schema: SchemaRef,
    pub(crate) timestamp_unit: TimestampUnit,
}

impl Layout {
    /// Returns the layout of `poll_arrow`. Only key, value and headers may be null.
    pub fn poll() -> Self {
        let columns = [
            (Column::Topic, Field::new("topic", DataType::Utf8, false)),
            (
                Column::Partition,
                Field::new("partition", DataType::Int32, false),
            ),
            (Column::Offset, Field::new("offset", DataType::Int64, false)),
            (
                Column::Timestamp,
                Field::new("timestamp", timestamp(TimeUnit::Millisecond), false),
            ),
            (
                Column::TimestampType,
                Field::new("timestamp_type", DataType::Int32, false),
            ),
            (
                Column::LeaderEpoch,
                Field::new("leader_epoch", DataType::Int32, false),
            ),
            (Column::Key, Field::new("key", DataType::Binary, true)),
            (Column::Value, Field::new("value", DataType::Binary, true)),
            (
                Column::Headers,
                Field::new("headers", headers("item"), true),
            ),
        ];
        Self::of(columns, TimestampUnit::Millisecond)
    }

    /// Returns the layout of Spark's Kafka source: every column is nullable, times are in
    /// microseconds.
    pub fn spark(include_headers: bool) -> Self {
        let columns = [
            (Column::Key, Field::new("key", DataType::Binary, true)),
            (Column::Value, Field::new("value", DataType::Binary, true)),
            (Column::Topic, Field::new("topic", DataType::Utf8, true)),
            (
                Column::Partition,
                Field::new("partition", DataType::Int32, true),
            ),
            (Column::Offset, Field::new("offset", DataType::Int64, true)),
            (
                Column::Timestamp,
                Field::new("timestamp", timestamp(TimeUnit::Microsecond), true),
            ),
            (
                Column::TimestampType,
                Field::new("timestampType", DataType::Int32, true),
            ),
        ];
        let headers = include_headers.then(|| {
            (
                Column::Headers,
                Field::new("headers", headers("element"), true),
            )
        });
        Self::of(
            columns.into_iter().chain(headers),
            TimestampUnit::Microsecond,
        )
    }

    fn of(
        columns: impl IntoIterator<Item = (Column, Field)>,
        timestamp_unit: TimestampUnit,
    ) -> Self {
        let (columns, fields): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        Self {
            columns,
            schema: Arc::new(Schema::new(fields)),
            timestamp_unit,
        }
    }

    /// Returns a layout with only these columns, in this order.
    pub fn project<S: AsRef<str>>(&self, names: &[S]) -> Result<Self, ColumnsError> {
        let mut chosen = Vec::with_capacity(names.len());
        for name in names {
            let name = name.as_ref();
            let index = self
                .schema
                .index_of(name)
                .map_err(|_| ColumnsError::UnknownColumn {
                    name: name.to_owned(),
                    valid: self
                        .schema
                        .fields()
                        .iter()
                        .map(|f| f.name().clone())
                        .collect(),
                })?;
            chosen.push((self.columns[index], self.schema.field(index).clone()));
        }
        Ok(Self::of(chosen, self.timestamp_unit))
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn has(&self, column: Column) -> bool {
        self.columns.contains(&column)
    }
}

fn timestamp(unit: TimeUnit) -> DataType {
    DataType::Timestamp(unit, Some("UTC".into()))
}

/// Returns `list<struct<key: string, value: binary>>`. Spark calls a list's items `element`, Arrow
/// `item`.
fn headers(item_name: &str) -> DataType {
    DataType::List(Arc::new(Field::new(
        item_name,
        DataType::Struct(header_fields()),
        true,
    )))
}

pub(crate) fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spark_names_and_order_are_the_connectors() {
        let names: Vec<_> = Layout::spark(true)
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        assert_eq!(
            names,
            [
                "key",
                "value",
                "topic",
                "partition",
                "offset",
                "timestamp",
                "timestampType",
                "headers"
            ]
        );
        assert!(
            Layout::spark(true)
                .schema()
                .fields()
                .iter()
                .all(|f| f.is_nullable())
        );
        assert_eq!(Layout::spark(false).columns().len(), 7);
    }

    #[test]
    fn a_projection_keeps_types_and_names_the_unknown() {
        let layout = Layout::poll()
            .project(&["value", "offset"])
            .expect("both exist");
        assert_eq!(layout.columns(), [Column::Value, Column::Offset]);
        assert_eq!(layout.schema().field(1).data_type(), &DataType::Int64);
        let error = Layout::poll()
            .project(&["valu"])
            .expect_err("no such column");
        assert!(error.to_string().contains("valu") && error.to_string().contains("leader_epoch"));
    }
}
