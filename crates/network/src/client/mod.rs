//! A client: one actor on the I/O thread, and handles for all other threads.

mod actor;
mod bootstrap;
mod by_name;
mod close;
mod connections;
mod failing;
mod inbox;
mod negotiation;
mod pending;
mod request;
mod ticket;
mod view;

use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::{Cluster, Notifier, Principal, Role, SharedMetadata};

use crate::config::ClientConfig;
use crate::connection::Opener;
use crate::error::ClientError;
use crate::runtime::Runtime;
use crate::sasl::Mechanism;
use crate::transport::{Tcp, Transport};
use actor::Actor;
use inbox::{Inbox, RoleCalls};

pub use bootstrap::Bootstrap;
pub use by_name::NamedRequest;
pub use close::Close;
pub(crate) use inbox::Ending;
pub use negotiation::Negotiation;
pub(crate) use pending::{SentRequest, Step, UnsentRequest};
pub use request::{EncodeBody, OnResponse, Request, RequestTarget, Response, VersionChoice};
pub(crate) use ticket::ticket;
pub use ticket::{Question, Ticket};
pub use view::ClientView;

/// The parts of a client that exist before its actor runs. A role core is built around them.
pub struct Parts {
    pub notifier: Arc<Notifier>,
    pub cluster: Cluster,
    pub metadata: Arc<SharedMetadata>,
    pub(crate) principal: Principal,
    config: ClientConfig,
    opener: Opener,
}

impl Parts {
    /// Checks the configuration. It opens no connection.
    pub fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        let tcp = Tcp {
            send_buffer_bytes: config.send_buffer_bytes,
            receive_buffer_bytes: config.receive_buffer_bytes,
        };
        Self::with_transport(config, Arc::new(tcp))
    }

    pub fn with_transport(
        config: &ClientConfig,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, ClientError> {
        config.check()?;
        let tls = if config.security_protocol.uses_tls() {
            let prepared = config
                .tls_prepared
                .clone()
                .map_or_else(|| config.prepare_tls(), Ok)?;
            Some(prepared.0)
        } else {
            None
        };
        let client_id = config.client_id.as_deref();
        let mechanism = |sasl| {
            let source = config.sasl_password.clone();
            Mechanism::new(sasl, source, client_id, config.wall_clock)
                .map(Arc::new)
                .map_err(ClientError::Configuration)
        };
        let opener = Opener {
            transport,
            tls,
            sasl: config.sasl.as_ref().map(mechanism).transpose()?,
            client_id: config.client_id.clone(),
            receive_max: config.receive_message_max_bytes,
        };
        let notifier = Arc::new(Notifier::new());
        let cluster = Cluster::new(config.cluster(), Arc::clone(&notifier));
        let principal = cluster.config().principal.clone();
        let metadata = Arc::clone(cluster.shared_metadata());
        Ok(Self {
            notifier,
            cluster,
            metadata,
            principal,
            config: config.clone(),
            opener,
        })
    }
}

/// A running client with role `R`. Dropping it closes the client at once.
pub struct Client<R: Role> {
    view: ClientView,
    calls: Arc<RoleCalls<R>>,
}

impl<R: Role> Client<R> {
    /// Starts the actor on this process's I/O thread. Connecting starts at once, in the background.
    pub fn start(parts: Parts, role: R) -> Result<Self, ClientError> {
        let runtime = Runtime::current()?;
        let (client, actor) = Self::prepare(parts, role, false);
        runtime.spawn(actor.run());
        Ok(client)
    }

    /// Starts the actor on the caller's tokio runtime, for tests and the simulation.
    pub fn start_here(parts: Parts, role: R) -> Self {
        let (client, actor) = Self::prepare(parts, role, true);
        tokio::spawn(actor.run());
        client
    }

    fn prepare(parts: Parts, role: R, inline_jobs: bool) -> (Self, Actor<R>) {
        let Parts {
            notifier,
            cluster,
            metadata,
            principal,
            config,
            opener,
        } = parts;
        let inbox = Arc::new(Inbox::new(Arc::clone(&notifier)));
        let calls = Arc::new(RoleCalls::default());
        let sasl = opener.sasl.as_ref();
        let view = ClientView::new(Arc::clone(&inbox), metadata, &config, sasl, principal);
        let actor = Actor::new(
            role,
            cluster,
            inbox,
            Arc::clone(&calls),
            opener,
            &config,
            inline_jobs,
        );
        (Self { view, calls }, actor)
    }

    /// Returns the handle for requests, metadata and closing, which does not need the role.
    pub fn view(&self) -> &ClientView {
        &self.view
    }

    /// Runs a function on the actor's thread, with access to the role and the cluster.
    pub fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut R, &mut Cluster, Instant) -> T + Send + 'static,
    ) -> Ticket<T> {
        let inbox = self.view.inbox();
        let (reply, ticket) = ticket::ticket(inbox.ending());
        self.calls.push(Box::new(move |role, cluster, now| {
            reply.send(Ok(call(role, cluster, now)));
        }));
        inbox.notifier().notify();
        if inbox.is_closed() {
            // The actor may have ended without seeing the call. Clearing the queue fails what is
            // left in it.
            self.calls.clear();
        }
        ticket
    }
}

impl<R: Role> Drop for Client<R> {
    fn drop(&mut self) {
        self.view.close_now();
    }
}
