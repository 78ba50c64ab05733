//! `AsyncConsumer`: the calls of a `Consumer` that wait, as coroutines of one event loop.
//!
//! ```text
//! getone() ──▶ look (coordinator's work, drain) ── found ──▶ the record
//!                ▲    └─ nothing: the task sleeps
//!                └────── woken by the fetcher, by a response, or when coordinator work is due
//! ```
//! Calls that never wait (assign, seek, pause) are methods of the consumer itself.

mod operations;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Instant;

use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{IntoPyObjectExt, PyTraverseError};
use thalweg_columns::TableLimits;
use thalweg_consumer::{Consumer as ConsumerCore, PollBegan, TopicPartition};
use thalweg_network::consumer::Caller;

use crate::asyncio::completions::Completions;
use crate::asyncio::coroutine::ConsumerCoroutine;
use crate::client::PendingRequest;
use crate::consuming::arguments::{Pair, partition_of, partitions_of, table_limits};
use crate::consuming::consumer::Consumer;
use crate::consuming::lookups::{Target, look_up};
use crate::consuming::opening;
use crate::consuming::polling::{Look, Offered, OpenConsumer, PollState, no_columns};
use crate::convert::errors;
use crate::convert::tables::RecordTable;
use crate::interpreter::gil;
use crate::operation::{PyOperation, is_over};

use operations::{AwaitingResponse, Listing, Opening, Stopping};

static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The maximum number of records that interceptors remove in one look. A call may look twice before
/// other tasks get a turn.
const REMOVED_MAX: usize = 500;

/// The waiting calls of a consumer for one event loop.
///
/// Each returns a `ConsumerCoroutine`. Several calls may wait at the same time. A poll that is
/// cancelled while it waits loses no record. After the close, calls raise `ConsumerStoppedError`.
#[pyclass(generic, frozen, module = "thalweg._core")]
pub(crate) struct AsyncConsumer {
    consumer: Py<Consumer>,
    completions: Py<Completions>,
}

#[pymethods]
impl AsyncConsumer {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.consumer)?;
        visit.call(&self.completions)
    }

    #[new]
    fn new(consumer: Py<Consumer>, completions: Py<Completions>) -> Self {
        Self {
            consumer,
            completions,
        }
    }

    /// Opens the consumer, as `Consumer._open`.
    ///
    /// After a failure or cancellation, call it again.
    #[pyo3(signature = (config, hooks = None))]
    fn open(
        &self,
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        hooks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ConsumerCoroutine> {
        let (core, timeout) = opening::start(py, config, hooks)?;
        let opening = Opening {
            consumer: self.consumer.clone_ref(py),
            bootstrap: core.client.view().bootstrap(timeout),
            core: Some(core),
        };
        Ok(self.coroutine(py, opening))
    }

    /// Waits for the next record. With `iterating`, a stopped consumer ends the iteration.
    ///
    /// It returns only records of these partitions. Without any, it returns records of all assigned
    /// partitions. The iteration ends with `StopAsyncIteration`.
    #[pyo3(signature = (partitions = Vec::new(), iterating = false))]
    fn getone(&self, py: Python<'_>, partitions: Vec<Pair>, iterating: bool) -> ConsumerCoroutine {
        let only = partitions_of(partitions);
        self.poll(py, What::One { only, iterating }, None)
    }

    /// Returns records, as `Consumer.poll`.
    ///
    /// If there are no records, other tasks still get at least one turn.
    #[pyo3(signature = (partitions, timeout_ms, max_records = None))]
    fn getmany(
        &self,
        py: Python<'_>,
        partitions: Vec<Pair>,
        timeout_ms: Option<f64>,
        max_records: Option<usize>,
    ) -> ConsumerCoroutine {
        let only = partitions_of(partitions);
        let what = What::Many { only, max_records };
        self.poll(py, what, gil::deadline_ms(timeout_ms))
    }

    /// Returns the buffered records as a `RecordTable`, as `Consumer.poll_arrow`.
    #[pyo3(signature = (timeout_ms, max_records = None, max_bytes = None))]
    fn poll_arrow(
        &self,
        py: Python<'_>,
        timeout_ms: Option<f64>,
        max_records: Option<usize>,
        max_bytes: Option<usize>,
    ) -> PyResult<ConsumerCoroutine> {
        let core = self.consumer.get().core(py)?;
        let what = What::Columns(table_limits(core, max_records, max_bytes)?);
        Ok(self.poll(py, what, gil::deadline_ms(timeout_ms)))
    }

    /// Returns the position, as `Consumer.position`.
    fn position(
        &self,
        py: Python<'_>,
        partition: Pair,
        timeout_ms: Option<f64>,
    ) -> ConsumerCoroutine {
        let what = What::Position(partition_of(partition));
        self.poll(py, what, gil::deadline_ms(timeout_ms))
    }

    /// Runs the coordinator's work until `condition()` is true.
    ///
    /// Returns False if the time was over first.
    fn until(
        &self,
        py: Python<'_>,
        condition: Py<PyAny>,
        timeout_ms: Option<f64>,
    ) -> ConsumerCoroutine {
        self.poll(py, What::Until(condition), gil::deadline_ms(timeout_ms))
    }

    /// Looks up offsets by timestamp, as `Consumer._list_offsets`.
    fn _list_offsets(
        &self,
        py: Python<'_>,
        targets: Vec<Target>,
        timeout_ms: Option<f64>,
    ) -> PyResult<ConsumerCoroutine> {
        let core = self.consumer.get().core(py)?;
        let listing = Listing(look_up(core, targets, timeout_ms)?);
        Ok(self.coroutine(py, listing))
    }

    /// Waits for the response to a request. Raises the errors of `PendingRequest.result`.
    #[pyo3(signature = (request, timeout_ms = None))]
    fn result(
        &self,
        py: Python<'_>,
        request: &Bound<'_, PendingRequest>,
        timeout_ms: Option<f64>,
    ) -> ConsumerCoroutine {
        self.coroutine(
            py,
            AwaitingResponse(request.get().response_wait(timeout_ms)),
        )
    }

    /// Closes the connections within `timeout` seconds.
    ///
    /// It works as `Consumer._shutdown`. If it is cancelled, closing continues in the background.
    fn close(&self, py: Python<'_>, timeout: f64) -> ConsumerCoroutine {
        let limit = gil::limit_seconds(Some(timeout));
        let opened = self.consumer.get().opened();
        let close = opened.map(|core| core.client.view().close(limit));
        self.coroutine(py, Stopping(close))
    }
}

