//! How many connections produce to a broker: two, where one does not keep it busy.
//!
//! A broker works on one request of a connection at a time, and a way over the world holds what fits
//! into `max_in_flight_requests_per_connection`. Who has had more to send for a while gets a second
//! connection, for every other partition and for as long as there is anything to send.
//!
//! A partition changes over while nothing of it is in flight: its order never hangs on two
//! connections, and neither does the limit of five batches that an idempotent producer keeps to.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thalweg_cluster::{NodeId, Purpose};

/// A connection that produces to a broker.
pub(crate) type Outlet = (NodeId, Purpose);

/// For a burst that is over sooner nothing is opened.
const BUSY_FOR: Duration = Duration::from_millis(20);
/// A broker that refuses the second connection, by a limit of its own, is not asked again before.
const REFUSED_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// One, in whose way batches have stood since then.
    BusySince(Instant),
    Two,
    /// One, and no other before this time.
    OneUntil(Instant),
}

#[derive(Debug, Default)]
pub(crate) struct Outlets {
    by_node: BTreeMap<NodeId, State>,
}

impl Outlets {
    /// Which one a partition is to use.
    pub(crate) fn of(&self, node: NodeId, slot: usize) -> Purpose {
        if slot % 2 == 1 && self.by_node.get(&node) == Some(&State::Two) {
            Purpose::ProduceMore
        } else {
            Purpose::Produce
        }
    }

    /// With each answer of the first connection: whether it was full, and batches waited for it.
    pub(crate) fn note(&mut self, node: NodeId, is_busy: bool, now: Instant) {
        match (self.by_node.get(&node), is_busy) {
            (None, true) => {
                self.by_node.insert(node, State::BusySince(now));
            }
            (Some(&State::BusySince(since)), true) if now.duration_since(since) >= BUSY_FOR => {
                self.by_node.insert(node, State::Two);
            }
            (Some(State::BusySince(_)), false) => {
                self.by_node.remove(&node);
            }
            (Some(&State::OneUntil(at)), _) if at <= now => {
                self.by_node.remove(&node);
            }
            _ => {}
        }
    }

    /// The second one cannot be had.
    pub(crate) fn refused(&mut self, node: NodeId, now: Instant) {
        self.by_node
            .insert(node, State::OneUntil(now + REFUSED_FOR));
    }

    /// Nothing is left to send, to any broker.
    pub(crate) fn rest(&mut self) {
        self.by_node
            .retain(|_, state| matches!(state, State::OneUntil(_)));
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
        [outlets.of(1, 0), outlets.of(1, 1)]
    }

    const ONE: [Purpose; 2] = [Purpose::Produce; 2];
    const TWO: [Purpose; 2] = [Purpose::Produce, Purpose::ProduceMore];

    #[test]
    fn a_burst_opens_nothing_and_a_lasting_load_does_until_it_is_over() {
        let mut outlets = Outlets::default();
        let at = |ms| start() + Duration::from_millis(ms);
        outlets.note(1, true, at(0));
        outlets.note(1, true, at(15));
        outlets.note(1, false, at(16));
        outlets.note(1, true, at(17));
        outlets.note(1, true, at(36));
        assert_eq!(both(&outlets), ONE);
        outlets.note(1, true, at(38));
        assert_eq!(both(&outlets), TWO);
        outlets.note(1, false, at(39));
        assert_eq!(both(&outlets), TWO, "it is relieved by the other one");
        assert_eq!(outlets.of(2, 1), Purpose::Produce, "another broker");
        outlets.rest();
        assert_eq!(both(&outlets), ONE);
    }

    #[test]
    fn what_is_refused_is_not_asked_for_again_and_again() {
        let mut outlets = Outlets::default();
        let at = |s| start() + Duration::from_secs(s);
        outlets.note(1, true, at(0));
        outlets.note(1, true, at(1));
        outlets.refused(1, at(2));
        assert_eq!(both(&outlets), ONE);
        outlets.rest();
        for second in 3..62 {
            outlets.note(1, true, at(second));
        }
        assert_eq!(both(&outlets), ONE);
        outlets.note(1, true, at(63));
        outlets.note(1, true, at(64));
        outlets.note(1, true, at(65));
        assert_eq!(both(&outlets), TWO);
    }
}
