//! Which batch is decoded next, and when decoding waits for memory.
//!
//! Oldest first, as that is the order of draining. A batch of a paused partition waits until it is
//! resumed; one whose fetch was thrown away is dropped. Decoding goes on while the budget has
//! room; beyond it, only if nothing else can make progress: nothing is drainable and no job runs.
//! So at most one batch exceeds the budget.

use crate::fetcher::Fetcher;
use crate::job::DecodeJob;

impl Fetcher {
    pub(crate) fn next_job(&mut self) -> Option<DecodeJob> {
        self.jobs.retain(|job| !job.is_orphaned());
        let index = {
            let assigned = self.shared.subscription.lock();
            self.jobs.iter().position(|job| {
                assigned
                    .get(&job.partition)
                    .is_some_and(|state| state.stamp == job.stamp && !state.paused)
            })?
        };
        let wanted = self.jobs[index].bytes_guess();
        let room = wanted <= self.shared.memory.free();
        if !room && (self.jobs_running > 0 || self.shared.has_drainable()) {
            return None;
        }
        self.jobs.remove(index)
    }
}
