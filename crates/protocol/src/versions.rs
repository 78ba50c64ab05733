//! The versions of each API that the client itself sends: the schema's, with the limits below.
//!
//! The embedded broker does not use these limits. It supports all versions that the schema calls
//! valid.

use std::ops::RangeInclusive;

use crate::ApiKey;

/// The version of the transaction protocol, by the finalized level of the feature
/// `transaction.version` (KIP-890). A client keeps it from the start of a transaction to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionVersion {
    /// Levels 0 and 1: a separate request adds partitions to the transaction.
    V1,
    /// Level 2: the broker adds partitions itself, and each end of a transaction raises the epoch.
    V2,
}

/// Returns the versions that the client may ever send.
pub fn client_versions(key: ApiKey) -> Option<RangeInclusive<i16>> {
    let valid = key.valid_versions()?;
    let cap = match key {
        // Only brokers use versions 4 and 5, among themselves.
        ApiKey::ADD_PARTITIONS_TO_TXN => 3,
        _ => i16::MAX,
    };
    Some(*valid.start()..=cap.min(*valid.end()))
}

/// Returns the newest version that the client may send and the broker supports.
pub fn negotiate(key: ApiKey, broker_min: i16, broker_max: i16) -> Option<i16> {
    newest_common(&client_versions(key)?, broker_min, broker_max)
}

/// Returns the newest version, like [`negotiate`], for a request of a transaction.
///
/// Newer versions of these requests have the meaning of the second protocol version, so they must
/// not be sent under the first one. Requests that the second one does not need are not sent under
/// it at all.
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
