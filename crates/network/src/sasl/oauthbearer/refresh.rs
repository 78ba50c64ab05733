//! When a token is refreshed: the rule of Java's `ExpiringCredentialRefreshingLogin` (KIP-255).

use std::time::Duration;

/// The life of a token counts as a year at most.
const LIFE_MAX: Duration = Duration::from_secs(365 * 86_400);

/// No token is refreshed more often than this. A provider may return the same token until it
/// expires, so that its life gets shorter each time.
const PERIOD_MIN: Duration = Duration::from_secs(1);

/// Kafka's options `sasl.login.refresh.*`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RefreshConfig {
    /// The part of a token's life after which it is refreshed.
    pub window_factor: f64,
    /// The part of a token's life that a random number may add to this.
    pub window_jitter: f64,
    pub min_period: Duration,
    /// The client refreshes a token at least this long before it expires.
    pub buffer: Duration,
}

impl Default for RefreshConfig {
    fn default() -> Self {
        Self {
            window_factor: 0.8,
            window_jitter: 0.05,
            min_period: Duration::from_secs(60),
            buffer: Duration::from_secs(300),
        }
    }
}

impl RefreshConfig {
    /// Returns when to refresh a token that still has this life. `random` is from 0 to 1.
    pub(super) fn after(&self, life: Duration, random: f64) -> Duration {
        let part = self.window_factor + self.window_jitter * random;
        let wished = life.mul_f64(part.clamp(0.0, 1.0));
        let allowed = match life.checked_sub(self.buffer) {
            Some(latest) if latest >= self.min_period => wished.max(self.min_period).min(latest),
            // There is no room for both.
            _ => wished,
        };
        allowed.max(PERIOD_MIN)
    }
}

/// Returns the life that a token has left. It is measured once, when the token arrives: later jumps
/// of the wall clock change nothing.
pub(super) fn life(expires_at_ms: i64, now_ms: i64) -> Duration {
    let left = expires_at_ms.saturating_sub(now_ms);
    let left = u64::try_from(left).map_or(Duration::ZERO, Duration::from_millis);
    left.min(LIFE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(config: &RefreshConfig, life: u64, random: f64) -> u64 {
        config.after(Duration::from_secs(life), random).as_secs()
    }

    #[test]
    fn a_token_is_refreshed_when_java_refreshes_it() {
        let config = RefreshConfig::default();
        assert_eq!(seconds(&config, 3600, 0.0), 2880);
        assert_eq!(seconds(&config, 3600, 1.0), 3060);
        // Not later than 300 s before the end.
        assert_eq!(seconds(&config, 1000, 0.0), 700);
        // Not sooner than 60 s from now.
        let early = RefreshConfig {
            window_factor: 0.5,
            buffer: Duration::ZERO,
            ..config
        };
        assert_eq!(seconds(&early, 100, 0.0), 60);
        // Both do not fit.
        assert_eq!(seconds(&config, 300, 0.0), 240);
        assert_eq!(seconds(&config, 5, 0.0), 4);
    }

    #[test]
    fn a_tiny_life_is_not_refreshed_in_a_loop() {
        let config = RefreshConfig {
            min_period: Duration::ZERO,
            ..RefreshConfig::default()
        };
        for life in [Duration::ZERO, Duration::from_millis(1), config.buffer] {
            assert!(config.after(life, 0.0) >= PERIOD_MIN, "{life:?}");
        }
    }

    #[test]
    fn a_life_is_never_negative_and_a_year_at_most() {
        assert_eq!(life(5_000, 4_000), Duration::from_secs(1));
        assert_eq!(life(4_000, 5_000), Duration::ZERO);
        assert_eq!(life(i64::MIN, i64::MAX), Duration::ZERO);
        assert_eq!(life(i64::MAX, 0), LIFE_MAX);
    }
}
