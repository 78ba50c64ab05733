//! The handle that every client has, whatever its role: requests and metadata. Its calls that wait
//! longer are in `bootstrap`, `negotiation` and `close`.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use thalweg_cluster::{Cluster, CoordinatorType, Principal, SharedMetadata};

use super::inbox::{Command, Inbox};
use super::pending::UnsentRequest;
use super::request::{Request, Response};
use super::ticket::{Question, Ticket, ticket};
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::runtime::Generation;
use crate::sasl::{Mechanism, Secret};

/// A handle to a client. It is cheap to clone, all clones are the same client, and it does not keep
/// the client open.
#[derive(Clone)]
pub struct ClientView {
    inbox: Arc<Inbox>,
    metadata: Arc<SharedMetadata>,
    generation: Generation,
    request_timeout: Duration,
    /// Weak, because a view outlives its client: its mechanism must not ask for tokens any more.
    sasl: Option<Weak<Mechanism>>,
    principal: Principal,
}

impl ClientView {
    pub(super) fn new(
        inbox: Arc<Inbox>,
        metadata: Arc<SharedMetadata>,
        config: &ClientConfig,
        sasl: Option<&Arc<Mechanism>>,
        principal: Principal,
    ) -> Self {
        let generation = Generation::current();
        Self {
            inbox,
            metadata,
            generation,
            request_timeout: config.request_timeout,
            sasl: sasl.map(Arc::downgrade),
            principal,
        }
    }

    /// Returns whom brokers take the client for, for errors.
    pub fn principal(&self) -> &Principal {
        &self.principal
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

    /// Sends a request. The returned ticket gets its response.
    pub fn request(&self, request: Request) -> Ticket<Response> {
        if let Err(error) = self.check() {
            return Ticket::done(Err(error));
        }
        let timeout = request.timeout.unwrap_or(self.request_timeout);
        let (reply, ticket) = ticket(self.inbox.ending());
        self.inbox.command(Command::Request(UnsentRequest {
            request,
            reply,
            deadline: crate::clock::now() + timeout,
            // A caller with a short timeout does not mean that the connection is dead.
            wire_timeout: timeout.max(self.request_timeout),
            refresh: None,
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

    /// Whether any broker is connected now.
    pub fn is_connected(&self) -> Question<bool> {
        Question::new(if self.is_closed() {
            Ticket::done(Ok(false))
        } else {
            self.with_cluster(|cluster, _| cluster.is_connected())
        })
    }

    /// Changes the user name and the password for the next authentication. Connections that exist
    /// stay.
    pub fn set_sasl_credentials(
        &self,
        username: String,
        password: Secret,
    ) -> Result<(), ClientError> {
        self.check()?;
        let principal = format!("User:{username}");
        let is_set = match &self.sasl {
            None => false,
            // Closed since the check.
            Some(sasl) => (sasl.upgrade())
                .ok_or_else(|| self.inbox.ending().error())?
                .set_credentials(username, password),
        };
        if is_set {
            self.principal.set(&principal);
            // The next call must not see the old error. The cluster also ends attempts with the old
            // credentials, and no thread waits for its reply.
            self.metadata.forget_fatal();
            drop(self.with_cluster(|cluster, _| cluster.credentials_changed()));
            return Ok(());
        }
        Err(ClientError::Configuration(
            "set_sasl_credentials needs a client with sasl_mechanism PLAIN, SCRAM-SHA-256 or \
             SCRAM-SHA-512"
                .to_owned(),
        ))
    }

    /// Forgets a coordinator that no longer is one. The next request looks it up again.
    pub fn forget_coordinator(&self, kind: CoordinatorType, key: &str) {
        let key = key.to_owned();
        // No thread waits for the reply. A closed client has nothing to forget.
        drop(
            self.with_cluster(move |cluster, now| cluster.invalidate_coordinator(kind, &key, now)),
        );
    }

    /// Forgets the controller, which no longer is one. The next request to it waits until brokers
    /// have named it again.
    pub fn forget_controller(&self) {
        drop(self.with_cluster(|cluster, _| cluster.invalidate_controller()));
    }
}
