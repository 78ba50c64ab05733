//! A producer's client: the accumulator for application threads, the sender on an actor.
//!
//! ```text
//! append.rs        what a refused append waits for: memory, metadata
//! bulk.rs          the append of a column, with its waits
//! flush.rs         the wait for everything that was appended
//! transactions.rs  calls on transactions
//! ```

mod append;
mod bulk;
mod flush;
mod transactions;

use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::metrics::{ClientMetrics, MetricGroup};
use thalweg_producer::{Accumulator, CompletionListener, ProducerConfig, Sender};

use crate::client::{Client, ClientView, Parts};
use crate::config::ClientConfig;
use crate::error::ClientError;
use crate::metrics::merged;
use crate::runtime::Runtime;

pub use append::{AppendWait, MaxBlock, MemoryWait, PartitionWait};
pub use bulk::BulkSend;
pub use flush::Flush;
pub use transactions::{PrepareCall, TransactionCall};

/// A producer's client. It waits for metadata, flushes and runs transactions. Use [`Accumulator`]
/// to append, and the view for everything else.
pub struct ProducerClient {
    /// A call on a transaction shares it, to reach the sender at any time.
    client: Arc<Client<Sender>>,
    accumulator: Arc<Accumulator>,
    connections: Arc<ClientMetrics>,
}

impl ProducerClient {
    /// Starts connecting in the background. [`ClientView::bootstrap`] waits for it. `listener` is
    /// called for completed batches that have callbacks.
    pub fn start(
        config: &ClientConfig,
        mut producer: ProducerConfig,
        listener: Option<Arc<dyn CompletionListener>>,
    ) -> Result<Self, ClientError> {
        let parts = Parts::new(config)?;
        producer.codec_threads = Runtime::current()?.codec().threads();
        let connections = Arc::clone(parts.cluster.metrics());
        let (accumulator, sender) = cores(&parts, producer, listener);
        let client = Arc::new(Client::start(parts, sender)?);
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
        let client = Arc::new(Client::start_here(parts, sender));
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
}

/// Makes both halves: one for application threads, one for the I/O thread.
fn cores(
    parts: &Parts,
    mut config: ProducerConfig,
    listener: Option<Arc<dyn CompletionListener>>,
) -> (Arc<Accumulator>, Sender) {
    config.principal = parts.principal.clone();
    let metadata = Arc::clone(&parts.metadata);
    let notifier = Arc::clone(&parts.notifier);
    let accumulator = Accumulator::new(&config, metadata, notifier, listener);
    let sender = Sender::new(config, Arc::clone(&accumulator));
    (accumulator, sender)
}
