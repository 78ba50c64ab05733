//! Counters behind Kafka's consumer metrics. Sums only: rates and averages are whoever reads them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Shared by the threads of one consumer; every field only grows.
#[derive(Debug, Default)]
pub struct ConsumerMetrics {
    pub fetch_total: Counter,
    pub fetch_answered_total: Counter,
    pub fetch_latency_us_total: Counter,
    pub fetch_latency_us_max: Counter,
    /// Bytes of record batches, as they came.
    pub bytes_consumed_total: Counter,
    pub records_consumed_total: Counter,
    pub fetch_throttle_ms_total: Counter,
    pub fetch_session_full_total: Counter,
    pub fetch_session_incremental_total: Counter,
    pub fetch_session_reopened_total: Counter,
    pub corrupt_batches_total: Counter,
    /// Results that came too late: the partition was revoked, paused or moved meanwhile.
    pub stale_results_total: Counter,
    pub offset_resets_total: Counter,
    pub truncations_total: Counter,
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn raise_to(&self, n: u64) {
        self.0.fetch_max(n, Ordering::Relaxed);
    }
}
