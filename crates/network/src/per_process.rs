//! A value of which each process has its own.
//!
//! After a fork the child finds its parent's, whose threads do not exist here and whose locks may be
//! held for ever: it leaves that alone, leaks it, and makes one of its own.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// For statics.
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

    /// This process's value, if one was made.
    pub fn existing(&'static self) -> Option<&'static T> {
        // SAFETY: what was published is never freed.
        let owned = unsafe { self.0.load(Ordering::Acquire).as_ref() }?;
        (owned.pid == std::process::id()).then_some(&owned.value)
    }

    /// This process's value. Of two threads that make one at the same time, one is thrown away.
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
                // SAFETY: `fresh` was not published, so it is ours alone.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }
}
