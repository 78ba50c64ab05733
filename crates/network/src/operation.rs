//! `Operation`: a call on a client that may have to wait, as a value that is polled.
//!
//! ```text
//! poll ── Some(outcome) ──▶ it is over, and must not be polled again
//!   └──── None ──▶ the caller waits until the waker is woken or the deadline is over, then polls
//! ```
//! No operation blocks a thread. The caller decides how it waits: a thread parks
//! ([`Parker`](crate::wait::Parker)), a task is suspended.

use std::task::Waker;
use std::time::Instant;

use crate::clock;
use crate::error::ClientError;

/// A call that may have to wait. Dropping it ends the wait, and does not undo what it did before.
pub trait Operation {
    type Output;

    /// Continues as far as possible. If it returns `None`, `waker` is woken when the operation can
    /// continue. Also poll it at its deadline, when it returns its timeout error.
    fn poll(&mut self, waker: &Waker) -> Option<Result<Self::Output, ClientError>>;

    /// Returns when its wait ends, or `None` for no limit.
    fn deadline(&self) -> Option<Instant>;

    /// Tells the operation that its caller stops waiting for it. It is not polled again.
    fn give_up(&mut self) {}
}

/// Whether a deadline has passed.
pub(crate) fn is_over(deadline: Instant) -> bool {
    clock::now() >= deadline
}
