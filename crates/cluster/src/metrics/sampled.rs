//! Kafka's `SampledStat`: values in windows of time, of which the last few count.
//!
//! ```text
//!   ├── sample ──┼── sample ──┼── current ──┤ now
//!   └ dropped once its last value is num_samples windows old
//! ```
//! One `Sampled` serves for what Kafka keeps apart (`Avg`, `Max`, `Rate`, `CumulativeSum`), as all
//! of them would get the same values at the same times. Reading removes old samples, so it needs
//! `&mut`. The reader holds the lock anyway.

use std::time::{Duration, Instant};

use super::MetricsConfig;

/// Values without their times, collected where there is no clock, for [`Sampled::add`].
#[derive(Debug, Clone, Copy)]
pub struct Gathered {
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Default for Gathered {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        }
    }
}

impl Gathered {
    pub fn push(&mut self, value: f64) {
        self.add(Self {
            count: 1,
            sum: value,
            min: value,
            max: value,
        });
    }

    fn add(&mut self, more: Self) {
        self.count += more.count;
        self.sum += more.sum;
        self.min = self.min.min(more.min);
        self.max = self.max.max(more.max);
    }
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    start: Instant,
    last_event: Instant,
    values: Gathered,
}

impl Sample {
    fn new(now: Instant) -> Self {
        Self {
            start: now,
            last_event: now,
            values: Gathered::default(),
        }
    }
}

/// Values over time, as a ring of samples and two totals.
#[derive(Debug, Clone)]
pub struct Sampled {
    config: MetricsConfig,
    /// At most `num_samples` + 1, because the oldest may reach into the time that counts.
    samples: Vec<Sample>,
    current: usize,
    count: u64,
    sum: f64,
}

impl Sampled {
    pub fn new(config: MetricsConfig) -> Self {
        Self {
            config,
            samples: Vec::new(),
            current: 0,
            count: 0,
            sum: 0.0,
        }
    }

    pub fn record(&mut self, value: f64, now: Instant) {
        let mut one = Gathered::default();
        one.push(value);
        self.add(one, now);
    }

    /// Adds all these values as of `now`. Does nothing if there are none.
    pub fn add(&mut self, values: Gathered, now: Instant) {
        if values.count == 0 {
            return;
        }
        let window = self.config.sample_window;
        let sample = match self.samples.get(self.current) {
            Some(sample) if now.saturating_duration_since(sample.start) < window => {
                &mut self.samples[self.current]
            }
            Some(_) => self.advance(now),
            None => {
                self.samples.push(Sample::new(now));
                &mut self.samples[self.current]
            }
        };
        sample.values.add(values);
        sample.last_event = now;
        self.count += values.count;
        self.sum += values.sum;
    }

    fn advance(&mut self, now: Instant) -> &mut Sample {
        self.current = (self.current + 1) % (self.config.num_samples.max(1) + 1);
        if self.current < self.samples.len() {
            self.samples[self.current] = Sample::new(now);
        } else {
            self.samples.push(Sample::new(now));
        }
        &mut self.samples[self.current]
    }

    fn purge(&mut self, now: Instant) {
        let age_max = self.span(self.config.num_samples.max(1));
        for sample in &mut self.samples {
            if now.saturating_duration_since(sample.last_event) >= age_max {
                *sample = Sample::new(now);
            }
        }
    }

    fn span(&self, windows: usize) -> Duration {
        let windows = u32::try_from(windows).unwrap_or(u32::MAX);
        self.config.sample_window.saturating_mul(windows)
    }

    /// Returns the average of the values that count, NaN if there are none. So do `min` and `max`.
    pub fn avg(&mut self, now: Instant) -> f64 {
        self.of_recent(now, |recent| recent.sum / recent.count as f64)
    }

    pub fn min(&mut self, now: Instant) -> f64 {
        self.of_recent(now, |recent| recent.min)
    }

    pub fn max(&mut self, now: Instant) -> f64 {
        self.of_recent(now, |recent| recent.max)
    }

    fn of_recent(&mut self, now: Instant, metric: impl FnOnce(&Gathered) -> f64) -> f64 {
        self.purge(now);
        let recent = self.recent();
        if recent.count == 0 {
            f64::NAN
        } else {
            metric(&recent)
        }
    }

    /// Returns the sum of the values per second.
    pub fn rate(&mut self, now: Instant) -> f64 {
        self.purge(now);
        self.recent().sum / self.elapsed(now).as_secs_f64()
    }

    /// Returns the number of values per second.
    pub fn count_rate(&mut self, now: Instant) -> f64 {
        self.purge(now);
        self.recent().count as f64 / self.elapsed(now).as_secs_f64()
    }

    fn recent(&self) -> Gathered {
        let mut recent = Gathered::default();
        for sample in &self.samples {
            recent.add(sample.values);
        }
        recent
    }

    /// Returns the time since the oldest sample began. All windows but the last count in full even
    /// if they have not passed yet. Otherwise the first value would give a huge rate.
    fn elapsed(&self, now: Instant) -> Duration {
        let oldest = self.samples.iter().map(|sample| sample.start).min();
        let mut elapsed = oldest.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let window = self.config.sample_window.max(Duration::from_millis(1));
        let full = (elapsed.as_millis() / window.as_millis().max(1)) as usize;
        let wanted = self.config.num_samples.max(1) - 1;
        if full < wanted {
            elapsed += self.span(wanted - full);
        }
        elapsed.max(Duration::from_millis(1))
    }

    /// Returns the number of values ever recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all values ever recorded.
    pub fn total(&self) -> f64 {
        self.sum
    }
}
