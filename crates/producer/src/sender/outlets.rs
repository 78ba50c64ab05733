//! Decides how many connections produce to a broker: two, if one does not keep it busy.
//!
//! A broker works on one request of a connection at a time. On a long network path, a connection
//! holds at most `max_in_flight_requests_per_connection` requests. If more has waited for a while,
//! a second connection takes half of the partitions until the broker has answered everything.
//!
//! ```text
//!   One ── busy for a while ──▶ Opening ── connected ──▶ Two ── all answered ──▶ One
//!    ▲                             │ refused              │ lost
//!    └───── a minute later ─────── Alone ◀────────────────┘
//! ```
//! A partition changes the connection only while nothing of it is in flight on the other one. So
//! neither its order nor the limit of five batches for an idempotent producer spans two
//! connections. While the second connection is being opened, everything continues on the first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thalweg_cluster::{Cluster, NodeId, Purpose};

use crate::config::Acks;
use crate::sender::Sender;
use crate::sender::request::InFlightRequest;

/// A connection that produces to a broker.
pub(crate) type Outlet = (NodeId, Purpose);

/// A burst shorter than this opens no second connection.
const BUSY_FOR: Duration = Duration::from_millis(20);
/// How long to wait before asking again a broker that refused the second connection.
const ALONE_FOR: Duration = Duration::from_secs(60);
/// Limit of the partitions to look at: a sample is enough, even of ten thousand with data.
const LOOKED_AT_MAX: usize = 64;

/// The half of a broker's partitions that a partition belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Half {
    #[default]
    First,
    /// On the second connection, if there is one.
    Second,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    One,
    BusySince(Instant),
    /// The connection is wanted. `asked`: the cluster was asked to open it.
    Opening {
        asked: bool,
    },
    Two,
    AloneUntil(Instant),
}

#[derive(Debug, Default)]
struct Node {
    state: State,
    /// The half of the next partition. The halves alternate.
    next: Half,
}

#[derive(Debug, Default)]
pub(crate) struct Outlets {
    by_node: BTreeMap<NodeId, Node>,
}

impl Outlets {
    /// Assigns a half to a partition that the node leads from now on.
    pub(crate) fn deal(&mut self, node: NodeId) -> Half {
        let next = &mut self.by_node.entry(node).or_default().next;
        let other = match *next {
            Half::First => Half::Second,
            Half::Second => Half::First,
        };
        std::mem::replace(next, other)
    }

    /// Returns the connection that a partition should use.
    pub(crate) fn of(&self, node: NodeId, half: Half) -> Outlet {
        let purpose = match half {
            Half::Second if self.are_two(node) => Purpose::SecondProduce,
            _ => Purpose::Produce,
        };
        (node, purpose)
    }

    pub(crate) fn are_two(&self, node: NodeId) -> bool {
        self.state(node) == State::Two
    }

    fn state(&self, node: NodeId) -> State {
        self.by_node
            .get(&node)
            .map_or(State::One, |node| node.state)
    }

    fn set(&mut self, node: NodeId, state: State) {
        self.by_node.entry(node).or_default().state = state;
    }

    /// Notes, with each response, whether its connection was full while batches of both halves
    /// waited.
    pub(crate) fn note(&mut self, node: NodeId, is_busy: bool, now: Instant) {
        match (self.state(node), is_busy) {
            (State::One, true) => self.set(node, State::BusySince(now)),
            (State::BusySince(since), true) if now.duration_since(since) >= BUSY_FOR => {
                self.set(node, State::Opening { asked: false });
            }
            (State::BusySince(_), false) => self.set(node, State::One),
            (State::AloneUntil(at), _) if at <= now => self.set(node, State::One),
            _ => {}
        }
    }

    /// Returns the nodes that have a second connection, or whose second connection is being opened.
    pub(crate) fn with_second(&self) -> Vec<NodeId> {
        self.by_node
            .iter()
            .filter(|(_, node)| matches!(node.state, State::Opening { .. } | State::Two))
            .map(|(&node, _)| node)
            .collect()
    }

    /// Notes that the second connection is being asked for. Returns whether it was asked for
    /// before.
    pub(crate) fn ask(&mut self, node: NodeId) -> bool {
        let before = self.state(node);
        self.set(node, State::Opening { asked: true });
        before == State::Opening { asked: true }
    }

    pub(crate) fn opened(&mut self, node: NodeId) {
        self.set(node, State::Two);
    }

    /// Notes that there is no second connection, because it was refused or lost.
    pub(crate) fn refused(&mut self, node: NodeId, now: Instant) {
        self.set(node, State::AloneUntil(now + ALONE_FOR));
    }

    /// Returns whether [`Self::rest`] could change anything.
    pub(crate) fn may_rest(&self, node: NodeId) -> bool {
        !matches!(self.state(node), State::One | State::AloneUntil(_))
    }

    /// Notes that the node has answered everything and nothing waits for it. Returns whether it had
    /// a second connection.
    pub(crate) fn rest(&mut self, node: NodeId) -> bool {
        let were_two = self.are_two(node);
        if self.may_rest(node) {
            self.set(node, State::One);
        }
        were_two
    }
}

