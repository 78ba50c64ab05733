//! The immutable picture of the cluster that all threads read.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use thalweg_protocol::{ErrorCode, Str, Uuid};

use crate::request::NodeId;

/// No cluster has so many brokers. A response that names more is an attack or an error, so the
/// client ignores the rest.
pub(crate) const NODES_MAX: usize = 10_000;

/// A broker's advertised address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub id: NodeId,
    pub host: Str,
    pub port: u16,
    pub rack: Option<Str>,
}

/// One partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub index: i32,
    /// `None` during an election.
    pub leader: Option<NodeId>,
    /// -1 if the broker is too old to report it.
    pub leader_epoch: i32,
    pub replicas: Vec<NodeId>,
    pub isr: Vec<NodeId>,
    pub offline_replicas: Vec<NodeId>,
    pub error: ErrorCode,
}

/// One topic. A recreated topic has the same name but a different id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: Str,
    /// `Uuid::ZERO` if the broker is too old to report it.
    pub id: Uuid,
    pub is_internal: bool,
    /// Sorted by index. Every index is less than the number of partitions in the broker's response.
    pub partitions: Vec<Partition>,
    /// How many responses in a row have omitted the topic. A restarting broker reports less than it
    /// should, so the topic stays for a few such responses.
    pub omitted_count: u32,
}

impl Topic {
    pub fn partition(&self, index: i32) -> Option<&Partition> {
        Some(&self.partitions[self.position(index)?])
    }

    pub(super) fn partition_mut(&mut self, index: i32) -> Option<&mut Partition> {
        let at = self.position(index)?;
        Some(&mut self.partitions[at])
    }

    fn position(&self, index: i32) -> Option<usize> {
        let dense = usize::try_from(index).ok()?;
        match self.partitions.get(dense) {
            Some(found) if found.index == index => Some(dense),
            _ => self
                .partitions
                .binary_search_by_key(&index, |p| p.index)
                .ok(),
        }
    }
}

/// A snapshot of what the brokers last reported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Counts the snapshots made so far. 0 means that no response has come yet.
    pub version: u64,
    pub cluster_id: Option<Str>,
    pub controller: Option<NodeId>,
    pub(super) nodes: BTreeMap<NodeId, Arc<Node>>,
    pub(super) topics: IndexMap<Str, Arc<Topic>>,
    pub(super) names: BTreeMap<Uuid, Str>,
    /// Topics that were requested but cannot be used, with the error of the last response.
    pub(super) errors: BTreeMap<Str, ErrorCode>,
}

impl Metadata {
    pub fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name)
    }

    pub fn topic_by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.topics.get(&**self.names.get(&id)?)
    }

    pub fn partition(&self, topic: &str, index: i32) -> Option<&Partition> {
        self.topics.get(topic)?.partition(index)
    }

    /// Returns the leader if both it and its address are known.
    pub fn leader(&self, topic: &str, index: i32) -> Option<NodeId> {
        self.partition(topic, index)?
            .leader
            .filter(|id| self.nodes.contains_key(id))
    }

    /// Why a requested topic is missing. `UNKNOWN_TOPIC_OR_PARTITION`, for example, is retriable.
    pub fn topic_error(&self, name: &str) -> Option<ErrorCode> {
        self.errors.get(name).copied()
    }

    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(&id)
    }

    /// All nodes, sorted by id.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// All topics, in the order in which they became known.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &Arc<Topic>> {
        self.topics.values()
    }

    /// All requested topics that cannot be used, sorted by name.
    pub fn topic_errors(&self) -> impl Iterator<Item = (&Str, ErrorCode)> {
        self.errors.iter().map(|(name, &code)| (name, code))
    }
}