impl AsyncConsumer {
    fn coroutine(
        &self,
        py: Python<'_>,
        operation: impl PyOperation<Output = Py<PyAny>> + Send + Sync + 'static,
    ) -> ConsumerCoroutine {
        ConsumerCoroutine::new(self.completions.clone_ref(py), operation)
    }

    fn poll(&self, py: Python<'_>, what: What, deadline: Option<Instant>) -> ConsumerCoroutine {
        let polling = Polling {
            consumer: self.consumer.clone_ref(py),
            what,
            limit: deadline,
            until: None,
            number: None,
            began: None,
            had_turn: false,
            found: false,
        };
        self.coroutine(py, polling)
    }
}

/// What a poll waits for.
enum What {
    One {
        only: Vec<TopicPartition>,
        iterating: bool,
    },
    Many {
        only: Vec<TopicPartition>,
        max_records: Option<usize>,
    },
    Columns(TableLimits),
    Position(TopicPartition),
    /// Until a Python function returns true.
    Until(Py<PyAny>),
}

impl What {
    fn take(
        &self,
        py: Python<'_>,
        core: &OpenConsumer,
        state: &mut PollState,
        gives_turn: &Cell<bool>,
    ) -> PyResult<Option<Py<PyAny>>> {
        match self {
            Self::One { .. } if gives_turn.get() => Ok(None),
            Self::One { only, .. } => {
                for _ in 0..REMOVED_MAX {
                    match core.take_one(py, state, only)? {
                        Some(Offered::Record(record)) => return Ok(Some(record.unbind())),
                        Some(Offered::Kept) => {}
                        None => return Ok(None),
                    }
                }
                gives_turn.set(true);
                Ok(None)
            }
            Self::Many { only, max_records } => {
                let most = max_records.unwrap_or(core.max_poll_records);
                let Some(records) = core.drain(py, state, only, most)? else {
                    return Ok(None);
                };
                Ok(Some(core.consumed(py, records)?.into_any().unbind()))
            }
            Self::Columns(limits) => match core.take_columns(py, state, *limits)? {
                Some(table) => RecordTable::new(table).into_py_any(py).map(Some),
                None => Ok(None),
            },
            Self::Position(partition) => core
                .found_position(py, partition)?
                .map(|offset| offset.into_py_any(py))
                .transpose(),
            Self::Until(condition) => {
                let holds = condition.call0(py)?.is_truthy(py)?;
                holds.then(|| true.into_py_any(py)).transpose()
            }
        }
    }

    /// Whether the metrics count it as a poll.
    fn counts(&self, core: &OpenConsumer) -> bool {
        match self {
            Self::One { .. } => core.counts_step(),
            Self::Many { .. } | Self::Columns(_) => true,
            Self::Position(_) | Self::Until(_) => false,
        }
    }

    /// Returns the result when the time is over.
    fn nothing(&self, py: Python<'_>, core: &OpenConsumer) -> PyResult<Py<PyAny>> {
        match self {
            Self::One { .. } => Ok(py.None()),
            Self::Many { .. } => Ok(PyDict::new(py).into_any().unbind()),
            Self::Columns(_) => RecordTable::new(no_columns()).into_py_any(py),
            Self::Position(partition) => Err(core.position_timeout(py, partition)),
            Self::Until(_) => false.into_py_any(py),
        }
    }
}

