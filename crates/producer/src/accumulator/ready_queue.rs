//! Passes partitions that have something to send from appending threads to the sender.
//!
//! ```text
//!   append: first record, or a batch full ──push──▶ arrivals ──take──▶ Sender::poll
//!                  │                                   ▲
//!                  └─ wake? only if due before the ────┘ arm(next deadline)
//!                     time at which the sender looks anyway
//! ```
//! A partition is queued at most once for each of the two reasons, and once for each lingering
//! batch that a thread waits for. So the cost depends on the partitions with data, not on all known
//! ones.
//!
//! The lost wake-up: if an append pushed between the sender's last look and its sleep, the sender
//! would sleep although it has work. So both sides take one lock, and `arm` refuses while the queue
//! is not empty.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::partitioning::topic::TopicEntry;
use crate::sync::lock;

/// A partition that the sender has to look at.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) partition: i32,
}

#[derive(Debug)]
enum Armed {
    /// The sender is working, or was woken. It takes the arrivals before it sleeps.
    Running,
    /// The sender sleeps until this time, or until a thread wakes it.
    Until(Option<Instant>),
}

#[derive(Debug)]
pub(crate) struct ReadyQueue(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    arrivals: Vec<Arrival>,
    /// Something that concerns all partitions has changed since the sender began its turn.
    nudged: bool,
    armed: Armed,
}

impl Default for ReadyQueue {
    fn default() -> Self {
        // No thread has to wake the sender for its first poll: that poll always happens.
        Self(Mutex::new(Inner {
            arrivals: Vec::new(),
            nudged: false,
            armed: Armed::Running,
        }))
    }
}

impl ReadyQueue {
    /// Adds a partition that the sender must look at by `due`, or at once (`None`). If this returns
    /// true, wake the sender.
    pub(crate) fn push(&self, arrival: Arrival, due: Option<Instant>) -> bool {
        let mut inner = lock(&self.0);
        inner.arrivals.push(arrival);
        inner.wake_before(due)
    }

    /// Notes a change that concerns all partitions (flush, close, memory short). If this returns
    /// true, wake the sender.
    pub(crate) fn nudge(&self) -> bool {
        let mut inner = lock(&self.0);
        inner.nudged = true;
        inner.wake_before(None)
    }

    /// Takes all arrivals, when the sender begins a turn.
    pub(crate) fn take(&self, into: &mut Vec<Arrival>) {
        let mut inner = lock(&self.0);
        inner.armed = Armed::Running;
        inner.nudged = false;
        std::mem::swap(&mut inner.arrivals, into);
    }

    /// Lets the sender sleep until a time. Returns false if something arrived: the sender then
    /// looks again.
    pub(crate) fn arm(&self, until: Option<Instant>) -> bool {
        let mut inner = lock(&self.0);
        if inner.nudged || !inner.arrivals.is_empty() {
            return false;
        }
        inner.armed = Armed::Until(until);
        true
    }
}

impl Inner {
    /// Decides whether to wake the sender, and notes it so that later callers need not. `due` is
    /// `None` for at once.
    fn wake_before(&mut self, due: Option<Instant>) -> bool {
        let wake = match (&self.armed, due) {
            (Armed::Running, _) => false,
            (Armed::Until(Some(until)), Some(due)) => due < *until,
            (Armed::Until(_), _) => true,
        };
        if wake {
            self.armed = Armed::Running;
        }
        wake
    }
}
