//! `Consumer`: the class that `thalweg.consumer.KafkaConsumer` extends.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pyo3::PyTraverseError;
use pyo3::exceptions::PyStopIteration;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySet, PyTuple};
use thalweg_consumer::{HandedOut, Partitions};

use crate::client::metrics::groups_dict;
use crate::client::{Client, Handle, PendingRequest};
use crate::consuming::arguments::{
    Pair, at_least_one, committed_of, each_partition, offset_of, partition_of, partition_set,
    partitions_of, reset_of, table_limits,
};
use crate::consuming::heartbeats::Heartbeats;
use crate::consuming::lookups::{Listed, Target, listed, look_up, of_partition};
use crate::consuming::polling::{OpenConsumer, offset_object};
use crate::consuming::{heartbeats, opening};
use crate::convert::options::now_ms;
use crate::convert::tables::RecordTable;
use crate::convert::{errors, types};
use crate::interpreter::gil;
use crate::operation::run;

/// The consumer core. `thalweg.consumer.KafkaConsumer` is its public subclass.
///
/// The constructor accepts and ignores all arguments, as that of `Producer`.
///
/// Only one thread at a time may use it. A second thread gets an `IllegalStateError` at once: polls
/// check it themselves, other calls use `_begin_use`. Any thread may call `wakeup` and `_reenter`.
///
/// Iteration returns the next record, and moves the position record by record. It ends after
/// `consumer_timeout_ms` without a record, or when the consumer is closed. You can use the iterator
/// again after that. It skips buffered records of a partition that was revoked, paused or sought
/// since.
#[pyclass(subclass, weakref, generic, frozen, module = "thalweg._core")]
pub(crate) struct Consumer(pub(super) OnceLock<OpenConsumer>);

