//! The polling half of a consumer: hooks, checks, waits. [`taking`] takes records out of the
//! buffer, [`iteration`] has the steps of an iteration.
//!
//! ```text
//! loop: before_poll hook if due -> register the waker -> take -> wait until woken or due
//! ```
//! The network crate says when the hook is due. The loop itself is here, because nearly every step
//! of it may run Python code: the hook, the deserializers, the interceptors.

mod iteration;
mod taking;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use thalweg_columns::TableLimits;
use thalweg_consumer::{Consumer as ConsumerCore, TopicPartition};
use thalweg_network::ClientError;
use thalweg_network::consumer::{Caller, ConsumerClient, GroupWork};
use thalweg_network::wait::ThreadWait;

use crate::consuming::sleepers::Sleepers;
use crate::consuming::usage::{Usage, used_elsewhere};
use crate::convert::sink::{Deserializers, RecordMaker};
use crate::convert::{errors, types};
use crate::interpreter::foreign::Foreign;
use crate::interpreter::gil;
use crate::operation::is_over;

use taking::Columns;
pub(crate) use taking::{Offered, no_columns};

/// The Python objects of a consumer.
pub(crate) struct ConsumerHooks {
    pub(crate) deserializers: Deserializers,
    pub(crate) before_poll: Option<Py<PyAny>>,
    pub(crate) on_consume: Option<Py<PyAny>>,
}

impl ConsumerHooks {
    pub(crate) fn new(hooks: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let read = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let Some(hooks) = hooks else { return Ok(None) };
            let hook = hooks.getattr(name)?;
            Ok((!hook.is_none()).then(|| hook.unbind()))
        };
        Ok(Self {
            deserializers: Deserializers {
                key: read("deserialize_key")?,
                value: read("deserialize_value")?,
            },
            before_poll: read("before_poll")?,
            on_consume: read("on_consume")?,
        })
    }

    /// Shows the hooks to the garbage collector: listeners, deserializers and interceptors often
    /// refer to their consumer, which forms a cycle.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(self.before_poll.as_ref())?;
        visit.call(self.on_consume.as_ref())?;
        visit.call(self.deserializers.key.as_ref())?;
        visit.call(self.deserializers.value.as_ref())
    }

    /// Whether application code sees each record before it is returned.
    fn see_records(&self) -> bool {
        self.deserializers.any() || self.on_consume.is_some()
    }
}

/// State that only the polling thread uses.
pub(crate) struct PollState {
    maker: RecordMaker,
    arrow: Option<Columns>,
    /// The error that ended a drain after it had returned records. The next poll raises it.
    failure: Option<PyErr>,
    work: GroupWork,
}

impl PollState {
    /// Returns what was taken. If it is an error, the next call of either kind does all
    /// coordinator work again, including committed offsets.
    fn taken<T>(
        &mut self,
        take: &mut impl FnMut(&mut Self) -> PyResult<Option<T>>,
    ) -> PyResult<Option<T>> {
        let taken = take(self);
        if taken.is_err() {
            self.work.restart();
        }
        taken
    }
}

/// The result of one check.
pub(crate) enum Look<'a, T> {
    Found(T),
    /// Nothing yet. Check again when woken, and at the given time.
    Nothing {
        state: MutexGuard<'a, PollState>,
        until: Option<Instant>,
    },
}

/// The core of an opened consumer.
pub(crate) struct OpenConsumer {
    pub(crate) client: Arc<ConsumerClient>,
    pub(crate) hooks: ConsumerHooks,
    pub(crate) max_poll_records: usize,
    pub(crate) poll_arrow_max_bytes: usize,
    pub(crate) consumer_timeout: Option<Duration>,
    state: Mutex<PollState>,
    woken: AtomicBool,
    /// The thread that polls, commits or seeks.
    pub(crate) usage: Usage,
    /// Calls of asyncio that sleep until something is available.
    pub(crate) sleepers: Sleepers,
    /// Set when a batch ended or there was no record: the next step of an iteration counts as a
    /// poll.
    step_counts: AtomicBool,
    /// Set while the driver waits for a commit or an asyncio listener that precedes a revocation.
    /// No records are returned, so that positions stay as they were committed. It is not a pause of
    /// the core: pauses belong to the application, and would stop the fetches, too. It is not in
    /// `state`, because the driver sets it from its hook and from tasks, which do not lock the
    /// state.
    held: AtomicBool,
}

impl OpenConsumer {
    pub(crate) fn new(
        client: Arc<ConsumerClient>,
        hooks: ConsumerHooks,
        max_poll_records: usize,
        poll_arrow_max_bytes: usize,
        consumer_timeout: Option<Duration>,
    ) -> Self {
        let state = PollState {
            maker: RecordMaker::default(),
            arrow: None,
            failure: None,
            work: GroupWork::default(),
        };
        Self {
            client,
            hooks,
            max_poll_records,
            poll_arrow_max_bytes,
            consumer_timeout,
            state: Mutex::new(state),
            woken: AtomicBool::new(false),
            usage: Usage::default(),
            sleepers: Sleepers::default(),
            step_counts: AtomicBool::new(true),
            held: AtomicBool::new(false),
        }
    }

