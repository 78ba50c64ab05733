//! `ClusterMetadata`: a snapshot of a client's metadata, with kafka.cluster's method names.

use std::collections::BTreeSet;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet};
use thalweg_cluster::Metadata;
use thalweg_network::ClientView;
use thalweg_protocol::Str;

use crate::convert::types;
use crate::interpreter::{callbacks, failures};

/// An immutable snapshot of the client's metadata of the cluster.
///
/// Its methods are those of kafka.cluster.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct ClusterMetadata(Arc<Metadata>);

impl ClusterMetadata {
    pub(crate) fn new(metadata: Arc<Metadata>) -> Self {
        Self(metadata)
    }
}

/// Returns the `BrokerMetadata` of a node.
pub(crate) fn broker<'py>(
    py: Python<'py>,
    node: &thalweg_cluster::Node,
) -> PyResult<Bound<'py, PyAny>> {
    types::broker_metadata(py, node.id, &node.host, node.port, node.rack.as_deref())
}

/// Calls `f(cluster_id)` on the callback thread: at once if the ID is known, and after each
/// change, until the client is closed.
pub(crate) fn watch_id(view: ClientView, f: Py<PyAny>) {
    callbacks::current().run(Box::new(move |py| tell_id(py, view, f, None)));
}

/// Runs on the callback thread, so the wake-up for the next change is handled after it.
fn tell_id(py: Python<'_>, view: ClientView, f: Py<PyAny>, mut told: Option<Str>) {
    loop {
        let seen = view.metadata().changes();
        let id = view.metadata().snapshot().cluster_id.clone();
        if id.is_some() && id != told {
            if let Err(error) = f.call1(py, (id.as_deref(),)) {
                failures::report(py, "a listener for the cluster id", error);
            }
            told = id;
        }
        if view.check().is_err() {
            return;
        }
        let thread = callbacks::current();
        let token = thread.new_token();
        if view
            .metadata()
            .wait_for_change(seen, &callbacks::waker(token, callbacks::current))
        {
            thread.register(token, Box::new(move |py| tell_id(py, view, f, told)));
            return;
        }
    }
}

#[pymethods]
impl ClusterMetadata {
    /// The cluster's ID, or None if no broker has sent it yet.
    #[getter]
    fn cluster_id(&self) -> Option<&str> {
        self.0.cluster_id.as_deref()
    }

    /// The controller, or None if it is not known.
    #[getter]
    fn controller<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let id = self.0.controller;
        id.and_then(|id| self.0.node(id))
            .map(|node| broker(py, node))
            .transpose()
    }

    /// A version that grows by one with each metadata response that changes something.
    #[getter]
    fn update_version(&self) -> u64 {
        self.0.version
    }

    /// Returns the names of the topics, with or without Kafka's internal topics.
    #[pyo3(signature = (exclude_internal_topics = true))]
    fn topics(&self, exclude_internal_topics: bool) -> BTreeSet<String> {
        self.0
            .topics()
            .filter(|topic| !(exclude_internal_topics && topic.is_internal))
            .map(|topic| topic.name.to_string())
            .collect()
    }

    /// Returns all brokers.
    fn brokers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        let set = PySet::empty(py)?;
        for node in self.0.nodes() {
            set.add(broker(py, node)?)?;
        }
        Ok(set)
    }

    /// Returns the broker with this node ID, or None if it is not known.
    fn broker_metadata<'py>(
        &self,
        py: Python<'py>,
        broker_id: i32,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0
            .node(broker_id)
            .map(|node| broker(py, node))
            .transpose()
    }

    /// Returns all partition IDs, or None if the topic is not known, as in kafka-python.
    fn partitions_for_topic(&self, topic: &str) -> Option<BTreeSet<i32>> {
        let known = self.0.topic(topic)?;
        Some(
            known
                .partitions
                .iter()
                .map(|partition| partition.index)
                .collect(),
        )
    }

    /// Whether a topic of {topic: number of partitions} now has more partitions.
    ///
    /// The driver calls it.
    fn has_more_partitions(&self, py: Python<'_>, known: &Bound<'_, PyDict>) -> PyResult<bool> {
        for topic in self.0.topics() {
            if let Some(count) = known.get_item(pyo3::types::PyString::new(py, &topic.name))?
                && topic.partitions.len() > count.extract::<usize>()?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the partitions that have a leader.
    fn available_partitions_for_topic(&self, topic: &str) -> Option<BTreeSet<i32>> {
        let known = self.0.topic(topic)?;
        let led = known
            .partitions
            .iter()
            .filter(|partition| partition.leader.is_some());
        Some(led.map(|partition| partition.index).collect())
    }

    /// Returns the leader's node ID, -1 if there is no leader, or None if the partition is unknown.
    fn leader_for_partition(&self, partition: (String, i32)) -> Option<i32> {
        let found = self.0.partition(&partition.0, partition.1)?;
        Some(found.leader.unwrap_or(-1))
    }
}
