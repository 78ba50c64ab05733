//! Converts the arguments and results of offset lookups, and reads what is known of a partition.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thalweg_consumer::{ConsumerError, ListedOffset, OffsetSpec, Partitions, TopicPartition};
use thalweg_network::consumer::OffsetLookup;

use crate::consuming::arguments::{Pair, partition_of};
use crate::consuming::polling::OpenConsumer;
use crate::convert::errors;
use crate::interpreter::gil;

/// Topic, partition, timestamp.
pub(crate) type Target = (String, i32, i64);

/// Topic, partition, offset, timestamp, leader epoch.
pub(crate) type Listed = (String, i32, i64, i64, i32);

/// Reads what is known of an assigned partition, without a request.
pub(crate) fn of_partition<T>(
    py: Python<'_>,
    core: &OpenConsumer,
    partition: Pair,
    read: impl FnOnce(&Partitions, &TopicPartition) -> Result<T, ConsumerError>,
) -> PyResult<T> {
    let found = read(core.consumer().partitions(), &partition_of(partition));
    found.map_err(|error| errors::consumer(py, &error))
}

/// Starts a lookup.
pub(crate) fn look_up(
    core: &OpenConsumer,
    targets: Vec<Target>,
    timeout_ms: Option<f64>,
) -> PyResult<OffsetLookup> {
    let asked = asked(targets)?;
    Ok(core.client.list_offsets(asked, gil::limit_ms(timeout_ms)))
}

fn asked(targets: Vec<Target>) -> PyResult<Vec<(TopicPartition, OffsetSpec)>> {
    let lookup = |(topic, partition, timestamp)| {
        let spec = OffsetSpec::from_wire_timestamp(timestamp).ok_or_else(|| {
            let text = format!("timestamp {timestamp}: expected Unix milliseconds, -1, -2 or -3");
            PyValueError::new_err(text)
        })?;
        Ok((partition_of((topic, partition)), spec))
    };
    targets.into_iter().map(lookup).collect()
}

/// Converts what a lookup found.
pub(crate) fn listed(found: Vec<ListedOffset>) -> Vec<Listed> {
    let row = |one: ListedOffset| {
        let tp = one.partition;
        let topic = tp.topic.to_string();
        (
            topic,
            tp.partition,
            one.offset,
            one.timestamp,
            one.leader_epoch,
        )
    };
    found.into_iter().map(row).collect()
}
