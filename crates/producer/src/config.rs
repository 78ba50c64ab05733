//! The producer's options, under Kafka's names, with the defaults of Kafka 4.3.
//!
//! This is a plain struct. The binding checks names, types and contradictions where it reads the
//! options. This crate checks only what the core itself relies on.

use std::time::Duration;

use thalweg_cluster::Principal;
use thalweg_cluster::metrics::MetricsConfig;
use thalweg_records::Compression;

use crate::partitioning::partitioner::Partitioner;

/// Which acknowledgement the producer waits for before a record counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Acks {
    /// None: a record is done when the socket has accepted it.
    None,
    /// The leader has written the record to its own log.
    Leader,
    /// All in-sync replicas have the record.
    #[default]
    All,
}

impl Acks {
    /// Returns the value of the `acks` field of a Produce request.
    pub const fn id(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// Kafka's frames have at most `i32::MAX` bytes. The rest is for headers, names and partitions.
const REQUEST_BYTES_MAX: usize = i32::MAX as usize - 64 * 1024 * 1024;

/// Options of one producer.
#[derive(Debug, Clone)]
pub struct ProducerConfig {
    /// Whom brokers take the producer for, for errors.
    pub principal: Principal,
    pub acks: Acks,
    pub enable_idempotence: bool,
    /// Limit of a batch's compressed size. A single record may be larger.
    pub batch_size: usize,
    pub linger: Duration,
    /// Limit of the memory of all records that are not acknowledged yet.
    pub buffer_memory: usize,
    pub max_request_size: usize,
    pub max_in_flight_requests_per_connection: usize,
    pub delivery_timeout: Duration,
    pub request_timeout: Duration,
    /// Attempts after the first one. Usually `delivery_timeout` is reached first.
    pub retries: u32,
    pub retry_backoff: Duration,
    pub retry_backoff_max: Duration,
    pub compression: Compression,
    pub compression_level: Option<i32>,
    /// Threads that run the compression jobs. Each one holds one output buffer.
    pub codec_threads: usize,
    pub partitioner: Partitioner,
    pub partitioner_ignore_keys: bool,
    /// If set, keyless records prefer partitions with short queues (KIP-794).
    pub partitioner_adaptive_partitioning: bool,
    /// Partitions whose broker accepts nothing for this long get no keyless records. Zero: never.
    pub partitioner_availability_timeout: Duration,
    pub transactional_id: Option<String>,
    pub transaction_timeout: Duration,
    pub metrics: MetricsConfig,
    /// Seed of the backoff jitter and of the choice of sticky partitions.
    pub seed: u64,
}

impl ProducerConfig {
    /// Bytes of batches that one request may hold.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.max_request_size.min(REQUEST_BYTES_MAX)
    }
}

impl Default for ProducerConfig {
    fn default() -> Self {
        Self {
            principal: Principal::default(),
            acks: Acks::All,
            enable_idempotence: true,
            batch_size: 16 * 1024,
            linger: Duration::from_millis(5),
            buffer_memory: 32 * 1024 * 1024,
            max_request_size: 1024 * 1024,
            max_in_flight_requests_per_connection: 5,
            delivery_timeout: Duration::from_secs(120),
            request_timeout: Duration::from_secs(30),
            retries: u32::MAX,
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            compression: Compression::None,
            compression_level: None,
            codec_threads: 1,
            partitioner: Partitioner::BuiltIn,
            partitioner_ignore_keys: false,
            partitioner_adaptive_partitioning: true,
            partitioner_availability_timeout: Duration::ZERO,
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
            metrics: MetricsConfig::default(),
            seed: 0,
        }
    }
}

impl ProducerConfig {
    /// Returns whether each partition has at most one batch in flight: with a single request in
    /// flight, a later batch must not overtake one that is retried.
    pub(crate) fn guarantees_order_by_muting(&self) -> bool {
        self.max_in_flight_requests_per_connection == 1
    }
}
