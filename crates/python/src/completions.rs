//! How outcomes reach an event loop: a queue, and one wake-up for all that is in it.
//!
//! ```text
//! I/O thread, no GIL                                        the loop's thread
//! batch done ── item ──▶ queue ── was empty: ring ──▶ drain ──▶ results into asyncio futures
//! a wait is over ─ item ─┘    │                                 and coroutines resumed
//!                             ├─ a descriptor that the loop watches (add_reader)
//!                             └─ else the callback thread: one call_soon_threadsafe a drain
//! ```
//! One of these a loop, shared by its producers. Items are keys of tables that only the loop's
//! thread touches: no Python object is reachable from a waker, so none is dropped on the I/O thread.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use thalweg_network::PerProcess;
use thalweg_network::wait::Doorbell;
use thalweg_producer::BatchCompletion;

use crate::batch_futures::Batch;
use crate::futures::{Awaited, Outcome, Sent};
use crate::types::{RecordMetadataOf, Sizes};
use crate::{callbacks, errors};

/// After so many futures a drain lets other callbacks of the loop run.
const FUTURES_PER_DRAIN: usize = 4_096;

/// After so many sends in a row the loop gets a turn, as none of them may have had to wait.
const SENDS_PER_TURN: u32 = 512;

/// What came in; a key of one of the tables.
#[derive(Clone, Copy)]
enum Item {
    Batch(usize),
    Waiter(u64),
    Column(u64),
}

enum Bell {
    Descriptor(Doorbell),
    /// The key of a Python function among the `NOTIFIERS`.
    Notifier(u64),
}

struct Queue {
    items: Mutex<VecDeque<Item>>,
    bell: Bell,
}

/// Functions that have a loop drain its queue, called by the callback thread.
static NOTIFIERS: PerProcess<Mutex<BTreeMap<u64, Py<PyAny>>>> = PerProcess::new();
static NEXT_NOTIFIER: AtomicU64 = AtomicU64::new(1);

fn notifiers() -> MutexGuard<'static, BTreeMap<u64, Py<PyAny>>> {
    locked(NOTIFIERS.get_or_make(Mutex::default))
}

/// A lock whose holder panicked guards plain tables, which stay usable.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn push(&self, item: Item) {
        let mut items = locked(&self.items);
        let first = items.is_empty();
        items.push_back(item);
        drop(items);
        if first {
            self.ring();
        }
    }

    fn pop(&self) -> Option<Item> {
        locked(&self.items).pop_front()
    }

    fn ring(&self) {
        match &self.bell {
            Bell::Descriptor(bell) => bell.ring(),
            &Bell::Notifier(key) => callbacks::current().run(Box::new(move |py| notify(py, key))),
        }
    }
}

fn notify(py: Python<'_>, key: u64) {
    let function = notifiers().get(&key).map(|function| function.clone_ref(py));
    if let Some(function) = function
        && let Err(error) = function.call0(py)
    {
        callbacks::report(py, "wake-up of an event loop", error);
    }
}

/// Puts its item into the queue.
struct Ring {
    queue: Arc<Queue>,
    item: Item,
}

impl Wake for Ring {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.queue.push(self.item);
    }
}

/// Where the futures of one batch wait.
struct Waiting {
    completion: Arc<BatchCompletion>,
    records: Vec<RecordFuture>,
}

struct RecordFuture {
    future: Py<PyAny>,
    index: u32,
    timestamp_ms: i64,
    sizes: Sizes,
}

struct Column {
    future: Py<PyAny>,
    batch: Arc<Batch>,
}

#[derive(Default)]
struct Tables {
    next_key: u64,
    /// By the address of the completion, which the entry keeps alive.
    batches: BTreeMap<usize, Waiting>,
    waiters: BTreeMap<u64, Py<PyAny>>,
    columns: BTreeMap<u64, Column>,
}

/// How a loop's futures are made: `create_future` where the loop has its own.
enum MakeFuture {
    Class(Py<PyAny>, Py<PyDict>),
    Method(Py<PyAny>),
}

/// The completions of one event loop.
#[pyclass(frozen, weakref, module = "thalweg._core")]
pub(crate) struct Completions {
    queue: Arc<Queue>,
    event_loop: Py<PyAny>,
    running_loop: Py<PyAny>,
    make_future: MakeFuture,
    tables: Mutex<Tables>,
    sends: AtomicU32,
}

