//! What a Fetch requests from one partition.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use thalweg_protocol::messages::fetch::{FetchPartition, FetchRequest};
use thalweg_protocol::{Str, Uuid};

use crate::topology::Topology;
use crate::topology::topic::{NAME_LEN_MAX, Topic};

/// Requests name topics up to version 12, and use ids from 13 on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TopicKey {
    Name(Str),
    Id(Uuid),
}

pub(crate) type TargetKey = (TopicKey, i32);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) fetch_offset: i64,
    pub(crate) bytes_max: i32,
    pub(crate) current_leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
}

impl TopicKey {
    pub(crate) fn new(name: &Str, id: Uuid, version: i16) -> Self {
        if uses_ids(version) {
            Self::Id(id)
        } else {
            // A session outlives the frame that contained the name.
            Self::Name(name.detached())
        }
    }

    pub(crate) fn find<'a>(&self, topology: &'a Topology) -> Option<&'a Topic> {
        match self {
            Self::Name(name) => topology.topic(name),
            Self::Id(id) => topology.topic_by_id(*id),
        }
    }

    pub(crate) fn find_mut<'a>(&self, topology: &'a mut Topology) -> Option<&'a mut Topic> {
        match self {
            Self::Name(name) => topology.topic_mut(name),
            Self::Id(id) => topology.topic_by_id_mut(*id),
        }
    }
}

pub(crate) fn uses_ids(version: i16) -> bool {
    version >= 13
}

/// Returns the targets that a request names, in its order. If it names a partition several times,
/// the last one counts, as in Kafka's map.
pub(crate) fn targets(request: &FetchRequest, version: i16) -> Vec<(TargetKey, Target)> {
    let mut targets: Vec<(TargetKey, Target)> = Vec::new();
    let mut places = BTreeMap::new();
    for topic in &request.topics {
        let key = TopicKey::new(&topic.topic, topic.topic_id, version);
        for partition in &topic.partitions {
            let key = (key.clone(), partition.partition);
            let target = Target::new(partition);
            match places.entry(key.clone()) {
                Entry::Occupied(place) => {
                    let place: &usize = place.get();
                    targets[*place].1 = target;
                }
                Entry::Vacant(place) => {
                    place.insert(targets.len());
                    targets.push((key, target));
                }
            }
        }
    }
    targets
}

/// Whether a name in the request is too long for a topic. It would be compared again and again.
pub(crate) fn has_long_names(request: &FetchRequest) -> bool {
    let topics = request.topics.iter().map(|topic| &topic.topic);
    let forgotten = request.forgotten_topics_data.iter();
    let mut names = topics.chain(forgotten.map(|topic| &topic.topic));
    names.any(|name| name.as_bytes().len() > NAME_LEN_MAX)
}

/// Returns the targets that a session must forget.
pub(crate) fn forgotten(request: &FetchRequest, version: i16) -> Vec<TargetKey> {
    let mut keys = Vec::new();
    for topic in &request.forgotten_topics_data {
        let key = TopicKey::new(&topic.topic, topic.topic_id, version);
        keys.extend(
            topic
                .partitions
                .iter()
                .map(|partition| (key.clone(), *partition)),
        );
    }
    keys
}

impl Target {
    fn new(partition: &FetchPartition) -> Self {
        Self {
            fetch_offset: partition.fetch_offset,
            bytes_max: partition.partition_max_bytes,
            current_leader_epoch: partition.current_leader_epoch,
            last_fetched_epoch: partition.last_fetched_epoch,
        }
    }
}
