//! The partitions that may be sent now, by outlet: a ring for each, so that none starves.
//!
//! A partition stands in at most one ring. One that leaves it is not searched for: its entry is
//! passed over when its turn comes, because the stamps differ.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::{ConnectionError, NodeId, Purpose};

use crate::sender::outlets::Outlet;
use crate::sender::slot::{RingPlace, Slot};

#[derive(Debug, Default)]
pub(crate) struct NodeQueue {
    ring: VecDeque<(usize, u64)>,
    /// Partitions in the ring, stale entries not counted.
    members: usize,
    urgent: usize,
    /// Since when partitions wait for the node to take requests.
    pub(crate) unready_since: Option<Instant>,
    /// Why there is no connection to it.
    pub(crate) error: Option<Arc<ConnectionError>>,
}

impl NodeQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.members == 0
    }

    pub(crate) fn has_urgent(&self) -> bool {
        self.urgent > 0
    }

    /// Entries, stale ones among them: as many turns look at everyone once.
    pub(crate) fn turns(&self) -> usize {
        self.ring.len()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    queues: BTreeMap<Outlet, NodeQueue>,
    next_stamp: u64,
}

impl Nodes {
    /// Makes the partition stand where it belongs: in the ring of an outlet, or in none.
    pub(crate) fn place(&mut self, index: usize, slot: &mut Slot, wanted: Option<(Outlet, bool)>) {
        match (slot.ring, wanted) {
            (Some(place), Some((outlet, urgent))) if place.outlet == outlet => {
                if place.urgent != urgent {
                    let queue = self.queues.entry(outlet).or_default();
                    queue.urgent = queue.urgent + usize::from(urgent) - usize::from(place.urgent);
                    slot.ring = Some(RingPlace { urgent, ..place });
                }
            }
            (Some(_), _) => {
                self.leave(slot);
                self.enter(index, slot, wanted);
            }
            (None, _) => self.enter(index, slot, wanted),
        }
    }

    fn enter(&mut self, index: usize, slot: &mut Slot, wanted: Option<(Outlet, bool)>) {
        let Some((outlet, urgent)) = wanted else {
            return;
        };
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let queue = self.queues.entry(outlet).or_default();
        queue.ring.push_back((index, stamp));
        queue.members += 1;
        queue.urgent += usize::from(urgent);
        slot.ring = Some(RingPlace {
            outlet,
            stamp,
            urgent,
        });
    }

    fn leave(&mut self, slot: &mut Slot) {
        let Some(place) = slot.ring.take() else {
            return;
        };
        let queue = self.queues.entry(place.outlet).or_default();
        queue.members -= 1;
        queue.urgent -= usize::from(place.urgent);
        if queue.members == 0 {
            queue.ring.clear();
        }
    }

    /// The next partition whose turn it is; it leaves the ring.
    pub(crate) fn pop(&mut self, outlet: Outlet, slots: &mut [Slot]) -> Option<usize> {
        let ring = &mut self.queues.get_mut(&outlet)?.ring;
        while let Some((index, stamp)) = ring.pop_front() {
            let slot = &mut slots[index];
            if slot.ring.is_some_and(|place| place.stamp == stamp) {
                self.leave(slot);
                return Some(index);
            }
        }
        None
    }

    /// All partitions of a ring; they leave it.
    pub(crate) fn empty(&mut self, outlet: Outlet, slots: &mut [Slot]) -> Vec<usize> {
        std::iter::from_fn(|| self.pop(outlet, slots)).collect()
    }

    /// Gives a partition its turn back.
    pub(crate) fn unpop(&mut self, index: usize, slot: &mut Slot, outlet: Outlet, urgent: bool) {
        self.enter(index, slot, Some((outlet, urgent)));
        let queue = self.queues.entry(outlet).or_default();
        if let Some(entry) = queue.ring.pop_back() {
            queue.ring.push_front(entry);
        }
    }

    /// Outlets in whose rings something waits.
    pub(crate) fn waiting(&self) -> Vec<Outlet> {
        self.queues
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(&outlet, _)| outlet)
            .collect()
    }

    pub(crate) fn has_urgent(&self, outlet: Outlet) -> bool {
        self.queues.get(&outlet).is_some_and(NodeQueue::has_urgent)
    }

    pub(crate) fn error(&self, node: Option<NodeId>) -> Option<&ConnectionError> {
        let outlet = (node?, Purpose::Produce);
        self.queues.get(&outlet)?.error.as_deref()
    }

    pub(crate) fn get_mut(&mut self, outlet: Outlet) -> &mut NodeQueue {
        self.queues.entry(outlet).or_default()
    }
}
