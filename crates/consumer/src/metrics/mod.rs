//! Metrics of a consumer under Kafka's names: `consumer-fetch-manager-metrics`, and of its polls.
//!
//! Counters are increased where something happens. Averages and rates are taken over time windows.
//! Responses and snapshots have a `now`, and add to the windows what was counted since the last of
//! them.

pub(crate) mod distances;
pub(crate) mod polls;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_cluster::metrics::{Metric, MetricGroup, MetricsConfig, Sampled};

use crate::metrics::distances::Distance;
use crate::metrics::polls::PollMetrics;
use crate::topic_partition::TopicPartition;

const GROUP: &str = "consumer-fetch-manager-metrics";

/// The counters of one consumer, shared by its threads. Every counter only grows.
#[derive(Debug)]
pub struct ConsumerMetrics {
    pub fetch_answered_total: Counter,
    /// Bytes of record batches before decompression.
    pub bytes_consumed_total: Counter,
    /// An iteration adds its records at the end of each batch, and whenever a position is read.
    pub records_consumed_total: Arc<Counter>,
    pub fetch_session_full_total: Counter,
    pub fetch_session_incremental_total: Counter,
    pub fetch_session_reopened_total: Counter,
    pub corrupt_batches_total: Counter,
    /// Results that came too late: the partition was revoked, paused or moved in the meantime.
    pub stale_results_total: Counter,
    pub offset_resets_total: Counter,
    pub truncations_total: Counter,
    pub polls: PollMetrics,
    windows: Mutex<Windows>,
}

#[derive(Debug)]
struct Windows {
    /// Milliseconds, one value per response.
    latency: Sampled,
    throttle: Sampled,
    /// Increases of the counters between two updates. There is at least one update per response.
    bytes: Sampled,
    records: Sampled,
}

/// The figures of one partition: current values, and those of the time windows.
#[derive(Debug)]
pub(crate) struct PartitionFigures {
    pub(crate) partition: TopicPartition,
    pub(crate) distance: Option<Distance>,
    /// `None` before records are drained.
    pub(crate) over_time: Option<[Metric; 4]>,
    pub(crate) closer_replica: Option<i32>,
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
            records_consumed_total: Arc::default(),
            fetch_session_full_total: Counter::default(),
            fetch_session_incremental_total: Counter::default(),
            fetch_session_reopened_total: Counter::default(),
            corrupt_batches_total: Counter::default(),
            stale_results_total: Counter::default(),
            offset_resets_total: Counter::default(),
            truncations_total: Counter::default(),
            polls: PollMetrics::new(config),
            windows: Mutex::new(Windows {
                latency: sampled(),
                throttle: sampled(),
                bytes: sampled(),
                records: sampled(),
            }),
        }
    }

    /// Returns the windows, updated with everything counted until now.
    fn windows(&self, now: Instant) -> MutexGuard<'_, Windows> {
        let mut windows = self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let Windows { bytes, records, .. } = &mut *windows;
        for (counter, sampled) in [
            (&self.bytes_consumed_total, bytes),
            (&*self.records_consumed_total, records),
        ] {
            let gained = counter.get() as f64 - sampled.total();
            if gained > 0.0 {
                sampled.record(gained, now);
            }
        }
        windows
    }

    /// Notes a fetch response.
    pub(crate) fn answered(&self, latency: Duration, throttle_time_ms: i32, now: Instant) {
        let mut windows = self.windows(now);
        windows.latency.record(latency.as_secs_f64() * 1e3, now);
        windows
            .throttle
            .record(f64::from(throttle_time_ms.max(0)), now);
    }

    /// Returns the metrics of polls and fetches, and a group for each partition.
    pub(crate) fn snapshot(
        &self,
        of_partitions: Vec<PartitionFigures>,
        now: Instant,
    ) -> Vec<MetricGroup> {
        let mut values = self.windows(now).values(now);
        // Kafka reports the maximum of a time window. These are the current maximum and minimum.
        let distances = || of_partitions.iter().filter_map(|each| each.distance);
        if let Some(max) = distances().map(|each| each.lag).max() {
            values.push(("records-lag-max", max as f64));
        }
        if let Some(min) = distances().filter_map(|each| each.lead).min() {
            values.push(("records-lead-min", min as f64));
        }
        let of_fetches = MetricGroup {
            name: GROUP.to_owned(),
            values,
        };
        let of_client = [self.polls.snapshot(now), of_fetches];
        let of_partitions = of_partitions.into_iter().map(PartitionFigures::group);
        of_client.into_iter().chain(of_partitions).collect()
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

/// Kafka's value for a partition that is read from its leader.
const NO_REPLICA: i32 = -1;

impl PartitionFigures {
    fn group(self) -> MetricGroup {
        let TopicPartition { topic, partition } = &self.partition;
        let closer = self.closer_replica.unwrap_or(NO_REPLICA);
        let mut values = vec![("preferred-read-replica", f64::from(closer))];
        if let Some(Distance { lag, lead }) = self.distance {
            values.push(("records-lag", lag as f64));
            values.extend(lead.map(|lead| ("records-lead", lead as f64)));
        }
        values.extend(self.over_time.into_iter().flatten());
        MetricGroup {
            name: format!("{GROUP}.{topic}-{partition}"),
            values,
        }
    }
}
