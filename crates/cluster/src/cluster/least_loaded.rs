//! Chooses the node for a request that any node can respond to.

use std::time::{Duration, Instant};

use super::Cluster;
use crate::connection::State;
use crate::request::{NodeId, Purpose};

/// After this long, a connection attempt no longer keeps us from trying another broker.
const HEDGE_AFTER: Duration = Duration::from_secs(1);

impl Cluster {
    /// Returns the node that can take a general request now and has the fewest in flight. If it
    /// returns `None`, connecting to a node has started or waits for its backoff.
    pub fn least_loaded_node(&mut self, now: Instant) -> Option<NodeId> {
        if self.closed {
            return None;
        }
        self.hedge_at = None;
        let mut best: Option<(usize, NodeId)> = None;
        let mut hedge: Option<Instant> = None;
        let mut idle: Option<(u32, NodeId)> = None;
        let mut waiting: Option<(Instant, NodeId)> = None;
        let mut held: Option<(NodeId, Instant)> = None;
        for node in self.nodes.candidates() {
            let Some(connection) = self.connections.get((node, Purpose::General)) else {
                if idle.is_none_or(|(failures, _)| failures > 0) {
                    idle = Some((0, node));
                }
                continue;
            };
            match &connection.state {
                State::Ready { .. } if connection.is_held(now) && !connection.is_throttled(now) => {
                    held = Some((node, connection.held_since(now)));
                }
                State::Ready { .. } if !connection.is_throttled(now) => {
                    let load = connection.in_flight_count();
                    if best.is_none_or(|(least, _)| load < least) {
                        best = Some((load, node));
                    }
                }
                State::Ready { .. } => {
                    // Throttled: look again when the throttle time ends.
                    keep_soonest(&mut waiting, connection.throttled_until, node, now);
                }
                State::Connecting { since, .. } => {
                    let until = *since + HEDGE_AFTER;
                    hedge = hedge.max(Some(until));
                }
                State::Disconnected if connection.may_connect(now) => {
                    if idle.is_none_or(|(failures, _)| failures > connection.failures) {
                        idle = Some((connection.failures, node));
                    }
                }
                State::Disconnected => {
                    keep_soonest(&mut waiting, connection.retry_at, node, now);
                }
            }
        }
        if let Some((_, node)) = best
            && self
                .connections
                .is_ready((node, Purpose::General), &self.nodes, now)
        {
            return Some(node);
        }
        if let Some((node, since)) = held {
            // To authenticate again takes less time than to open another connection.
            self.connections
                .is_ready((node, Purpose::General), &self.nodes, now);
            hedge = hedge.max(Some(since + HEDGE_AFTER));
        }
        match (hedge, idle, waiting) {
            // The latest attempt is recent: wait for it. After that, also try another node, or one
            // that has to wait itself.
            (Some(until), Some(_), _) | (Some(until), None, Some(_)) if now < until => {
                self.hedge_at = Some(until);
            }
            (_, Some((_, node)), _) => {
                self.connections
                    .is_ready((node, Purpose::General), &self.nodes, now);
            }
            (_, None, Some((_, node))) => self.connections.want((node, Purpose::General), now),
            (_, None, None) => {}
        }
        None
    }
}

fn keep_soonest(
    known: &mut Option<(Instant, NodeId)>,
    at: Option<Instant>,
    node: NodeId,
    now: Instant,
) {
    let at = at.unwrap_or(now);
    if known.is_none_or(|(soonest, _)| at < soonest) {
        *known = Some((at, node));
    }
}
