//! A consumer's client: the consumer core's two halves, put on an actor.

use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::metrics::{ClientMetrics, MetricGroup};
use thalweg_consumer::{Consumer, ConsumerConfig, Fetcher};

use crate::client::{Client, ClientView, Parts};
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::metrics::merged;

/// The application's half is [`Consumer`]: assign, seek, drain. Everything else is the view's.
pub struct ConsumerClient {
    client: Client<Fetcher>,
    consumer: Arc<Consumer>,
    connections: Arc<ClientMetrics>,
}

impl ConsumerClient {
    /// Starts connecting in the background; [`ClientView::wait_bootstrapped`] waits for it.
    pub fn start(config: &ClientConfig, consumer: ConsumerConfig) -> Result<Self, ClientError> {
        let parts = Parts::new(config)?;
        let connections = Arc::clone(parts.cluster.metrics());
        let (consumer, fetcher) = Consumer::new(consumer, Arc::clone(&parts.notifier));
        let client = Client::start(parts, fetcher)?;
        Ok(Self {
            client,
            consumer,
            connections,
        })
    }

    /// On the caller's own tokio runtime, with the transport of `parts`: tests and the simulation.
    pub fn start_here(parts: Parts, consumer: ConsumerConfig) -> Self {
        let connections = Arc::clone(parts.cluster.metrics());
        let (consumer, fetcher) = Consumer::new(consumer, Arc::clone(&parts.notifier));
        let client = Client::start_here(parts, fetcher);
        Self {
            client,
            consumer,
            connections,
        }
    }

    pub fn consumer(&self) -> &Arc<Consumer> {
        &self.consumer
    }

    /// All figures under Kafka's names; also of a client that is closed.
    pub fn metrics(&self, now: Instant) -> Vec<MetricGroup> {
        let connections = self.connections.snapshot("consumer", now);
        merged(
            connections
                .into_iter()
                .chain(self.consumer.metrics_snapshot(now)),
        )
    }

    pub fn view(&self) -> &ClientView {
        self.client.view()
    }

    /// Closes the connections. Buffered records are dropped, offsets are the coordinator's affair.
    pub fn close(
        &self,
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), ClientError> {
        let closed = self.client.close(deadline, interrupted);
        self.consumer.wake();
        closed
    }
}
