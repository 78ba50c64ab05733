//! Measures a position's distance from the ends of its log: `records-lag`, `records-lead`.
//!
//! A drain measures and has no clock. Responses and snapshots have one, and move what was measured
//! since the last of them into time windows.

use std::time::Instant;

use thalweg_cluster::metrics::{Gathered, Metric, MetricsConfig, Sampled};

/// The number of offsets from a position to the readable end, and from the log's start to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distance {
    pub(crate) lag: i64,
    pub(crate) lead: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Distances {
    lag: Gathered,
    lead: Gathered,
    windows: Option<Windows>,
}

#[derive(Debug)]
struct Windows {
    lag: Sampled,
    lead: Sampled,
}

impl Distances {
    pub(crate) fn push(&mut self, distance: Distance) {
        self.lag.push(distance.lag as f64);
        if let Some(lead) = distance.lead {
            self.lead.push(lead as f64);
        }
    }

    /// Moves what was measured since the last call into the window of `now`.
    pub(crate) fn settle(&mut self, config: MetricsConfig, now: Instant) {
        self.settled(config, now);
    }

    fn settled(&mut self, config: MetricsConfig, now: Instant) -> &mut Windows {
        let windows = self.windows.get_or_insert_with(|| Windows {
            lag: Sampled::new(config),
            lead: Sampled::new(config),
        });
        windows.lag.add(std::mem::take(&mut self.lag), now);
        windows.lead.add(std::mem::take(&mut self.lead), now);
        windows
    }

    pub(crate) fn values(&mut self, config: MetricsConfig, now: Instant) -> [Metric; 4] {
        let Windows { lag, lead } = self.settled(config, now);
        [
            ("records-lag-avg", lag.avg(now)),
            ("records-lag-max", lag.max(now)),
            ("records-lead-avg", lead.avg(now)),
            ("records-lead-min", lead.min(now)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_measured_counts_from_the_next_look_on_and_for_so_long() {
        let config = MetricsConfig::default();
        let start = Instant::now();
        let mut distances = Distances::default();
        for (lag, lead) in [(10, Some(5)), (30, None), (20, Some(15))] {
            distances.push(Distance { lag, lead });
        }
        distances.settle(config, start);
        let wanted = [
            ("records-lag-avg", 20.0),
            ("records-lag-max", 30.0),
            ("records-lead-avg", 10.0),
            ("records-lead-min", 5.0),
        ];
        assert_eq!(distances.values(config, start), wanted);
        let later = start + Duration::from_secs(61);
        assert!(
            distances
                .values(config, later)
                .iter()
                .all(|(_, value)| value.is_nan())
        );
    }
}
