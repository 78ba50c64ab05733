//! [`Timer`]: wakes a sleeper when the deadline that it sleeps until becomes earlier.

use std::task::Waker;
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Timer(Option<(Instant, Waker)>);

impl Timer {
    /// Notes that a task sleeps until the deadline.
    pub(crate) fn arm(&mut self, deadline: Instant, waker: &Waker) {
        self.0 = Some((deadline, waker.clone()));
    }

    /// Wakes the sleeper, once, if `deadline` is earlier than its own.
    pub(crate) fn wake_if_before(&mut self, deadline: Instant) {
        if let Some((_, waker)) = self.0.take_if(|(armed, _)| deadline < *armed) {
            waker.wake();
        }
    }
}
