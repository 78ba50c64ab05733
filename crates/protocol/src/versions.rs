//! Which versions of each API the client itself sends: the schema's, with the caps below.
//!
//! The broker's side has no part in this: it answers all that the schema calls valid.

use std::ops::RangeInclusive;

use crate::ApiKey;

/// How transactions are spoken, by the finalized level of the feature `transaction.version`
/// (KIP-890). A client fixes it when a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionVersion {
    /// Levels 0 and 1: partitions are added to the transaction by a request of their own.
    V1,
    /// Level 2: the broker adds partitions by itself, each end of a transaction bumps the epoch.
    V2,
}

/// The versions that the client may send, in any circumstances.
pub fn client_versions(key: ApiKey) -> Option<RangeInclusive<i16>> {
    let valid = key.valid_versions()?;
    let cap = match key {
        // 4 and 5 are spoken between brokers.
        ApiKey::ADD_PARTITIONS_TO_TXN => 3,
        _ => i16::MAX,
    };
    Some(*valid.start()..=cap.min(*valid.end()))
}

/// The newest version that the client may send and the broker says it understands.
pub fn negotiate(key: ApiKey, broker_min: i16, broker_max: i16) -> Option<i16> {
    newest_common(&client_versions(key)?, broker_min, broker_max)
}

/// As [`negotiate`], for a request that belongs to a transaction. Newer versions of these requests
/// carry the second protocol's meaning, so they must not be sent under the first; and the requests
/// that the second protocol has no use for are not sent under it at all.
pub fn negotiate_transactional(
    key: ApiKey,
    transaction_version: TransactionVersion,
    broker_min: i16,
    broker_max: i16,
) -> Option<i16> {
    let versions = client_versions(key)?;
    let cap = match (transaction_version, key) {
        (TransactionVersion::V1, ApiKey::PRODUCE) => 11,
        (TransactionVersion::V1, ApiKey::TXN_OFFSET_COMMIT | ApiKey::END_TXN) => 4,
        (TransactionVersion::V2, ApiKey::ADD_PARTITIONS_TO_TXN | ApiKey::ADD_OFFSETS_TO_TXN) => {
            return None;
        }
        _ => i16::MAX,
    };
    newest_common(
        &(*versions.start()..=cap.min(*versions.end())),
        broker_min,
        broker_max,
    )
}

fn newest_common(ours: &RangeInclusive<i16>, min: i16, max: i16) -> Option<i16> {
    let newest = max.min(*ours.end());
    (newest >= min.max(*ours.start())).then_some(newest)
}
