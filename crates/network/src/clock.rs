//! The two clocks: the monotonic clock for every timer, the wall clock only for record timestamps.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the time by tokio's clock, which tests and the simulation can pause.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Returns a time that no wait reaches, for waits without a limit.
pub(crate) fn far_away() -> Instant {
    now() + Duration::from_secs(100 * 365 * 86_400)
}

/// The source of record timestamps.
#[derive(Debug, Clone, Copy, Default)]
pub enum WallClock {
    #[default]
    System,
    /// Runs with the monotonic clock from a fixed start, for the simulation's virtual days.
    Virtual { start: Instant, start_ms: i64 },
    /// Shows the Unix milliseconds that a test sets, so that it may jump.
    Manual(&'static AtomicI64),
}

impl WallClock {
    /// Returns Unix milliseconds.
    pub fn now_ms(self, now: Instant) -> i64 {
        match self {
            Self::System => {
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or(Duration::ZERO);
                i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
            }
            Self::Virtual { start, start_ms } => {
                let passed = now.saturating_duration_since(start).as_millis();
                start_ms.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX))
            }
            Self::Manual(now_ms) => now_ms.load(Ordering::Relaxed),
        }
    }
}
