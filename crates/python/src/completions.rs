//! How outcomes reach an event loop: a queue, and one wake-up for all that is in it.
//!
//! ```text
//! I/O thread, no GIL                                        the loop's thread
//! batch done ── item ──▶ queue ── was empty: ring ──▶ drain ──▶ callbacks of `RecordFuture`s
//! a wait is over ─ item ─┘    │                                 and coroutines resumed
//!                             ├─ a descriptor that the loop watches (add_reader)
//!                             └─ else the callback thread: one call_soon_threadsafe a drain
//! ```
//! One of these a loop, shared by its producers; the queue itself is in `loop_queue`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use thalweg_producer::BatchCompletion;
use thalweg_protocol::Str;

use crate::batch_futures::Batch;
use crate::futures::{Awaited, Outcome, Sent};
use crate::loop_queue::{Item, Queue, locked};
use crate::record_future::{RecordFuture, tell_lost};
use crate::types::RecordMetadataOf;
use crate::{callbacks, errors};

/// After so many futures a drain lets other callbacks of the loop run.
const FUTURES_PER_DRAIN: usize = 4_096;

/// After so many sends in a row the loop gets a turn, as none of them may have had to wait.
const SENDS_PER_TURN: u32 = 512;

/// Who waits for records of one batch.
struct Waiting {
    completion: Arc<BatchCompletion>,
    callbacks: Vec<Callback>,
    /// Records whose futures are gone: if they fail, the loop hears of it.
    unwatched: Vec<u32>,
}

/// A function to be called with a future that is done.
pub(crate) struct Callback {
    pub(crate) future: Py<RecordFuture>,
    pub(crate) function: Py<PyAny>,
    pub(crate) context: Py<PyAny>,
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
    /// What records of a partition have in common: futures are asked for one batch after another.
    metadata: Mutex<Option<(Str, i32, RecordMetadataOf)>>,
    sends: AtomicU32,
}

#[pymethods]
impl Completions {
    #[new]
    #[pyo3(signature = (event_loop, notify = None))]
    fn new(event_loop: &Bound<'_, PyAny>, notify: Option<Py<PyAny>>) -> PyResult<Self> {
        let py = event_loop.py();
        let queue = Arc::new(Queue::new(notify)?);
        let running_loop = py.import("asyncio")?.getattr("_get_running_loop")?;
        Ok(Self {
            queue,
            event_loop: event_loop.clone().unbind(),
            running_loop: running_loop.unbind(),
            make_future: make_future(event_loop)?,
            tables: Mutex::default(),
            metadata: Mutex::default(),
            sends: AtomicU32::new(0),
        })
    }

    /// The descriptor to watch for being readable.
    fn fileno(&self) -> PyResult<i32> {
        let found = self.queue.descriptor();
        found.ok_or_else(|| PyOSError::new_err("there is no descriptor to watch"))
    }

    /// Delivers what came in, and lets the loop go on in between if it is much.
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

    /// Resumes the call that waits under this key, if one does: its time is over.
    fn wake(&self, py: Python<'_>, key: u64) {
        self.deliver(py, Item::Waiter(key));
    }

