//! Metrics of the application's polls under Kafka's names: `consumer-metrics`.
//!
//! ```text
//!      began      ended               began    ended
//! ───────├─ inside ─┤──── away ────────├─ inside ┤──▶
//!        └────── time between polls ───┘
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_cluster::metrics::{MetricGroup, MetricsConfig, Sampled};

const GROUP: &str = "consumer-metrics";
/// The value that Kafka reports before the first poll.
const NEVER: f64 = -1.0;

/// Written by the polling thread, readable by any thread.
#[derive(Debug)]
pub struct PollMetrics(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Milliseconds from the start of one poll to the start of the next.
    between: Sampled,
    /// The fraction of the time inside polls, counted from the end of the poll before.
    idle: Sampled,
    began: Option<Instant>,
    ended: Option<Instant>,
}

/// A running poll.
#[derive(Clone, Copy, Debug)]
pub struct PollBegan {
    at: Instant,
    away: Option<Duration>,
}

impl PollMetrics {
    pub(crate) fn new(config: MetricsConfig) -> Self {
        Self(Mutex::new(State {
            between: Sampled::new(config),
            idle: Sampled::new(config),
            began: None,
            ended: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn began(&self, now: Instant) -> PollBegan {
        let mut state = self.lock();
        if let Some(before) = state.began.replace(now) {
            let ms = now.saturating_duration_since(before).as_secs_f64() * 1e3;
            state.between.record(ms, now);
        }
        PollBegan {
            at: now,
            away: state.ended.map(|at| now.saturating_duration_since(at)),
        }
    }

    pub fn ended(&self, began: PollBegan, now: Instant) {
        let mut state = self.lock();
        state.ended = Some(now);
        let inside = now.saturating_duration_since(began.at).as_secs_f64();
        // The first poll has no time away before it. A ratio of 1 would say that the application
        // never worked.
        let Some(away) = began.away else { return };
        let both = inside + away.as_secs_f64();
        if both > 0.0 {
            state.idle.record(inside / both, now);
        }
    }

    pub(crate) fn snapshot(&self, now: Instant) -> MetricGroup {
        let State {
            between,
            idle,
            began,
            ..
        } = &mut *self.lock();
        let ago = began.map_or(NEVER, |at| now.saturating_duration_since(at).as_secs_f64());
        MetricGroup {
            name: GROUP.to_owned(),
            values: vec![
                ("last-poll-seconds-ago", ago),
                ("poll-idle-ratio-avg", idle.avg(now)),
                ("time-between-poll-avg", between.avg(now)),
                ("time-between-poll-max", between.max(now)),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_dated_and_the_time_inside_of_them_is_compared_with_the_time_away() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let metrics = PollMetrics::new(MetricsConfig::default());
        let value = |name: &str, now| {
            let group = metrics.snapshot(now);
            let found = group.values.iter().find(|(known, _)| *known == name);
            found.expect("a metric of that name").1
        };
        let is = |name, now, wanted: f64| (value(name, now) - wanted).abs() < 1e-9;
        assert!(is("last-poll-seconds-ago", start, NEVER));
        assert!(value("time-between-poll-avg", start).is_nan());
        // Each poll takes 100 ms. The application is away for 300 ms, then 0.
        for (began, ended) in [(0, 100), (400, 500), (500, 600)] {
            let poll = metrics.began(at(began));
            metrics.ended(poll, at(ended));
        }
        assert!(is("time-between-poll-avg", at(600), 250.0));
        assert!(is("time-between-poll-max", at(600), 400.0));
        assert!(is("poll-idle-ratio-avg", at(600), f64::midpoint(0.25, 1.0)));
        assert!(is("last-poll-seconds-ago", at(2_500), 2.0));
    }
}
