//! `for record in consumer`: one poll per record, most of which only return a buffered record.
//!
//! ```text
//! next_at_once ── a record ──────────────▶                  within a batch
//!      └─ anything else ──▶ the general path, as a poll     batch ends, news, waits, errors
//! ```

use std::sync::atomic::Ordering;
use std::time::Instant;

use pyo3::prelude::*;
use thalweg_network::consumer::Caller;

use super::{Offered, OpenConsumer};

impl OpenConsumer {
    /// Whether this step of an iteration counts as a poll in the metrics. One step per batch does:
    /// measuring every step would take longer than the step.
    pub(crate) fn counts_step(&self) -> bool {
        let counts = self.step_counts.load(Ordering::Relaxed);
        if counts {
            self.step_counts.store(false, Ordering::Relaxed);
        }
        counts
    }

    /// Counts the next step as a poll, also after a step without a record.
    pub(crate) fn count_next_step(&self) {
        self.step_counts.store(true, Ordering::Relaxed);
    }

    /// Returns the next record, and moves the position exactly past it.
    pub(crate) fn next<'py>(
        &self,
        py: Python<'py>,
        deadline: Option<Instant>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let Some(record) = self.next_at_once(py)? {
            return Ok(Some(record));
        }
        let _polling = self.client.poll_watch().enter();
        let _counted = self.counts_step().then(|| self.client.count_poll());
        loop {
            match self.poll_with(py, deadline, |state| self.take_one(py, state, &[]))? {
                Some(Offered::Record(record)) => return Ok(Some(record)),
                Some(Offered::Kept) => {}
                None => {
                    self.count_next_step();
                    return Ok(None);
                }
            }
        }
    }

    /// Works like [`Self::next`] if it only needs to return a record. It never decides anything
    /// that a full check would decide differently. It returns `None` to leave the step to the
    /// general path.
    ///
    /// This takes no time, so it reads the clock once, to see whether coordinator work is due, and
    /// when the application called and got its record.
    fn next_at_once<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.step_counts.load(Ordering::Relaxed) || self.hooks.see_records() {
            return Ok(None);
        }
        let mut state = self.enter(py)?;
        // This runs no other code, so it does not enter the usage. It checks the usage after it
        // locked the state: a thread that begins a use in between checks the state.
        self.usage.check(py)?;
        let watch = self.client.poll_watch();
        let due = state.work.due(Caller::Poll);
        if watch.is_watched() || due.is_some() {
            let now = Instant::now();
            watch.passed(now);
            if due.is_some_and(|at| at <= now) {
                return Ok(None);
            }
        }
        self.check(py)?;
        if state.failure.is_some() || self.has_news(&state.work, Caller::Poll) {
            return Ok(None);
        }
        match state.taken(&mut |state| self.take_one(py, state, &[]))? {
            Some(Offered::Record(record)) => Ok(Some(record)),
            _ => Ok(None),
        }
    }
}
