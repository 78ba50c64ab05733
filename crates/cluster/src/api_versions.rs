//! What one broker says it supports, and the version that we use with it.

use std::ops::RangeInclusive;

use thalweg_protocol::messages::api_versions::ApiVersionsResponse;
use thalweg_protocol::versions::TransactionVersion;
use thalweg_protocol::{ApiKey, ErrorCode, Str, versions};

use crate::error::UnsupportedVersion;
use crate::request::NodeId;

/// A broker's response to `ApiVersions`: its API ranges and its finalized features (KIP-584).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiVersions {
    /// Sorted by key.
    ranges: Vec<(i16, i16, i16)>,
    /// Feature name, lowest and highest finalized level.
    finalized_features: Vec<(Str, i16, i16)>,
    /// -1 if the broker reported none. Features with a higher epoch replace those with a lower one.
    pub finalized_features_epoch: i64,
}

impl ApiVersions {
    /// Builds it from bare ranges (key, min, max), for brokers in tests and for the KIP-511
    /// fallback.
    pub fn new(ranges: impl IntoIterator<Item = (ApiKey, i16, i16)>) -> Self {
        let mut ranges: Vec<_> = ranges
            .into_iter()
            .map(|(key, min, max)| (key.0, min, max))
            .collect();
        ranges.sort_unstable();
        Self {
            ranges,
            finalized_features: Vec::new(),
            finalized_features_epoch: -1,
        }
    }

    pub fn from_response(response: &ApiVersionsResponse) -> Self {
        let mut all = Self::new(
            response
                .api_keys
                .iter()
                .map(|api| (ApiKey(api.api_key), api.min_version, api.max_version)),
        );
        all.finalized_features = response
            .finalized_features
            .iter()
            // The features live as long as the connection, so they must not keep the response
            // alive.
            .map(|f| {
                let name = f.name.detached();
                (name, f.min_version_level, f.max_version_level)
            })
            .collect();
        all.finalized_features_epoch = response.finalized_features_epoch;
        all
    }

    /// Returns the broker's own version range of an API.
    pub fn range(&self, key: ApiKey) -> Option<RangeInclusive<i16>> {
        let at = self
            .ranges
            .binary_search_by_key(&key.0, |range| range.0)
            .ok()?;
        Some(self.ranges[at].1..=self.ranges[at].2)
    }

    /// Returns the highest version that both sides support (and our own caps allow).
    pub fn negotiate(&self, key: ApiKey) -> Option<i16> {
        let range = self.range(key)?;
        versions::negotiate(key, *range.start(), *range.end())
    }

    /// Returns the highest finalized level of a feature such as `transaction.version`, 0 if it is
    /// not listed.
    pub fn finalized_level(&self, feature: &str) -> i16 {
        self.finalized_features
            .iter()
            .find(|(name, ..)| &**name == feature)
            .map_or(0, |&(_, _, max)| max)
    }

    /// All ranges, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (ApiKey, RangeInclusive<i16>)> + '_ {
        self.ranges
            .iter()
            .map(|&(key, min, max)| (ApiKey(key), min..=max))
    }

    pub fn finalized_features(&self) -> &[(Str, i16, i16)] {
        &self.finalized_features
    }

    /// Like [`Self::negotiate`], but fails with an error that names the node, the API and both
    /// ranges.
    pub fn require(&self, node: NodeId, key: ApiKey) -> Result<i16, UnsupportedVersion> {
        self.negotiate(key).ok_or_else(|| UnsupportedVersion {
            node,
            api: key,
            ours: versions::client_versions(key),
            theirs: self.range(key),
        })
    }

    /// Like [`Self::require`], for a request that belongs to a transaction.
    pub fn require_transactional(
        &self,
        node: NodeId,
        key: ApiKey,
        version: TransactionVersion,
    ) -> Result<i16, UnsupportedVersion> {
        let range = self.range(key);
        let newest = range.as_ref().and_then(|range| {
            versions::negotiate_transactional(key, version, *range.start(), *range.end())
        });
        newest.ok_or_else(|| UnsupportedVersion {
            node,
            api: key,
            ours: versions::client_versions(key),
            theirs: range,
        })
    }

    /// Whether an `ApiVersions` response says that our version of it was too new (KIP-511).
    pub fn wants_older(response: &ApiVersionsResponse) -> bool {
        ErrorCode(response.error_code) == ErrorCode::UNSUPPORTED_VERSION
    }
}
