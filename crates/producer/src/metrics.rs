//! Metrics of a producer under Kafka's names: `producer-metrics` and `producer-topic-metrics`.
//!
//! ```text
//!   the sender, per request or response ───┐
//!   an append that waited or gave up ──────┴─▶ one lock ──▶ snapshot(now)
//! ```
//! A successful append does not touch the metrics. What they say about single records is counted
//! when the batch is sent. The caller of `snapshot` provides the time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use thalweg_cluster::metrics::{Metric, MetricGroup, MetricsConfig, Sampled};
use thalweg_protocol::Str;

use crate::sync::lock;

/// Calls of the application whose total time is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timed {
    Flush,
    /// Waiting for metadata in an append.
    MetadataWait,
    TxnInit,
    TxnBegin,
    TxnSendOffsets,
    TxnPrepare,
    TxnCommit,
    TxnAbort,
}

impl Timed {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Flush, "flush-time-ns-total"),
        (Self::MetadataWait, "metadata-wait-time-ns-total"),
        (Self::TxnInit, "txn-init-time-ns-total"),
        (Self::TxnBegin, "txn-begin-time-ns-total"),
        (Self::TxnSendOffsets, "txn-send-offsets-time-ns-total"),
        (Self::TxnPrepare, "txn-prepare-time-ns-total"),
        (Self::TxnCommit, "txn-commit-time-ns-total"),
        (Self::TxnAbort, "txn-abort-time-ns-total"),
    ];
}

/// What the metrics need to know about one batch of a request.
#[derive(Debug)]
pub(crate) struct SentBatch<'a> {
    pub(crate) topic: &'a Str,
    pub(crate) records: u32,
    /// Size on the wire, including the header.
    pub(crate) bytes: usize,
    /// Size of the records section, before and after compression.
    pub(crate) raw_bytes: usize,
    pub(crate) section_bytes: usize,
    pub(crate) record_bytes_max: usize,
    pub(crate) queued: Duration,
    pub(crate) is_retry: bool,
}

/// The state of the pool when a snapshot is taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buffer {
    pub(crate) total_bytes: usize,
    pub(crate) available_bytes: usize,
    pub(crate) waiting: usize,
}

/// Counts what one producer has done.
#[derive(Debug)]
pub struct ProducerMetrics(Mutex<State>);

#[derive(Debug)]
struct State {
    config: MetricsConfig,
    requests_in_flight: u64,
    batch_size: Sampled,
    record_size: Sampled,
    /// In milliseconds, like all times except `waited`.
    queue_time: Sampled,
    request_latency: Sampled,
    throttle_time: Sampled,
    compression_rate: Sampled,
    records_per_request: Sampled,
    retries: Sampled,
    errors: Sampled,
    splits: Sampled,
    exhausted: Sampled,
    /// Nanoseconds for which appends waited for memory.
    waited: Sampled,
    times: BTreeMap<Timed, Duration>,
    topics: BTreeMap<Str, Topic>,
}

