//! All our threads block all signals, so that the application's main thread gets them. The callback
//! thread lets them through while it runs the application's code.
#![allow(unsafe_code)]

/// Runs `spawn` with all signals blocked in this thread: the threads that it makes inherit that from
/// their first instruction on, so no signal can slip into one of them.
pub(crate) fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    #[cfg(unix)]
    {
        let mask = mask::Mask::block_all();
        let made = spawn();
        drop(mask);
        made
    }
    #[cfg(not(unix))]
    spawn()
}

/// All signals are blocked in this thread as long as this lives.
pub struct BlockedSignals {
    #[cfg(unix)]
    mask: mask::Mask,
}

impl BlockedSignals {
    /// The first thing in a thread that others start.
    pub fn block() -> Self {
        Self {
            #[cfg(unix)]
            mask: mask::Mask::block_all(),
        }
    }

    /// Runs foreign code with the mask that the thread had before. Processes inherit the mask of the
    /// thread that starts them: with all signals blocked they would ignore SIGTERM.
    pub fn lifted<T>(&self, work: impl FnOnce() -> T) -> T {
        #[cfg(unix)]
        let _lifted = self.mask.lift();
        work()
    }
}

#[cfg(unix)]
mod mask {
    use std::mem::MaybeUninit;
    use std::ptr;

    /// Restores the thread's signal mask when dropped.
    pub(super) struct Mask {
        before: libc::sigset_t,
    }

    /// Blocks all signals again when dropped.
    pub(super) struct Lifted;

    impl Mask {
        pub(super) fn block_all() -> Self {
            let mut all = MaybeUninit::<libc::sigset_t>::uninit();
            let mut before = MaybeUninit::<libc::sigset_t>::uninit();
            // SAFETY: both sets are ours, sigfillset initialises the one and pthread_sigmask the
            // other; neither call fails for these arguments (POSIX: only a bad `how` is an error).
            let before = unsafe {
                libc::sigfillset(all.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
                before.assume_init()
            };
            Self { before }
        }

        pub(super) fn lift(&self) -> Lifted {
            self.restore();
            Lifted
        }

        fn restore(&self) {
            // SAFETY: `before` was filled in by pthread_sigmask.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
            }
        }
    }

    impl Drop for Mask {
        fn drop(&mut self) {
            self.restore();
        }
    }

    impl Drop for Lifted {
        fn drop(&mut self) {
            std::mem::forget(Mask::block_all());
        }
    }
}
