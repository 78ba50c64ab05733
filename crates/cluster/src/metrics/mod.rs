//! Metrics under Kafka's names: sampled windows, and what a client's connections did.
//!
//! ```text
//!   I/O thread: one value for each request or response ──▶ Sampled (one lock) ──▶ snapshot(now)
//! ```
//! Nothing here is written once for each record of a batch. Averages, maxima and rates are computed
//! as in Kafka's `SampledStat`. A snapshot holds the metrics of the moment when it is taken.

mod client;
mod sampled;

use std::time::Duration;

pub use client::ClientMetrics;
pub use sampled::{Gathered, Sampled};

/// A name and its metric.
pub type Metric = (&'static str, f64);

/// The metrics of one group: either `producer-metrics`, or one group for each node or topic, named
/// as in kafka-python (`producer-node-metrics.node-1`, `producer-topic-metrics.orders`).
#[derive(Debug, Clone, PartialEq)]
pub struct MetricGroup {
    pub name: String,
    pub values: Vec<Metric>,
}

/// The time over which averages and rates are computed: a number of windows of the given length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsConfig {
    pub num_samples: usize,
    pub sample_window: Duration,
}

impl Default for MetricsConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        Self {
            num_samples: 2,
            sample_window: Duration::from_secs(30),
        }
    }
}
