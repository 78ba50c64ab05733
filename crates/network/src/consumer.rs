//! A consumer's client: the consumer core's two halves, put on an actor.

use std::sync::Arc;
use std::time::Instant;

use thalweg_consumer::{Consumer, ConsumerConfig, Fetcher};

use crate::client::{Client, ClientView, Parts};
use crate::config::ClientConfig;
use crate::error::ClientError;

/// The application's half is [`Consumer`]: assign, seek, drain. Everything else is the view's.
pub struct ConsumerClient {
    client: Client<Fetcher>,
    consumer: Arc<Consumer>,
}

impl ConsumerClient {
    /// Starts connecting in the background; [`ClientView::wait_bootstrapped`] waits for it.
    pub fn start(config: &ClientConfig, consumer: ConsumerConfig) -> Result<Self, ClientError> {
        let parts = Parts::new(config)?;
        let (consumer, fetcher) = Consumer::new(consumer, Arc::clone(&parts.notifier));
        let client = Client::start(parts, fetcher)?;
        Ok(Self { client, consumer })
    }

    /// On the caller's own tokio runtime, with the transport of `parts`: tests and the simulation.
    pub fn start_here(parts: Parts, consumer: ConsumerConfig) -> Self {
        let (consumer, fetcher) = Consumer::new(consumer, Arc::clone(&parts.notifier));
        let client = Client::start_here(parts, fetcher);
        Self { client, consumer }
    }

    pub fn consumer(&self) -> &Arc<Consumer> {
        &self.consumer
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
