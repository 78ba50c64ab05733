//! The awaited records of one event loop, by batch, and the results of their futures.
//!
//! ```text
//! a turn of the loop: task 1 sends, waits ─ task 2 sends, waits ─ ... ─ `Hasten`: the batches go
//! ```
//! A batch that a task waits for does not linger. But it leaves only at the end of the loop's
//! turn, because other ready tasks may have records for it. So many tasks that each wait for their
//! own record share batches, and a single task waits no longer than necessary.
//!
//! The loop's `Completions` and its `RecordFuture`s share this. The cycle collector sees the
//! Python references in here through the `Completions`. It does not follow a future, so a future
//! has no other references, except a weak one to the loop. No Python code runs, and no object is
//! dropped, under a lock.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

use pyo3::PyTraverseError;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyWeakrefMethods, PyWeakrefReference};
use thalweg_network::Generation;
use thalweg_producer::BatchCompletion;
use thalweg_protocol::Str;

use crate::asyncio::completions::undelivered;
use crate::asyncio::loop_queue::{Item, Queue};
use crate::asyncio::record_future::RecordFuture;
use crate::convert::errors;
use crate::convert::types::RecordMetadataOf;
use crate::interpreter::callbacks::locked;
use crate::interpreter::failures;
use crate::producing::futures::{Awaited, Outcome, SentRecord};

/// A function to call with a future that is done.
pub(crate) struct Callback {
    pub(crate) future: Py<RecordFuture>,
    pub(crate) function: Py<PyAny>,
    pub(crate) context: Py<PyAny>,
}

/// The waits for records of one batch.
struct Waiting {
    completion: Arc<BatchCompletion>,
    callbacks: Vec<Callback>,
    /// The batch is in `hurried`, and leaves after the turn.
    is_hurried: bool,
    /// Records whose futures were dropped. If they fail, the loop gets the error.
    unwatched: Vec<u32>,
}

pub(crate) struct RecordWaits {
    queue: Arc<Queue>,
    event_loop: Py<PyWeakrefReference>,
    generation: Generation,
    /// The key is the address of the completion, which the entry keeps alive.
    batches: Mutex<BTreeMap<usize, Waiting>>,
    /// Lingering batches that a task waits for, until the end of the loop's turn.
    hurried: Mutex<Vec<Arc<BatchCompletion>>>,
    /// The shared metadata of a partition's records: futures are usually read batch after batch.
    metadata: Mutex<Option<(Str, i32, RecordMetadataOf)>>,
}

/// Returns the key of a record's batch.
fn key_of(sent: &SentRecord) -> usize {
    Arc::as_ptr(&sent.completion) as usize
}

impl RecordWaits {
    pub(crate) fn new(event_loop: &Bound<'_, PyAny>, queue: Arc<Queue>) -> PyResult<Self> {
        Ok(Self {
            queue,
            event_loop: PyWeakrefReference::new(event_loop)?.unbind(),
            generation: Generation::current(),
            batches: Mutex::default(),
            hurried: Mutex::default(),
            metadata: Mutex::default(),
        })
    }

    /// Whether the process was forked since. In a child, threads that do not exist may hold the
    /// locks.
    pub(crate) fn is_inherited(&self) -> bool {
        self.generation.is_inherited()
    }

