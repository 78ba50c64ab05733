//! Partitions that got something to send, on their way from appending threads to the sender.
//!
//! ```text
//!   append: first record, or a batch full ──push──▶ arrivals ──take──▶ Sender::poll
//!                  │                                   ▲
//!                  └─ wake? only if due before the ────┘ arm(next deadline)
//!                     moment at which the sender looks anyway
//! ```
//! A partition is here once at most for each of the two reasons, and once for each lingering batch
//! that somebody waits for. So the cost follows the partitions with data, never all that are known.
//!
//! The lost wake-up: an append that pushes between the sender's last look and its sleep would wait
//! for a sender that sleeps. Both sides go through one lock: `arm` refuses while there is news.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::sync::lock;
use crate::topic::TopicEntry;

/// A partition with news for the sender.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) partition: i32,
}

#[derive(Debug)]
enum Armed {
    /// The sender is at work, or was woken: it takes the arrivals before it sleeps.
    Running,
    /// The sender sleeps until then, or until somebody wakes it.
    Until(Option<Instant>),
}

#[derive(Debug)]
pub(crate) struct ReadyQueue(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    arrivals: Vec<Arrival>,
    /// Something that concerns all partitions changed since the sender began its turn.
    nudged: bool,
    armed: Armed,
}

impl Default for ReadyQueue {
    fn default() -> Self {
        // Until its first poll nobody needs to be woken: that poll is sure to come.
        Self(Mutex::new(Inner {
            arrivals: Vec::new(),
            nudged: false,
            armed: Armed::Running,
        }))
    }
}

impl ReadyQueue {
    /// Enters a partition that must be looked at by `due`, or at once (`None`). True: wake the
    /// sender.
    pub(crate) fn push(&self, arrival: Arrival, due: Option<Instant>) -> bool {
        let mut inner = lock(&self.0);
        inner.arrivals.push(arrival);
        inner.wake_before(due)
    }

    /// Something changed that concerns everything (flush, close, memory short). True: wake.
    pub(crate) fn nudge(&self) -> bool {
        let mut inner = lock(&self.0);
        inner.nudged = true;
        inner.wake_before(None)
    }

    /// The sender begins to work: what has come until now.
    pub(crate) fn take(&self, into: &mut Vec<Arrival>) {
        let mut inner = lock(&self.0);
        inner.armed = Armed::Running;
        inner.nudged = false;
        std::mem::swap(&mut inner.arrivals, into);
    }

    /// The sender goes to sleep. False: something came, look again.
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
    /// Notes that the sender is being woken, so that the next one need not; `None`: at once.
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
