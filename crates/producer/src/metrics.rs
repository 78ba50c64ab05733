//! Counters under Kafka's names (`producer-metrics`). Totals only: a rate is the difference of two
//! snapshots, and whoever takes snapshots has a clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A sum with its count and greatest value, for averages.
#[derive(Debug, Default)]
pub struct Sum {
    count: AtomicU64,
    total: AtomicU64,
    max: AtomicU64,
}

impl Sum {
    pub(crate) fn add(&self, value: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(value, Ordering::Relaxed);
        self.max.fetch_max(value, Ordering::Relaxed);
    }

    /// `count` values at once, of which only the sum is known.
    pub(crate) fn add_many(&self, sum: u64, count: u64) {
        self.count.fetch_add(count, Ordering::Relaxed);
        self.total.fetch_add(sum, Ordering::Relaxed);
        self.max.fetch_max(sum / count.max(1), Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub fn average(&self) -> f64 {
        match self.count() {
            0 => f64::NAN,
            count => self.total.load(Ordering::Relaxed) as f64 / count as f64,
        }
    }

    pub fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }
}

/// What one producer did so far. Written by the sender, but for the buffer's.
#[derive(Debug, Default)]
pub struct ProducerMetrics {
    /// Records handed to the network, tries after the first included.
    pub(crate) record_send_total: AtomicU64,
    pub(crate) record_error_total: AtomicU64,
    pub(crate) record_retry_total: AtomicU64,
    pub(crate) batch_split_total: AtomicU64,
    pub(crate) buffer_exhausted_total: AtomicU64,
    pub(crate) request_total: AtomicU64,
    pub(crate) response_total: AtomicU64,
    pub(crate) requests_in_flight: AtomicU64,
    pub(crate) outgoing_byte_total: AtomicU64,
    /// Wire bytes of a batch.
    pub(crate) batch_size: Sum,
    pub(crate) records_per_request: Sum,
    /// Parts per million.
    pub(crate) compression_rate: Sum,
    pub(crate) record_size: Sum,
    /// Microseconds.
    pub(crate) record_queue_time: Sum,
    pub(crate) request_latency: Sum,
    /// Milliseconds.
    pub(crate) produce_throttle_time: Sum,
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl ProducerMetrics {
    /// All metrics by Kafka's names; `buffer` is (total, available, waiting threads).
    pub fn snapshot(&self, buffer: (usize, usize, usize)) -> Vec<(&'static str, f64)> {
        let total = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let ms = |us: f64| us / 1000.0;
        vec![
            ("record-send-total", total(&self.record_send_total)),
            ("record-error-total", total(&self.record_error_total)),
            ("record-retry-total", total(&self.record_retry_total)),
            ("record-size-avg", self.record_size.average()),
            ("record-size-max", self.record_size.max() as f64),
            (
                "record-queue-time-avg",
                ms(self.record_queue_time.average()),
            ),
            (
                "record-queue-time-max",
                ms(self.record_queue_time.max() as f64),
            ),
            (
                "records-per-request-avg",
                self.records_per_request.average(),
            ),
            ("batch-size-avg", self.batch_size.average()),
            ("batch-size-max", self.batch_size.max() as f64),
            ("batch-split-total", total(&self.batch_split_total)),
            (
                "compression-rate-avg",
                self.compression_rate.average() / 1e6,
            ),
            ("request-total", total(&self.request_total)),
            ("response-total", total(&self.response_total)),
            ("requests-in-flight", total(&self.requests_in_flight)),
            ("request-latency-avg", ms(self.request_latency.average())),
            ("request-latency-max", ms(self.request_latency.max() as f64)),
            (
                "request-size-avg",
                total(&self.outgoing_byte_total) / total(&self.request_total),
            ),
            ("outgoing-byte-total", total(&self.outgoing_byte_total)),
            (
                "produce-throttle-time-avg",
                self.produce_throttle_time.average(),
            ),
            (
                "produce-throttle-time-max",
                self.produce_throttle_time.max() as f64,
            ),
            ("buffer-total-bytes", buffer.0 as f64),
            ("buffer-available-bytes", buffer.1 as f64),
            (
                "buffer-exhausted-total",
                total(&self.buffer_exhausted_total),
            ),
            ("waiting-threads", buffer.2 as f64),
        ]
    }
}
