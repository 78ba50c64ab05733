//! The partitions that may be sent now: one ring for each node, so that no partition starves.
//!
//! A partition is in at most one ring. Leaving a ring does not search for the entry: it stays, and
//! is skipped when its turn comes because its stamp is out of date.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::{ConnectionError, NodeId};

use crate::sender::partition::{RingPlace, SenderPartition};

#[derive(Debug, Default)]
pub(crate) struct NodeQueue {
    ring: VecDeque<(usize, u64)>,
    /// Number of partitions in the ring, without stale entries.
    members: usize,
    urgent: usize,
    /// Since when partitions have waited for the node to accept requests.
    pub(crate) unready_since: Option<Instant>,
    /// Why there is no connection to the node.
    pub(crate) error: Option<Arc<ConnectionError>>,
}

impl NodeQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    pub(crate) fn has_urgent(&self) -> bool {
        self.urgent > 0
    }

    /// Returns the number of entries, stale ones included: this many turns visit every partition
    /// once.
    pub(crate) fn turns(&self) -> usize {
        self.ring.len()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    queues: BTreeMap<NodeId, NodeQueue>,
    next_stamp: u64,
}

impl Nodes {
    /// Moves a partition to the ring of a node, or out of all rings.
    pub(crate) fn place(
        &mut self,
        index: usize,
        state: &mut SenderPartition,
        wanted: Option<(NodeId, bool)>,
    ) {
        match (state.ring, wanted) {
            (Some(place), Some((node, urgent))) if place.node == node => {
                if place.urgent != urgent {
                    let queue = self.queues.entry(node).or_default();
                    queue.urgent = queue.urgent + usize::from(urgent) - usize::from(place.urgent);
                    state.ring = Some(RingPlace { urgent, ..place });
                }
            }
            (Some(_), _) => {
                self.leave(state);
                self.enter(index, state, wanted);
            }
            (None, _) => self.enter(index, state, wanted),
        }
    }

    fn enter(&mut self, index: usize, state: &mut SenderPartition, wanted: Option<(NodeId, bool)>) {
        let Some((node, urgent)) = wanted else {
            return;
        };
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let queue = self.queues.entry(node).or_default();
        queue.ring.push_back((index, stamp));
        queue.members += 1;
        queue.urgent += usize::from(urgent);
        state.ring = Some(RingPlace {
            node,
            stamp,
            urgent,
        });
    }

    fn leave(&mut self, state: &mut SenderPartition) {
        let Some(place) = state.ring.take() else {
            return;
        };
        let queue = self.queues.entry(place.node).or_default();
        queue.members -= 1;
        queue.urgent -= usize::from(place.urgent);
        if queue.members == 0 {
            queue.ring.clear();
        }
    }

    /// Takes the next partition out of the ring.
    pub(crate) fn pop(
        &mut self,
        node: NodeId,
        partitions: &mut [SenderPartition],
    ) -> Option<usize> {
        let ring = &mut self.queues.get_mut(&node)?.ring;
        while let Some((index, stamp)) = ring.pop_front() {
            let state = &mut partitions[index];
            if state.ring.is_some_and(|place| place.stamp == stamp) {
                self.leave(state);
                return Some(index);
            }
        }
        None
    }

    /// Puts a partition back at the front of the ring.
    pub(crate) fn unpop(
        &mut self,
        index: usize,
        state: &mut SenderPartition,
        node: NodeId,
        urgent: bool,
    ) {
        self.enter(index, state, Some((node, urgent)));
        let queue = self.queues.entry(node).or_default();
        if let Some(entry) = queue.ring.pop_back() {
            queue.ring.push_front(entry);
        }
    }

    /// Returns the nodes that have partitions in their rings.
    pub(crate) fn waiting(&self) -> Vec<NodeId> {
        self.queues
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(&node, _)| node)
            .collect()
    }

    pub(crate) fn error(&self, node: Option<NodeId>) -> Option<&ConnectionError> {
        self.queues.get(&node?)?.error.as_deref()
    }

    pub(crate) fn get_mut(&mut self, node: NodeId) -> &mut NodeQueue {
        self.queues.entry(node).or_default()
    }
}
