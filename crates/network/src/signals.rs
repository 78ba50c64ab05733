//! All our threads block all signals, so that the application's main thread gets them.
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

/// Blocks all signals in this thread for good: the first thing in a thread that others start.
pub fn block_signals() {
    #[cfg(unix)]
    std::mem::forget(mask::Mask::block_all());
}

#[cfg(unix)]
pub(crate) mod mask {
    use std::mem::MaybeUninit;
    use std::ptr;

    /// Restores the thread's signal mask when dropped.
    pub(crate) struct Mask {
        before: libc::sigset_t,
    }

    impl Mask {
        pub(crate) fn block_all() -> Self {
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

        /// The mask as it was, for ppoll to set while it sleeps.
        pub(crate) fn before(&self) -> &libc::sigset_t {
            &self.before
        }
    }

    impl Drop for Mask {
        fn drop(&mut self) {
            // SAFETY: `before` was filled in by pthread_sigmask.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
            }
        }
    }
}
