//! Metrics under Kafka's names: sampled windows, and what a client's connections did.
//!
//! ```text
//!   I/O thread: one record a request or answer ──▶ Sampled, under one lock ──▶ snapshot(now)
//! ```
//! Nothing here is written for each record of a batch. Averages, maxima and rates are those of
//! Kafka's `SampledStat`; what a snapshot holds is the metrics of that moment.

mod client;
mod sampled;

use std::time::Duration;

pub use client::ClientMetrics;
pub use sampled::{Gathered, Sampled};

/// A name and its metric.
pub type Metric = (&'static str, f64);

/// The metrics of one group: `producer-metrics`, or one of many of a kind by what it is about, as
/// kafka-python writes it (`producer-node-metrics.node-1`, `producer-topic-metrics.orders`).
#[derive(Debug, Clone, PartialEq)]
pub struct MetricGroup {
    pub name: String,
    pub values: Vec<Metric>,
}

/// Over which time averages and rates are taken: so many windows of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricsConfig {
    pub num_samples: usize,
    pub sample_window: Duration,
}

impl Default for MetricsConfig {
    /// Kafka's.
    fn default() -> Self {
        Self {
            num_samples: 2,
            sample_window: Duration::from_secs(30),
        }
    }
}
