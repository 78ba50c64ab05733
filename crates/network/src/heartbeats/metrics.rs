//! Metrics of heartbeats under Kafka's names: `consumer-coordinator-metrics`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thalweg_cluster::metrics::{MetricGroup, MetricsConfig, Sampled};

const GROUP: &str = "consumer-coordinator-metrics";

/// Kafka's value before the first heartbeat.
const NEVER: f64 = -1.0;

/// The heartbeat metrics. The I/O thread writes them once per heartbeat, and any thread may read
/// them.
#[derive(Debug)]
pub(crate) struct HeartbeatMetrics(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Milliseconds from sending to the response, one value for each response.
    response_time: Sampled,
    last_sent: Option<Instant>,
}

impl HeartbeatMetrics {
    pub(crate) fn new(config: MetricsConfig) -> Self {
        Self(Mutex::new(State {
            response_time: Sampled::new(config),
            last_sent: None,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sent(&self, now: Instant) {
        self.lock().last_sent = Some(now);
    }

    pub(crate) fn answered(&self, response_time: Duration, now: Instant) {
        let ms = response_time.as_secs_f64() * 1e3;
        self.lock().response_time.record(ms, now);
    }

    pub(crate) fn snapshot(&self, now: Instant) -> MetricGroup {
        let State {
            response_time,
            last_sent,
        } = &mut *self.lock();
        let ago = last_sent.map_or(NEVER, |at| now.saturating_duration_since(at).as_secs_f64());
        MetricGroup {
            name: GROUP.to_owned(),
            values: vec![
                ("heartbeat-rate", response_time.count_rate(now)),
                ("heartbeat-response-time-max", response_time.max(now)),
                ("heartbeat-total", response_time.count() as f64),
                ("last-heartbeat-seconds-ago", ago),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_counted_and_the_last_heartbeat_is_dated() {
        let start = Instant::now();
        let metrics = HeartbeatMetrics::new(MetricsConfig::default());
        let value = |name: &str, now| {
            let group = metrics.snapshot(now);
            let found = group.values.iter().find(|(known, _)| *known == name);
            found.expect("a metric of that name").1
        };
        let is = |name, now, wanted: f64| (value(name, now) - wanted).abs() < 1e-6;
        assert!(is("last-heartbeat-seconds-ago", start, NEVER));
        assert!(value("heartbeat-response-time-max", start).is_nan());
        for (sent, answered) in [(0, 20), (3_000, 3_050), (6_000, 6_010)] {
            metrics.sent(start + Duration::from_millis(sent));
            let took = Duration::from_millis(answered - sent);
            metrics.answered(took, start + Duration::from_millis(answered));
        }
        let now = start + Duration::from_secs(8);
        assert!(is("heartbeat-total", now, 3.0));
        assert!(is("heartbeat-response-time-max", now, 50.0));
        assert!(is("last-heartbeat-seconds-ago", now, 2.0));
        assert!(value("heartbeat-rate", now) > 0.0);
    }
}