#[pymethods]
impl Completions {
    #[new]
    #[pyo3(signature = (event_loop, notify = None))]
    fn new(event_loop: &Bound<'_, PyAny>, notify: Option<Py<PyAny>>) -> PyResult<Self> {
        let py = event_loop.py();
        let bell = match notify {
            None => Bell::Descriptor(Doorbell::new().map_err(PyOSError::new_err)?),
            Some(function) => {
                callbacks::current().start()?;
                let key = NEXT_NOTIFIER.fetch_add(1, Ordering::Relaxed);
                notifiers().insert(key, function);
                Bell::Notifier(key)
            }
        };
        let queue = Arc::new(Queue {
            items: Mutex::default(),
            bell,
        });
        let running_loop = py.import("asyncio")?.getattr("_get_running_loop")?;
        Ok(Self {
            queue,
            event_loop: event_loop.clone().unbind(),
            running_loop: running_loop.unbind(),
            make_future: make_future(event_loop)?,
            tables: Mutex::default(),
            sends: AtomicU32::new(0),
        })
    }

    /// The descriptor to watch for being readable.
    fn fileno(&self) -> PyResult<i32> {
        let found = match &self.queue.bell {
            Bell::Descriptor(bell) => Some(bell.descriptor()),
            Bell::Notifier(_) => None,
        };
        found.ok_or_else(|| PyOSError::new_err("there is no descriptor to watch"))
    }

    /// Delivers what came in, and lets the loop go on in between if it is much.
    fn drain(&self, py: Python<'_>) {
        if let Bell::Descriptor(bell) = &self.queue.bell {
            bell.silence();
        }
        let mut delivered = 0;
        while let Some(item) = self.queue.pop() {
            delivered += self.deliver(py, item);
            if delivered >= FUTURES_PER_DRAIN {
                if !locked(&self.queue.items).is_empty() {
                    self.queue.ring();
                }
                return;
            }
        }
    }

    /// Resumes the call that waits under this key, if one does: its time is over.
    fn wake(&self, py: Python<'_>, key: u64) {
        self.deliver(py, Item::Waiter(key));
    }

    /// Futures without an outcome, and calls that wait.
    fn __len__(&self) -> usize {
        let tables = locked(&self.tables);
        let records = tables.batches.values().map(|batch| batch.records.len());
        records.sum::<usize>() + tables.columns.len() + tables.waiters.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        if let Ok(tables) = self.tables.try_lock() {
            for batch in tables.batches.values() {
                for record in &batch.records {
                    visit.call(&record.future)?;
                }
            }
            for future in tables.waiters.values() {
                visit.call(future)?;
            }
            for column in tables.columns.values() {
                visit.call(&column.future)?;
            }
        }
        Ok(())
    }
}

impl Completions {
    /// An error unless the loop is the one that runs in this thread.
    #[inline]
    pub(crate) fn check_loop(&self, py: Python<'_>) -> PyResult<()> {
        let running = self.running_loop.call0(py)?;
        if running.is(&self.event_loop) {
            return Ok(());
        }
        let text = if running.is_none(py) {
            "no event loop runs in this thread: a producer is used in the loop that started it"
        } else {
            "this producer was started in another event loop, and can be used only there"
        };
        Err(errors::raise(py, "IllegalStateError", text))
    }

    /// Whether the loop should get a turn: sends that need not wait would never let it have one.
    pub(crate) fn is_turn_due(&self) -> bool {
        // One loop's sends come from one thread: a count that is off by some does no harm.
        let sends = self.sends.load(Ordering::Relaxed) + 1;
        let due = sends >= SENDS_PER_TURN;
        self.sends
            .store(if due { 0 } else { sends }, Ordering::Relaxed);
        due
    }

