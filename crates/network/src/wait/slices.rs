//! The gate without a descriptor: a condition variable. Signals do not end its sleep, so the waiter
//! sleeps in slices and checks for signals in between.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Wait;

/// The longest time until a signal is noticed.
const ASK_EVERY: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    pub(super) fn open(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    pub(super) fn wait(&self, deadline: Option<Instant>) -> Wait {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let slice = left.map_or(ASK_EVERY, |left| left.min(ASK_EVERY));
        let guard = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut open, _) = self
            .changed
            .wait_timeout_while(guard, slice, |open| !*open)
            .unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut *open) {
            return Wait::Notified;
        }
        if left.is_some_and(|left| left <= ASK_EVERY) {
            Wait::TimedOut
        } else {
            Wait::Interrupted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_times_out_and_lets_the_waiter_look_for_signals() {
        let gate = Gate::default();
        gate.open();
        assert_eq!(gate.wait(None), Wait::Notified);
        assert_eq!(gate.wait(None), Wait::Interrupted, "a slice is over");
        let soon = Instant::now() + Duration::from_millis(5);
        assert_eq!(gate.wait(Some(soon)), Wait::TimedOut);
    }
}