impl Sender {
    /// Opens the second connections that are wanted, and continues without those that were refused
    /// or lost. The requests in flight on a lost connection have already failed.
    pub(super) fn tend_second_connections(&mut self, cluster: &mut Cluster, now: Instant) {
        for node in self.outlets.with_second() {
            let purpose = Purpose::SecondProduce;
            let was_open = self.outlets.are_two(node);
            if cluster.is_connected_to(node, purpose) {
                if !was_open {
                    self.outlets.opened(node);
                    self.place_anew((node, Purpose::Produce), now);
                }
            } else if was_open || self.outlets.ask(node) && !cluster.is_connecting(node, purpose) {
                self.outlets.refused(node, now);
                self.place_anew((node, purpose), now);
            } else {
                // This asks the cluster to open the connection.
                cluster.is_ready(node, purpose, now);
            }
        }
    }

    /// Takes the partitions out of a ring and puts each where it belongs now.
    fn place_anew(&mut self, outlet: Outlet, now: Instant) {
        for index in self.nodes.empty(outlet, &mut self.slots) {
            self.reconsider(index, now);
        }
    }

    /// Returns whether a second connection would help: the answered request's connection was full
    /// while batches of both halves of the partitions waited.
    pub(super) fn is_busy(&self, request: &InFlightRequest, cluster: &Cluster) -> bool {
        if self.config.acks == Acks::None {
            // The only outcome is that a request was written to the socket. Two sockets have no
            // order.
            return false;
        }
        let (node, purpose) = request.outlet;
        let limit = self.config.max_in_flight_requests_per_connection;
        // The answered request is no longer counted.
        if cluster.in_flight(node, purpose) + 1 < limit {
            return false;
        }
        let others = self.requests.values();
        let others = others.filter(|other| other.outlet == request.outlet);
        let (mut first, mut second, mut looks) = (false, false, 0);
        for sent in others.chain([request]).flat_map(InFlightRequest::batches) {
            let slot = &self.slots[sent.slot];
            let waits = match slot.half {
                Half::First => &mut first,
                Half::Second => &mut second,
            };
            // One more batch of this half proves nothing: all partitions of a topic may be in one
            // half.
            if *waits {
                continue;
            }
            looks += 1;
            if looks > LOOKED_AT_MAX {
                break;
            }
            *waits = slot.has_unsent();
        }
        first && second
    }

    /// Updates the state of a node's connections after a response.
    pub(super) fn note_load(&mut self, node: NodeId, is_busy: bool, now: Instant) {
        self.outlets.note(node, is_busy, now);
        if !self.outlets.may_rest(node) {
            return;
        }
        let [first, second] = [Purpose::Produce, Purpose::SecondProduce].map(|of| (node, of));
        let is_quiet = !self.nodes.has_urgent(first)
            && !self.nodes.has_urgent(second)
            && self.requests.values().all(|other| other.outlet.0 != node);
        if is_quiet && self.outlets.rest(node) {
            self.place_anew(second, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instant at which the tests' virtual time starts.
    #[expect(clippy::disallowed_methods, reason = "see above")]
    fn start() -> Instant {
        Instant::now()
    }

    fn both(outlets: &Outlets) -> [Purpose; 2] {
        [Half::First, Half::Second].map(|half| outlets.of(1, half).1)
    }

    const ONE: [Purpose; 2] = [Purpose::Produce; 2];
    const TWO: [Purpose; 2] = [Purpose::Produce, Purpose::SecondProduce];

    #[test]
    fn a_burst_opens_nothing_and_a_lasting_load_does_until_it_is_over() {
        let start = start();
        let mut outlets = Outlets::default();
        let note = |outlets: &mut Outlets, ms, is_busy| {
            outlets.note(1, is_busy, start + Duration::from_millis(ms));
        };
        note(&mut outlets, 0, true);
        note(&mut outlets, 15, true);
        note(&mut outlets, 16, false);
        note(&mut outlets, 17, true);
        note(&mut outlets, 36, true);
        assert!(outlets.with_second().is_empty());
        note(&mut outlets, 38, true);
        assert_eq!(outlets.with_second(), [1]);
        assert_eq!(both(&outlets), ONE, "it is not connected yet");
        outlets.opened(1);
        assert_eq!(both(&outlets), TWO);
        note(&mut outlets, 39, false);
        assert_eq!(both(&outlets), TWO, "it is relieved by the other one");
        assert_eq!(outlets.of(2, Half::Second).1, Purpose::Produce);
        assert!(outlets.rest(1));
        assert_eq!(both(&outlets), ONE);
    }

    #[test]
    fn what_is_refused_is_not_asked_for_again_and_again() {
        let start = start();
        let mut outlets = Outlets::default();
        let at = |s| start + Duration::from_secs(s);
        outlets.note(1, true, at(0));
        outlets.note(1, true, at(1));
        outlets.refused(1, at(2));
        assert!(!outlets.rest(1));
        for second in 3..62 {
            outlets.note(1, true, at(second));
        }
        assert!(outlets.with_second().is_empty());
        outlets.note(1, true, at(62));
        outlets.note(1, true, at(63));
        outlets.note(1, true, at(64));
        assert_eq!(outlets.with_second(), [1]);
    }

    #[test]
    fn each_node_deals_its_partitions_out_in_turn() {
        let mut outlets = Outlets::default();
        let dealt = [1, 2, 1, 1, 2].map(|node| outlets.deal(node));
        let [first, second] = [Half::First, Half::Second];
        assert_eq!(dealt, [first, first, second, first, second]);
    }
}
