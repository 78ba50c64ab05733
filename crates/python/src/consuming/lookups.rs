//! Offset lookups of both consumers: the request, the wait and the result.

use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thalweg_consumer::{ConsumerError, ListedOffset, OffsetSpec, Pending, TopicPartition};

use thalweg_network::ClientView;

use crate::consuming::arguments::partition_of;
use crate::consuming::polling::Core;
use crate::convert::errors;
use crate::interpreter::gil;
use crate::operation::is_over;
use crate::producing::producer::far_away;

/// Topic, partition, timestamp.
pub(crate) type Target = (String, i32, i64);

/// Topic, partition, offset, timestamp, leader epoch.
pub(crate) type Listed = (String, i32, i64, i64, i32);

/// The core ends a lookup at its deadline with the last problem it met. The wait ends this much
/// later, so that this error arrives.
const GRACE: Duration = Duration::from_secs(5);

/// A running lookup.
pub(crate) struct Lookup {
    pending: Pending<Vec<ListedOffset>>,
    view: ClientView,
    deadline: Instant,
}

impl Lookup {
    pub(crate) fn new(
        core: &Core,
        targets: Vec<Target>,
        timeout_ms: Option<f64>,
    ) -> PyResult<Self> {
        let asked = asked(targets)?;
        let deadline = gil::deadline_ms(timeout_ms).unwrap_or_else(far_away);
        Ok(Self {
            pending: core.consumer().list_offsets(asked, deadline),
            view: core.client.view().clone(),
            deadline: deadline + GRACE,
        })
    }

    /// Waits for the result without the GIL.
    pub(crate) fn wait(&self, py: Python<'_>) -> PyResult<Vec<Listed>> {
        let pending = &self.pending;
        let outcome = gil::wait(py, Some(self.deadline), |waker| match pending.poll(waker) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        })?;
        self.listed(py, outcome.ok_or_else(|| too_late(py))?)
    }

    /// Returns the result, or `None` if there is none yet. Then `waker` is woken when the result
    /// arrives. The caller must poll again at the deadline.
    pub(crate) fn poll(&self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Vec<Listed>>> {
        match self.pending.poll(waker) {
            Poll::Ready(outcome) => self.listed(py, outcome).map(Some),
            Poll::Pending if !is_over(Some(self.deadline)) => Ok(None),
            Poll::Pending => Err(too_late(py)),
        }
    }

    fn listed(
        &self,
        py: Python<'_>,
        outcome: Result<Vec<ListedOffset>, ConsumerError>,
    ) -> PyResult<Vec<Listed>> {
        match (&outcome, self.view.failure()) {
            // The consumer's core does not know why its client has ended.
            (Err(ConsumerError::Closed), Some(failure)) => Err(errors::client(py, &failure)),
            _ => listed(py, outcome),
        }
    }

    /// Returns when the wait for the result ends.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }
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

fn listed(
    py: Python<'_>,
    outcome: Result<Vec<ListedOffset>, ConsumerError>,
) -> PyResult<Vec<Listed>> {
    let found = outcome.map_err(|error| errors::consumer(py, &error))?;
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
    Ok(found.into_iter().map(row).collect())
}

fn too_late(py: Python<'_>) -> PyErr {
    errors::raise(
        py,
        "KafkaTimeoutError",
        "the brokers did not report the offsets in time",
    )
}
