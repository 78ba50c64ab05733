//! Figures of a consumer under Kafka's names: `consumer-fetch-manager-metrics`.
//!
//! Counters are added to wherever something happens; averages and rates are taken over windows of
//! time, into which answers and snapshots, which have a `now`, put what was added since the last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_cluster::metrics::{Metric, MetricGroup, MetricsConfig, Sampled};

use crate::topic_partition::TopicPartition;

const GROUP: &str = "consumer-fetch-manager-metrics";

/// Shared by the threads of one consumer; every counter only grows.
#[derive(Debug)]
pub struct ConsumerMetrics {
    pub fetch_answered_total: Counter,
    /// Bytes of record batches, as they came.
    pub bytes_consumed_total: Counter,
    pub records_consumed_total: Counter,
    pub fetch_session_full_total: Counter,
    pub fetch_session_incremental_total: Counter,
    pub fetch_session_reopened_total: Counter,
    pub corrupt_batches_total: Counter,
    /// Results that came too late: the partition was revoked, paused or moved meanwhile.
    pub stale_results_total: Counter,
    pub offset_resets_total: Counter,
    pub truncations_total: Counter,
    windows: Mutex<Windows>,
}

#[derive(Debug)]
struct Windows {
    /// Milliseconds, one value an answer.
    latency: Sampled,
    throttle: Sampled,
    /// What the counters gained between two looks; at least one look an answer.
    bytes: Sampled,
    records: Sampled,
}

/// Records between a position and the ends of its log.
#[derive(Debug)]
pub(crate) struct Lag {
    pub(crate) partition: TopicPartition,
    pub(crate) to_end: i64,
    pub(crate) from_start: Option<i64>,
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
}

impl ConsumerMetrics {
    pub(crate) fn new(config: MetricsConfig) -> Self {
        let sampled = || Sampled::new(config);
        Self {
            fetch_answered_total: Counter::default(),
            bytes_consumed_total: Counter::default(),
            records_consumed_total: Counter::default(),
            fetch_session_full_total: Counter::default(),
            fetch_session_incremental_total: Counter::default(),
            fetch_session_reopened_total: Counter::default(),
            corrupt_batches_total: Counter::default(),
            stale_results_total: Counter::default(),
            offset_resets_total: Counter::default(),
            truncations_total: Counter::default(),
            windows: Mutex::new(Windows {
                latency: sampled(),
                throttle: sampled(),
                bytes: sampled(),
                records: sampled(),
            }),
        }
    }

    /// The windows, with all in them that was counted until now.
    fn windows(&self, now: Instant) -> MutexGuard<'_, Windows> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let Windows { bytes, records, .. } = &mut *windows;
        for (counter, sampled) in [
            (&self.bytes_consumed_total, bytes),
            (&self.records_consumed_total, records),
        ] {
            let gained = counter.get() as f64 - sampled.total();
            if gained > 0.0 {
                sampled.record(gained, now);
            }
        }
        windows
    }

    /// An answer to a fetch came.
    pub(crate) fn answered(&self, latency: Duration, throttle_time_ms: i32, now: Instant) {
        let mut windows = self.windows(now);
        windows.latency.record(latency.as_secs_f64() * 1e3, now);
        windows
            .throttle
            .record(f64::from(throttle_time_ms.max(0)), now);
    }

    /// A group for the client, and one for each of its partitions.
    pub(crate) fn snapshot(&self, lags: &[Lag], now: Instant) -> Vec<MetricGroup> {
        let mut values = self.windows(now).values(now);
        // Kafka tells the greatest of a window of time; this is the greatest of this moment.
        if let Some(max) = lags.iter().map(|each| each.to_end).max() {
            values.push(("records-lag-max", max as f64));
        }
        if let Some(min) = lags.iter().filter_map(|each| each.from_start).min() {
            values.push(("records-lead-min", min as f64));
        }
        let of_client = MetricGroup {
            name: GROUP.to_owned(),
            values,
        };
        let of_partitions = lags.iter().map(Lag::group);
        std::iter::once(of_client).chain(of_partitions).collect()
    }
}

impl Windows {
    fn values(&mut self, now: Instant) -> Vec<Metric> {
        let Self {
            latency,
            throttle,
            bytes,
            records,
        } = self;
        vec![
            ("bytes-consumed-rate", bytes.rate(now)),
            ("bytes-consumed-total", bytes.total()),
            ("fetch-latency-avg", latency.avg(now)),
            ("fetch-latency-max", latency.max(now)),
            ("fetch-rate", latency.count_rate(now)),
            ("fetch-size-avg", bytes.avg(now)),
            ("fetch-size-max", bytes.max(now)),
            ("fetch-throttle-time-avg", throttle.avg(now)),
            ("fetch-throttle-time-max", throttle.max(now)),
            ("fetch-total", latency.count() as f64),
            ("records-consumed-rate", records.rate(now)),
            ("records-consumed-total", records.total()),
            ("records-per-request-avg", records.avg(now)),
        ]
    }
}

impl Lag {
    fn group(&self) -> MetricGroup {
        let TopicPartition { topic, partition } = &self.partition;
        let mut values = vec![("records-lag", self.to_end as f64)];
        values.extend(self.from_start.map(|lead| ("records-lead", lead as f64)));
        MetricGroup {
            name: format!("{GROUP}.{topic}-{partition}"),
            values,
        }
    }
}
