//! [`TokenOptions`]: the options of delegation tokens.

use std::time::Duration;

use thalweg_security::Secret;

/// The option with the key of all HMACs.
pub(crate) const TOKEN_KEY: &str = "delegation.token.secret.key";

/// How long delegation tokens live.
#[derive(Debug, Clone)]
pub struct TokenOptions {
    /// The key of the HMACs. `None`: there are no tokens.
    pub(crate) key: Option<Secret>,
    pub(crate) lifetime_max_ms: i64,
    pub(crate) renewal_ms: i64,
    pub(crate) check_interval: Duration,
}

impl TokenOptions {
    pub(super) fn new(key: &str, number: &impl Fn(&str) -> i64) -> Self {
        let interval_ms = number("delegation.token.expiry.check.interval.ms") as u64;
        Self {
            key: (!key.is_empty()).then(|| Secret::new(key)),
            lifetime_max_ms: number("delegation.token.max.lifetime.ms"),
            renewal_ms: number("delegation.token.expiry.time.ms"),
            check_interval: Duration::from_millis(interval_ms),
        }
    }
}
