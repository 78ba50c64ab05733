//! Delivers results to an event loop: a queue, and one wake-up for everything in it.
//!
//! ```text
//! I/O thread, no GIL                                        the loop's thread
//! batch done ── item ──▶ queue ── was empty: ring ──▶ drain ──▶ callbacks of `RecordFuture`s
//! a wait is over ─ item ─┘    │                                 and coroutines resumed
//!                             ├─ a descriptor that the loop watches (add_reader)
//!                             └─ or a thread of ours: one call_soon_threadsafe per drain
//! ```
//! There is one of these for each loop, shared by its producers. The queue itself is in
//! `loop_queue`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::asyncio::loop_queue::{Item, Queue};
use crate::asyncio::record_waits::RecordWaits;
use crate::asyncio::running_loop::RunningLoop;
use crate::convert::errors;
use crate::interpreter::callbacks::locked;
use crate::interpreter::failures;
use crate::producing::batch_futures::Batch;
use crate::producing::futures::{Awaited, Outcome};

/// After this many futures, a drain lets other callbacks of the loop run.
const FUTURES_PER_DRAIN: usize = 4_096;

/// After this many sends in a row the loop gets a turn, because perhaps none of them had to wait.
const SENDS_PER_TURN: u32 = 512;

struct Column {
    future: Py<PyAny>,
    batch: Arc<Batch>,
}

#[derive(Default)]
struct Tables {
    next_key: u64,
    waiters: BTreeMap<u64, Py<PyAny>>,
    columns: BTreeMap<u64, Column>,
}

/// Creates a loop's futures: with `create_future` if the loop has its own. Both refer to the loop.
enum MakeFuture {
    Class(Py<PyAny>, Py<PyDict>),
    Method(Py<PyAny>),
}

/// The completions of one event loop. `thalweg.aio._completions` creates and watches it.
///
/// Without `notify` it has a file descriptor to watch. With `notify`, a thread of ours calls
/// `notify` when there is something to drain. `len()` is the number of awaited futures and waiting
/// calls.
#[pyclass(frozen, weakref, module = "thalweg._core")]
pub(crate) struct Completions {
    queue: Arc<Queue>,
    event_loop: Py<PyAny>,
    running: RunningLoop,
    make_future: MakeFuture,
    tables: Mutex<Tables>,
    records: Arc<RecordWaits>,
    sends: AtomicU32,
}

#[pymethods]
impl Completions {
    #[new]
    #[pyo3(signature = (event_loop, notify = None))]
    fn new(event_loop: &Bound<'_, PyAny>, notify: Option<Py<PyAny>>) -> PyResult<Self> {
        let py = event_loop.py();
        let queue = Arc::new(Queue::new(notify)?);
        let records = Arc::new(RecordWaits::new(event_loop, Arc::clone(&queue))?);
        Ok(Self {
            queue,
            event_loop: event_loop.clone().unbind(),
            running: RunningLoop::new(py)?,
            make_future: make_future(event_loop)?,
            tables: Mutex::default(),
            records,
            sends: AtomicU32::new(0),
        })
    }

    /// Returns the file descriptor to watch. Raises `OSError` if there is none.
    fn fileno(&self) -> PyResult<i32> {
        let found = self.queue.descriptor();
        found.ok_or_else(|| PyOSError::new_err("there is no descriptor to watch"))
    }

    /// Delivers completions. If there are many, it lets the loop run other callbacks in between.
    ///
    /// Call it in the loop's thread.
    fn drain(&self, py: Python<'_>) {
        self.queue.silence();
        let mut delivered = 0;
        while let Some(item) = self.queue.pop() {
            delivered += self.deliver(py, item);
            if delivered >= FUTURES_PER_DRAIN {
                self.queue.ring_if_any();
                return;
            }
        }
    }

    /// Resumes the call that waits under this key, if there is one, because its time is over.
    fn wake(&self, py: Python<'_>, key: u64) {
        self.deliver(py, Item::Waiter(key));
    }

    /// The number of awaited futures and waiting calls.
    fn __len__(&self) -> usize {
        let records = self.records.len();
        let tables = locked(&self.tables);
        records + tables.columns.len() + tables.waiters.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        match &self.make_future {
            MakeFuture::Class(class, kwargs) => {
                visit.call(class)?;
                visit.call(kwargs)?;
            }
            MakeFuture::Method(method) => visit.call(method)?,
        }
        self.records.traverse(&visit)?;
        if let Ok(tables) = self.tables.try_lock() {
            for future in tables.waiters.values() {
                visit.call(future)?;
            }
            for column in tables.columns.values() {
                visit.call(&column.future)?;
            }
        }
        Ok(())
    }

    /// The garbage collector calls it for an unreachable cycle, in which no caller waits.
    fn __clear__(&self) {
        self.records.clear();
        let tables = std::mem::take(&mut *locked(&self.tables));
        drop(tables);
    }
}

impl Completions {
    /// Returns an error unless this thread runs the loop.
    #[inline]
    pub(crate) fn check_loop(&self, py: Python<'_>) -> PyResult<()> {
        let Some(running) = self.running.instead_of(self.event_loop.bind(py))? else {
            return Ok(());
        };
        let text = if running.is_none() {
            "no event loop runs in this thread. Use a client in the event loop that started it"
        } else {
            "this client was started in another event loop. Use it only there"
        };
        Err(errors::raise(py, "IllegalStateError", text))
    }

    /// Whether the loop should get a turn. Sends that need not wait would never give it one.
    pub(crate) fn is_turn_due(&self) -> bool {
        // All sends of a loop come from one thread. A count that is slightly wrong does no harm.
        let sends = self.sends.load(Ordering::Relaxed) + 1;
        let due = sends >= SENDS_PER_TURN;
        self.sends
            .store(if due { 0 } else { sends }, Ordering::Relaxed);
        due
    }

