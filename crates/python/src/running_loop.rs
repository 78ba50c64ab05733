//! Which event loop runs in this thread.
//!
//! `CPython` 3.11 makes a system call to tell, once for each send. So what it says of a thread is kept,
//! and asyncio's own table is looked into: where the loop that ran here last has a task in hand, it is
//! that task that calls. Later versions make no system call.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) struct RunningLoop {
    asked: Py<PyAny>,
    tasks: Option<Py<PyDict>>,
    /// The thread that the loop was last seen to run in.
    thread: AtomicUsize,
}

impl RunningLoop {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let asked = py.import("asyncio")?.getattr("_get_running_loop")?;
        let tasks = if py.version_info() < (3, 12) {
            let tasks = py.import("asyncio.tasks")?.getattr("_current_tasks")?;
            tasks.cast_into::<PyDict>().ok()
        } else {
            None
        };
        Ok(Self {
            asked: asked.unbind(),
            tasks: tasks.map(Bound::unbind),
            thread: AtomicUsize::new(0),
        })
    }

    /// What runs in this thread in the place of that loop: another one, or Python's `None`.
    pub(crate) fn other_than<'py>(
        &self,
        event_loop: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = event_loop.py();
        if let Some(tasks) = &self.tasks
            && self.thread.load(Ordering::Relaxed) == this_thread()
            && tasks.bind(py).contains(event_loop)?
        {
            return Ok(None);
        }
        let running = self.asked.bind(py).call0()?;
        if running.is(event_loop) {
            self.thread.store(this_thread(), Ordering::Relaxed);
            return Ok(None);
        }
        Ok(Some(running))
    }
}

/// A name that no other living thread has.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}
