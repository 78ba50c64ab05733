//! Reading from followers (KIP-392), and from leaders where a follower cannot be reached.
//!
//! ```text
//! leader: "node 3 is closer" ──▶ lease of node 3 ──┬─ over after metadata_max_age
//!                                                  └─ given up when node 3 is not reached
//! ```
//! Without a lease if the metadata does not list node 3: it is not reached either.
//!
//! A leader goes on naming a follower that is gone until the cluster has noticed, and sends no
//! records along. So for a while no leader is told the client's rack: it then serves by itself.

use std::time::{Duration, Instant};

use thalweg_cluster::{Cluster, NodeId};
use thalweg_protocol::Str;
use thalweg_protocol::messages::fetch::PartitionData;

use crate::fetcher::Fetcher;

/// About as long as a cluster takes to notice that a broker is gone (broker.session.timeout.ms is
/// 9 s).
const RACK_HIDDEN: Duration = Duration::from_secs(10);
/// Longer each time: a node that swallows packets costs the whole time of setting up a connection.
const DOUBLINGS_MAX: u32 = 6;

impl Fetcher {
    /// The closer replica that this node's answer names. A node that the metadata does not list
    /// cannot be reached, and a broker could name another one in each answer.
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

    /// An answer came from this node.
    pub(crate) fn closer_replica_answered(&mut self, node: NodeId) {
        if self.nodes.get(&node).is_some_and(|entry| entry.is_closer) {
            self.rack_hidden_times = 0;
        }
    }

    /// What was read from this node because it is closer is read from its leaders again.
    pub(crate) fn give_up_closer_replica(&mut self, node: NodeId, now: Instant) {
        let Some(entry) = self.nodes.get_mut(&node) else {
            return;
        };
        if !std::mem::take(&mut entry.is_closer) {
            return;
        }
        self.shared.subscription.lock().give_up_replica(node);
        self.hide_rack(now);
        self.dirty = true;
    }

    fn hide_rack(&mut self, now: Instant) {
        let doublings = self.rack_hidden_times.min(DOUBLINGS_MAX);
        self.rack_hidden_until = Some(now + RACK_HIDDEN * 2_u32.pow(doublings));
        self.rack_hidden_times = self.rack_hidden_times.saturating_add(1);
    }

    /// What a fetch request says of where this client is.
    pub(crate) fn rack(&self, now: Instant) -> Str {
        match self.rack_hidden_until {
            Some(until) if now < until => Str::default(),
            _ => self.shared.config.client_rack.clone(),
        }
    }
}
