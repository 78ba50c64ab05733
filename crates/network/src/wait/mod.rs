//! How application threads wait: each in poll(2) on its own descriptor, so that signals end the
//! wait.
//!
//! ```text
//!   waiting thread: register waker ─▶ look ─▶ park (poll on the eventfd) ─▶ look again
//!   other thread:   change the state ─▶ wake(): one write, only if the thread is parked
//! ```
//! A wake before the park is remembered, so none is lost. An extra wake is harmless.
//!
//! Signal handlers are foreign code. They run with the thread's own signal mask, because processes
//! that they start inherit it. So a signal may arrive after the check for signals and before the
//! sleep, and another thread may get a signal that this thread must handle. The next check notices
//! both, at most [`ASK_EVERY`] later.

#[cfg(unix)]
mod descriptor;
mod doorbell;
mod slices;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use crate::runtime::Generation;

pub use doorbell::Doorbell;

const EMPTY: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

/// The first check for signals comes after this time, because most waits end sooner.
const ASK_FIRST: Duration = Duration::from_millis(20);
const ASK_EVERY: Duration = Duration::from_millis(250);

/// How a park ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Notified,
    TimedOut,
    /// A signal arrived in this thread.
    Interrupted,
}

/// Why [`block_until`] returned without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    TimedOut,
    Interrupted,
}

/// The place where one thread waits.
#[derive(Clone)]
pub struct Parker {
    inner: Arc<Inner>,
    waker: Waker,
}

struct Inner {
    state: AtomicU8,
    gate: Gate,
}

/// What a parked thread sleeps on.
enum Gate {
    #[cfg(unix)]
    Descriptor(descriptor::Gate),
    /// Used if the system has no such descriptor, or none left.
    Slices(slices::Gate),
}

impl Gate {
    fn new() -> Self {
        #[cfg(unix)]
        if let Ok(gate) = descriptor::Gate::new() {
            return Self::Descriptor(gate);
        }
        Self::Slices(slices::Gate::default())
    }

    fn open(&self) {
        match self {
            #[cfg(unix)]
            Self::Descriptor(gate) => gate.open(),
            Self::Slices(gate) => gate.open(),
        }
    }

    fn wait(&self, deadline: Option<Instant>) -> Wait {
        match self {
            #[cfg(unix)]
            Self::Descriptor(gate) => gate.wait(deadline),
            Self::Slices(gate) => gate.wait(deadline),
        }
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED {
            self.gate.open();
        }
    }
}

thread_local! {
    static PARKER: RefCell<Option<(Generation, Parker)>> = const { RefCell::new(None) };
}

impl Parker {
    fn new() -> Self {
        let inner = Arc::new(Inner {
            state: AtomicU8::new(EMPTY),
            gate: Gate::new(),
        });
        Self {
            waker: Waker::from(Arc::clone(&inner)),
            inner,
        }
    }

    /// Returns this thread's own parker, made at first use. It is made again after a fork, as
    /// parent and child must not wait on the same descriptor.
    pub fn current() -> Self {
        PARKER.with_borrow_mut(|slot| match slot {
            Some((made, parker)) if !made.is_inherited() => parker.clone(),
            _ => {
                let parker = Self::new();
                *slot = Some((Generation::current(), parker.clone()));
                parker
            }
        })
    }

    /// Returns the waker that ends this thread's [`Parker::wait`]. Any thread may use it.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Sleeps until the waker is used, the deadline passes, or a signal arrives.
    pub fn wait(&self, deadline: Option<Instant>) -> Wait {
        let state = &self.inner.state;
        if state
            .compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            state.store(EMPTY, Ordering::Release);
            return Wait::Notified;
        }
        let outcome = self.inner.gate.wait(deadline);
        // From here on, a waker that finds EMPTY leaves NOTIFIED for the next park. A waker that
        // found PARKED opens the gate, perhaps only after we have left. Then the next park ends too
        // early, which callers treat as a spurious wake-up.
        if state.swap(EMPTY, Ordering::AcqRel) == NOTIFIED {
            return Wait::Notified;
        }
        outcome
    }
}

/// A wait of this thread that may need many sleeps. All of them together check for signals as
/// rarely as one long sleep.
pub struct ThreadWait {
    parker: Parker,
    /// When to check for signals next.
    ask_at: Instant,
}

impl ThreadWait {
    /// Begins a wait.
    pub fn begin() -> Self {
        Self {
            parker: Parker::current(),
            ask_at: Instant::now() + ASK_FIRST,
        }
    }

    /// Returns the waker that ends a sleep.
    pub fn waker(&self) -> &Waker {
        self.parker.waker()
    }

    /// Sleeps until the waker is used or the deadline passes, or for a shorter time.
    ///
    /// `interrupted` is called if a signal arrived, and from time to time. Returns true if it does:
    /// then the wait is over.
    pub fn sleep(
        &mut self,
        deadline: Option<Instant>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> bool {
        let until = deadline.map_or(self.ask_at, |at| at.min(self.ask_at));
        let outcome = self.parker.wait(Some(until));
        let now = Instant::now();
        if outcome != Wait::Interrupted && now < self.ask_at {
            return false;
        }
        self.ask_at = now + ASK_EVERY;
        // A signal handler may wait here too, on this same parker, and take the wake-up meant for
        // this wait. So the caller looks again after every sleep.
        interrupted()
    }
}

/// Blocks this thread until `poll` returns a value.
///
/// `poll` must register the waker with whatever will change *before* it looks. `interrupted` is
/// called when a signal arrived, and from time to time. It returns true to stop the wait.
pub fn block_until<T>(
    deadline: Option<Instant>,
    interrupted: &mut dyn FnMut() -> bool,
    mut poll: impl FnMut(&Waker) -> Option<T>,
) -> Result<T, Blocked> {
    let mut wait = ThreadWait::begin();
    loop {
        if let Some(found) = poll(wait.waker()) {
            return Ok(found);
        }
        if wait.sleep(deadline, interrupted) {
            return Err(Blocked::Interrupted);
        }
        if deadline.is_some_and(|at| Instant::now() >= at) {
            // A last look: the deadline and the result may have come at the same time.
            return poll(wait.waker()).ok_or(Blocked::TimedOut);
        }
    }
}