#[derive(Debug)]
struct Topic {
    records: Sampled,
    bytes: Sampled,
    compression_rate: Sampled,
    retries: Sampled,
    errors: Sampled,
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl ProducerMetrics {
    pub(crate) fn new(config: MetricsConfig) -> Self {
        let sampled = || Sampled::new(config);
        Self(Mutex::new(State {
            config,
            requests_in_flight: 0,
            batch_size: sampled(),
            record_size: sampled(),
            queue_time: sampled(),
            request_latency: sampled(),
            throttle_time: sampled(),
            compression_rate: sampled(),
            records_per_request: sampled(),
            retries: sampled(),
            errors: sampled(),
            splits: sampled(),
            exhausted: sampled(),
            waited: sampled(),
            times: BTreeMap::new(),
            topics: BTreeMap::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Counts a request that is being sent, with its batches.
    pub(crate) fn sent<'a>(&self, batches: impl Iterator<Item = SentBatch<'a>>, now: Instant) {
        let mut state = self.state();
        state.requests_in_flight += 1;
        let mut records = 0;
        for batch in batches {
            records += u64::from(batch.records);
            state.count(&batch, now);
        }
        state.records_per_request.record(records as f64, now);
    }

    /// Counts a request that has its outcome, or will never have one.
    pub(crate) fn request_done(&self) {
        let mut state = self.state();
        state.requests_in_flight = state.requests_in_flight.saturating_sub(1);
    }

    pub(crate) fn answered(&self, latency: Duration, now: Instant) {
        self.state().request_latency.record(ms(latency), now);
    }

    pub(crate) fn throttled(&self, throttle_time_ms: i32, now: Instant) {
        let ms = f64::from(throttle_time_ms.max(0));
        self.state().throttle_time.record(ms, now);
    }

    pub(crate) fn failed(&self, topic: &Str, records: u32, now: Instant) {
        let mut state = self.state();
        state.errors.record(f64::from(records), now);
        state.topic(topic).errors.record(f64::from(records), now);
    }

    pub(crate) fn split(&self, now: Instant) {
        self.state().splits.record(1.0, now);
    }

    /// Counts an append that waited for memory. `exhausted` if it got none.
    pub fn waited_for_memory(&self, began: Instant, now: Instant, exhausted: bool) {
        let waited = now.saturating_duration_since(began);
        let mut state = self.state();
        state.waited.record(waited.as_nanos() as f64, now);
        if exhausted {
            state.exhausted.record(1.0, now);
        }
    }

    /// Adds the duration of one call of the application.
    pub fn took(&self, what: Timed, time: Duration) {
        *self.state().times.entry(what).or_default() += time;
    }

    /// Returns the number of records that failed so far.
    pub fn record_errors(&self) -> u64 {
        self.state().errors.total() as u64
    }

    pub(crate) fn snapshot(&self, buffer: Buffer, now: Instant) -> Vec<MetricGroup> {
        let mut state = self.state();
        let mut groups = vec![MetricGroup {
            name: "producer-metrics".to_owned(),
            values: state.values(buffer, now),
        }];
        for (name, topic) in &mut state.topics {
            groups.push(MetricGroup {
                name: format!("producer-topic-metrics.{name}"),
                values: topic.values(now),
            });
        }
        groups
    }
}

impl State {
    fn topic(&mut self, name: &Str) -> &mut Topic {
        let config = self.config;
        if !self.topics.contains_key(name) {
            self.topics.insert(name.clone(), Topic::new(config));
        }
        self.topics
            .get_mut(name)
            .expect("the topic was inserted above")
    }

    fn count(&mut self, batch: &SentBatch<'_>, now: Instant) {
        let compression = batch.section_bytes as f64 / batch.raw_bytes.max(1) as f64;
        let records = f64::from(batch.records);
        self.batch_size.record(batch.bytes as f64, now);
        self.record_size.record(batch.record_bytes_max as f64, now);
        self.queue_time.record(ms(batch.queued), now);
        self.compression_rate.record(compression, now);
        if batch.is_retry {
            self.retries.record(records, now);
        }
        let topic = self.topic(batch.topic);
        topic.records.record(records, now);
        topic.bytes.record(batch.bytes as f64, now);
        topic.compression_rate.record(compression, now);
        if batch.is_retry {
            topic.retries.record(records, now);
        }
    }

    fn values(&mut self, buffer: Buffer, now: Instant) -> Vec<Metric> {
        let mut values = vec![
            ("batch-size-avg", self.batch_size.avg(now)),
            ("batch-size-max", self.batch_size.max(now)),
            ("batch-split-rate", self.splits.rate(now)),
            ("batch-split-total", self.splits.total()),
            ("buffer-available-bytes", buffer.available_bytes as f64),
            ("buffer-exhausted-rate", self.exhausted.rate(now)),
            ("buffer-exhausted-total", self.exhausted.total()),
            ("buffer-total-bytes", buffer.total_bytes as f64),
            ("bufferpool-wait-ratio", self.waited.rate(now) / 1e9),
            ("bufferpool-wait-time-ns-total", self.waited.total()),
            ("compression-rate-avg", self.compression_rate.avg(now)),
            ("produce-throttle-time-avg", self.throttle_time.avg(now)),
            ("produce-throttle-time-max", self.throttle_time.max(now)),
            ("record-error-rate", self.errors.rate(now)),
            ("record-error-total", self.errors.total()),
            ("record-queue-time-avg", self.queue_time.avg(now)),
            ("record-queue-time-max", self.queue_time.max(now)),
            ("record-retry-rate", self.retries.rate(now)),
            ("record-retry-total", self.retries.total()),
            ("record-send-rate", self.records_per_request.rate(now)),
            ("record-send-total", self.records_per_request.total()),
            ("record-size-avg", self.record_size.avg(now)),
            ("record-size-max", self.record_size.max(now)),
            ("records-per-request-avg", self.records_per_request.avg(now)),
            ("request-latency-avg", self.request_latency.avg(now)),
            ("request-latency-max", self.request_latency.max(now)),
            ("requests-in-flight", self.requests_in_flight as f64),
            ("waiting-threads", buffer.waiting as f64),
        ];
        values.extend(Timed::ALL.map(|(what, name)| {
            let time = self.times.get(&what).copied().unwrap_or_default();
            (name, time.as_nanos() as f64)
        }));
        values
    }
}

impl Topic {
    fn new(config: MetricsConfig) -> Self {
        let sampled = || Sampled::new(config);
        Self {
            records: sampled(),
            bytes: sampled(),
            compression_rate: sampled(),
            retries: sampled(),
            errors: sampled(),
        }
    }

    fn values(&mut self, now: Instant) -> Vec<Metric> {
        vec![
            ("record-send-rate", self.records.rate(now)),
            ("record-send-total", self.records.total()),
            ("byte-rate", self.bytes.rate(now)),
            ("byte-total", self.bytes.total()),
            ("compression-rate", self.compression_rate.avg(now)),
            ("record-retry-rate", self.retries.rate(now)),
            ("record-retry-total", self.retries.total()),
            ("record-error-rate", self.errors.rate(now)),
            ("record-error-total", self.errors.total()),
        ]
    }
}
