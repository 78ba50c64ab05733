//! Arguments and answers of both consumers, to and from the core's types.

use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use thalweg_columns::TableLimits;
use thalweg_consumer::{ListedOffset, OffsetSpec, TopicPartition};

use crate::polling::Core;

pub(crate) type Pair = (String, i32);

/// Topic, partition, offset, timestamp, leader epoch.
pub(crate) type Listed = (String, i32, i64, i64, i32);

pub(crate) fn partition_of((topic, partition): Pair) -> TopicPartition {
    TopicPartition {
        topic: topic.into(),
        partition,
    }
}

pub(crate) fn partitions_of(pairs: Vec<Pair>) -> Vec<TopicPartition> {
    pairs.into_iter().map(partition_of).collect()
}

/// What `list_offsets` is asked for: topic, partition, timestamp.
pub(crate) fn lookups(
    targets: Vec<(String, i32, i64)>,
) -> PyResult<Vec<(TopicPartition, OffsetSpec)>> {
    let lookup = |(topic, partition, timestamp)| {
        let spec = OffsetSpec::from_wire_timestamp(timestamp).ok_or_else(|| {
            let text = format!("timestamp {timestamp}: expected Unix milliseconds, -1, -2 or -3");
            PyValueError::new_err(text)
        })?;
        Ok((partition_of((topic, partition)), spec))
    };
    targets.into_iter().map(lookup).collect()
}

pub(crate) fn listed_rows(listed: Vec<ListedOffset>) -> Vec<Listed> {
    listed
        .into_iter()
        .map(|one| {
            let tp = one.partition;
            let topic = tp.topic.to_string();
            (
                topic,
                tp.partition,
                one.offset,
                one.timestamp,
                one.leader_epoch,
            )
        })
        .collect()
}

/// Of a table: its rows and bytes.
pub(crate) fn table_limits(
    core: &Core,
    max_records: Option<usize>,
    max_bytes: Option<usize>,
) -> PyResult<TableLimits> {
    Ok(TableLimits {
        rows_max: at_least_one("max_records", max_records)?.unwrap_or(usize::MAX),
        bytes_max: at_least_one("max_bytes", max_bytes)?.unwrap_or(core.poll_arrow_max_bytes),
    })
}

pub(crate) fn at_least_one(name: &str, value: Option<usize>) -> PyResult<Option<usize>> {
    match value {
        Some(0) => Err(PyValueError::new_err(format!("{name} must be at least 1"))),
        other => Ok(other),
    }
}
