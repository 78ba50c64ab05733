//! Checks which event loop runs in this thread.
//!
//! ```text
//! the loop runs a task, and was last seen in this thread ──▶ it is this one
//! anything else ──▶ ask asyncio
//! ```
//! On `CPython` 3.11, asking asyncio costs a system call, which would be once per send. So this
//! first looks into asyncio's own table of tasks. Later versions make no system call. Two cases
//! are deliberately not detected: a second loop that runs within a task of the first, which
//! asyncio itself forbids, and a loop that has moved to another thread and has not called from
//! there yet.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) struct RunningLoop {
    get_running_loop: Py<PyAny>,
    tasks: Option<Tasks>,
}

/// The task that each loop runs now.
struct Tasks {
    table: Py<PyDict>,
    /// The thread in which the loop was last seen.
    thread: AtomicUsize,
}

impl RunningLoop {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let get_running_loop = py.import("asyncio")?.getattr("_get_running_loop")?;
        let tasks = if py.version_info() < (3, 12) {
            let table = py.import("asyncio.tasks")?.getattr("_current_tasks")?;
            table.cast_into::<PyDict>().ok().map(|table| Tasks {
                table: table.unbind(),
                thread: AtomicUsize::new(0),
            })
        } else {
            None
        };
        Ok(Self {
            get_running_loop: get_running_loop.unbind(),
            tasks,
        })
    }

    /// Returns what runs in this thread instead of that loop: another loop, or Python's `None`.
    pub(crate) fn instead_of<'py>(
        &self,
        event_loop: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = event_loop.py();
        if let Some(tasks) = &self.tasks
            && tasks.thread.load(Ordering::Relaxed) == this_thread()
            && tasks.table.bind(py).contains(event_loop)?
        {
            return Ok(None);
        }
        let running = self.get_running_loop.bind(py).call0()?;
        if !running.is(event_loop) {
            return Ok(Some(running));
        }
        if let Some(tasks) = &self.tasks {
            tasks.thread.store(this_thread(), Ordering::Relaxed);
        }
        Ok(None)
    }
}

/// Returns a number that no other living thread has. A thread that has ended may have had it.
fn this_thread() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}
