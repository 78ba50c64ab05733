//! The calls of asyncio that sleep until their consumer has something for them.
//!
//! The consumer's core stores one waker, but several tasks may wait for its records. They share
//! that one. It wakes all of them: each checks, and those that find nothing sleep again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use crate::interpreter::callbacks::locked;

#[derive(Default)]
struct Wakers(Mutex<BTreeMap<u64, Waker>>);

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // The wakers are copied first: a waker may run foreign code, which must not run under our
        // lock.
        let wakers: Vec<Waker> = locked(&self.0).values().cloned().collect();
        for waker in wakers {
            waker.wake();
        }
    }
}

/// The sleeping calls, each with a number.
pub(crate) struct Sleepers {
    wakers: Arc<Wakers>,
    shared: Waker,
}

impl Default for Sleepers {
    fn default() -> Self {
        let wakers = Arc::<Wakers>::default();
        let shared = Waker::from(Arc::clone(&wakers));
        Self { wakers, shared }
    }
}

impl Sleepers {
    /// Returns the waker that wakes all sleepers.
    pub(crate) fn waker(&self) -> &Waker {
        &self.shared
    }

    /// Adds a sleeper, until [`Self::remove`].
    pub(crate) fn add(&self, number: u64, waker: &Waker) {
        let before = locked(&self.wakers.0).insert(number, waker.clone());
        drop(before);
    }

    /// Removes a sleeper. Returns whether others are left.
    pub(crate) fn remove(&self, number: u64) -> bool {
        let mut wakers = locked(&self.wakers.0);
        let removed = wakers.remove(&number);
        let left = !wakers.is_empty();
        drop(wakers);
        drop(removed);
        left
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.wakers.0).is_empty()
    }
}
