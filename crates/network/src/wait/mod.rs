//! How application threads wait: in poll(2) on a descriptor of their own, so that signals end it.
//!
//! ```text
//!   waiting thread: register waker ─▶ look ─▶ park (poll on the eventfd) ─▶ look again
//!   other thread:   change the state ─▶ wake(): one write, only if the thread is parked
//! ```
//! A wake before the park is remembered, so none is lost; one too many is harmless.

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
#[cfg(unix)]
use crate::signals::mask::Mask;

pub use doorbell::Doorbell;

const EMPTY: u8 = 0;
const PARKED: u8 = 1;
const NOTIFIED: u8 = 2;

/// Until this the plain poll is used: most waits end sooner, and two system calls are saved.
const UNMASKED_MAX: Duration = Duration::from_millis(20);

/// How a park ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Notified,
    TimedOut,
    /// A signal arrived in this thread.
    Interrupted,
}

/// Why [`block_until`] came back without what it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    TimedOut,
    Interrupted,
}

/// A thread's place to wait.
#[derive(Clone)]
pub struct Parker {
    inner: Arc<Inner>,
    waker: Waker,
}

struct Inner {
    state: AtomicU8,
    gate: Gate,
}

/// What a parked thread sleeps at.
enum Gate {
    #[cfg(unix)]
    Descriptor(descriptor::Gate),
    /// Where the system has no such descriptor, or has none left.
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
            Self::Descriptor(gate) => gate.wait(deadline, None),
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

    /// This thread's own parker, made at first use (and again after a fork: parent and child must
    /// not wait on one descriptor).
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

    /// Wakes this thread out of [`Parker::wait`]; for any thread.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Sleeps until the waker is used, the deadline is over, or a signal arrives.
    pub fn wait(&self, deadline: Option<Instant>) -> Wait {
        self.park(|gate| gate.wait(deadline))
    }

    /// As [`Self::wait`], and cannot miss a signal: they are held back while `interrupted` is asked,
    /// and let through only within the sleep.
    pub fn wait_unless(
        &self,
        deadline: Option<Instant>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Wait {
        #[cfg(unix)]
        if let Gate::Descriptor(gate) = &self.inner.gate {
            let held = Mask::block_all();
            if interrupted() {
                return Wait::Interrupted;
            }
            return self.park(|_| gate.wait(deadline, Some(&held)));
        }
        if interrupted() {
            return Wait::Interrupted;
        }
        self.wait(deadline)
    }

    fn park(&self, sleep: impl FnOnce(&Gate) -> Wait) -> Wait {
        let state = &self.inner.state;
        if state
            .compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            state.store(EMPTY, Ordering::Release);
            return Wait::Notified;
        }
        let outcome = sleep(&self.inner.gate);
        // A waker that finds EMPTY from here on leaves NOTIFIED for the next park; one that found
        // PARKED opens the gate, perhaps only after we went: the next park then ends too early,
        // which callers take for a wake-up without news.
        if state.swap(EMPTY, Ordering::AcqRel) == NOTIFIED {
            return Wait::Notified;
        }
        outcome
    }
}

/// Blocks this thread until `poll` gives something. `poll` must hand the waker to whatever will
/// change *before* it looks; `interrupted` is asked when a signal arrived, and says whether to stop.
pub fn block_until<T>(
    deadline: Option<Instant>,
    interrupted: &mut dyn FnMut() -> bool,
    mut poll: impl FnMut(&Waker) -> Option<T>,
) -> Result<T, Blocked> {
    let parker = Parker::current();
    let start = Instant::now();
    // What a signal's handler raised is told once: whoever asks again would hear that all is well.
    let mut stopped = false;
    let mut is_stopped = || {
        stopped = stopped || interrupted();
        stopped
    };
    let mut quick = true;
    loop {
        if let Some(found) = poll(parker.waker()) {
            return Ok(found);
        }
        let soon = start + UNMASKED_MAX;
        let mut outcome = if quick {
            parker.wait(Some(deadline.map_or(soon, |at| at.min(soon))))
        } else {
            Wait::TimedOut
        };
        quick &= outcome != Wait::TimedOut;
        // Not looked at again in between: a wake since then is remembered.
        if !quick && deadline.is_none_or(|at| at > soon) {
            outcome = parker.wait_unless(deadline, &mut is_stopped);
        }
        match outcome {
            // A last look: the deadline and the news may have come together.
            Wait::TimedOut => return poll(parker.waker()).ok_or(Blocked::TimedOut),
            Wait::Interrupted if is_stopped() => return Err(Blocked::Interrupted),
            Wait::Notified | Wait::Interrupted => {}
        }
    }
}

/// For callers that no signal concerns.
pub fn never_interrupted() -> impl FnMut() -> bool {
    || false
}
