//! A value of which each process has its own.
//!
//! After a fork the child finds its parent's value, whose threads do not exist in the child and
//! whose locks may be held for ever. The child does not touch that value, leaks it, and makes its
//! own.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A static cell with one value for each process.
pub struct PerProcess<T>(AtomicPtr<Owned<T>>);

struct Owned<T> {
    pid: u32,
    value: T,
}

impl<T> PerProcess<T> {
    #[expect(
        clippy::new_without_default,
        reason = "statics are made by const functions"
    )]
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Returns this process's value if it was made already.
    pub fn existing(&'static self) -> Option<&'static T> {
        // SAFETY: a published value is never freed.
        let owned = unsafe { self.0.load(Ordering::Acquire).as_ref() }?;
        (owned.pid == std::process::id()).then_some(&owned.value)
    }

    /// Returns this process's value. If two threads make one at the same time, one of them is
    /// dropped.
    pub fn get_or_make(&'static self, make: impl Fn() -> T) -> &'static T {
        loop {
            let seen = self.0.load(Ordering::Acquire);
            if let Some(found) = self.existing() {
                return found;
            }
            let pid = std::process::id();
            let fresh = Box::into_raw(Box::new(Owned { pid, value: make() }));
            let published =
                self.0
                    .compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire);
            if published.is_err() {
                // SAFETY: `fresh` was not published, so no other thread has it.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}
