//! Quotas: what users and clients may send, read, change and cost (KIP-13, KIP-124, KIP-546,
//! KIP-599, KIP-612).
//!
//! ```text
//! AlterClientQuotas ─▶ QuotaTable ─ which level applies ─▶ Quotas::record ─▶ how long to wait
//!                                                          rates, buckets
//! ```
//! A client that exceeds its quota gets its response at once, with the time to wait. Then the
//! broker reads nothing from the connection for this time (KIP-219). Rates are measured in 11
//! windows of a second, as in Kafka.

mod bucket;
mod rate;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bucket::Bucket;
use rate::Rate;
use table::{Level, QuotaTable};

/// What a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum QuotaKind {
    Produce,
    Fetch,
    /// The time of the broker's thread, in percent.
    Request,
    /// Partitions that are created and deleted.
    Mutation,
    /// New connections of an address.
    Connection,
}

impl QuotaKind {
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Produce => "producer_byte_rate",
            Self::Fetch => "consumer_byte_rate",
            Self::Request => "request_percentage",
            Self::Mutation => "controller_mutation_rate",
            Self::Connection => "connection_creation_rate",
        }
    }
}

/// The longest throttle time for a request or a new connection, as in Kafka.
const REQUEST_WAIT_MAX: Duration = Duration::from_secs(1);
/// How many clients the broker measures separately. Client IDs may have any names.
const RATES_MAX: usize = 10_000;
/// Longer names share a rate.
const NAME_BYTES_MAX: usize = 256;

/// The quotas of a broker, and what its clients have used.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    pub(crate) table: QuotaTable,
    rates: BTreeMap<(QuotaKind, Level), Rate>,
    buckets: BTreeMap<Level, Bucket>,
}

/// Who uses a quota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payer<'a> {
    pub(crate) user: &'a str,
    pub(crate) client_id: &'a str,
}

impl Quotas {
    /// Adds what a client has used. Returns how long it must wait.
    pub(crate) fn record(
        &mut self,
        kind: QuotaKind,
        payer: Payer<'_>,
        amount: f64,
        now: Instant,
    ) -> Duration {
        let Some((bound, level)) = self.table.limit(kind, payer) else {
            return Duration::ZERO;
        };
        let rate = self.rate(kind, level, now);
        rate.record(amount, now);
        let wait = rate.wait(bound, now);
        match kind {
            QuotaKind::Request => wait.min(REQUEST_WAIT_MAX),
            _ => wait,
        }
    }

    /// Adds bytes that a client is about to read, unless it must wait before.
    pub(crate) fn record_unless_exceeded(
        &mut self,
        kind: QuotaKind,
        payer: Payer<'_>,
        amount: f64,
        now: Instant,
    ) -> Duration {
        let Some((bound, level)) = self.table.limit(kind, payer) else {
            return Duration::ZERO;
        };
        let rate = self.rate(kind, level, now);
        rate.record(amount, now);
        let wait = rate.wait(bound, now);
        if !wait.is_zero() {
            rate.record(-amount, now);
        }
        wait
    }

    /// Returns the most bytes that a client can read without a wait.
    pub(crate) fn bytes_max(&self, kind: QuotaKind, payer: Payer<'_>) -> Option<f64> {
        let (bound, _) = self.table.limit(kind, payer)?;
        Some(bound * rate::FULL_WINDOWS)
    }

    /// Adds partitions that a client creates or deletes. Returns how long it must wait. If
    /// `is_strict` and it must already wait because of earlier requests, fails and adds nothing.
    pub(crate) fn record_mutations(
        &mut self,
        payer: Payer<'_>,
        partitions: f64,
        is_strict: bool,
        now: Instant,
    ) -> Result<Duration, Duration> {
        let Some((bound, level)) = self.table.limit(QuotaKind::Mutation, payer) else {
            return Ok(Duration::ZERO);
        };
        let bucket = self.bucket(level, bound, now);
        let before = bucket.wait(bound, now);
        if is_strict && !before.is_zero() {
            return Err(before);
        }
        bucket.take(partitions, bound, now);
        let after = bucket.wait(bound, now);
        // A strict client is not throttled now: the broker refuses its next request instead.
        Ok(if is_strict { Duration::ZERO } else { after })
    }

    /// Adds a connection. If the address has had too many, returns how long the broker must wait
    /// before it closes the connection.
    pub(crate) fn admit(&mut self, ip: &str, now: Instant) -> Result<(), Duration> {
        let Some((bound, level)) = self.table.limit_of_ip(ip) else {
            return Ok(());
        };
        let rate = self.rate(QuotaKind::Connection, level, now);
        rate.record(1.0, now);
        let wait = rate.wait(bound, now).min(REQUEST_WAIT_MAX);
        if wait.is_zero() {
            return Ok(());
        }
        rate.record(-1.0, now);
        Err(wait)
    }

    fn rate(&mut self, kind: QuotaKind, level: Level, now: Instant) -> &mut Rate {
        if self.rates.len() >= RATES_MAX {
            self.rates.retain(|_, rate| !rate.is_idle(now));
        }
        let mut key = (kind, level);
        let is_known = self.rates.contains_key(&key);
        if !is_known && (self.rates.len() >= RATES_MAX || key.1.len() > NAME_BYTES_MAX) {
            key.1 = Level::of_others();
        }
        self.rates.entry(key).or_default()
    }

    fn bucket(&mut self, mut level: Level, bound: f64, now: Instant) -> &mut Bucket {
        if self.buckets.len() >= RATES_MAX {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        let is_known = self.buckets.contains_key(&level);
        if !is_known && (self.buckets.len() >= RATES_MAX || level.len() > NAME_BYTES_MAX) {
            level = Level::of_others();
        }
        let bucket = self.buckets.entry(level);
        bucket.or_insert_with(|| Bucket::full(bound, now))
    }
}
