//! The gate that poll(2) watches. A signal ends the sleep at once.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
use std::ptr;
use std::time::Instant;

use super::Wait;

/// An eventfd on Linux, a pipe elsewhere.
pub(super) struct Gate {
    read: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    write: OwnedFd,
}

impl Gate {
    #[cfg(target_os = "linux")]
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: a plain system call. The descriptor is ours if it is not negative.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just created, and no other code owns it.
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
            // SAFETY: both descriptors were just created.
            unsafe {
                libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        // SAFETY: just created, and no other code owns them.
        Ok(unsafe {
            Self {
                read: OwnedFd::from_raw_fd(ends[0]),
                write: OwnedFd::from_raw_fd(ends[1]),
            }
        })
    }

    /// Writes once. If the counter or pipe is full, the gate is already open.
    pub(super) fn open(&self) {
        let one = 1_u64;
        #[cfg(target_os = "linux")]
        let fd = self.read.as_raw_fd();
        #[cfg(not(target_os = "linux"))]
        let fd = self.write.as_raw_fd();
        // SAFETY: eight readable bytes, and a descriptor that we own.
        unsafe { libc::write(fd, (&raw const one).cast(), 8) };
    }

    pub(super) fn descriptor(&self) -> i32 {
        self.read.as_raw_fd()
    }

    pub(super) fn close(&self) {
        let mut spent = [0_u8; 64];
        // SAFETY: 64 writable bytes, and a descriptor that we own and that never blocks.
        unsafe {
            libc::read(
                self.read.as_raw_fd(),
                spent.as_mut_ptr().cast(),
                spent.len(),
            )
        };
    }

    pub(super) fn wait(&self, deadline: Option<Instant>) -> Wait {
        let mut watched = libc::pollfd {
            fd: self.read.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let outcome = poll(&mut watched, deadline);
        if outcome == Wait::Notified {
            self.close();
        }
        outcome
    }
}

/// Translates the result of poll(2).
fn outcome(ready: i32) -> Wait {
    match ready {
        1.. => Wait::Notified,
        0 => Wait::TimedOut,
        _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Wait::Interrupted,
        _ => Wait::TimedOut,
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn poll(watched: &mut libc::pollfd, deadline: Option<Instant>) -> Wait {
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    let timeout = left.map(|left| libc::timespec {
        tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: left.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: one pollfd, and a timeout that is null or valid during the call.
    outcome(unsafe { libc::ppoll(watched, 1, timeout, ptr::null()) })
}

/// Systems without ppoll: whole milliseconds, rounded up.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn poll(watched: &mut libc::pollfd, deadline: Option<Instant>) -> Wait {
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    let ms = left.map_or(-1, |left| {
        i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
    });
    // SAFETY: one pollfd, which is ours.
    outcome(unsafe { libc::poll(watched, 1, ms) })
}