    /// An asyncio future of this loop.
    #[inline]
    pub(crate) fn new_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.make_future {
            MakeFuture::Class(class, kwargs) => class
                .bind(py)
                .call(PyTuple::empty(py), Some(kwargs.bind(py))),
            MakeFuture::Method(method) => method.bind(py).call0(),
        }
    }

    /// The future of a record that was appended.
    #[inline]
    pub(crate) fn future_of<'py>(
        &self,
        py: Python<'py>,
        sent: Sent,
    ) -> PyResult<Bound<'py, PyAny>> {
        let future = self.new_future(py)?;
        let record = RecordFuture {
            future: future.clone().unbind(),
            index: sent.index,
            timestamp_ms: sent.timestamp_ms,
            sizes: sent.sizes,
        };
        let key = Arc::as_ptr(&sent.completion) as usize;
        let mut tables = locked(&self.tables);
        if let Some(batch) = tables.batches.get_mut(&key) {
            batch.records.push(record);
            return Ok(future);
        }
        let registered = sent.completion.register(&self.waker(Item::Batch(key)));
        let batch = Waiting {
            completion: sent.completion,
            records: vec![record],
        };
        if registered {
            tables.batches.insert(key, batch);
            return Ok(future);
        }
        drop(tables);
        deliver_batch(py, &batch);
        Ok(future)
    }

    /// The future of many records that were appended.
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

    /// A key for a call that waits, and what wakes it.
    pub(crate) fn new_waiter(&self) -> (u64, Waker) {
        let key = locked(&self.tables).new_key();
        (key, self.waker(Item::Waiter(key)))
    }

    /// A future that is done once the key's waker is used. Whoever has a waker may use it before.
    pub(crate) fn wait<'py>(&self, py: Python<'py>, key: u64) -> PyResult<Bound<'py, PyAny>> {
        let future = self.new_future(py)?;
        let before = locked(&self.tables)
            .waiters
            .insert(key, future.clone().unbind());
        drop(before);
        Ok(future)
    }

    /// Nobody waits under this key any more.
    pub(crate) fn forget(&self, key: u64) {
        let future = locked(&self.tables).waiters.remove(&key);
        drop(future);
    }

    pub(crate) fn event_loop<'py>(&self, py: Python<'py>) -> &Bound<'py, PyAny> {
        self.event_loop.bind(py)
    }

    /// Delivers all that came in, without a pause.
    pub(crate) fn drain_all(&self, py: Python<'_>) {
        while let Some(item) = self.queue.pop() {
            self.deliver(py, item);
        }
    }

    fn waker(&self, item: Item) -> Waker {
        let queue = Arc::clone(&self.queue);
        Waker::from(Arc::new(Ring { queue, item }))
    }

    /// Delivers one item; how many futures it was. The tables are not locked while Python runs.
    fn deliver(&self, py: Python<'_>, item: Item) -> usize {
        match item {
            Item::Batch(key) => {
                let mut tables = locked(&self.tables);
                // A late ring for an address that another batch has by now is none of its news.
                let done = |batch: &Waiting| batch.completion.is_done();
                let batch = if tables.batches.get(&key).is_some_and(done) {
                    tables.batches.remove(&key)
                } else {
                    None
                };
                drop(tables);
                batch.map_or(0, |batch| deliver_batch(py, &batch))
            }
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
        if !batch.poll_done(&self.waker(Item::Column(key))) {
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
        if let Bell::Notifier(key) = &self.queue.bell {
            let notifier = notifiers().remove(key);
            drop(notifier);
        }
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

/// Gives each future of a done batch its outcome.
fn deliver_batch(py: Python<'_>, batch: &Waiting) -> usize {
    let completion = &batch.completion;
    let made = RecordMetadataOf::new(py, completion.topic(), completion.partition());
    let mut metadata = match made {
        Ok(metadata) => metadata,
        Err(error) => {
            callbacks::report(py, "outcome of a batch", error);
            return 0;
        }
    };
    for record in &batch.records {
        let outcome = completion
            .outcome(record.index)
            .expect("delivered once it is done");
        let outcome = match outcome {
            // A future that only this table knows: nobody will ask for what would be made for it.
            Ok(_) if is_abandoned(record.future.bind(py)) => continue,
            Ok(written) => {
                let timestamp_ms = written.log_append_time_ms.unwrap_or(record.timestamp_ms);
                metadata
                    .make(py, written.offset, timestamp_ms, record.sizes)
                    .map(Ok)
            }
            Err(error) => errors::producer(py, &error).map(Err),
        };
        settle_with(record.future.bind(py), outcome);
    }
    batch.records.len()
}

/// Nobody else has the future (so nobody can come to have it), or wants to be called back.
fn is_abandoned(future: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is alive and the interpreter attached.
    if unsafe { pyo3::ffi::Py_REFCNT(future.as_ptr()) } > 1 {
        return false;
    }
    let callbacks = future.getattr(pyo3::intern!(future.py(), "_callbacks"));
    callbacks.is_ok_and(|callbacks| callbacks.is_none())
}

fn settle_with(future: &Bound<'_, PyAny>, outcome: PyResult<Outcome<'_>>) {
    match outcome {
        Ok(outcome) => settle(future, outcome),
        Err(error) => callbacks::report(future.py(), "outcome of a record", error),
    }
}

/// Sets a future's outcome, unless somebody cancelled it.
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
    // Done and an error all the same: its callbacks have no loop any more to run in.
    if !cancelled || error.is_instance_of::<PyRuntimeError>(py) {
        undelivered(py, &error);
    }
}

fn undelivered(py: Python<'_>, error: &PyErr) {
    let logged = py
        .import("thalweg._logging")
        .and_then(|module| module.call_method1("undelivered", (error.value(py),)));
    if let Err(error) = logged {
        error.write_unraisable(py, None);
    }
}
