//! `for record in consumer`: a poll for each record, most of which have nothing else to do.
//!
//! ```text
//! next_at_once ── a record ──────────────▶                  amid a batch
//!      └─ anything else ──▶ the general way, as a poll      its ends, news, waits, errors
//! ```

use std::sync::atomic::Ordering;
use std::time::Instant;

use pyo3::prelude::*;

use super::{Core, Offered};

impl Core {
    /// Whether this step of an iteration is a poll in the metrics. One a batch is: to measure each of
    /// them would take longer than the step.
    pub(crate) fn counts_step(&self) -> bool {
        let counts = self.step_counts.load(Ordering::Relaxed);
        if counts {
            self.step_counts.store(false, Ordering::Relaxed);
        }
        counts
    }

    /// After a step that gave nothing, too.
    pub(crate) fn count_next_step(&self) {
        self.step_counts.store(true, Ordering::Relaxed);
    }

    /// The next record, the position moved past it and no further.
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

    /// [`Self::next`] where there is nothing to do but to hand out a record; it decides nothing that a
    /// look would decide otherwise. What is left to the general way gives None.
    ///
    /// No time is spent in here, so one look at the clock says whether the coordinator's work is due
    /// and when the application came and left.
    fn next_at_once<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.step_counts.load(Ordering::Relaxed) || self.hooks.see_records() {
            return Ok(None);
        }
        let mut state = self.enter(py)?;
        // Not entered, as this gives control to nobody. Looked at after the state was locked: who
        // begins meanwhile looks at that.
        self.usage.check(py)?;
        let watch = self.client.poll_watch();
        if watch.is_watched() || state.polled.due.is_some() {
            let now = Instant::now();
            watch.passed(now);
            if state.polled.is_due(now) {
                return Ok(None);
            }
        }
        self.check(py)?;
        if state.failure.is_some() || self.has_news(&state.polled) {
            return Ok(None);
        }
        match state.taken(&mut |state| self.take_one(py, state, &[]))? {
            Some(Offered::Record(record)) => Ok(Some(record)),
            _ => Ok(None),
        }
    }
}
