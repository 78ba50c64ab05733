//! How application threads wait: in poll(2) on a descriptor of their own, so that signals end it.
//!
//! ```text
//!   waiting thread: register waker ─▶ look ─▶ park (poll on the eventfd) ─▶ look again
//!   other thread:   change the state ─▶ wake(): one write, only if the thread is parked
//! ```
//! A wake before the park is remembered, so none is lost; one too many is harmless.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use crate::runtime::Generation;

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
    gate: sys::Gate,
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
    fn new() -> std::io::Result<Self> {
        let inner = Arc::new(Inner {
            state: AtomicU8::new(EMPTY),
            gate: sys::Gate::new()?,
        });
        Ok(Self {
            waker: Waker::from(Arc::clone(&inner)),
            inner,
        })
    }

    /// This thread's own parker, made at first use (and again after a fork: parent and child must
    /// not wait on one descriptor).
    pub fn current() -> Self {
        PARKER.with_borrow_mut(|slot| match slot {
            Some((made, parker)) if !made.is_inherited() => parker.clone(),
            _ => {
                let parker = Self::new().expect("the system refuses a descriptor for waiting");
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
        self.park(deadline, None)
    }

    /// As [`Self::wait`], and cannot miss a signal: they are held back while `interrupted` is asked,
    /// and let through only within the sleep.
    pub fn wait_unless(
        &self,
        deadline: Option<Instant>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Wait {
        let held = sys::HeldSignals::new();
        if interrupted() {
            return Wait::Interrupted;
        }
        self.park(deadline, Some(&held))
    }

    fn park(&self, deadline: Option<Instant>, held: Option<&sys::HeldSignals>) -> Wait {
        let state = &self.inner.state;
        if state
            .compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            state.store(EMPTY, Ordering::Release);
            return Wait::Notified;
        }
        let outcome = self.inner.gate.wait(deadline, held);
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
    let mut quick = true;
    loop {
        if let Some(found) = poll(parker.waker()) {
            return Ok(found);
        }
        let outcome = if quick {
            let soon = start + UNMASKED_MAX;
            match parker.wait(Some(deadline.map_or(soon, |at| at.min(soon)))) {
                Wait::TimedOut if deadline.is_none_or(|at| at > soon) => {
                    quick = false;
                    continue;
                }
                outcome => outcome,
            }
        } else {
            parker.wait_unless(deadline, interrupted)
        };
        match outcome {
            // A last look: the deadline and the news may have come together.
            Wait::TimedOut => return poll(parker.waker()).ok_or(Blocked::TimedOut),
            Wait::Interrupted if interrupted() => return Err(Blocked::Interrupted),
            Wait::Notified | Wait::Interrupted => {}
        }
    }
}

/// For callers that no signal concerns.
pub fn never_interrupted() -> impl FnMut() -> bool {
    || false
}

#[cfg(unix)]
mod sys {
    use std::io;
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    use std::ptr;
    use std::time::Instant;

    use super::Wait;
    use crate::signals::mask::Mask;

    pub(super) struct HeldSignals(Mask);

    impl HeldSignals {
        pub(super) fn new() -> Self {
            Self(Mask::block_all())
        }
    }

    /// An eventfd on Linux, a pipe elsewhere.
    pub(super) struct Gate {
        read: OwnedFd,
        #[cfg(not(target_os = "linux"))]
        write: OwnedFd,
    }

    impl Gate {
        #[cfg(target_os = "linux")]
        pub(super) fn new() -> io::Result<Self> {
            // SAFETY: plain system call; the descriptor is ours if it is not negative.
            let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: just made, owned by nobody else.
            Ok(Self {
                read: unsafe { OwnedFd::from_raw_fd(fd) },
            })
        }

        #[cfg(not(target_os = "linux"))]
        pub(super) fn new() -> io::Result<Self> {
            let mut ends = [0; 2];
            // SAFETY: `ends` has room for the two descriptors that pipe writes.
            if unsafe { libc::pipe(ends.as_mut_ptr()) } < 0 {
                return Err(io::Error::last_os_error());
            }
            for fd in ends {
                // SAFETY: both descriptors were just made.
                unsafe {
                    libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
                    libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
                }
            }
            // SAFETY: just made, owned by nobody else.
            Ok(unsafe {
                Self {
                    read: OwnedFd::from_raw_fd(ends[0]),
                    write: OwnedFd::from_raw_fd(ends[1]),
                }
            })
        }

        /// One write; a full counter or pipe is as good as one more.
        pub(super) fn open(&self) {
            let one = 1_u64;
            #[cfg(target_os = "linux")]
            let fd = self.read.as_raw_fd();
            #[cfg(not(target_os = "linux"))]
            let fd = self.write.as_raw_fd();
            // SAFETY: eight readable bytes, a descriptor that we own.
            unsafe { libc::write(fd, (&raw const one).cast(), 8) };
        }

        fn close(&self) {
            let mut spent = [0_u8; 64];
            // SAFETY: 64 writable bytes, a descriptor that we own and that never blocks.
            unsafe {
                libc::read(
                    self.read.as_raw_fd(),
                    spent.as_mut_ptr().cast(),
                    spent.len(),
                )
            };
        }

        pub(super) fn wait(&self, deadline: Option<Instant>, held: Option<&HeldSignals>) -> Wait {
            let mut watched = libc::pollfd {
                fd: self.read.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            let ready = poll(&mut watched, deadline, held);
            if ready > 0 {
                self.close();
                return Wait::Notified;
            }
            let interrupted =
                ready < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
            if interrupted {
                Wait::Interrupted
            } else {
                Wait::TimedOut
            }
        }
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    fn poll(
        watched: &mut libc::pollfd,
        deadline: Option<Instant>,
        held: Option<&HeldSignals>,
    ) -> i32 {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| libc::timespec {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mask = held.map_or(ptr::null(), |held| ptr::from_ref(held.0.before()));
        // SAFETY: one pollfd, and pointers that are null or valid for the call.
        unsafe { libc::ppoll(watched, 1, timeout, mask) }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    const GAP_LIMIT_MS: i32 = 1000;

    #[cfg(any(target_os = "macos", target_os = "ios"))]
    unsafe fn errno_location() -> *mut i32 {
        // SAFETY: always valid for the calling thread.
        unsafe { libc::__error() }
    }

    #[cfg(any(target_os = "openbsd", target_os = "netbsd"))]
    unsafe fn errno_location() -> *mut i32 {
        // SAFETY: as above.
        unsafe { libc::__errno() }
    }

    /// Without ppoll: signals are let through before the sleep, which leaves a gap of a few
    /// instructions; a second's limit on one sleep bounds what that can cost.
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    fn poll(
        watched: &mut libc::pollfd,
        deadline: Option<Instant>,
        held: Option<&HeldSignals>,
    ) -> i32 {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let ms = left.map_or(-1, |left| {
            i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
        });
        let Some(held) = held else {
            // SAFETY: one pollfd, ours.
            return unsafe { libc::poll(watched, 1, ms) };
        };
        // SAFETY: the mask was filled in by pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, held.0.before(), ptr::null_mut()) };
        let limited = ms < 0 || ms > GAP_LIMIT_MS;
        let ms = if limited { GAP_LIMIT_MS } else { ms };
        // SAFETY: as above.
        let ready = unsafe { libc::poll(watched, 1, ms) };
        if ready == 0 && limited {
            // Not the deadline: whoever waits looks for signals and sleeps on.
            // SAFETY: errno is this thread's own.
            unsafe { *errno_location() = libc::EINTR };
            return -1;
        }
        ready
    }
}

#[cfg(not(unix))]
mod sys {
    use std::io;
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::{Duration, Instant};

    use super::Wait;

    /// Signals do not interrupt a wait here: the caller is asked at this interval.
    const ASK_EVERY: Duration = Duration::from_millis(50);

    pub(super) struct HeldSignals;

    impl HeldSignals {
        pub(super) fn new() -> Self {
            Self
        }
    }

    pub(super) struct Gate {
        open: Mutex<bool>,
        changed: Condvar,
    }

    impl Gate {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self {
                open: Mutex::new(false),
                changed: Condvar::new(),
            })
        }

        pub(super) fn open(&self) {
            *self.open.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.changed.notify_one();
        }

        pub(super) fn wait(&self, deadline: Option<Instant>, _: Option<&HeldSignals>) -> Wait {
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
}