    /// Creates an asyncio future of this loop.
    #[inline]
    pub(crate) fn new_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.make_future {
            MakeFuture::Class(class, kwargs) => class
                .bind(py)
                .call(PyTuple::empty(py), Some(kwargs.bind(py))),
            MakeFuture::Method(method) => method.bind(py).call0(),
        }
    }

    /// Returns the table of the loop's awaited records.
    #[inline]
    pub(crate) fn records(&self) -> &Arc<RecordWaits> {
        &self.records
    }

    /// Creates the future of many appended records.
    pub(crate) fn future_of_many<'py>(
        &self,
        py: Python<'py>,
        batch: Arc<Batch>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.new_future(py)?;
        let column = Column {
            future: future.clone().unbind(),
            batch,
        };
        let mut tables = locked(&self.tables);
        let key = tables.new_key();
        tables.columns.insert(key, column);
        drop(tables);
        self.deliver(py, Item::Column(key));
        Ok(future)
    }

    /// Returns a key for a waiting call, and the waker that wakes it.
    pub(crate) fn new_waiter(&self) -> (u64, Waker) {
        let key = locked(&self.tables).new_key();
        (key, self.queue.waker(Item::Waiter(key)))
    }

    /// Returns a future that is done once the key's waker is used, possibly before this call.
    pub(crate) fn wait<'py>(&self, py: Python<'py>, key: u64) -> PyResult<Bound<'py, PyAny>> {
        let future = self.new_future(py)?;
        let before = locked(&self.tables)
            .waiters
            .insert(key, future.clone().unbind());
        drop(before);
        Ok(future)
    }

    /// Forgets a key: no call waits under it any more.
    pub(crate) fn forget(&self, key: u64) {
        let future = locked(&self.tables).waiters.remove(&key);
        drop(future);
    }

    pub(crate) fn event_loop<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.event_loop.bind(py)
    }

    /// Delivers everything in the queue, without a pause.
    pub(crate) fn drain_all(&self, py: Python<'_>) {
        while let Some(item) = self.queue.pop() {
            self.deliver(py, item);
        }
    }

    /// Delivers one item, and returns how many futures it completed. The tables are not locked
    /// while Python runs.
    fn deliver(&self, py: Python<'_>, item: Item) -> usize {
        // A panic must not prevent the delivery of later items.
        failures::caught(py, || self.deliver_uncaught(py, item)).unwrap_or(1)
    }

    fn deliver_uncaught(&self, py: Python<'_>, item: Item) -> usize {
        match item {
            Item::Batch(key) => self.records.deliver(py, key),
            Item::Waiter(key) => {
                let waiter = locked(&self.tables).waiters.remove(&key);
                if let Some(future) = waiter {
                    settle(future.bind(py), Ok(py.None().into_bound(py)));
                }
                1
            }
            Item::Column(key) => self.deliver_column(py, key),
        }
    }

    fn deliver_column(&self, py: Python<'_>, key: u64) -> usize {
        let batch = match locked(&self.tables).columns.get(&key) {
            Some(column) => Arc::clone(&column.batch),
            None => return 0,
        };
        if !batch.poll_done(&self.queue.waker(Item::Column(key))) {
            return 0;
        }
        let column = locked(&self.tables).columns.remove(&key);
        if let Some(column) = column {
            settle_with(column.future.bind(py), batch.outcome(py));
        }
        1
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // This is done here, while attached to the interpreter: the queue itself may be dropped on
        // any thread.
        self.queue.forget_notifier();
        // Nothing will call these back. A future among them would keep all of this alive.
        self.records.clear();
    }
}

impl Tables {
    fn new_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }
}

fn make_future(event_loop: &Bound<'_, PyAny>) -> PyResult<MakeFuture> {
    let py = event_loop.py();
    let asyncio = py.import("asyncio")?;
    let usual = asyncio.getattr("BaseEventLoop")?.getattr("create_future")?;
    let own = event_loop.get_type().getattr("create_future")?;
    if own.is(&usual) {
        let kwargs = PyDict::new(py);
        kwargs.set_item("loop", event_loop)?;
        let class = asyncio.getattr("Future")?.unbind();
        return Ok(MakeFuture::Class(class, kwargs.unbind()));
    }
    let method = event_loop.getattr("create_future")?;
    Ok(MakeFuture::Method(method.unbind()))
}

fn settle_with(future: &Bound<'_, PyAny>, outcome: PyResult<Outcome<'_>>) {
    match outcome {
        Ok(outcome) => settle(future, outcome),
        Err(error) => failures::report(future.py(), "outcome of a record", error),
    }
}

/// Sets a future's result, unless it was cancelled.
pub(crate) fn settle(future: &Bound<'_, PyAny>, outcome: Outcome<'_>) {
    let py = future.py();
    let set = match outcome {
        Ok(value) => future.call_method1(pyo3::intern!(py, "set_result"), (value,)),
        Err(error) => future.call_method1(pyo3::intern!(py, "set_exception"), (error,)),
    };
    let Err(error) = set else { return };
    let cancelled = future
        .call_method0(pyo3::intern!(py, "done"))
        .and_then(|done| done.is_truthy())
        .unwrap_or(false);
    // The future is done, but its loop is closed and cannot run its callbacks.
    if !cancelled || error.is_instance_of::<PyRuntimeError>(py) {
        undelivered(py, &error);
    }
}

pub(crate) fn undelivered(py: Python<'_>, error: &PyErr) {
    let logged = py
        .import("thalweg._logging")
        .and_then(|module| module.call_method1("undelivered", (error.value(py),)));
    if let Err(error) = logged {
        error.write_unraisable(py, None);
    }
}
