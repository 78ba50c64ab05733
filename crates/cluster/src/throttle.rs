//! Throttle times in responses (KIP-219): the client itself holds back its requests.

use std::time::Duration;

use thalweg_protocol::{ApiKey, Reader};

/// APIs whose response begins with `throttle_time_ms`, with the first version for which the broker
/// expects the client to wait. In Produce responses it comes last, and the producer reports it.
const LEADING_THROTTLE_TIME: &[(ApiKey, i16)] = &[
    (ApiKey::FETCH, 8),
    (ApiKey::LIST_OFFSETS, 3),
    (ApiKey::METADATA, 6),
    (ApiKey::OFFSET_COMMIT, 4),
    (ApiKey::OFFSET_FETCH, 4),
    (ApiKey::FIND_COORDINATOR, 2),
    (ApiKey::JOIN_GROUP, 3),
    (ApiKey::HEARTBEAT, 2),
    (ApiKey::LEAVE_GROUP, 2),
    (ApiKey::SYNC_GROUP, 2),
    (ApiKey::DESCRIBE_GROUPS, 2),
    (ApiKey::LIST_GROUPS, 2),
    (ApiKey::CREATE_TOPICS, 3),
    (ApiKey::DELETE_TOPICS, 2),
    (ApiKey::INIT_PRODUCER_ID, 1),
    (ApiKey::OFFSET_FOR_LEADER_EPOCH, 3),
    (ApiKey::ADD_PARTITIONS_TO_TXN, 1),
    (ApiKey::ADD_OFFSETS_TO_TXN, 1),
    (ApiKey::END_TXN, 1),
    (ApiKey::TXN_OFFSET_COMMIT, 1),
    (ApiKey::DESCRIBE_CONFIGS, 2),
    (ApiKey::CREATE_PARTITIONS, 1),
    (ApiKey::DESCRIBE_CLUSTER, 0),
    (ApiKey::CONSUMER_GROUP_HEARTBEAT, 0),
];

/// A damaged response must not silence a node: records wait only for `delivery_timeout_ms`, by
/// default two minutes. A broker that wants more time stops reading from the connection until then.
const THROTTLE_MAX: Duration = Duration::from_secs(60);

/// Returns how long the response asks us to hold back. It does not consume the body.
pub(crate) fn throttle_time(key: ApiKey, version: i16, body: &Reader) -> Duration {
    let leads = LEADING_THROTTLE_TIME
        .iter()
        .any(|&(api, from)| api == key && version >= from);
    if !leads {
        return Duration::ZERO;
    }
    // The clone reads from its own position in the same bytes.
    body.clone().i32().map_or(Duration::ZERO, from_ms)
}

pub(crate) fn from_ms(throttle_time_ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(throttle_time_ms).unwrap_or(0)).min(THROTTLE_MAX)
}
