//! Passwords that the application supplies when the client logs in, and passwords that change.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::{Semaphore, oneshot};

use super::{Secret, TokenError};
use crate::wait::{Blocked, block_until};

/// The number of calls of a provider at a time, however many connections log in. The others wait.
const CALLS_MAX: usize = 4;

/// Supplies the password of one client, for each authentication.
pub trait PasswordProvider: Send + Sync {
    /// Starts to get the password. It may block for a moment, but it must not wait for the
    /// password: it answers through `reply`, from any thread.
    fn request(&self, reply: PasswordReply);
}

/// Takes the answer of a provider. Dropping it means that there will be no password.
pub struct PasswordReply(oneshot::Sender<Result<Secret, TokenError>>);

impl PasswordReply {
    pub(super) fn new(waiting: oneshot::Sender<Result<Secret, TokenError>>) -> Self {
        Self(waiting)
    }

    /// Passes the answer to the connection. Does nothing if no connection waits any more.
    pub fn send(self, answer: Result<Secret, TokenError>) {
        let _ = self.0.send(answer);
    }
}

/// A password option as a function.
#[derive(Clone)]
pub struct PasswordSource(pub Arc<dyn PasswordProvider>);

impl PasswordSource {
    /// Asks, and blocks this thread until the answer, the deadline or an interruption.
    pub fn wait(
        &self,
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Result<Secret, TokenError>, Blocked> {
        let (reply, mut answer) = oneshot::channel();
        self.0.request(PasswordReply(reply));
        block_until(Some(deadline), interrupted, |waker| {
            match Pin::new(&mut answer).poll(&mut Context::from_waker(waker)) {
                Poll::Pending => None,
                Poll::Ready(Ok(answer)) => Some(answer),
                Poll::Ready(Err(_)) => Some(Err(TokenError::new("returned no password", None))),
            }
        })
    }
}

impl fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordSource")
    }
}

/// The provider of a client's passwords, until the application sets a password.
pub(crate) struct Passwords {
    source: Mutex<Option<PasswordSource>>,
    calls: Semaphore,
}

impl Passwords {
    pub(super) fn new(source: Option<PasswordSource>) -> Self {
        Self {
            source: Mutex::new(source),
            calls: Semaphore::new(CALLS_MAX),
        }
    }

    pub(super) fn are_asked_for(&self) -> bool {
        locked(&self.source).is_some()
    }

    /// Stops asking the provider, and stores what the application has set. No password that the
    /// provider returns later replaces it.
    pub(super) fn replace(&self, store: impl FnOnce()) {
        let mut source = locked(&self.source);
        *source = None;
        store();
    }

    /// Stores what the provider has returned, unless the application set a password meanwhile.
    pub(super) fn if_asked_for(&self, store: impl FnOnce()) {
        let source = locked(&self.source);
        if source.is_some() {
            store();
        }
    }

    /// Asks the provider. Returns `None` if there is none. Store the password with
    /// [`Self::if_asked_for`].
    pub(super) async fn ask(&self) -> Result<Option<Secret>, TokenError> {
        // An error would mean that the semaphore is closed, and it never is.
        let _call = self.calls.acquire().await;
        let source = locked(&self.source).clone();
        let Some(PasswordSource(provider)) = source else {
            return Ok(None);
        };
        let (reply, answer) = oneshot::channel();
        // The provider may have to wait for the interpreter's lock.
        tokio::task::spawn_blocking(move || provider.request(PasswordReply(reply)));
        let dropped = |_| TokenError::new("sasl_plain_password returned no password", None);
        answer.await.map_err(dropped)?.map(Some)
    }
}

/// Locks credentials. Nothing panics while it holds the lock.
pub(super) fn locked<T>(credentials: &Mutex<T>) -> MutexGuard<'_, T> {
    credentials.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Keeps the replies, so that the test can answer them later.
    #[derive(Default)]
    struct Slow(Mutex<Vec<PasswordReply>>);

    impl PasswordProvider for Slow {
        fn request(&self, reply: PasswordReply) {
            locked(&self.0).push(reply);
        }
    }

    #[test]
    fn a_password_that_somebody_sets_is_not_replaced_by_a_late_answer() {
        let source = PasswordSource(Arc::new(Slow::default()));
        let (passwords, stored) = (Passwords::new(Some(source)), Mutex::new("old"));
        passwords.if_asked_for(|| *locked(&stored) = "of the provider");
        assert_eq!(*locked(&stored), "of the provider");
        passwords.replace(|| *locked(&stored) = "new");
        passwords.if_asked_for(|| *locked(&stored) = "late");
        assert_eq!(*locked(&stored), "new");
    }

    #[tokio::test]
    async fn many_connections_at_once_wait_for_a_few_calls() {
        let slow = Arc::new(Slow::default());
        let source = PasswordSource(Arc::clone(&slow) as Arc<dyn PasswordProvider>);
        let passwords = Arc::new(Passwords::new(Some(source)));
        let mut asking: Vec<_> = (0..20)
            .map(|_| {
                let passwords = Arc::clone(&passwords);
                tokio::spawn(async move { passwords.ask().await })
            })
            .collect();
        let pause = || tokio::time::sleep(Duration::from_millis(1));
        while locked(&slow.0).len() < CALLS_MAX {
            pause().await;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(locked(&slow.0).len(), CALLS_MAX);
        // Connections that give up do not keep the others waiting.
        for given_up in asking.drain(..5) {
            given_up.abort();
        }
        while !asking.iter().all(tokio::task::JoinHandle::is_finished) {
            for reply in std::mem::take(&mut *locked(&slow.0)) {
                reply.send(Ok(Secret::new("password")));
            }
            pause().await;
        }
        for each in asking {
            assert!(matches!(each.await, Ok(Ok(Some(_)))));
        }
    }
}