#[pymethods]
impl Consumer {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.0
            .get()
            .map_or(Ok(()), |core| core.hooks.traverse(&visit))
    }

    #[new]
    #[pyo3(signature = (*args, **kwargs))]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        let _ = (args, kwargs);
        Self(OnceLock::new())
    }

    /// Bootstraps as `Producer._open`.
    ///
    /// With a `group_id`, an assigned partition without a position waits for `_set_committed`
    /// before the reset policy applies. Without a `group_id`, the policy applies at once.
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

    /// Replaces the assignment. Partitions that stay keep position, buffer and pause.
    #[pyo3(name = "_assign")]
    fn assign(&self, py: Python<'_>, partitions: &Bound<'_, PyAny>) -> PyResult<()> {
        let partitions = each_partition(partitions)?;
        self.core(py)?.consumer().assign(&partitions);
        Ok(())
    }

    /// Sets whether there is a subscription. The driver calls it.
    ///
    /// Without a subscription and without an assignment, `poll`, `poll_arrow` and iteration raise
    /// `IllegalStateError`, because no record can arrive.
    fn _set_subscribed(&self, py: Python<'_>, subscribed: bool) -> PyResult<()> {
        self.core(py)?.consumer().set_subscribed(subscribed);
        Ok(())
    }

    /// Returns the assigned partitions.
    fn assignment<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        partition_set(py, self.core(py)?.consumer().partitions().assignment())
    }

    /// Returns at most `max_records` records (None: `max_poll_records`).
    ///
    /// The result is {} if none arrived in time: an empty poll never raises `KafkaTimeoutError`.
    /// The error of a partition (`OffsetOutOfRangeError`, `NoOffsetForPartitionError`,
    /// `CorruptRecordError`, `TopicAuthorizationFailedError`, ...) is raised after all good records
    /// before it.
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

    /// Returns the buffered records as a `RecordTable`, at most `max_bytes`.
    ///
    /// If `max_bytes` is None, the limit is `poll_arrow_max_bytes`. It waits only for the first
    /// record.
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

    /// Sets the position of an assigned partition.
    ///
    /// Raises `IllegalStateError` if it is not assigned, or another thread uses the consumer.
    #[pyo3(signature = (partition, offset, leader_epoch = -1))]
    fn seek(
        &self,
        py: Python<'_>,
        partition: Pair,
        offset: i64,
        leader_epoch: i32,
    ) -> PyResult<()> {
        let offset = offset_of(offset)?;
        let core = self.core(py)?;
        let _using = core.usage.enter(py)?;
        core.consumer()
            .seek(&partition_of(partition), offset, leader_epoch)
            .map_err(|error| errors::consumer(py, &error))
    }

    /// Moves positions as `seek_to_beginning` and `seek_to_end`, without their checks.
    ///
    /// A later call looks the offsets up. It raises the errors of `seek`.
    fn _seek_to(&self, py: Python<'_>, partitions: Vec<Pair>, r#where: &str) -> PyResult<()> {
        let reset = reset_of(r#where)?;
        let core = self.core(py)?;
        let _using = core.usage.enter(py)?;
        core.consumer()
            .seek_to(&partitions_of(partitions), reset)
            .map_err(|error| errors::consumer(py, &error))
    }

    /// Returns the offset of the next record, and waits until it is known.
    ///
    /// While it waits, it runs `before_poll` with False. It raises `KafkaTimeoutError` after the
    /// timeout, `IllegalStateError` if the partition is not assigned, and the error that prevents
    /// the lookup, as `poll` does.
    #[pyo3(signature = (partition, timeout_ms = None))]
    fn position(&self, py: Python<'_>, partition: Pair, timeout_ms: Option<f64>) -> PyResult<i64> {
        let core = self.core(py)?;
        let tp = partition_of(partition);
        let found = core.wait_position(py, &tp, gil::deadline_ms(timeout_ms))?;
        found.ok_or_else(|| core.position_timeout(py, &tp))
    }

    /// Returns what a commit would write for each assigned partition with a position.
    ///
    /// That is the next offset, and the leader epoch of the last batch before it, with or without
    /// records. It never waits.
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

    /// Returns the partitions that wait for their committed offset.
    ///
    /// They are assigned, have no position, and wait for `_set_committed`. The driver calls it.
    fn _awaiting_committed<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let waiting = self.core(py)?.consumer().awaiting_committed();
        waiting
            .iter()
            .map(|tp| types::topic_partition(py, &tp.topic, tp.partition))
            .collect()
    }

    /// Sets the committed offsets that were found, or None where nothing is committed.
    ///
    /// A partition without a committed offset follows the reset policy. The call ignores partitions
    /// that got a position by a seek, or were revoked, since. The driver calls it.
    fn _set_committed(&self, py: Python<'_>, offsets: &Bound<'_, PyAny>) -> PyResult<()> {
        let found = committed_of(offsets)?;
        self.core(py)?.consumer().set_committed(&found);
        Ok(())
    }

    /// Pauses partitions as `pause`, without its checks.
    ///
    /// It keeps the buffered records. Raises `IllegalStateError` if a partition is not assigned.
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

    /// Returns the high watermark as of the last fetch, or None before the first fetch.
    ///
    /// Raises `IllegalStateError` if the partition is not assigned.
    fn highwater(&self, py: Python<'_>, partition: Pair) -> PyResult<Option<i64>> {
        of_partition(py, self.core(py)?, partition, Partitions::high_watermark)
    }

    /// Returns the offset before which every transaction has ended, as of the last fetch.
    ///
    /// Returns None before the first fetch, and with brokers that have no transactions. Raises
    /// `IllegalStateError` if the partition is not assigned.
    fn last_stable_offset(&self, py: Python<'_>, partition: Pair) -> PyResult<Option<i64>> {
        let offset = Partitions::last_stable_offset;
        of_partition(py, self.core(py)?, partition, offset)
    }

    /// Returns the time of the last fetch response for the partition, in Unix ms.
    ///
    /// Returns None before the first fetch. Raises `IllegalStateError` if the partition is not
    /// assigned.
    fn last_poll_timestamp(&self, py: Python<'_>, partition: Pair) -> PyResult<Option<i64>> {
        let fetched_at = of_partition(py, self.core(py)?, partition, Partitions::fetched_at)?;
        Ok(fetched_at.map(|at| now_ms() - at.elapsed().as_millis() as i64))
    }

    /// Returns the number of offsets between the position and the end, as of the last fetch.
    ///
    /// With `read_committed` the end is the last stable offset. Returns None before the first
    /// fetch. Raises `IllegalStateError` if the partition is not assigned.
    fn lag(&self, py: Python<'_>, partition: Pair) -> PyResult<Option<i64>> {
        let core = self.core(py)?;
        let isolation = core.consumer().config().isolation_level;
        of_partition(py, core, partition, |all, one| all.lag(one, isolation))
    }

    /// Looks up offsets by timestamp.
    ///
    /// A target is (topic, partition, timestamp). A row of the result is (topic, partition, offset,
    /// timestamp, leader epoch). The public calls are `beginning_offsets`, `end_offsets` and
    /// `offsets_for_times`.
    ///
    /// The rows are in the order of the targets, with the offset -1 if there is no such record. The
    /// timestamps of KIP-79 and KIP-734 work too: -1 latest, -2 earliest, -3 max timestamp. Raises
    /// `KafkaTimeoutError`.
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
    ///
    /// The call then runs `before_poll`.
    fn _reenter(&self, py: Python<'_>) -> PyResult<()> {
        self.core(py)?.client.reenter();
        Ok(())
    }

    /// Makes the I/O thread send heartbeats to the node every `interval_ms`.
    ///
    /// They replace the heartbeats of earlier calls, and need no Python thread. The first one is
    /// sent after one interval, counted from now or from the last earlier heartbeat. At most one is
    /// in flight. If it has no response within `response_timeout_ms` or `request_timeout_ms`,
    /// whichever is less, the client closes its connection and looks up the coordinator again.
    ///
    /// The I/O thread drops responses that contain nothing new: `ErrorCode` 0, the `MemberEpoch`
    /// that was sent (if the API has one), and a null Assignment. The `HeartbeatIntervalMs` of a
    /// response becomes the interval, and later heartbeats contain its `MemberEpoch` if that is
    /// higher. All other responses go to `_notable_heartbeats`:
    /// - After `REBALANCE_IN_PROGRESS`, heartbeats continue at the interval, because the group
    ///   keeps only members that send them.
    /// - After `COORDINATOR_LOAD_IN_PROGRESS`, `NOT_COORDINATOR`, `COORDINATOR_NOT_AVAILABLE`, a
    ///   lost connection or a timeout, they continue after a growing `retry_backoff_ms`, and the
    ///   client looks up the coordinator again.
    /// - Any other error code, or an error that no retry can fix, pauses them until the next call
    ///   of this method.
    ///
    /// If no poll, `poll_arrow` or iteration begins or ends for `max_poll_interval_ms` (time inside
    /// one of them does not count), the I/O thread sends `leave` (API, body) once and stops the
    /// heartbeats, and `_poll_expired` reports it. To send the same API with `_core_client`, stop
    /// the heartbeats first. Raises `ValueError` as `Client.request` does, and for intervals below
    /// 1. A `TypeError` names the field.
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

    /// Ends the heartbeats, then sends a `JoinGroup` to the node as `Client.submit` does.
    ///
    /// When the response has `ErrorCode` 0, the new heartbeats begin as in `_heartbeat`, with the
    /// response's `GenerationId` and `MemberId` in the body, without Python. They do not begin if
    /// `_heartbeat`, `_stop_heartbeat` or this method was called since.
    ///
    /// `timeout_ms` is that of `Client.submit`. Raises `ValueError` as `Client.submit` and
    /// `_heartbeat` do.
    fn _join(
        &self,
        py: Python<'_>,
        join: &Bound<'_, PyAny>,
        timeout_ms: f64,
        heartbeats: Heartbeats<'_>,
        node: &Bound<'_, PyAny>,
    ) -> PyResult<PendingRequest> {
        let client = &self.core(py)?.client;
        let (request, plan) = heartbeats.after(join, timeout_ms, node)?;
        Ok(PendingRequest::of(client.join(request, plan)))
    }

    /// Ends the heartbeats and the watch of `max_poll_interval_ms`.
    ///
    /// The response to a heartbeat in flight is reported only if it is a success that contains
    /// something new. The same applies if another `_heartbeat` has replaced it.
    fn _stop_heartbeat(&self, py: Python<'_>) -> PyResult<()> {
        self.core(py)?.client.stop_heartbeats();
        Ok(())
    }

    /// Takes the responses that contain something new, and the errors of heartbeats.
    ///
    /// It returns the newest 16, and the newest Assignment. With each: whether it belongs to the
    /// current heartbeats, and not to heartbeats that were replaced or stopped. When one of them
    /// arrives, a waiting call runs `before_poll`, as after `_reenter`.
    fn _notable_heartbeats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        heartbeats::notable(py, self.core(py)?.client.take_notable_heartbeats())
    }

    /// Whether a heartbeat that was replaced or stopped is still in flight.
    ///
    /// It is from before the last `_heartbeat`, `_join` or `_stop_heartbeat`. After these calls, no
    /// such heartbeat is sent. When it is not in flight any more, a waiting call runs
    /// `before_poll`.
    fn _old_heartbeat_is_in_flight(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core(py)?.client.old_heartbeat_is_in_flight())
    }

    /// Returns whether `max_poll_interval_ms` has passed without a poll, and clears this flag.
    fn _poll_expired(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.core(py)?.client.take_poll_expired())
    }

    /// Reserves the consumer for the calling thread: only one at a time is in a call or a poll.
    ///
    /// It ends with `_end_use`. Calls may be nested. A poll that waits, or does the coordinator's
    /// work, reserves it too. Raises `IllegalStateError` if another thread uses the consumer.
    fn _begin_use(&self, py: Python<'_>) -> PyResult<()> {
        self.core(py)?.begin_use(py)
    }

    /// Ends the innermost `_begin_use` of the calling thread.
    fn _end_use(&self) {
        if let Some(core) = self.0.get() {
            core.usage.end();
        }
    }

    /// Sets whether polls return no records, so that positions stay as they were committed.
    fn _hold(&self, py: Python<'_>, held: bool) -> PyResult<()> {
        self.core(py)?.hold(held);
        Ok(())
    }

    /// Returns the number of records that all polls and iterations have returned so far.
    fn _records_handed_out(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.core(py)?.consumer().records_handed_out())
    }

    /// Returns (since, from, to, count) of each partition's returned records.
    ///
    /// Marks use it. `since` is a number that each assignment, seek or reset changes. `from` and
    /// `to` are the positions before the first record and after the last one. An entry is None if
    /// no record was returned.
    #[allow(clippy::type_complexity)]
    fn _handed_out(
        &self,
        py: Python<'_>,
        partitions: Vec<Pair>,
    ) -> PyResult<Vec<Option<(u64, i64, i64, u64)>>> {
        let (core, partitions) = (self.core(py)?, partitions_of(partitions));
        let found = core.consumer().partitions().handed_out(&partitions);
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

    /// Returns {group: {name: value}} under Kafka's names, even of a closed consumer.
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
    ///
    /// A second call does nothing. It does not leave the group (`KafkaConsumer.close` does):
    /// heartbeats only stop.
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

    /// A client for requests by name, on this consumer's connections and metadata.
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
