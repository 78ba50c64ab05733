//! Passwords that the application supplies when the client logs in, and passwords that change.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::{Secret, TokenError};

/// Supplies the password of one client, for each authentication.
pub trait PasswordProvider: Send + Sync {
    /// Starts to get the password. It may block for a moment, but it must not wait for the
    /// password: it answers through `reply`, from any thread.
    fn request(&self, reply: PasswordReply);
}

/// Takes the answer of a provider. Dropping it means that there will be no password.
pub struct PasswordReply(oneshot::Sender<Result<Secret, TokenError>>);

impl PasswordReply {
    /// Answers. Nobody may be waiting any more.
    pub fn send(self, answer: Result<Secret, TokenError>) {
        let _ = self.0.send(answer);
    }
}

/// `sasl_plain_password` as a function.
#[derive(Clone)]
pub struct PasswordSource(pub Arc<dyn PasswordProvider>);

impl fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordSource")
    }
}

/// The provider of a client's passwords, until somebody sets a password.
#[derive(Default)]
pub(crate) struct Passwords(Mutex<Option<PasswordSource>>);

impl Passwords {
    pub(super) fn new(source: Option<PasswordSource>) -> Self {
        Self(Mutex::new(source))
    }

    pub(super) fn are_asked_for(&self) -> bool {
        locked(&self.0).is_some()
    }

    /// Stops asking the provider.
    pub(super) fn forget_provider(&self) {
        *locked(&self.0) = None;
    }

    /// Asks the provider. Returns `None` if there is none, or if somebody set a password meanwhile.
    pub(super) async fn ask(&self) -> Result<Option<Secret>, TokenError> {
        let source = locked(&self.0).clone();
        let Some(PasswordSource(provider)) = source else {
            return Ok(None);
        };
        let (reply, answer) = oneshot::channel();
        // The provider may have to wait for the interpreter's lock.
        tokio::task::spawn_blocking(move || provider.request(PasswordReply(reply)));
        let dropped = |_| TokenError::new("sasl_plain_password returned no password", None);
        let password = answer.await.map_err(dropped)??;
        Ok(self.are_asked_for().then_some(password))
    }
}

/// Locks credentials. Nothing panics while it holds the lock.
pub(super) fn locked<T>(credentials: &Mutex<T>) -> MutexGuard<'_, T> {
    credentials.lock().unwrap_or_else(PoisonError::into_inner)
}
