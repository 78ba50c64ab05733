//! The two clocks: monotonic for every timer, wall clock for record timestamps only.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Now by tokio's clock, which tests and the simulation may pause.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Where record timestamps come from.
#[derive(Debug, Clone, Copy, Default)]
pub enum WallClock {
    #[default]
    System,
    /// Moves with the monotonic clock from a fixed start: the simulation's virtual days.
    Virtual { start: Instant, start_ms: i64 },
}

impl WallClock {
    /// Unix milliseconds.
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
        }
    }
}
