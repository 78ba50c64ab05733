//! How many connections produce to a broker: two, where one does not keep it busy.
//!
//! A broker works on one request of a connection at a time, and a way over the world holds what fits
//! into `max_in_flight_requests_per_connection`. Where more than that has waited for a while, a
//! second connection takes half of the partitions, until the broker has answered everything.
//!
//! ```text
//!   One ── busy for a while ──▶ Opening ── connected ──▶ Two ── all answered ──▶ One
//!    ▲                             │ refused              │ lost
//!    └───── a minute later ─────── Alone ◀────────────────┘
//! ```
//! A partition changes over while nothing of it is in flight by the other connection: its order never
//! hangs on two, and neither does the limit of five batches that an idempotent producer keeps to.
//! So while a second one is being opened everything goes on by the first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thalweg_cluster::{Cluster, NodeId, Purpose};

use crate::config::Acks;
use crate::sender::Sender;
use crate::sender::request::InFlightRequest;

/// A connection that produces to a broker.
pub(crate) type Outlet = (NodeId, Purpose);

/// For a burst that is over sooner nothing is opened.
const BUSY_FOR: Duration = Duration::from_millis(20);
/// A broker that refuses the second connection, by a limit of its own, is not asked again before.
const ALONE_FOR: Duration = Duration::from_secs(60);
/// Of ten thousand partitions with data some tell enough.
const LOOKED_AT_MAX: usize = 64;

/// Which half of a broker's partitions one belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Half {
    #[default]
    First,
    /// By the second connection, where there is one.
    Second,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    One,
    BusySince(Instant),
    /// Asked for, or still to be.
    Opening {
        asked: bool,
    },
    Two,
    AloneUntil(Instant),
}

#[derive(Debug, Default)]
struct Node {
    state: State,
    /// Partitions are dealt out in turn.
    next: Half,
}

#[derive(Debug, Default)]
pub(crate) struct Outlets {
    by_node: BTreeMap<NodeId, Node>,
}

impl Outlets {
    /// The half of a partition that the node leads from now on.
    pub(crate) fn deal(&mut self, node: NodeId) -> Half {
        let next = &mut self.by_node.entry(node).or_default().next;
        let other = match *next {
            Half::First => Half::Second,
            Half::Second => Half::First,
        };
        std::mem::replace(next, other)
    }

    /// Which connection a partition is to use.
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

    /// With each answer: whether its connection was full, and batches of both halves waited.
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

    /// Nodes with a second connection, or where one is being opened.
    pub(crate) fn with_second(&self) -> Vec<NodeId> {
        self.by_node
            .iter()
            .filter(|(_, node)| matches!(node.state, State::Opening { .. } | State::Two))
            .map(|(&node, _)| node)
            .collect()
    }

    /// It is asked for from now on: whether it was before.
    pub(crate) fn ask(&mut self, node: NodeId) -> bool {
        let before = self.state(node);
        self.set(node, State::Opening { asked: true });
        before == State::Opening { asked: true }
    }

    pub(crate) fn opened(&mut self, node: NodeId) {
        self.set(node, State::Two);
    }

    /// The second one cannot be had.
    pub(crate) fn refused(&mut self, node: NodeId, now: Instant) {
        self.set(node, State::AloneUntil(now + ALONE_FOR));
    }

    /// Whether there is anything for [`Self::rest`] to end.
    pub(crate) fn may_rest(&self, node: NodeId) -> bool {
        !matches!(self.state(node), State::One | State::AloneUntil(_))
    }

    /// The node has answered everything, and nothing waits for it: whether it had a second one.
    pub(crate) fn rest(&mut self, node: NodeId) -> bool {
        let were_two = self.are_two(node);
        if self.may_rest(node) {
            self.set(node, State::One);
        }
        were_two
    }
}

impl Sender {
    /// Opens the second connections that are wanted, and does without those that are refused or
    /// lost. What was in flight by a lost one has failed before.
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
                // Asks for it.
                cluster.is_ready(node, purpose, now);
            }
        }
    }

    /// The partitions of a ring go to where they belong by now.
    fn place_anew(&mut self, outlet: Outlet, now: Instant) {
        for index in self.nodes.empty(outlet, &mut self.slots) {
            self.reconsider(index, now);
        }
    }

    /// Whether the answered request had made its connection full, while batches of both halves of the
    /// partitions waited: whether a second connection would help.
    pub(super) fn is_busy(&self, request: &InFlightRequest, cluster: &Cluster) -> bool {
        if self.config.acks == Acks::None {
            // Written is all that is known of a request, which is no order between connections.
            return false;
        }
        let (node, purpose) = request.outlet;
        let limit = self.config.max_in_flight_requests_per_connection;
        // The one that was answered is not among them any more.
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
            // All of one topic may belong to one half.
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

    /// After an answer.
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

    /// Tests start their virtual time somewhere.
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
