//! The errors of columns. Each names the column, if it concerns one.

use thalweg_consumer::TopicPartition;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    #[error("unknown column {name:?}. The valid columns are {}", valid.join(", "))]
    UnknownColumn { name: String, valid: Vec<String> },

    #[error("column {name:?} appears more than once")]
    DuplicateColumn { name: String },

    #[error("the data has no column \"value\"")]
    NoValueColumn,

    #[error("column {name:?} has the type {found}, but must be {expected}")]
    ColumnType {
        name: String,
        found: String,
        expected: &'static str,
    },

    #[error("expected a table or a record batch, got an array of {found}")]
    NoTable { found: String },

    #[error("row {row} is null. Only the values in its columns may be null")]
    NullRow { row: usize },

    #[error("row {row}: column {name:?}: {reason}")]
    Row {
        row: usize,
        name: &'static str,
        reason: String,
    },

    #[error("the Arrow {what} was already released. Each can be read only once")]
    Released { what: &'static str },

    #[error("the Arrow data is malformed: {reason}")]
    Malformed { reason: String },

    #[error("a column of {found} cannot be read")]
    UnreadableType { found: String },

    /// The stream ended early, for the reason that its producer gave.
    #[error("the Arrow stream failed: {reason}")]
    Stream { reason: String },

    /// The timestamp in milliseconds does not fit into 64 bits as microseconds. Spark's own connector
    /// has the same name for it.
    #[error(
        "[KAFKA_MALFORMED_RECORD_TIMESTAMP] {partition}, offset {offset}: the timestamp \
         {timestamp_ms} ms does not fit into microseconds. To read the record, leave out the \
         column timestamp"
    )]
    MalformedTimestamp {
        partition: TopicPartition,
        offset: i64,
        timestamp_ms: i64,
    },

    /// Arrow itself reported an error.
    #[error("Arrow: {0}")]
    Arrow(String),
}

impl From<arrow_schema::ArrowError> for ColumnsError {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Arrow(error.to_string())
    }
}