/// A poll that a task awaits.
struct Polling {
    consumer: Py<Consumer>,
    what: What,
    limit: Option<Instant>,
    /// When to check again at the latest.
    until: Option<Instant>,
    /// Its number among the sleepers, once it sleeps.
    number: Option<u64>,
    /// Its entry in the metrics, if it is one of Kafka's polls.
    began: Option<PollBegan>,
    had_turn: bool,
    found: bool,
}

impl Polling {
    /// Returns the core, or an error if the poll cannot continue, for example after a stop.
    fn core<'a>(
        consumer: &'a Py<Consumer>,
        what: &What,
        py: Python<'_>,
    ) -> PyResult<&'a OpenConsumer> {
        let consumer = consumer.get();
        let core = consumer.core(py);
        core.map_err(|error| Self::explained(consumer, what, py, error))
    }

    /// Returns the error to raise instead, if the consumer was stopped.
    fn explained(consumer: &Consumer, what: &What, py: Python<'_>, error: PyErr) -> PyErr {
        match what {
            _ if !consumer.is_closed() => error,
            What::One {
                iterating: true, ..
            } => PyStopAsyncIteration::new_err(()),
            _ => errors::raise(py, "ConsumerStoppedError", "the consumer was stopped"),
        }
    }

    /// Checks once what is available. A stop during the check is reported as one before it.
    fn look(&mut self, py: Python<'_>, core: &OpenConsumer) -> PyResult<Option<Py<PyAny>>> {
        self.look_at(py, core).map_err(|error| {
            if errors::is_illegal_state(py, &error) {
                Self::explained(self.consumer.get(), &self.what, py, error)
            } else {
                error
            }
        })
    }

    fn look_at(&mut self, py: Python<'_>, core: &OpenConsumer) -> PyResult<Option<Py<PyAny>>> {
        let what = &self.what;
        let caller = match what {
            What::Position(_) => Caller::Other,
            _ => Caller::Poll,
        };
        let _using = core.usage.enter(py)?;
        let state = core.enter(py)?;
        let gives_turn = Cell::new(false);
        let mut take = |state: &mut PollState| what.take(py, core, state, &gives_turn);
        let register = |consumer: &ConsumerCore| consumer.register(core.sleepers.waker());
        match core.look(py, state, self.limit, caller, register, &mut take)? {
            Look::Found(found) => {
                self.found = true;
                Ok(Some(found))
            }
            Look::Nothing { until, .. } => {
                self.until = if gives_turn.get() {
                    Some(Instant::now())
                } else {
                    until
                };
                Ok(None)
            }
        }
    }

    fn sleeps(&mut self, core: &OpenConsumer, waker: &Waker) {
        let number = *self
            .number
            .get_or_insert_with(|| NUMBERS.fetch_add(1, Ordering::Relaxed));
        core.sleepers.add(number, waker);
        core.client.poll_watch().begin();
    }
}

impl PyOperation for Polling {
    type Output = Py<PyAny>;

    fn check(&self, py: Python<'_>) -> PyResult<()> {
        Self::core(&self.consumer, &self.what, py).map(drop)
    }

    fn attempt(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let consumer = self.consumer.clone_ref(py);
        let core = Self::core(&consumer, &self.what, py)?;
        if let What::Position(partition) = &self.what
            && let Some(known) = core.known_position(py, partition)?
        {
            self.found = true;
            return known.into_py_any(py).map(Some);
        }
        if self.what.counts(core) {
            self.began = Some(core.client.poll_began());
        }
        // While another task sleeps in a poll, that poll already counts as time inside.
        let alone = core.sleepers.is_empty();
        let _polling = alone.then(|| core.client.poll_watch().enter());
        self.look(py, core)
    }

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Py<PyAny>>> {
        let consumer = self.consumer.clone_ref(py);
        let core = Self::core(&consumer, &self.what, py)?;
        self.sleeps(core, waker);
        let found = self.look(py, core)?;
        // The loop gets at least one turn before the result says that there is nothing: another
        // task may do what this one waits for.
        let had_turn = std::mem::replace(&mut self.had_turn, true);
        if found.is_none() && had_turn && is_over(self.limit) {
            return self.what.nothing(py, core).map(Some);
        }
        Ok(found)
    }

    fn deadline(&self) -> Option<Instant> {
        self.until
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.consumer)?;
        match &self.what {
            What::Until(condition) => visit.call(condition),
            _ => Ok(()),
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        let Some(core) = self.consumer.get().opened() else {
            return;
        };
        if let Some(began) = self.began {
            core.client.poll_ended(began);
        }
        if !self.found {
            core.count_next_step();
        }
        let Some(number) = self.number else {
            return;
        };
        if core.client.view().is_inherited() {
            return; // in a child the lock may be held by a thread that does not exist
        }
        let others = core.sleepers.remove(number);
        if !others {
            core.client.poll_watch().end();
        }
    }
}
