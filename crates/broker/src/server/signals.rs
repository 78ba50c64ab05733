//! Keeps signals away from the broker's thread. The program's main thread handles them.

/// Runs `spawn` with all signals blocked. A thread inherits the mask of the thread that starts it,
/// so the new thread can never receive a signal.
#[cfg(unix)]
pub(crate) fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    use std::mem::MaybeUninit;

    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` initialises the set that it is given, and `pthread_sigmask` writes the
    // old mask before it is read. Both pointers are valid during the calls.
    let is_masked = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) == 0
    };
    let result = spawn();
    if is_masked {
        // SAFETY: the successful call above wrote the mask.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
        }
    }
    result
}

#[cfg(not(unix))]
pub(crate) fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    spawn()
}
