//! Reads from followers (KIP-392), and from leaders if a follower cannot be reached.
//!
//! ```text
//! leader: "node 3 is closer" ──▶ lease of node 3 ──┬─ over after metadata_max_age
//!                                                  └─ given up if node 3 cannot be reached,
//!                                                     or is no longer in the metadata
//! ```
//! There is no lease if the metadata does not list node 3, because it cannot be reached either.
//!
//! A leader keeps naming a follower that is gone until the cluster notices, and returns no records
//! with that hint. So for a while the client sends its rack to no leader, and leaders then return
//! the records themselves.

use std::time::{Duration, Instant};

use thalweg_cluster::{Cluster, Metadata, NodeId};
use thalweg_protocol::Str;
use thalweg_protocol::messages::fetch::PartitionData;

use crate::fetching::fetcher::Fetcher;

/// About the time that a cluster needs to notice a lost broker: `broker.session.timeout.ms`, which
/// is 9 s.
const RACK_HIDDEN: Duration = Duration::from_secs(10);
/// The time doubles with each failure: a node that drops packets costs a full connection timeout.
const DOUBLINGS_MAX: u32 = 6;

impl Fetcher {
    /// Returns the closer replica that this response names, if the metadata lists it. A node that
    /// is not listed cannot be reached, and a broker could name a new one in each response.
    pub(crate) fn named_closer_replica(
        &mut self,
        node: NodeId,
        data: &PartitionData,
        cluster: &mut Cluster,
        now: Instant,
    ) -> Option<NodeId> {
        let named = data.preferred_read_replica;
        if named < 0 || named == node {
            return None;
        }
        if cluster.metadata().node(named).is_some() {
            self.nodes.entry(named).or_default().is_closer = true;
            return Some(named);
        }
        cluster.request_update();
        if self.rack_hidden_until.is_none_or(|until| until <= now) {
            self.hide_rack(now);
        }
        None
    }

    /// A response came from this node.
    pub(crate) fn closer_replica_answered(&mut self, node: NodeId) {
        if self.nodes.get(&node).is_some_and(|entry| entry.is_closer) {
            self.rack_hidden_times = 0;
        }
    }

    /// Moves the partitions that read from this closer node back to their leaders.
    pub(crate) fn give_up_closer_replica(&mut self, node: NodeId, now: Instant) {
        let Some(entry) = self.nodes.get_mut(&node) else {
            return;
        };
        if !std::mem::take(&mut entry.is_closer) {
            return;
        }
        self.shared.partitions.lock().give_up_replica(node);
        self.hide_rack(now);
        self.dirty = true;
    }

    /// Moves partitions back to their leaders if they read from a node that the metadata no longer
    /// lists. A paused partition has no fetch whose failure would do this.
    pub(crate) fn give_up_unlisted_replicas(&mut self, metadata: &Metadata) {
        for (&id, node) in &mut self.nodes {
            if metadata.node(id).is_none() && std::mem::take(&mut node.is_closer) {
                self.shared.partitions.lock().give_up_replica(id);
                self.dirty = true;
            }
        }
    }

    fn hide_rack(&mut self, now: Instant) {
        let doublings = self.rack_hidden_times.min(DOUBLINGS_MAX);
        self.rack_hidden_until = Some(now + RACK_HIDDEN * 2_u32.pow(doublings));
        self.rack_hidden_times = self.rack_hidden_times.saturating_add(1);
    }

    /// Returns the rack to send in a fetch request, empty while it is hidden.
    pub(crate) fn rack(&self, now: Instant) -> Str {
        match self.rack_hidden_until {
            Some(until) if now < until => Str::default(),
            _ => self.shared.config.client_rack.clone(),
        }
    }
}
