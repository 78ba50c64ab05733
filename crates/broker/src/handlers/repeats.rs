//! Finds what a request names more than once, in one pass. It is served or refused only once, so
//! that a response cannot be many times as large as its request.

use std::collections::BTreeSet;

use thalweg_protocol::{ErrorCode, Str};

use crate::error::ApiError;

/// The limit on groups that one request may describe, because the coordinator takes long for each.
pub(super) const GROUPS_PER_REQUEST_MAX: usize = 10_000;

/// Returns the keys that occur more than once.
pub(super) fn repeated<K: Ord + Clone>(keys: impl Iterator<Item = K>) -> BTreeSet<K> {
    let mut seen = BTreeSet::new();
    let mut repeated = BTreeSet::new();
    for key in keys {
        if !seen.insert(key.clone()) {
            repeated.insert(key);
        }
    }
    repeated
}

/// Removes repeated names, and keeps the order of the request.
pub(super) fn distinct(names: Vec<Str>) -> Vec<Str> {
    let mut seen = BTreeSet::new();
    let is_new = |name: &Str| seen.insert(name.clone());
    names.into_iter().filter(is_new).collect()
}

/// The partitions of a request seen so far. A topic may occur several times.
pub(super) struct SeenPartitions<T> {
    /// The number of each topic's name or id in the request.
    topics: std::collections::BTreeMap<T, usize>,
    seen: BTreeSet<(usize, i32)>,
}

impl<T: Ord> SeenPartitions<T> {
    pub(super) fn new() -> Self {
        Self {
            topics: std::collections::BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Returns a number for the topic, so that its name is not compared for each partition.
    pub(super) fn topic(&mut self, topic: T) -> usize {
        let next = self.topics.len();
        *self.topics.entry(topic).or_insert(next)
    }

    /// Whether a partition occurs for the first time.
    pub(super) fn is_new(&mut self, topic: usize, partition: i32) -> bool {
        self.seen.insert((topic, partition))
    }
}

pub(super) fn duplicate_topic() -> ApiError {
    ApiError::new(ErrorCode::INVALID_REQUEST, "Duplicate topic name.")
}

pub(super) fn duplicate_resource() -> ApiError {
    let why = "Each resource must appear at most once.";
    ApiError::new(ErrorCode::INVALID_REQUEST, why)
}