    pub(crate) fn event_loop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let found = self.event_loop.bind(py).upgrade();
        found.ok_or_else(|| PyRuntimeError::new_err("the event loop of this future is gone"))
    }

    /// Returns the number of waiting callbacks.
    pub(crate) fn len(&self) -> usize {
        let batches = locked(&self.batches);
        batches.values().map(|batch| batch.callbacks.len()).sum()
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(batches) = self.batches.try_lock() {
            for callback in batches.values().flat_map(|batch| &batch.callbacks) {
                visit.call(&callback.future)?;
                visit.call(&callback.function)?;
                visit.call(&callback.context)?;
            }
        }
        Ok(())
    }

    pub(crate) fn clear(&self) {
        let batches = std::mem::take(&mut *locked(&self.batches));
        drop(batches);
    }

    /// Returns the result of a record whose batch is done.
    pub(crate) fn outcome_of<'py>(
        &self,
        py: Python<'py>,
        sent: &SentRecord,
    ) -> PyResult<Outcome<'py>> {
        if self.is_inherited() {
            return sent.outcome(py);
        }
        let completion = &sent.completion;
        let outcome = completion.outcome(sent.index);
        let written = match outcome.expect("asked for once it is done") {
            Ok(written) => written,
            Err(error) => return errors::producer(py, &error).map(Err),
        };
        let (topic, partition) = (completion.topic(), completion.partition());
        // Taken out during the call, because creating objects may start a collection, which may
        // run code that asks another future.
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

    /// Calls back once the record's batch is done. If it is done already, the call comes after
    /// those that waited before, because they may not have been called yet.
    pub(crate) fn call_when_done(
        self: &Arc<Self>,
        py: Python<'_>,
        sent: &SentRecord,
        callback: Callback,
    ) -> PyResult<()> {
        let mut batches = locked(&self.batches);
        if let Some(batch) = self.waiting(&mut batches, sent) {
            batch.callbacks.push(callback);
            let lingers = sent.completion.is_lingering();
            let first = lingers && !std::mem::replace(&mut batch.is_hurried, true);
            drop(batches);
            if first {
                self.hasten_after_turn(py, &sent.completion);
            }
            return Ok(());
        }
        drop(batches);
        self.call_soon(py, &callback)
    }

    /// Sends the batch once the tasks that are ready now have had their turn.
    pub(crate) fn hasten_after_turn(
        self: &Arc<Self>,
        py: Python<'_>,
        completion: &Arc<BatchCompletion>,
    ) {
        let mut hurried = locked(&self.hurried);
        let first = hurried.is_empty();
        hurried.push(Arc::clone(completion));
        drop(hurried);
        if !first {
            return;
        }
        let call = || {
            let hasten = Bound::new(py, Hasten(Arc::clone(self)))?;
            let event_loop = self.event_loop(py)?;
            event_loop.call_method1(intern!(py, "call_soon"), (hasten,))
        };
        if call().is_err() {
            // A closed loop has no more turns, so hasten the batches now.
            self.hasten();
        }
    }

    fn hasten(&self) {
        let hurried = std::mem::take(&mut *locked(&self.hurried));
        for completion in hurried {
            completion.hasten();
        }
    }

    pub(crate) fn call_soon(&self, py: Python<'_>, callback: &Callback) -> PyResult<()> {
        let kwargs = PyDict::new(py);
        kwargs.set_item(intern!(py, "context"), &callback.context)?;
        let arguments = (&callback.function, &callback.future);
        let event_loop = self.event_loop(py)?;
        event_loop.call_method(intern!(py, "call_soon"), arguments, Some(&kwargs))?;
        Ok(())
    }

    /// Makes all calls that wait for this future, now.
    pub(crate) fn call_all_of(&self, py: Python<'_>, sent: &SentRecord, future: &Bound<'_, PyAny>) {
        for callback in self.taken(sent, future) {
            self.call_or_tell(py, &callback);
        }
    }

    /// Removes a callback, and returns how often it was there.
    pub(crate) fn forget_callback(
        self: &Arc<Self>,
        sent: &SentRecord,
        future: &Bound<'_, PyAny>,
        function: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let mut kept = self.taken(sent, future);
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

    /// Takes the callbacks of a future out of the table.
    fn taken(&self, sent: &SentRecord, future: &Bound<'_, PyAny>) -> Vec<Callback> {
        let of = |callback: &mut Callback| callback.future.is(future);
        match locked(&self.batches).get_mut(&key_of(sent)) {
            Some(batch) => batch.callbacks.extract_if(.., of).collect(),
            None => Vec::new(),
        }
    }

    /// Notes that a future was dropped before its batch is done, so that the loop gets its error.
    pub(crate) fn watch(&self, sent: &SentRecord) {
        let mut batches = locked(&self.batches);
        if let Some(batch) = self.waiting(&mut batches, sent) {
            batch.unwatched.push(sent.index);
        }
    }

    /// Returns the entry of a record's batch, or `None` if it is done and all calls were made.
    fn waiting<'a>(
        &self,
        batches: &'a mut BTreeMap<usize, Waiting>,
        sent: &SentRecord,
    ) -> Option<&'a mut Waiting> {
        let key = key_of(sent);
        match batches.entry(key) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(free) => {
                let waker = self.queue.waker(Item::Batch(key));
                if !sent.completion.register(&waker) {
                    return None;
                }
                Some(free.insert(Waiting {
                    completion: Arc::clone(&sent.completion),
                    callbacks: Vec::new(),
                    is_hurried: false,
                    unwatched: Vec::new(),
                }))
            }
        }
    }

    /// Handles a batch that has rung. Returns the amount of work done.
    pub(crate) fn deliver(&self, py: Python<'_>, key: usize) -> usize {
        let mut batches = locked(&self.batches);
        // A late ring for an address that another batch has now says nothing about that batch.
        let done = |batch: &Waiting| batch.completion.is_done();
        let batch = match batches.get(&key) {
            Some(batch) if done(batch) => batches.remove(&key),
            _ => None,
        };
        drop(batches);
        let Some(batch) = batch else { return 0 };
        for callback in &batch.callbacks {
            failures::caught(py, || self.call_or_tell(py, callback));
        }
        self.tell_unwatched(py, &batch);
        batch.callbacks.len()
    }

    fn tell_unwatched(&self, py: Python<'_>, batch: &Waiting) {
        if all_written(&batch.completion) {
            return;
        }
        let outcomes = batch.unwatched.iter();
        let mut failed = outcomes.filter_map(|&at| batch.completion.outcome(at)?.err());
        if let Some(error) = failed.next() {
            let count = 1 + failed.count();
            match errors::producer(py, &error) {
                Ok(error) => self.tell_lost(py, count, &error),
                Err(error) => failures::report(py, "outcome of a record", error),
            }
        }
    }

    fn call_or_tell(&self, py: Python<'_>, callback: &Callback) {
        if let Err(error) = self.call_soon(py, callback) {
            undelivered(py, &error);
        }
    }

    /// Reports errors as asyncio does with an exception that was never retrieved.
    pub(crate) fn tell_lost(&self, py: Python<'_>, count: usize, error: &Bound<'_, PyAny>) {
        let text = match count {
            1 => "a record was not written, and its error was never retrieved".to_owned(),
            _ => format!("{count} records were not written, and their errors were never retrieved"),
        };
        let tell = || {
            let context = PyDict::new(py);
            context.set_item("message", text)?;
            context.set_item("exception", error)?;
            let event_loop = self.event_loop(py)?;
            event_loop.call_method1("call_exception_handler", (context,))
        };
        if let Err(error) = tell() {
            failures::report(py, "exception handler of an event loop", error);
        }
    }
}

/// A callback that a loop calls after a turn in which a task began to wait.
#[pyclass(frozen)]
struct Hasten(Arc<RecordWaits>);

#[pymethods]
impl Hasten {
    fn __call__(&self) {
        self.0.hasten();
    }
}

/// Whether the batch is done and nothing of it failed.
pub(crate) fn all_written(completion: &BatchCompletion) -> bool {
    let pieces = completion.pieces();
    pieces.is_some_and(|pieces| pieces.iter().all(|piece| piece.result.is_ok()))
}
