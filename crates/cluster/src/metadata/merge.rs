//! Merges a response into the old snapshot and so makes the new one. The rules about epochs and
//! topic ids are in this file.
//!
//! The strings of a response are slices of its frame, and a snapshot lives long. So the new
//! snapshot reuses the old one's strings where they are equal, and copies the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_protocol::messages::metadata::{
    MetadataResponse, MetadataResponsePartition, MetadataResponseTopic,
};
use thalweg_protocol::planted::{Bug, is_planted};
use thalweg_protocol::{ErrorCode, Str, Uuid};

use super::snapshot::{Metadata, NODES_MAX, Node, Partition, Topic};
use crate::request::NodeId;

/// A known topic survives fewer than this many responses that omit it (a restarting broker omits
/// topics).
const OMITTED_COUNT_MAX: u32 = 3;

/// Which topics a response covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MergeScope {
    /// Only those that it names. All others stay as they are.
    Partial,
    /// All topics. The snapshot drops a topic that the response does not name.
    Full,
}

/// The new snapshot and what it means for the caller.
#[derive(Debug)]
pub(crate) struct MergeOutcome {
    pub(crate) snapshot: Metadata,
    /// Something other than the version changed.
    pub(crate) changed: bool,
    /// A partition has no leader, or the broker could not describe a topic: ask again after a
    /// backoff.
    pub(crate) incomplete: bool,
}

pub(crate) fn merge(
    old: &Metadata,
    response: &MetadataResponse,
    scope: MergeScope,
) -> MergeOutcome {
    let mut new = match scope {
        MergeScope::Partial => old.clone(),
        MergeScope::Full => Metadata {
            version: old.version,
            ..Metadata::default()
        },
    };
    new.cluster_id = match &response.cluster_id {
        Some(told) if old.cluster_id.as_ref() != Some(told) => Some(told.detached()),
        _ => old.cluster_id.clone(),
    };
    new.controller = Some(response.controller_id).filter(|&id| id >= 0);
    new.nodes = nodes(response, old);
    let mut incomplete = false;
    for told in &response.topics {
        incomplete |= merge_topic(&mut new, old, told);
    }
    let changed = new != *old;
    new.version = old.version + 1;
    MergeOutcome {
        snapshot: new,
        changed,
        incomplete,
    }
}

fn nodes(response: &MetadataResponse, old: &Metadata) -> BTreeMap<NodeId, Arc<Node>> {
    let told = response.brokers.iter().take(NODES_MAX).map(|broker| {
        let node = Node {
            id: broker.node_id,
            host: broker.host.clone(),
            port: u16::try_from(broker.port).unwrap_or(0),
            rack: broker.rack.clone(),
        };
        (node.id, known_or_detached(old, &node))
    });
    told.collect()
}

/// Returns the old snapshot's node if it is equal, otherwise a copy that owns its strings.
pub(super) fn known_or_detached(old: &Metadata, node: &Node) -> Arc<Node> {
    match old.nodes.get(&node.id) {
        Some(known) if **known == *node => Arc::clone(known),
        _ => Arc::new(Node {
            host: node.host.detached(),
            rack: node.rack.as_ref().map(Str::detached),
            ..*node
        }),
    }
}

/// Merges one topic of the response. Returns true if the metadata must be requested again.
fn merge_topic(new: &mut Metadata, old: &Metadata, told: &MetadataResponseTopic) -> bool {
    let Some(name) = name(old, told) else {
        return false;
    };
    let known = old.topics.get(&*name);
    let error = ErrorCode(told.error_code);
    if error == ErrorCode::NONE && !has_sound_partitions(told) {
        if let Some(topic) = known {
            insert(new, Some(topic), Topic::clone(topic));
        }
        return true;
    }
    if error == ErrorCode::NONE {
        let topic = take_topic(&name, known.map(|topic| &**topic), told);
        let leaderless = topic.partitions.iter().any(|p| p.leader.is_none());
        insert(new, known, topic);
        return leaderless;
    }
    let lost =
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION == error || ErrorCode::UNKNOWN_TOPIC_ID == error;
    match known {
        Some(topic) if error.is_retriable() && topic.omitted_count + 1 < OMITTED_COUNT_MAX => {
            let mut topic = Topic::clone(topic);
            topic.omitted_count += u32::from(lost);
            insert(new, known, topic);
        }
        Some(topic) => {
            new.names.remove(&topic.id);
            new.topics.shift_remove(&*name);
            new.errors.insert(name, error);
        }
        None => {
            new.errors.insert(name, error);
        }
    }
    error.is_retriable()
}

