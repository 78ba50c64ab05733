//! A producer's client: the accumulator for application threads, the sender on an actor. Calls on
//! transactions are in `transactions`.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use thalweg_cluster::metrics::{ClientMetrics, MetricGroup};
use thalweg_producer::{Accumulator, CompletionListener, ProducerConfig, Sender, TopicEntry};

use crate::client::{Client, ClientView, Parts};
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::metrics::merged;
use crate::runtime::Runtime;
use crate::wait::{Blocked, block_until};

/// A producer's client. It waits for metadata, flushes and closes. Use [`Accumulator`] to append.
pub struct ProducerClient {
    pub(crate) client: Client<Sender>,
    accumulator: Arc<Accumulator>,
    connections: Arc<ClientMetrics>,
}

impl ProducerClient {
    /// Starts connecting in the background. [`ClientView::wait_bootstrapped`] waits for it.
    /// `listener` is called for completed batches that have callbacks.
    pub fn start(
        config: &ClientConfig,
        mut producer: ProducerConfig,
        listener: Option<Arc<dyn CompletionListener>>,
    ) -> Result<Self, ClientError> {
        let parts = Parts::new(config)?;
        producer.codec_threads = Runtime::current()?.codec().threads();
        let connections = Arc::clone(parts.cluster.metrics());
        let (accumulator, sender) = cores(&parts, producer, listener);
        let client = Client::start(parts, sender)?;
        Ok(Self {
            client,
            accumulator,
            connections,
        })
    }

    /// Starts on the caller's tokio runtime with the transport of `parts`, for tests and the
    /// simulation.
    pub fn start_here(
        parts: Parts,
        producer: ProducerConfig,
        listener: Option<Arc<dyn CompletionListener>>,
    ) -> Self {
        let connections = Arc::clone(parts.cluster.metrics());
        let (accumulator, sender) = cores(&parts, producer, listener);
        let client = Client::start_here(parts, sender);
        Self {
            client,
            accumulator,
            connections,
        }
    }

    pub fn accumulator(&self) -> &Arc<Accumulator> {
        &self.accumulator
    }

    /// Returns all metrics under Kafka's names, also for a closed client.
    pub fn metrics(&self, now: Instant) -> Vec<MetricGroup> {
        let connections = self.connections.snapshot("producer", now);
        merged(
            connections
                .into_iter()
                .chain(self.accumulator.metrics_snapshot(now)),
        )
    }

    pub fn view(&self) -> &ClientView {
        self.client.view()
    }

    /// Returns the entry of a topic as soon as its partitions are known. Keep it to avoid the
    /// lookup.
    pub fn topic(
        &self,
        name: &str,
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<Arc<TopicEntry>, ClientError> {
        // Make no entry for an invalid topic name, nor after a close or a fork.
        self.view().check()?;
        thalweg_cluster::metadata::validate_topic_name(name)?;
        let entry = self.accumulator.topic(name);
        if entry.partition_count() > 0 {
            return Ok(entry);
        }
        self.view().wait_topic(name, deadline, interrupted)?;
        Ok(self.accumulator.topic(name))
    }

    /// Waits until every record appended before this call was sent or has failed.
    pub fn flush(
        &self,
        deadline: Option<Instant>,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), ClientError> {
        self.view().check()?;
        let mut ticket = self.accumulator.flush();
        let done = block_until(deadline, interrupted, |waker| {
            match ticket.poll_done(waker) {
                Poll::Ready(()) => Some(()),
                Poll::Pending => None,
            }
        });
        if let Some(failure) = self.view().failure() {
            // Its records failed together with the client.
            return Err(failure);
        }
        done.map_err(|blocked| match blocked {
            Blocked::Interrupted => ClientError::Interrupted,
            Blocked::TimedOut => {
                let left = ticket.remaining();
                ClientError::TimedOut(format!(
                    "flush: {left} batches are not acknowledged yet. The producer continues to \
                     send them"
                ))
            }
        })
    }

    /// Sends what is left until `deadline`, then fails the rest and closes the connections.
    pub fn close(
        &self,
        deadline: Instant,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), ClientError> {
        self.client.close(deadline, interrupted)
    }
}

/// Makes both halves: one for application threads, one for the I/O thread.
fn cores(
    parts: &Parts,
    config: ProducerConfig,
    listener: Option<Arc<dyn CompletionListener>>,
) -> (Arc<Accumulator>, Sender) {
    let metadata = Arc::clone(&parts.metadata);
    let notifier = Arc::clone(&parts.notifier);
    let accumulator = Accumulator::new(&config, metadata, notifier, listener);
    let sender = Sender::new(config, Arc::clone(&accumulator));
    (accumulator, sender)
}
