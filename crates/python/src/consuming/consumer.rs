//! `Consumer`: the class that `thalweg.consumer.KafkaConsumer` extends.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pyo3::PyTraverseError;
use pyo3::exceptions::{PyStopIteration, PyValueError};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyTuple};
use thalweg_consumer::{HandedOut, OffsetReset};

use crate::client::metrics::groups_dict;
use crate::client::{self, Client, Handle, PendingRequest};
use crate::consuming::arguments::{
    Pair, at_least_one, committed_of, partition_of, partition_set, partitions_of, table_limits,
};
use crate::consuming::heartbeats::Heartbeats;
use crate::consuming::lookups::{Listed, Target, listed, look_up};
use crate::consuming::polling::{OpenConsumer, forked, not_open, offset_object};
use crate::consuming::{heartbeats, opening};
use crate::convert::options::{duration_ms, now_ms};
use crate::convert::tables::RecordTable;
use crate::convert::{errors, types};
use crate::interpreter::gil;
use crate::operation::run;

/// The consumer core.
#[pyclass(subclass, weakref, generic, frozen, module = "thalweg._core")]
pub(crate) struct Consumer(OnceLock<OpenConsumer>);

impl Consumer {
    pub(crate) fn core(&self, py: Python<'_>) -> PyResult<&OpenConsumer> {
        match self.0.get() {
            Some(core) if !core.client.view().is_inherited() => {
                core.client
                    .view()
                    .check()
                    .map_err(|error| errors::client(py, &error))?;
                Ok(core)
            }
            Some(_) => Err(forked(py)),
            None => Err(not_open(py)),
        }
    }

    /// Returns the core of a consumer that was opened, even if it is closed now.
    pub(crate) fn opened(&self) -> Option<&OpenConsumer> {
        self.0.get()
    }

    /// Whether the consumer was opened and then closed. A call checks this only after an error, to
    /// explain it: another thread may close the consumer at any moment, also after a check.
    pub(crate) fn is_closed(&self) -> bool {
        self.opened()
            .is_some_and(|core| core.client.view().is_closed())
    }

    /// Stores the core, once a bootstrap server has responded.
    pub(crate) fn open_with(&self, py: Python<'_>, core: OpenConsumer) -> PyResult<()> {
        self.0
            .set(core)
            .map_err(|_| errors::raise(py, "IllegalStateError", "the consumer is open already"))
    }
}

