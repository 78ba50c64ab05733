//! The handle that every client has, whatever its role: requests, metadata, closing.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use thalweg_cluster::metadata::TopicLookup;
use thalweg_cluster::{ApiVersions, Cluster, CoordinatorType, NodeId, SharedMetadata, Topic};

use super::inbox::{Command, Inbox};
use super::pending::{Pending, no_brokers};
use super::request::{Request, Response};
use super::ticket::{Ticket, ticket};
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::runtime::Generation;
use crate::wait::{Blocked, block_until};

/// How long the actor has after the deadline of a close to fail what is left.
pub const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// How long a question to the actor itself may take.
pub const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// A handle to a client. It is cheap to clone, all clones are the same client, and it does not keep
/// the client open.
#[derive(Clone)]
pub struct ClientView {
    inbox: Arc<Inbox>,
    metadata: Arc<SharedMetadata>,
    generation: Generation,
    request_timeout: Duration,
}

impl ClientView {
    pub(super) fn new(
        inbox: Arc<Inbox>,
        metadata: Arc<SharedMetadata>,
        config: &ClientConfig,
    ) -> Self {
        let generation = Generation::current();
        Self {
            inbox,
            metadata,
            generation,
            request_timeout: config.request_timeout,
        }
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Fails if the client has failed, is closed, or was made before a fork. Cheap, and takes no
    /// lock.
    pub fn check(&self) -> Result<(), ClientError> {
        if self.generation.is_inherited() {
            // Must come first: in a forked child, threads that do not exist there may hold the
            // locks below.
            return Err(ClientError::Forked);
        }
        if self.inbox.is_closed() {
            Err(self.inbox.ending().error())
        } else {
            Ok(())
        }
    }

    /// Whether the client was closed. False for a client that failed: its next call returns the
    /// reason, see [`Self::check`].
    pub fn is_closed(&self) -> bool {
        self.inbox.is_closed() && self.failure().is_none()
    }

    /// Returns why the client failed, if it did.
    pub fn failure(&self) -> Option<ClientError> {
        self.inbox.ending().failure()
    }

    /// Whether a parent of this process made the client.
    pub fn is_inherited(&self) -> bool {
        self.generation.is_inherited()
    }

    /// Returns the shared metadata, to read the snapshot and to wait for the next.
    pub fn metadata(&self) -> &Arc<SharedMetadata> {
        &self.metadata
    }

    /// Makes the actor take a turn. It causes at most one wake-up per sleep.
    pub fn wake(&self) {
        self.inbox.notifier().notify();
    }

    /// Sends a request. The returned ticket gets its answer.
    pub fn request(&self, request: Request) -> Ticket<Response> {
        if let Err(error) = self.check() {
            return Ticket::done(Err(error));
        }
        let timeout = request.timeout.unwrap_or(self.request_timeout);
        let (reply, ticket) = ticket(self.inbox.ending());
        self.inbox.command(Command::Request(Pending {
            request,
            reply,
            deadline: crate::clock::now() + timeout,
            // A caller with a short timeout does not mean that the connection is dead.
            wire_timeout: timeout.max(self.request_timeout),
        }));
        ticket
    }

    /// Runs a function on the actor's thread, with access to the cluster.
    pub fn with_cluster<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Cluster, Instant) -> T + Send + 'static,
    ) -> Ticket<T> {
        if let Err(error) = self.check() {
            return Ticket::done(Err(error));
        }
        let (reply, ticket) = ticket(self.inbox.ending());
        let run = move |cluster: &mut Cluster, now: Instant| reply.send(Ok(call(cluster, now)));
        self.inbox.command(Command::Cluster(Box::new(run)));
        ticket
    }

    /// Waits until a broker has named all brokers. The error `NoBrokersAvailable` lists the cause
    /// for each address.
    pub fn wait_bootstrapped(
        &self,
        timeout: Duration,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), ClientError> {
        let deadline = Instant::now() + timeout;
        let poll = |waker: &Waker| self.poll_bootstrapped(waker);
        match block_until(Some(deadline), interrupted, poll) {
            Ok(outcome) => outcome,
            Err(Blocked::Interrupted) => Err(ClientError::Interrupted),
            Err(Blocked::TimedOut) => {
                let causes = self.no_brokers();
                Err(causes.wait(Some(Instant::now() + ASK_TIMEOUT), interrupted)?)
            }
        }
    }

    /// Returns `Some` when a broker has named all brokers, or when none ever will. Otherwise
    /// `waker` is woken when that may have changed. A caller that gives up gets the reason from
    /// [`Self::no_brokers`].
    pub fn poll_bootstrapped(&self, waker: &Waker) -> Option<Result<(), ClientError>> {
        self.poll_metadata(waker, &mut |view| {
            if view.metadata.version() > 0 {
                return Some(Ok(()));
            }
            let fatal = view.metadata.fatal_error();
            fatal.map(|error| Err(ClientError::Connection(error)))
        })
    }

    /// Returns `NoBrokersAvailable` with the last failure of each bootstrap address so far.
    pub fn no_brokers(&self) -> Ticket<ClientError> {
        self.with_cluster(|cluster, _| no_brokers(cluster))
    }

    /// Waits until a topic is known. An error that waiting cannot change ends the wait at once.
    pub fn wait_topic(
        &self,
        name: &str,
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Arc<Topic>, ClientError> {
        let mut last = None;
        let look = |view: &Self| match view.metadata.lookup(name) {
            TopicLookup::Known(topic) => Some(Ok(topic)),
            TopicLookup::Invalid(error) => Some(Err(error.into())),
            TopicLookup::Unreachable(error) => Some(Err(ClientError::Connection(error))),
            TopicLookup::Refused(code) => Some(Err(ClientError::Broker {
                code,
                context: name.to_owned(),
            })),
            TopicLookup::Unknown(code) => {
                last = code;
                view.metadata
                    .request_topic(name)
                    .err()
                    .map(|error| Err(error.into()))
            }
        };
        let outcome = self.wait_metadata(deadline, interrupted, look);
        outcome.map_err(|error| match error {
            ClientError::TimedOut(_) => {
                let cause = last.map_or_else(String::new, |code| format!(" ({})", code.name()));
                ClientError::TimedOut(format!("no broker reported topic {name}{cause}"))
            }
            other => other,
        })
    }

    /// Waits until `look` accepts the metadata. It is called again after each change.
    pub fn wait_metadata<T>(
        &self,
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> bool,
        mut look: impl FnMut(&Self) -> Option<Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let poll = |waker: &Waker| self.poll_metadata(waker, &mut look);
        match block_until(Some(deadline), interrupted, poll) {
            Ok(outcome) => outcome,
            Err(Blocked::Interrupted) => Err(ClientError::Interrupted),
            Err(Blocked::TimedOut) => Err(ClientError::TimedOut("no metadata arrived".into())),
        }
    }

    fn poll_metadata<T>(
        &self,
        waker: &Waker,
        look: &mut impl FnMut(&Self) -> Option<Result<T, ClientError>>,
    ) -> Option<Result<T, ClientError>> {
        loop {
            let seen = self.metadata.changes();
            // After `changes()`, because a client that ends wakes its waiters only once.
            if let Err(error) = self.check() {
                return Some(Err(error));
            }
            if let Some(found) = look(self) {
                return Some(found);
            }
            if self.metadata.wait_for_change(seen, waker) {
                return None;
            }
        }
    }

    /// Whether any broker is connected now.
    pub fn is_connected(&self) -> Ticket<bool> {
        self.with_cluster(|cluster, _| cluster.is_connected())
    }

    /// Returns the API versions of a node, or `None` if it was never connected.
    pub fn api_versions(&self, node: NodeId) -> Ticket<Option<Arc<ApiVersions>>> {
        self.with_cluster(move |cluster, _| cluster.api_versions(node).cloned())
    }

    /// Forgets a coordinator that no longer is one. The next request looks it up again.
    pub fn forget_coordinator(&self, kind: CoordinatorType, key: &str) {
        let key = key.to_owned();
        // Nobody waits for the answer. A closed client has nothing to forget.
        drop(
            self.with_cluster(move |cluster, now| cluster.invalidate_coordinator(kind, &key, now)),
        );
    }

    /// Closes the client and waits for it. After an interruption it continues to close in the
    /// background. Returns [`ClientError::Failed`] if the client fails only now: a failure that
    /// the caller may know already, from any other call, is not reported again.
    pub fn close(
        &self,
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), ClientError> {
        match self.check() {
            Err(ClientError::Closed | ClientError::Failed(_)) => return Ok(()),
            other => other?,
        }
        // A failed client tells its callers before it is marked as closed.
        let had_failed = self.failure().is_some();
        self.inbox.command(Command::Close { deadline });
        let last = deadline + CLOSE_GRACE;
        match block_until(Some(last), interrupted, |waker| {
            self.inbox.poll_closed(waker)
        }) {
            Ok(()) if had_failed => Ok(()),
            Ok(()) => self.failure().map_or(Ok(()), Err),
            Err(Blocked::Interrupted) => Err(ClientError::Interrupted),
            Err(Blocked::TimedOut) => Err(ClientError::TimedOut("the client did not close".into())),
        }
    }

    /// Starts what [`Self::close`] waits for. [`Self::poll_closed`] says when it is done.
    pub fn start_close(&self, deadline: Instant) {
        if self.check().is_ok() {
            self.inbox.command(Command::Close { deadline });
        }
    }

    /// Returns true if the client is closed. Otherwise `waker` is woken when it is.
    pub fn poll_closed(&self, waker: &Waker) -> bool {
        self.inbox.poll_closed(waker).is_some()
    }

    /// Like [`Self::close`], for callers that are tasks.
    pub async fn close_async(&self, deadline: Instant) {
        if self.check().is_ok() {
            self.start_close(deadline);
            let done = |cx: &mut Context<'_>| match self.inbox.poll_closed(cx.waker()) {
                Some(()) => Poll::Ready(()),
                None => Poll::Pending,
            };
            poll_fn(done).await;
        }
    }

    /// Like [`Self::wait_bootstrapped`], for callers that are tasks, and without a time limit.
    pub async fn wait_ready(&self) {
        poll_fn(|cx| {
            loop {
                let seen = self.metadata.changes();
                if self.metadata.version() > 0 {
                    return Poll::Ready(());
                }
                if self.metadata.wait_for_change(seen, cx.waker()) {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }

    /// Closes without waiting. Whatever is left fails.
    pub(super) fn close_now(&self) {
        self.start_close(crate::clock::now());
    }
}