    pub(crate) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn consumer(&self) -> &Arc<ConsumerCore> {
        self.client.consumer()
    }

    /// Locks the polling thread's state. A second thread gets an error at once.
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, PollState>> {
        match self.state.try_lock() {
            Ok(state) => Ok(state),
            Err(TryLockError::Poisoned(state)) => Ok(state.into_inner()),
            Err(TryLockError::WouldBlock) => Err(used_elsewhere(py)),
        }
    }

    /// Begins a use for a Python call, which must end it. No other thread can poll, commit or seek
    /// until then.
    pub(crate) fn begin_use(&self, py: Python<'_>) -> PyResult<()> {
        self.usage.begin(py)?;
        // The fast step of an iteration does not enter the usage. It has finished, or it holds the
        // lock now.
        match self.state.try_lock() {
            Err(TryLockError::WouldBlock) if self.usage.is_outermost() => {
                self.usage.end();
                Err(used_elsewhere(py))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn wakeup(&self) {
        self.woken.store(true, Ordering::Release);
        self.consumer().wake();
    }

    /// Raises the errors that end any waiting call.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.client
            .view()
            .check()
            .map_err(|error| errors::client(py, &error))?;
        // Each step of an iteration comes here, and a plain load is nearly always enough.
        if self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::AcqRel) {
            return Err(errors::raise(py, "WakeupError", "wakeup() was called"));
        }
        Ok(())
    }

    /// Whether something was reported to the coordinator since its work was last started.
    fn has_news(&self, work: &GroupWork, caller: Caller) -> bool {
        self.hooks.before_poll.is_some() && work.has_news(caller, self.client.reentries())
    }

    /// Runs the coordinator's work if it is due. The state is unlocked during the work, because
    /// the hook may assign, seek and pause.
    fn before_poll<'a>(
        &'a self,
        py: Python<'_>,
        state: MutexGuard<'a, PollState>,
        deadline: Option<Instant>,
        caller: Caller,
    ) -> PyResult<MutexGuard<'a, PollState>> {
        let Some(hook) = &self.hooks.before_poll else {
            return Ok(state);
        };
        let seen = self.client.reentries();
        if !state.work.is_due(caller, seen, Instant::now) {
            return Ok(state);
        }
        drop(state);
        let left_ms = gil::left(deadline).map(|left| left.as_millis() as u64);
        let next: Option<f64> = {
            let _foreign = Foreign::begin(py)?;
            let polls = caller == Caller::Poll;
            hook.bind(py).call1((left_ms, polls))?.extract()?
        };
        let mut state = self.enter(py)?;
        state.work.done(caller, seen, gil::deadline_ms(next));
        Ok(state)
    }

    /// Checks once: raises errors that end the call, does coordinator work if it is due, and then
    /// calls `take`. If nothing is found, the waker of `register` is woken by the next change
    /// worth a check.
    ///
    /// Unless the caller polls, no records are committed, and no listener is called. The next poll
    /// does what was left out.
    pub(crate) fn look<'a, T>(
        &'a self,
        py: Python<'_>,
        mut state: MutexGuard<'a, PollState>,
        deadline: Option<Instant>,
        caller: Caller,
        mut register: impl FnMut(&ConsumerCore),
        take: &mut impl FnMut(&mut PollState) -> PyResult<Option<T>>,
    ) -> PyResult<Look<'a, T>> {
        self.check(py)?;
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        loop {
            state = self.before_poll(py, state, deadline, caller)?;
            if let Some(found) = state.taken(take)? {
                return Ok(Look::Found(found));
            }
            let subscribed = self.consumer().check_subscribed();
            subscribed.map_err(|error| errors::consumer(py, &error))?;
            // First register, then check again: from here on, a change causes a wake-up. A change
            // before this, perhaps during the coordinator's work, had no waker to wake.
            register(self.consumer());
            self.check(py)?; // a wakeup() before this woke no waker
            if !self.has_news(&state.work, caller) {
                break;
            }
        }
        if let Some(found) = state.taken(take)? {
            return Ok(Look::Found(found));
        }
        let until = match (deadline, state.work.due(caller)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Ok(Look::Nothing { state, until })
    }

    /// Checks and waits until `take` returns something or the deadline is over.
    fn poll_with<T>(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        take: impl FnMut(&mut PollState) -> PyResult<Option<T>>,
    ) -> PyResult<Option<T>> {
        self.look_until(py, deadline, Caller::Poll, take)
    }

    fn look_until<T>(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        caller: Caller,
        mut take: impl FnMut(&mut PollState) -> PyResult<Option<T>>,
    ) -> PyResult<Option<T>> {
        let _using = self.usage.enter(py)?;
        let mut kept = self.enter(py)?;
        // It begins only if the thread is about to wait. Most steps of an iteration do not wait.
        let mut waiting = None;
        loop {
            let register = |core: &ConsumerCore| {
                core.register(waiting.get_or_insert_with(ThreadWait::begin).waker());
            };
            match self.look(py, kept, deadline, caller, register, &mut take)? {
                Look::Found(found) => return Ok(Some(found)),
                Look::Nothing { .. } if is_over(deadline) => {
                    py.check_signals()?;
                    return Ok(None);
                }
                Look::Nothing { state, until } => {
                    gil::sleep(py, waiting.get_or_insert_with(ThreadWait::begin), until)?;
                    kept = state;
                }
            }
        }
    }

    /// Returns `{TopicPartition: [ConsumerRecord]}`, empty when the time is over.
    pub(crate) fn poll<'py>(
        &self,
        py: Python<'py>,
        deadline: Option<Instant>,
        records_max: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        // Held until the interceptors are done, because the records have not been returned before
        // that.
        let _using = self.usage.enter(py)?;
        let _polling = self.client.poll_watch().enter();
        let _counted = self.client.count_poll();
        let polled = self.poll_with(py, deadline, |state| {
            self.drain(py, state, &[], records_max)
        })?;
        match polled {
            Some(records) => self.consumed(py, records),
            None => Ok(PyDict::new(py)),
        }
    }

    /// Passes the records through the interceptors.
    pub(crate) fn consumed<'py>(
        &self,
        py: Python<'py>,
        records: Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.handed_over(py, || match &self.hooks.on_consume {
            Some(hook) => {
                let _foreign = Foreign::begin(py)?;
                Ok(hook.bind(py).call1((records,))?.cast_into::<PyDict>()?)
            }
            None => Ok(records),
        })
    }

    /// Runs the last step before the drained records reach the application. If it fails, or on
    /// Ctrl-C, the drain is taken back, because the application did not get its records.
    fn handed_over<T>(&self, py: Python<'_>, step: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        let done = step().and_then(|done| py.check_signals().map(|()| done));
        if done.is_err() {
            self.consumer().take_back();
        }
        done
    }

    /// Waits for the position of a partition. This is not a poll: the application still works on
    /// the records that it has.
    pub(crate) fn wait_position(
        &self,
        py: Python<'_>,
        partition: &TopicPartition,
        deadline: Option<Instant>,
    ) -> PyResult<Option<i64>> {
        if let Some(known) = self.known_position(py, partition)? {
            return Ok(Some(known));
        }
        self.look_until(py, deadline, Caller::Other, |_| {
            self.found_position(py, partition)
        })
    }

    /// Returns the position if it is known, or raises the error that prevents the lookup.
    pub(crate) fn found_position(
        &self,
        py: Python<'_>,
        partition: &TopicPartition,
    ) -> PyResult<Option<i64>> {
        let position = self.consumer().find_position(partition);
        let position = position.map_err(|error| errors::consumer(py, &error))?;
        Ok(position.map(|at| at.offset))
    }

    /// Returns the position if it is known. It takes no error, because only a check makes the
    /// coordinator do all its work again after one.
    pub(crate) fn known_position(
        &self,
        py: Python<'_>,
        partition: &TopicPartition,
    ) -> PyResult<Option<i64>> {
        let position = self.consumer().partitions().position(partition);
        let position = position.map_err(|error| errors::consumer(py, &error))?;
        Ok(position.map(|at| at.offset))
    }

    /// Returns the error of a wait for a position that timed out.
    pub(crate) fn position_timeout(&self, py: Python<'_>, partition: &TopicPartition) -> PyErr {
        let metadata = self.client.view().metadata().snapshot();
        errors::consumer(py, &self.consumer().position_timeout(partition, &metadata))
    }

    /// Returns buffered records as columns.
    pub(crate) fn poll_arrow(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        limits: TableLimits,
    ) -> PyResult<RecordBatch> {
        let _polling = self.client.poll_watch().enter();
        let _counted = self.client.count_poll();
        let filled = self.poll_with(py, deadline, |state| self.take_columns(py, state, limits))?;
        Ok(filled.unwrap_or_else(no_columns))
    }
}

/// Returns the `OffsetAndMetadata` of a position.
pub(crate) fn offset_object(
    py: Python<'_>,
    offset: i64,
    leader_epoch: i32,
) -> PyResult<Bound<'_, PyAny>> {
    types::offset_and_metadata(py, offset, "", leader_epoch)
}

/// Returns the error of a call on a consumer that is not open.
pub(crate) fn not_open(py: Python<'_>) -> PyErr {
    errors::raise(py, "IllegalStateError", "the consumer was never opened")
}

/// Returns the error of a call in a forked child.
pub(crate) fn forked(py: Python<'_>) -> PyErr {
    errors::client(py, &ClientError::Forked)
}
