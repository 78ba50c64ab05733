//! Applies the new leaders that Produce and Fetch responses name (KIP-951).
//!
//! When a broker goes down, one response may name new leaders of thousands of partitions. So all
//! hints of a response are applied to one new snapshot: its map of topics is copied once, and so is
//! each changed topic.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_protocol::{ErrorCode, Str};

use super::merge::known_or_detached;
use super::snapshot::{Metadata, NODES_MAX, Node, Topic};
use crate::request::NodeId;

/// The new leader of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderHint {
    pub topic: Str,
    pub partition: i32,
    pub leader: NodeId,
    pub leader_epoch: i32,
}

/// Returns a snapshot with these leaders, and the number of hints that changed it. Returns `None`
/// if no hint changed anything.
///
/// `endpoints` are the addresses that the response gives for leaders.
pub(crate) fn with_leaders(
    old: &Metadata,
    hints: &[LeaderHint],
    endpoints: &[Node],
) -> Option<(Metadata, usize)> {
    let endpoints: BTreeMap<NodeId, &Node> = endpoints.iter().map(|node| (node.id, node)).collect();
    let mut topics: BTreeMap<&str, Topic> = BTreeMap::new();
    let mut nodes: BTreeMap<NodeId, &Node> = BTreeMap::new();
    let mut news = 0;
    for hint in hints {
        let Some(known) = old.topics.get(&*hint.topic) else {
            continue;
        };
        let topic = topics.get(&*hint.topic).unwrap_or(known);
        let is_newer = topic
            .partition(hint.partition)
            .is_some_and(|partition| hint.leader_epoch > partition.leader_epoch);
        let endpoint = endpoints.get(&hint.leader);
        let is_reachable = endpoint.is_some() || old.nodes.contains_key(&hint.leader);
        if hint.leader < 0 || !is_newer || !is_reachable {
            continue;
        }
        let topic = topics
            .entry(&hint.topic)
            .or_insert_with(|| Topic::clone(known));
        if let Some(partition) = topic.partition_mut(hint.partition) {
            partition.leader = Some(hint.leader);
            partition.leader_epoch = hint.leader_epoch;
            partition.error = ErrorCode::NONE;
        }
        nodes.extend(endpoint.map(|&node| (node.id, node)));
        news += 1;
    }
    if news == 0 {
        return None;
    }
    let mut new = old.clone();
    for (id, node) in nodes {
        if new.nodes.len() < NODES_MAX || new.nodes.contains_key(&id) {
            new.nodes.insert(id, known_or_detached(old, node));
        }
    }
    for topic in topics.into_values() {
        new.topics.insert(topic.name.clone(), Arc::new(topic));
    }
    new.version += 1;
    Some((new, news))
}
