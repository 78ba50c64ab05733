//! Converts arguments and results of both consumers to and from the core's types.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PySet;
use thalweg_columns::TableLimits;
use thalweg_consumer::{FetchPosition, OffsetReset, TopicPartition};

use crate::consuming::polling::OpenConsumer;
use crate::convert::types;

pub(crate) type Pair = (String, i32);

pub(crate) fn partition_of((topic, partition): Pair) -> TopicPartition {
    TopicPartition {
        topic: topic.into(),
        partition,
    }
}

pub(crate) fn partitions_of(pairs: Vec<Pair>) -> Vec<TopicPartition> {
    pairs.into_iter().map(partition_of).collect()
}

/// Returns the partitions of any iterable.
pub(crate) fn each_partition(iterable: &Bound<'_, PyAny>) -> PyResult<Vec<TopicPartition>> {
    let pairs = iterable.try_iter()?.map(|item| item?.extract::<Pair>());
    pairs.map(|pair| pair.map(partition_of)).collect()
}

/// Checks the offset of a seek.
pub(crate) fn offset_of(offset: i64) -> PyResult<i64> {
    if offset < 0 {
        let text = format!("offset {offset}: an offset is 0 or more");
        return Err(PyValueError::new_err(text));
    }
    Ok(offset)
}

/// Returns the end of the log that a word names.
pub(crate) fn reset_of(word: &str) -> PyResult<OffsetReset> {
    match word {
        "earliest" => Ok(OffsetReset::Earliest),
        "latest" => Ok(OffsetReset::Latest),
        other => Err(PyValueError::new_err(format!(
            "where is 'earliest' or 'latest', not {other:?}"
        ))),
    }
}

pub(crate) fn partition_set(
    py: Python<'_>,
    partitions: Vec<TopicPartition>,
) -> PyResult<Bound<'_, PySet>> {
    let set = PySet::empty(py)?;
    for tp in partitions {
        set.add(types::topic_partition(py, &tp.topic, tp.partition)?)?;
    }
    Ok(set)
}

/// Returns the committed offset of each partition, or `None` if it has none.
pub(crate) fn committed_of(
    offsets: &Bound<'_, PyAny>,
) -> PyResult<Vec<(TopicPartition, Option<FetchPosition>)>> {
    let mut found = Vec::new();
    for item in offsets.call_method0("items")?.try_iter()? {
        let (pair, committed): (Pair, Bound<'_, PyAny>) = item?.extract()?;
        let position = if committed.is_none() {
            None
        } else {
            Some(FetchPosition {
                offset: committed.getattr("offset")?.extract()?,
                leader_epoch: committed.getattr("leader_epoch")?.extract()?,
            })
        };
        found.push((partition_of(pair), position));
    }
    Ok(found)
}

/// Returns the limits of a table: rows and bytes.
pub(crate) fn table_limits(
    core: &OpenConsumer,
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