#[pymethods]
impl Consumer {
    /// Shows the hooks to the garbage collector: listeners, deserializers and interceptors often
    /// refer to their consumer, which forms a cycle.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(core) = self.0.get() else {
            return Ok(());
        };
        let hooks = &core.hooks;
        visit.call(hooks.before_poll.as_ref())?;
        visit.call(hooks.on_consume.as_ref())?;
        visit.call(hooks.deserializers.key.as_ref())?;
        visit.call(hooks.deserializers.value.as_ref())
    }

    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        let _ = (args, kwargs);
        Self(OnceLock::new())
    }

    #[pyo3(signature = (config, hooks = None))]
    fn _open(
        &self,
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        hooks: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (core, timeout) = opening::start(py, config, hooks)?;
        run(py, &mut core.client.view().bootstrap(timeout))?;
        self.open_with(py, core)
    }

    #[pyo3(name = "_assign")]
    fn assign(&self, py: Python<'_>, partitions: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut pairs = Vec::new();
        for item in partitions.try_iter()? {
            pairs.push(item?.extract::<Pair>()?);
        }
        self.core(py)?.consumer().assign(&partitions_of(pairs));
        Ok(())
    }

    /// Sets whether there is a subscription; for the driver.
    fn _set_subscribed(&self, py: Python<'_>, subscribed: bool) -> PyResult<()> {
        self.core(py)?.consumer().set_subscribed(subscribed);
        Ok(())
    }

    /// Returns the assigned partitions.
    fn assignment<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        partition_set(py, self.core(py)?.consumer().partitions().assignment())
    }

    #[pyo3(signature = (timeout_ms = Some(0.0), max_records = None))]
    fn poll<'py>(
        &self,
        py: Python<'py>,
        timeout_ms: Option<f64>,
        max_records: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let core = self.core(py)?;
        let records_max =
            at_least_one("max_records", max_records)?.unwrap_or(core.max_poll_records);
        core.poll(py, gil::deadline_ms(timeout_ms), records_max)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let core = match self.core(py) {
            // Iteration over a closed consumer ends.
            Err(_) if self.is_closed() => return Err(PyStopIteration::new_err(())),
            core => core?,
        };
        let deadline = core
            .consumer_timeout
            .map(|timeout| Instant::now() + timeout);
        core.next(py, deadline)?
            .ok_or_else(|| PyStopIteration::new_err(()))
    }

    #[pyo3(signature = (timeout_ms = Some(0.0), max_records = None, max_bytes = None))]
    fn poll_arrow(
        &self,
        py: Python<'_>,
        timeout_ms: Option<f64>,
        max_records: Option<usize>,
        max_bytes: Option<usize>,
    ) -> PyResult<RecordTable> {
        let core = self.core(py)?;
        let limits = table_limits(core, max_records, max_bytes)?;
        core.poll_arrow(py, gil::deadline_ms(timeout_ms), limits)
            .map(RecordTable::new)
    }

    #[pyo3(signature = (partition, offset, leader_epoch = -1))]
    fn seek(
        &self,
        py: Python<'_>,
        partition: Pair,
        offset: i64,
        leader_epoch: i32,
    ) -> PyResult<()> {
        if offset < 0 {
            return Err(PyValueError::new_err(format!(
                "offset {offset}: an offset is 0 or more"
            )));
        }
        let core = self.core(py)?;
        let _using = core.usage.enter(py)?;
        core.consumer()
            .seek(&partition_of(partition), offset, leader_epoch)
            .map_err(|error| errors::consumer(py, &error))
    }

    /// Moves positions as `seek_to_beginning` and `seek_to_end`, without their checks.
    fn _seek_to(&self, py: Python<'_>, partitions: Vec<Pair>, r#where: &str) -> PyResult<()> {
        let reset = match r#where {
            "earliest" => OffsetReset::Earliest,
            "latest" => OffsetReset::Latest,
            other => {
                return Err(PyValueError::new_err(format!(
                    "where is 'earliest' or 'latest', not {other:?}"
                )));
            }
        };
        let core = self.core(py)?;
        let _using = core.usage.enter(py)?;
        core.consumer()
            .seek_to(&partitions_of(partitions), reset)
            .map_err(|error| errors::consumer(py, &error))
    }

    #[pyo3(signature = (partition, timeout_ms = None))]
    fn position(&self, py: Python<'_>, partition: Pair, timeout_ms: Option<f64>) -> PyResult<i64> {
        let core = self.core(py)?;
        let tp = partition_of(partition);
        let found = core.wait_position(py, &tp, gil::deadline_ms(timeout_ms))?;
        found.ok_or_else(|| core.position_timeout(py, &tp))
    }

    /// Returns what a commit would write for each assigned partition with a position.
    fn _positions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (tp, position) in self.core(py)?.consumer().partitions().all_consumed() {
            dict.set_item(
                types::topic_partition(py, &tp.topic, tp.partition)?,
                offset_object(py, position.offset, position.leader_epoch)?,
            )?;
        }
        Ok(dict)
    }

    /// Returns the partitions that wait for their committed offset; for the driver.
    fn _awaiting_committed<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let waiting = self.core(py)?.consumer().awaiting_committed();
        waiting
            .iter()
            .map(|tp| types::topic_partition(py, &tp.topic, tp.partition))
            .collect()
    }

    /// Sets the committed offsets that were found. None: nothing is committed; for the driver.
    fn _set_committed(&self, py: Python<'_>, offsets: &Bound<'_, PyAny>) -> PyResult<()> {
        let found = committed_of(offsets)?;
        self.core(py)?.consumer().set_committed(&found);
        Ok(())
    }

    /// Pauses partitions as `pause`, without its checks.
    fn _pause_partitions(&self, py: Python<'_>, partitions: Vec<Pair>) -> PyResult<()> {
        self.core(py)?
            .consumer()
            .pause(&partitions_of(partitions))
            .map_err(|error| errors::consumer(py, &error))
    }

    /// Resumes partitions as `resume`, without its checks.
    fn _resume_partitions(&self, py: Python<'_>, partitions: Vec<Pair>) -> PyResult<()> {
        self.core(py)?
            .consumer()
            .resume(&partitions_of(partitions))
            .map_err(|error| errors::consumer(py, &error))
    }

    /// Returns the paused partitions.
    fn paused<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        partition_set(py, self.core(py)?.consumer().partitions().paused())
    }

    fn highwater(&self, py: Python<'_>, partition: Pair) -> PyResult<Option<i64>> {
        self.core(py)?
            .consumer()
            .partitions()
            .high_watermark(&partition_of(partition))
            .map_err(|error| errors::consumer(py, &error))
    }

    /// Returns the offset before which every transaction has ended, as of the last fetch.
    ///
    /// None before the first fetch, and with brokers that have no transactions.
    fn last_stable_offset(&self, py: Python<'_>, partition: Pair) -> PyResult<Option<i64>> {
        self.core(py)?
            .consumer()
            .partitions()
            .last_stable_offset(&partition_of(partition))
            .map_err(|error| errors::consumer(py, &error))
    }

    /// Returns the time of the last fetch response for the partition, in Unix ms.
    fn last_poll_timestamp(&self, py: Python<'_>, partition: Pair) -> PyResult<Option<i64>> {
        let fetched_at = self
            .core(py)?
            .consumer()
            .partitions()
            .fetched_at(&partition_of(partition))
            .map_err(|error| errors::consumer(py, &error))?;
        Ok(fetched_at.map(|at| now_ms() - at.elapsed().as_millis() as i64))
    }

    /// Returns the number of offsets between the position and the end, as of the last fetch.
    ///
    /// With `read_committed` the end is the last stable offset. None before the first fetch.
    fn lag(&self, py: Python<'_>, partition: Pair) -> PyResult<Option<i64>> {
        let consumer = self.core(py)?.consumer();
        consumer
            .partitions()
            .lag(&partition_of(partition), consumer.config().isolation_level)
            .map_err(|error| errors::consumer(py, &error))
    }

    /// Looks up offsets by timestamp.
    ///
    /// A target is (topic, partition, timestamp). A row of the result is (topic, partition, offset,
    /// timestamp, leader epoch). The public calls are `beginning_offsets`, `end_offsets` and
    /// `offsets_for_times`.
    #[pyo3(signature = (targets, timeout_ms = None))]
    fn _list_offsets(
        &self,
        py: Python<'_>,
        targets: Vec<Target>,
        timeout_ms: Option<f64>,
    ) -> PyResult<Vec<Listed>> {
        let mut lookup = look_up(self.core(py)?, targets, timeout_ms)?;
        run(py, &mut lookup).map(listed)
    }

    /// Makes a waiting call run the driver's work now. Any thread may call it.
    fn _reenter(&self, py: Python<'_>) -> PyResult<()> {
        self.core(py)?.client.reenter();
        Ok(())
    }

    fn _heartbeat(
        &self,
        py: Python<'_>,
        heartbeats: Heartbeats<'_>,
        node: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let core = self.core(py)?;
        core.client.start_heartbeats(heartbeats.plan(node)?);
        Ok(())
    }

    fn _join(
        &self,
        py: Python<'_>,
        join: &Bound<'_, PyAny>,
        timeout_ms: f64,
        heartbeats: Heartbeats<'_>,
        node: &Bound<'_, PyAny>,
    ) -> PyResult<PendingRequest> {
        let core = self.core(py)?;
        let plan = heartbeats.plan(node)?;
        let named = client::named_request("JoinGroup", join)?;
        let mut request = named.into_request(plan.target.clone());
        request.timeout = Some(duration_ms(timeout_ms));
        Ok(PendingRequest::of(core.client.join(request, plan)))
    }

    fn _stop_heartbeat(&self, py: Python<'_>) -> PyResult<()> {
        self.core(py)?.client.stop_heartbeats();
        Ok(())
    }

    fn _notable_heartbeats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let taken = self.core(py)?.client.take_notable_heartbeats();
        let list = PyList::empty(py);
        for news in taken {
            list.append(heartbeats::notable(py, news)?)?;
        }
        Ok(list)
    }

    fn _old_heartbeat_is_in_flight(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core(py)?.client.old_heartbeat_is_in_flight())
    }

    fn _poll_expired(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core(py)?.client.take_poll_expired())
    }

    /// Reserves the consumer for the calling thread: only one at a time is in a call or a poll.
    fn _begin_use(&self, py: Python<'_>) -> PyResult<()> {
        self.core(py)?.begin_use(py)
    }

    fn _end_use(&self) {
        if let Some(core) = self.0.get() {
            core.usage.end();
        }
    }

    fn _hold(&self, py: Python<'_>, held: bool) -> PyResult<()> {
        self.core(py)?.hold(held);
        Ok(())
    }

    fn _records_handed_out(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.core(py)?.consumer().records_handed_out())
    }

    /// Returns (since, from, to, count) of each partition's returned records; for marks.
    #[allow(clippy::type_complexity)]
    fn _handed_out(
        &self,
        py: Python<'_>,
        partitions: Vec<Pair>,
    ) -> PyResult<Vec<Option<(u64, i64, i64, u64)>>> {
        let partitions = partitions_of(partitions);
        let found = self
            .core(py)?
            .consumer()
            .partitions()
            .handed_out(&partitions);
        let of_one = |out: HandedOut| (out.since, out.from, out.to, out.records);
        Ok(found.into_iter().map(|out| out.map(of_one)).collect())
    }

    /// Makes the waiting call, or the next one, raise `WakeupError`. Any thread may call it.
    fn wakeup(&self, py: Python<'_>) -> PyResult<()> {
        self.core(py)?.wakeup();
        Ok(())
    }

    /// Whether a broker is connected.
    fn bootstrap_connected(&self, py: Python<'_>) -> PyResult<bool> {
        run(py, &mut self.core(py)?.client.view().is_connected())
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        // This does not use `core`, because the last metrics of a closed consumer are still
        // useful.
        let core = match self.0.get() {
            Some(core) if !core.client.view().is_inherited() => core,
            _ => self.core(py)?,
        };
        groups_dict(py, core.client.metrics(Instant::now()))
    }

    /// Closes connections and buffers. It commits nothing: use `close`.
    #[pyo3(signature = (timeout_ms = None))]
    fn _shutdown(&self, py: Python<'_>, timeout_ms: Option<f64>) -> PyResult<()> {
        let Some(core) = self.0.get() else {
            return Ok(());
        };
        if core.client.view().is_inherited() {
            return Ok(()); // its connections are the parent's
        }
        run(py, &mut core.client.view().close(gil::limit_ms(timeout_ms)))
    }

    #[getter]
    fn _core_client(&self, py: Python<'_>) -> PyResult<Client> {
        Ok(Client::of(Handle::Consumer(Arc::clone(
            &self.core(py)?.client,
        ))))
    }

    /// Whether it was never opened, was closed, or belongs to the parent of this process.
    #[getter]
    fn closed(&self) -> bool {
        self.0
            .get()
            .is_none_or(|core| core.client.view().check().is_err())
    }
}