    /// Futures that somebody waits for, and calls that wait.
    fn __len__(&self) -> usize {
        let tables = locked(&self.tables);
        let callbacks = tables.batches.values().map(|batch| batch.callbacks.len());
        callbacks.sum::<usize>() + tables.columns.len() + tables.waiters.len()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.event_loop)?;
        if let Ok(tables) = self.tables.try_lock() {
            for batch in tables.batches.values() {
                for callback in &batch.callbacks {
                    visit.call(&callback.future)?;
                    visit.call(&callback.function)?;
                    visit.call(&callback.context)?;
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

    /// The outcome of a record whose batch is done.
    pub(crate) fn outcome_of<'py>(&self, py: Python<'py>, sent: &Sent) -> PyResult<Outcome<'py>> {
        let completion = &sent.completion;
        let outcome = completion.outcome(sent.index);
        let written = match outcome.expect("asked for once it is done") {
            Ok(written) => written,
            Err(error) => return errors::producer(py, &error).map(Err),
        };
        let (topic, partition) = (completion.topic(), completion.partition());
        // Taken out meanwhile: what is made could have the interpreter collect cycles, and run code
        // that asks another future.
        let known = locked(&self.metadata).take();
        let mut metadata = match known {
            Some(known) if known.1 == partition && known.0 == *topic => known.2,
            _ => RecordMetadataOf::new(py, topic, partition)?,
        };
        let timestamp_ms = written.log_append_time_ms.unwrap_or(sent.timestamp_ms);
        let made = metadata.make(py, written.offset, timestamp_ms, sent.sizes)?;
        let before = locked(&self.metadata).replace((topic.clone(), partition, metadata));
        drop(before);
        Ok(Ok(made))
    }

    /// Calls back once the record's batch is done: soon, if it is.
    pub(crate) fn call_when_done(
        &self,
        py: Python<'_>,
        sent: &Sent,
        callback: Callback,
    ) -> PyResult<()> {
        let mut tables = locked(&self.tables);
        if let Some(batch) = self.waiting(&mut tables, sent) {
            batch.callbacks.push(callback);
            return Ok(());
        }
        drop(tables);
        self.call_soon(py, &callback)
    }

    pub(crate) fn call_soon(&self, py: Python<'_>, callback: &Callback) -> PyResult<()> {
        let kwargs = PyDict::new(py);
        kwargs.set_item(intern!(py, "context"), &callback.context)?;
        let arguments = (&callback.function, &callback.future);
        let event_loop = self.event_loop.bind(py);
        event_loop.call_method(intern!(py, "call_soon"), arguments, Some(&kwargs))?;
        Ok(())
    }

    /// Calls all back now that wait for this future.
    pub(crate) fn call_all_of(&self, py: Python<'_>, sent: &Sent, future: &Bound<'_, PyAny>) {
        let mut tables = locked(&self.tables);
        let of = |callback: &mut Callback| callback.future.is(future);
        let called: Vec<Callback> = match tables.batches.get_mut(&key_of(sent)) {
            Some(batch) => batch.callbacks.extract_if(.., of).collect(),
            None => return,
        };
        drop(tables);
        for callback in called {
            self.call_or_tell(py, &callback);
        }
    }

    /// Takes a function back; how often it was there.
    pub(crate) fn forget_callback(
        &self,
        sent: &Sent,
        future: &Bound<'_, PyAny>,
        function: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let mut tables = locked(&self.tables);
        let Some(batch) = tables.batches.get_mut(&key_of(sent)) else {
            return Ok(0);
        };
        let of = |callback: &mut Callback| callback.future.is(future);
        let mut kept: Vec<Callback> = batch.callbacks.extract_if(.., of).collect();
        drop(tables);
        // Comparing and dropping may run Python code, so not under the lock.
        let before = kept.len();
        let mut error = None;
        kept.retain(|callback| match function.eq(&callback.function) {
            Ok(equal) => !equal,
            Err(raised) => {
                error = Some(raised);
                true
            }
        });
        let removed = before - kept.len();
        for callback in kept {
            self.call_when_done(future.py(), sent, callback)?;
        }
        error.map_or(Ok(removed), Err)
    }

    /// The future of a record is gone before its batch is done: should it fail, somebody is told.
    pub(crate) fn watch(&self, sent: &Sent) {
        let mut tables = locked(&self.tables);
        if let Some(batch) = self.waiting(&mut tables, sent) {
            batch.unwatched.push(sent.index);
        }
    }

    /// The entry of a record's batch; `None` if it is done.
    fn waiting<'a>(&self, tables: &'a mut Tables, sent: &Sent) -> Option<&'a mut Waiting> {
        let key = key_of(sent);
        match tables.batches.entry(key) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(free) => {
                if !sent
                    .completion
                    .register(&self.queue.waker(Item::Batch(key)))
                {
                    return None;
                }
                Some(free.insert(Waiting {
                    completion: Arc::clone(&sent.completion),
                    callbacks: Vec::new(),
                    unwatched: Vec::new(),
                }))
            }
        }
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
        (key, self.queue.waker(Item::Waiter(key)))
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
                batch.map_or(0, |batch| self.deliver_batch(py, &batch))
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

    /// Calls back who waits for records of a done batch; how many.
    fn deliver_batch(&self, py: Python<'_>, batch: &Waiting) -> usize {
        for callback in &batch.callbacks {
            // Of a cancelled one all were called.
            self.call_or_tell(py, callback);
        }
        let completion = &batch.completion;
        let outcomes = batch.unwatched.iter().map(|&at| completion.outcome(at));
        let mut failed = outcomes.filter_map(|outcome| outcome?.err());
        if let Some(error) = failed.next() {
            let count = 1 + failed.count();
            match errors::producer(py, &error) {
                Ok(error) => tell_lost(py, self.event_loop.bind(py), count, &error),
                Err(error) => callbacks::report(py, "outcome of a record", error),
            }
        }
        batch.callbacks.len()
    }

    fn call_or_tell(&self, py: Python<'_>, callback: &Callback) {
        if let Err(error) = self.call_soon(py, callback) {
            undelivered(py, &error);
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

/// Of the entry of a record's batch: the address of the completion, which the entry keeps alive.
fn key_of(sent: &Sent) -> usize {
    Arc::as_ptr(&sent.completion) as usize
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
