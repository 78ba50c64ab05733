//! The end of a client, and the wait for it.

use std::task::Waker;
use std::time::{Duration, Instant};

use super::inbox::Command;
use super::view::ClientView;
use crate::clock;
use crate::error::ClientError;
use crate::operation::{Operation, is_over};

/// How long the actor has after the deadline of a close to fail what is left.
const GRACE: Duration = Duration::from_secs(2);

/// Closes a client: see [`ClientView::close`].
pub struct Close {
    view: ClientView,
    timeout: Option<Duration>,
    /// Set by the first poll.
    begun: Option<Begun>,
}

#[derive(Clone, Copy)]
struct Begun {
    /// When the actor must have finished.
    deadline: Instant,
    had_failed: bool,
}

impl ClientView {
    /// Stops taking new work, finishes what can be finished within the timeout, then fails what is
    /// left. `None` waits until everything is finished.
    ///
    /// The close begins with the first poll. If the caller gives it up, the client continues to
    /// close in the background. It returns [`ClientError::Failed`] if the client fails only now: a
    /// failure that the caller may know already, from any other call, is not reported again.
    pub fn close(&self, timeout: Option<Duration>) -> Close {
        Close {
            view: self.clone(),
            timeout,
            begun: None,
        }
    }

    /// Closes without waiting. Whatever is left fails.
    pub(super) fn close_now(&self) {
        if self.check().is_ok() {
            let deadline = clock::now();
            self.inbox().command(Command::Close { deadline });
        }
    }

    fn begin_close(&self, timeout: Option<Duration>) -> Begun {
        let end = timeout.map_or_else(clock::far_away, |timeout| clock::now() + timeout);
        // A failed client tells its callers before it is marked as closed.
        let had_failed = self.failure().is_some();
        self.inbox().command(Command::Close { deadline: end });
        Begun {
            deadline: end + GRACE,
            had_failed,
        }
    }
}

impl Operation for Close {
    type Output = ();

    fn poll(&mut self, waker: &Waker) -> Option<Result<(), ClientError>> {
        let view = &self.view;
        if self.begun.is_none() {
            match view.check() {
                Err(ClientError::Closed | ClientError::Failed(_)) => return Some(Ok(())),
                Err(error) => return Some(Err(error)),
                Ok(()) => {}
            }
        }
        let begin = || view.begin_close(self.timeout);
        let begun = *self.begun.get_or_insert_with(begin);
        if view.inbox().poll_ended(waker).is_some() {
            let failure = view.failure().filter(|_| !begun.had_failed);
            return Some(failure.map_or(Ok(()), Err));
        }
        is_over(begun.deadline).then(|| {
            Err(ClientError::TimedOut(
                "the client did not close in time".to_owned(),
            ))
        })
    }

    fn deadline(&self) -> Option<Instant> {
        // A close without a timeout needs no timer.
        self.timeout.and(self.begun).map(|begun| begun.deadline)
    }
}
