//! What a consumer can be told, with Kafka's names and defaults.
//!
//! These are resolved values: names, aliases and bad combinations are the business of the
//! option table in Python. Every limit has its unit or its type in its name.

use std::time::Duration;

use thalweg_cluster::metrics::MetricsConfig;
use thalweg_protocol::Str;

use crate::offset_spec::{IsolationLevel, OffsetReset};

#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// `group.id`: where committed offsets are kept; `None` means positions come from resets only.
    pub group_id: Option<Str>,
    /// `client.rack`: lets brokers name a closer replica to read from (KIP-392).
    pub client_rack: Str,
    pub fetch_min_bytes: i32,
    pub fetch_max_wait: Duration,
    pub fetch_max_bytes: i32,
    pub max_partition_fetch_bytes: i32,
    /// Cap on frames held for undrained records plus bytes decompressed out of them. One batch
    /// may always exceed it, for progress.
    pub fetch_buffer_memory_bytes: usize,
    /// A batch that decompresses to more than this is refused: a decompression bomb.
    pub decompressed_batch_bytes_max: usize,
    pub auto_offset_reset: OffsetReset,
    pub isolation_level: IsolationLevel,
    pub check_crcs: bool,
    pub enable_incremental_fetch_sessions: bool,
    pub request_timeout: Duration,
    pub retry_backoff: Duration,
    pub retry_backoff_max: Duration,
    /// How long a preferred read replica is used before the leader is asked again.
    pub metadata_max_age: Duration,
    pub metrics: MetricsConfig,
    /// Seed of the jitter of backoffs; the core has no random source of its own.
    pub seed: u64,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            group_id: None,
            client_rack: Str::default(),
            fetch_min_bytes: 1,
            fetch_max_wait: Duration::from_millis(500),
            fetch_max_bytes: 50 * 1024 * 1024,
            max_partition_fetch_bytes: 1024 * 1024,
            fetch_buffer_memory_bytes: 64 * 1024 * 1024,
            decompressed_batch_bytes_max: 256 * 1024 * 1024,
            auto_offset_reset: OffsetReset::Latest,
            isolation_level: IsolationLevel::ReadUncommitted,
            check_crcs: true,
            enable_incremental_fetch_sessions: true,
            request_timeout: Duration::from_secs(30),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            metadata_max_age: Duration::from_secs(300),
            metrics: MetricsConfig::default(),
            seed: 0,
        }
    }
}