/// Returns the topic's name as the old snapshot's string if it has one, otherwise as a copy.
fn name(old: &Metadata, told: &MetadataResponseTopic) -> Option<Str> {
    let Some(name) = &told.name else {
        return old.names.get(&told.topic_id).cloned();
    };
    let in_topics = old.topics.get_key_value(&**name).map(|(known, _)| known);
    let in_errors = || old.errors.get_key_value(&**name).map(|(known, _)| known);
    let known = in_topics.or_else(in_errors).cloned();
    Some(known.unwrap_or_else(|| name.detached()))
}

/// Whether the partitions can be those of a topic. Kafka numbers them from 0 to n - 1, and a topic
/// has at least one. A response with any other index is damaged, and a table as long as its largest
/// index could take all memory.
fn has_sound_partitions(told: &MetadataResponseTopic) -> bool {
    let count = told.partitions.len();
    let mut indexes = told.partitions.iter().map(|part| part.partition_index);
    count > 0 && indexes.all(|index| usize::try_from(index).is_ok_and(|index| index < count))
}

fn insert(new: &mut Metadata, known: Option<&Arc<Topic>>, topic: Topic) {
    if let Some(before) = known
        && before.id != topic.id
    {
        new.names.remove(&before.id);
    }
    if topic.id != Uuid::ZERO {
        new.names.insert(topic.id, topic.name.clone());
    }
    new.errors.remove(&*topic.name);
    let shared = match known {
        Some(before) if **before == topic => Arc::clone(before),
        _ => Arc::new(topic),
    };
    new.topics.insert(shared.name.clone(), shared);
}

fn take_topic(name: &Str, known: Option<&Topic>, told: &MetadataResponseTopic) -> Topic {
    // A different id means a different topic. Its epochs start again, so the old ones must not be
    // compared. A broker that is too old for ids sends ZERO. Then only the epochs decide, as before
    // ids existed.
    let same = known.filter(|topic| {
        topic.id == told.topic_id
            || topic.id == Uuid::ZERO
            || told.topic_id == Uuid::ZERO
            || is_planted(Bug::EpochsOfDeleted)
    });
    let mut partitions: Vec<Partition> = told
        .partitions
        .iter()
        .map(|part| {
            newer(
                same.and_then(|topic| topic.partition(part.partition_index)),
                part,
            )
        })
        .collect();
    partitions.sort_by_key(|p| p.index);
    partitions.dedup_by_key(|p| p.index);
    let id = match same {
        Some(topic) if told.topic_id == Uuid::ZERO => topic.id,
        _ => told.topic_id,
    };
    Topic {
        name: name.clone(),
        id,
        is_internal: told.is_internal,
        partitions,
        omitted_count: 0,
    }
}

/// Returns the newer of the two partitions. An older leader epoch comes from a broker that lags
/// behind, so the known partition stays.
fn newer(known: Option<&Partition>, told: &MetadataResponsePartition) -> Partition {
    if let Some(known) = known
        && told.leader_epoch >= 0
        && told.leader_epoch < known.leader_epoch
    {
        return known.clone();
    }
    Partition {
        index: told.partition_index,
        leader: Some(told.leader_id).filter(|&id| id >= 0),
        leader_epoch: told.leader_epoch,
        replicas: told.replica_nodes.clone(),
        isr: told.isr_nodes.clone(),
        offline_replicas: told.offline_replicas.clone(),
        error: ErrorCode(told.error_code),
    }
}
