//! [`Timer`]: tells who sleeps until a deadline that it has come nearer.

use std::task::Waker;
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Timer(Option<(Instant, Waker)>);

impl Timer {
    /// Somebody sleeps until the deadline.
    pub(crate) fn arm(&mut self, deadline: Instant, waker: &Waker) {
        self.0 = Some((deadline, waker.clone()));
    }

    /// Wakes them, once, if `deadline` is before theirs.
    pub(crate) fn wake_if_before(&mut self, deadline: Instant) {
        if let Some((_, waker)) = self.0.take_if(|(armed, _)| deadline < *armed) {
            waker.wake();
        }
    }
}
