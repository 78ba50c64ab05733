//! The settings of a consumer, with Kafka's names and defaults.
//!
//! These are resolved values. The option table in Python handles names, aliases and invalid
//! combinations. Every limit has its unit or its type in its name.

use std::time::Duration;

use thalweg_cluster::Principal;
use thalweg_cluster::metrics::MetricsConfig;
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::error::ConsumerError;
use crate::offset_spec::{IsolationLevel, OffsetReset};

#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    /// Whom brokers take the consumer for, for errors.
    pub principal: Principal,
    /// `group.id`: the group that stores committed offsets. `None`: positions come only from
    /// resets.
    pub group_id: Option<Str>,
    /// `client.rack`: lets brokers name a closer replica to read from (KIP-392).
    pub client_rack: Str,
    pub fetch_min_bytes: i32,
    pub fetch_max_wait: Duration,
    pub fetch_max_bytes: i32,
    pub max_partition_fetch_bytes: i32,
    /// Limit on the frames held for undrained records plus the bytes decompressed from them. One
    /// batch may exceed it, so that there is always progress.
    pub fetch_buffer_memory_bytes: usize,
    /// Larger decompressed batches are refused, as a protection from decompression bombs.
    pub decompressed_batch_bytes_max: usize,
    pub auto_offset_reset: OffsetReset,
    pub isolation_level: IsolationLevel,
    pub check_crcs: bool,
    pub enable_incremental_fetch_sessions: bool,
    pub request_timeout: Duration,
    pub retry_backoff: Duration,
    pub retry_backoff_max: Duration,
    /// How long a closer replica is used before the leader is asked again.
    pub metadata_max_age: Duration,
    pub metrics: MetricsConfig,
    /// Seed of the jitter of backoffs. The core has no other source of randomness.
    pub seed: u64,
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        Self {
            principal: Principal::default(),
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

impl ConsumerConfig {
    /// Returns the error for a topic that the consumer may not read.
    pub(crate) fn not_authorized(&self, topic: &Str) -> ConsumerError {
        // A right to read includes all that a consumer needs, and one grant is better than two.
        let (api, code) = (ApiKey::FETCH, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
        let message = format!("not authorized to access topics: {topic}");
        ConsumerError::TopicAuthorizationFailed {
            topics: vec![topic.clone()],
            message: Str::from(self.principal.explained(&message, api, code, topic)),
        }
    }
}
