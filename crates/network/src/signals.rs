//! Blocks all signals in our threads, so that the application's main thread gets them. The callback
//! thread unblocks them while it runs the application's code.
#![allow(unsafe_code)]

/// Runs `spawn` with all signals blocked in this thread. The threads that it starts inherit the
/// mask from their first instruction, so none of them can receive a signal.
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

/// Blocks all signals in this thread until it is dropped.
pub struct BlockedSignals {
    #[cfg(unix)]
    mask: mask::Mask,
}

impl BlockedSignals {
    /// Blocks the signals. Call this first in a thread that other code started.
    pub fn block() -> Self {
        Self {
            #[cfg(unix)]
            mask: mask::Mask::block_all(),
        }
    }

    /// Runs foreign code with the thread's previous mask. Processes inherit the mask of the thread
    /// that starts them: with all signals blocked they would ignore SIGTERM.
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
            // SAFETY: both sets are ours. sigfillset initialises one, and pthread_sigmask the
            // other. Neither call fails for these arguments (POSIX: only a bad `how` is an error).
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
            // SAFETY: pthread_sigmask initialised `before`.
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
