//! One flag between many notifying threads and one client actor. It wakes the actor at most once
//! for each park.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

const RUNNING: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

/// Wakes the client's actor. Accumulators, fetch buffers and handles share it as `Arc<Notifier>`.
///
/// ```text
///             notify()                    notify(): wake
///   RUNNING ───────────▶ NOTIFIED ◀──────────────────── PARKED
///      ▲                     │ park(): refused              ▲
///      └─────────────────────┘◀── unpark() ─────────────────┘ park()
/// ```
/// A notification between the actor's last look at its queues and its `park` makes `park` refuse,
/// so none is lost. A notification while the actor runs costs one atomic swap and no wake-up.
#[derive(Debug)]
pub struct Notifier {
    state: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

impl Default for Notifier {
    fn default() -> Self {
        Self::new()
    }
}

impl Notifier {
    pub const fn new() -> Self {
        Self {
            state: AtomicU8::new(RUNNING),
            waker: Mutex::new(None),
        }
    }

    /// Makes sure that the actor takes another turn. Any thread may call it, and it never blocks
    /// for long.
    pub fn notify(&self) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED {
            // Cloned first, because a waker may run foreign code, which must not run under our
            // lock.
            let waker = self
                .waker
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    /// Called by the actor before it sleeps. False means that something arrived: look again.
    pub fn park(&self, waker: &Waker) -> bool {
        {
            let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            if !slot.as_ref().is_some_and(|old| old.will_wake(waker)) {
                *slot = Some(waker.clone());
            }
        }
        self.state
            .compare_exchange(RUNNING, PARKED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Called by the actor before it looks at its queues. Notifications until now count as seen.
    pub fn unpark(&self) {
        self.state.swap(RUNNING, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wakes_once_a_park() {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let notifier = Notifier::new();
        notifier.notify();
        assert!(
            !notifier.park(&waker),
            "a notification before the park is not lost"
        );
        notifier.unpark();
        assert!(notifier.park(&waker));
        notifier.notify();
        notifier.notify();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        notifier.unpark();
        notifier.notify();
        assert_eq!(
            count.0.load(Ordering::Relaxed),
            1,
            "a running actor needs no wake"
        );
    }
}
