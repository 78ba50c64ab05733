//! Descriptions of offsets for `ListOffsets`, and the policy for resets.

use std::time::Duration;

/// The offset of a partition to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OffsetSpec {
    /// The log start offset.
    Earliest,
    /// The high watermark, or the last stable offset under `read_committed`.
    Latest,
    /// The first record whose timestamp is at least this many Unix milliseconds.
    Timestamp(i64),
    /// The record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// The first offset that is not only in tiered storage (KIP-405).
    EarliestLocal,
}

impl OffsetSpec {
    pub(crate) const EARLIEST_TIMESTAMP: i64 = -2;
    pub(crate) const LATEST_TIMESTAMP: i64 = -1;
    pub(crate) const MAX_TIMESTAMP: i64 = -3;
    pub(crate) const EARLIEST_LOCAL_TIMESTAMP: i64 = -4;
    /// The first `ListOffsets` version of a broker that may have tiered storage.
    const TIERED_STORAGE_VERSION: i16 = 8;

    /// Returns the number that encodes this description in requests.
    pub fn wire_timestamp(self) -> i64 {
        match self {
            Self::Earliest => Self::EARLIEST_TIMESTAMP,
            Self::Latest => Self::LATEST_TIMESTAMP,
            Self::MaxTimestamp => Self::MAX_TIMESTAMP,
            Self::EarliestLocal => Self::EARLIEST_LOCAL_TIMESTAMP,
            Self::Timestamp(ms) => ms,
        }
    }

    /// Returns what to ask a broker that supports `ListOffsets` up to this version. The complete
    /// log of an older broker is local.
    pub(crate) fn as_known_in(self, version: i16) -> Self {
        match self {
            Self::EarliestLocal if version < Self::TIERED_STORAGE_VERSION => Self::Earliest,
            spec => spec,
        }
    }

    /// Decodes a number of a request. Other negative numbers have no meaning here.
    pub fn from_wire_timestamp(timestamp: i64) -> Option<Self> {
        match timestamp {
            Self::EARLIEST_TIMESTAMP => Some(Self::Earliest),
            Self::LATEST_TIMESTAMP => Some(Self::Latest),
            Self::MAX_TIMESTAMP => Some(Self::MaxTimestamp),
            ms if ms >= 0 => Some(Self::Timestamp(ms)),
            _ => None,
        }
    }

    /// The lowest `ListOffsets` version that supports this description.
    pub(crate) fn min_version(self) -> i16 {
        match self {
            Self::MaxTimestamp => 7,
            _ => 1,
        }
    }
}

/// `auto.offset.reset`: where to read from if there is no position, or if it is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    Earliest,
    Latest,
    /// The first record at most this old (KIP-1106, `by_duration:PT1H`).
    ByDuration(Duration),
    /// Raise an error instead.
    None,
}

impl OffsetReset {
    /// Returns what to ask the leader for. `now_ms` is wall-clock time, like the timestamps of
    /// records.
    pub fn spec(self, now_ms: i64) -> Option<OffsetSpec> {
        match self {
            Self::Earliest => Some(OffsetSpec::Earliest),
            Self::Latest => Some(OffsetSpec::Latest),
            Self::ByDuration(age) => {
                let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                Some(OffsetSpec::Timestamp(now_ms.saturating_sub(age_ms).max(0)))
            }
            Self::None => None,
        }
    }
}

/// `isolation.level`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    #[default]
    ReadUncommitted,
    ReadCommitted,
}

impl IsolationLevel {
    pub(crate) fn wire(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_reset_is_counted_back_from_the_wall_clock() {
        let reset = OffsetReset::ByDuration(Duration::from_secs(60));
        assert_eq!(reset.spec(100_000), Some(OffsetSpec::Timestamp(40_000)));
        assert_eq!(reset.spec(10), Some(OffsetSpec::Timestamp(0)));
    }

    #[test]
    fn wire_numbers_round_trip() {
        for spec in [
            OffsetSpec::Earliest,
            OffsetSpec::Latest,
            OffsetSpec::MaxTimestamp,
            OffsetSpec::Timestamp(5),
        ] {
            assert_eq!(
                OffsetSpec::from_wire_timestamp(spec.wire_timestamp()),
                Some(spec)
            );
        }
        assert_eq!(OffsetSpec::from_wire_timestamp(-9), None);
    }
}
