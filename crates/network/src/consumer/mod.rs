//! A consumer's client: both halves of the consumer core, run by an actor.
//!
//! ```text
//! lookup.rs   offsets by time
//! work.rs     when the application's thread must do the work of the group
//! ```

mod lookup;
mod work;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::metrics::{ClientMetrics, MetricGroup};
use thalweg_consumer::{Consumer, ConsumerConfig, PollBegan};

use crate::client::{Client, ClientView, Parts, Request, Response, Ticket};
use crate::clock;
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::heartbeats::{ConsumerRole, HeartbeatNews, HeartbeatPlan, Heartbeats, PollWatch};
use crate::metrics::merged;

pub use lookup::OffsetLookup;
pub use work::{Caller, GroupWork};

/// A consumer's client. Use [`Consumer`] to assign, seek and drain, and the view for everything
/// else. A close drops buffered records and commits no offsets: the coordinator's driver does that.
pub struct ConsumerClient {
    client: Client<ConsumerRole>,
    consumer: Arc<Consumer>,
    heartbeats: Heartbeats,
    connections: Arc<ClientMetrics>,
}

/// Counts as a poll in the metrics until it is dropped.
pub struct CountedPoll<'a> {
    client: &'a ConsumerClient,
    began: PollBegan,
}

impl Drop for CountedPoll<'_> {
    fn drop(&mut self) {
        self.client.poll_ended(self.began);
    }
}

impl ConsumerClient {
    /// Starts connecting in the background. [`ClientView::bootstrap`] waits for it.
    pub fn start(config: &ClientConfig, consumer: ConsumerConfig) -> Result<Self, ClientError> {
        Self::build(Parts::new(config)?, consumer, Client::start)
    }

    /// Starts on the caller's tokio runtime with the transport of `parts`, for tests and the
    /// simulation.
    pub fn start_here(parts: Parts, consumer: ConsumerConfig) -> Self {
        let start = |parts, role| Ok::<_, Infallible>(Client::start_here(parts, role));
        let Ok(made) = Self::build(parts, consumer, start);
        made
    }

    fn build<E>(
        parts: Parts,
        mut consumer: ConsumerConfig,
        start: impl FnOnce(Parts, ConsumerRole) -> Result<Client<ConsumerRole>, E>,
    ) -> Result<Self, E> {
        let connections = Arc::clone(parts.cluster.metrics());
        consumer.principal = parts.principal.clone();
        let (consumer, fetcher) = Consumer::new(consumer, Arc::clone(&parts.notifier));
        let (heartbeats, manager) = Heartbeats::new(&consumer);
        let role = ConsumerRole {
            fetcher,
            heartbeats: manager,
        };
        Ok(Self {
            client: start(parts, role)?,
            consumer,
            heartbeats,
            connections,
        })
    }

    pub fn consumer(&self) -> &Arc<Consumer> {
        &self.consumer
    }

    /// Makes a waiting poll do its coordinator work, because a response has come.
    pub fn reenter(&self) {
        self.heartbeats.reentry().ask();
    }

    /// Returns how often [`Self::reenter`] or heartbeats asked for coordinator work. Never 0.
    pub fn reentries(&self) -> u64 {
        self.heartbeats.reentry().count()
    }

    /// The watch that a polling thread enters for as long as its poll runs.
    pub fn poll_watch(&self) -> &PollWatch {
        self.heartbeats.poll_watch()
    }

    /// Counts a poll in the metrics, until the result is dropped.
    pub fn count_poll(&self) -> CountedPoll<'_> {
        CountedPoll {
            client: self,
            began: self.poll_began(),
        }
    }

    /// Counts a poll that no scope encloses. Pass the result to [`Self::poll_ended`].
    pub fn poll_began(&self) -> PollBegan {
        self.consumer.metrics().polls.began(clock::now())
    }

    pub fn poll_ended(&self, began: PollBegan) {
        if self.view().is_inherited() {
            return; // a thread that does not exist in this child may hold a lock
        }
        self.consumer.metrics().polls.ended(began, clock::now());
    }

    /// Repeats a heartbeat from now on, replacing the previous one, and watches the polls.
    pub fn start_heartbeats(&self, plan: HeartbeatPlan) {
        self.heartbeats.start(&self.client, plan);
    }

    /// Sends a `JoinGroup`. When the group admits the member, the heartbeats of `plan` start with
    /// the generation and the member id of the response.
    pub fn join(&self, request: Request, plan: HeartbeatPlan) -> Ticket<Response> {
        self.heartbeats.join(&self.client, request, plan)
    }

    /// Stops the heartbeats and the watch. A heartbeat in flight may still get a good response.
    pub fn stop_heartbeats(&self) {
        self.heartbeats.stop(&self.client);
    }

    /// Takes what heartbeats brought that was new.
    pub fn take_notable_heartbeats(&self) -> Vec<HeartbeatNews> {
        self.heartbeats.take_notable()
    }

    /// Whether a heartbeat of an order before the last one is in flight. None follows it.
    pub fn old_heartbeat_is_in_flight(&self) -> bool {
        self.heartbeats.is_old_in_flight()
    }

    /// Whether the application was away from poll too long since the last call of this.
    pub fn take_poll_expired(&self) -> bool {
        self.heartbeats.take_expired()
    }

    /// Returns all metrics under Kafka's names, also for a closed client. Heartbeat metrics are
    /// included only if the consumer has a group.
    pub fn metrics(&self, now: Instant) -> Vec<MetricGroup> {
        let in_group = self.consumer.config().group_id.is_some();
        let connections = self.connections.snapshot("consumer", now);
        let fetched = self.consumer.metrics_snapshot(now);
        let heartbeats = in_group.then(|| self.heartbeats.metrics(now));
        merged(connections.into_iter().chain(fetched).chain(heartbeats))
    }

    pub fn view(&self) -> &ClientView {
        self.client.view()
    }
}
