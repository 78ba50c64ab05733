//! Takes records out of the fetch buffer: records by partition, one record, or columns.

use std::sync::Arc;

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use thalweg_columns::{ArrowSink, Layout, SlabPool, TableLimits};
use thalweg_consumer::{ConsumerError, Demand, Drained, TopicPartition};

use super::{OpenConsumer, PollState};
use crate::convert::records::ConsumerRecord;
use crate::convert::sink::{DictSink, Ended, OneSink, Poison};
use crate::convert::{capsules, errors};
use crate::interpreter::foreign::Foreign;

/// Recycled column buffers that a consumer keeps, in tables.
const SLAB_TABLES: usize = 2;

/// The result of an iteration's step.
pub(crate) enum Offered<'py> {
    Record(Bound<'py, PyAny>),
    /// An interceptor removed the record.
    Kept,
}

/// The table being filled. The pool outlives it, so that its buffers are reused.
pub(super) struct Columns {
    sink: ArrowSink,
    limits: TableLimits,
    pool: Arc<SlabPool>,
}

impl Columns {
    fn has(&self, limits: TableLimits) -> bool {
        self.limits.rows_max == limits.rows_max && self.limits.bytes_max == limits.bytes_max
    }
}

impl OpenConsumer {
    fn note_drained(&self, drained: &Result<Drained, ConsumerError>) {
        if drained.as_ref().is_ok_and(|drained| drained.freed) {
            self.count_next_step();
        }
    }

    /// Drains the partitions in `only`, or all if it is empty.
    pub(crate) fn drain<'py>(
        &self,
        py: Python<'py>,
        state: &mut PollState,
        only: &[TopicPartition],
        records_max: usize,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        if self.is_held() {
            return Ok(None);
        }
        let mut sink = DictSink::new(py, &mut state.maker, &self.hooks.deserializers);
        let demand = Demand::up_to(records_max).of(only);
        let drained = self.consumer().drain(demand, &mut sink);
        let (dict, mut ended) = (sink.dict, sink.ended);
        self.note_drained(&drained);
        if drained.as_ref().is_ok_and(|drained| drained.records > 0) {
            // These records are out of the buffer. They must reach the application before the
            // error.
            state.failure = ended.failure.take();
        }
        Ok(settled(py, drained, ended)?.then_some(dict))
    }

    /// Takes the next record of the partitions in `only`, or of all if it is empty.
    pub(crate) fn take_one<'py>(
        &self,
        py: Python<'py>,
        state: &mut PollState,
        only: &[TopicPartition],
    ) -> PyResult<Option<Offered<'py>>> {
        if self.is_held() {
            return Ok(None);
        }
        let mut sink = OneSink::new(py, &mut state.maker, &self.hooks.deserializers);
        // Application code may ask for a position or fail, and then the drain is taken back.
        let demand = if self.hooks.see_records() {
            Demand::one()
        } else {
            Demand::step()
        };
        let drained = self.consumer().drain(demand.of(only), &mut sink);
        let (record, ended) = (sink.record, sink.ended);
        self.note_drained(&drained);
        settled(py, drained, ended)?;
        let Some(record) = record else {
            return Ok(None);
        };
        match &self.hooks.on_consume {
            None => Ok(Some(Offered::Record(record.into_any()))),
            Some(hook) => {
                let left = self.handed_over(py, || {
                    let partition = state.maker.partition_object(py)?;
                    intercepted(py, hook, partition, record)
                })?;
                Ok(Some(left.map_or(Offered::Kept, Offered::Record)))
            }
        }
    }

    pub(crate) fn take_columns(
        &self,
        py: Python<'_>,
        state: &mut PollState,
        limits: TableLimits,
    ) -> PyResult<Option<RecordBatch>> {
        if self.is_held() {
            return Ok(None);
        }
        // Taken out of the state: if the drain panics, its rows are returned again, and those in
        // the sink must be dropped.
        let mut columns = self.columns(state, limits);
        let (consumer, sink) = (self.consumer(), &mut columns.sink);
        let drained = py.detach(|| consumer.drain(Demand::up_to(limits.rows_max), sink));
        let sink = &mut state.arrow.insert(columns).sink;
        self.note_drained(&drained);
        let drained = drained.map_err(|error| errors::consumer(py, &error))?;
        if drained.records == 0 {
            return Ok(None);
        }
        let table = || sink.take().map_err(|error| capsules::columns_error(&error));
        self.handed_over(py, table).map(Some)
    }

    fn columns(&self, state: &mut PollState, limits: TableLimits) -> Columns {
        match state.arrow.take() {
            Some(columns) if columns.has(limits) => columns,
            other => {
                let pool = other.map_or_else(
                    || SlabPool::new(SLAB_TABLES * self.poll_arrow_max_bytes),
                    |columns| columns.pool,
                );
                let sink = ArrowSink::new(Layout::poll(), limits, Arc::clone(&pool));
                Columns { sink, limits, pool }
            }
        }
    }
}

/// Returns a table without rows that has the usual columns.
pub(crate) fn no_columns() -> RecordBatch {
    RecordBatch::new_empty(Arc::clone(Layout::poll().schema()))
}

/// Returns whether anything was taken. If nothing was, raises the error that prevented it.
fn settled(
    py: Python<'_>,
    drained: Result<Drained, ConsumerError>,
    ended: Ended,
) -> PyResult<bool> {
    if let Some(error) = ended.failure {
        return Err(error);
    }
    let drained = drained.map_err(|error| errors::consumer(py, &error))?;
    match ended.poison {
        Some(poison) if drained.records == 0 => Err(raise_poison(py, *poison)),
        _ => Ok(drained.records > 0),
    }
}

/// Passes one record through the interceptors, which may change or remove it.
fn intercepted<'py>(
    py: Python<'py>,
    hook: &Py<PyAny>,
    partition: Py<PyAny>,
    record: Bound<'py, ConsumerRecord>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let given = PyDict::new(py);
    given.set_item(&partition, PyList::new(py, [record])?)?;
    let _foreign = Foreign::begin(py)?;
    let changed = hook.bind(py).call1((given,))?;
    let Some(list) = changed.cast::<PyDict>()?.get_item(partition)? else {
        return Ok(None);
    };
    list.try_iter()?.next().transpose()
}

fn raise_poison(py: Python<'_>, poison: Poison) -> PyErr {
    let made = || -> PyResult<Bound<'_, PyAny>> {
        let (topic, partition) = (&*poison.partition.topic, poison.partition.partition);
        let fields = PyDict::new(py);
        fields.set_item("topic", topic)?;
        fields.set_item("partition", partition)?;
        fields.set_item("offset", poison.offset)?;
        fields.set_item("timestamp", poison.timestamp)?;
        fields.set_item("key", &poison.key)?;
        fields.set_item("value", &poison.value)?;
        fields.set_item("headers", &poison.headers)?;
        fields.set_item("part", poison.part)?;
        let text = format!(
            "the {} of the record at offset {} of {topic}-{partition} could not be deserialized: \
             {}. To skip the record, seek to offset {}",
            poison.part,
            poison.offset,
            poison.cause.value(py),
            poison.offset.saturating_add(1),
        );
        let error = errors::instance_with(py, "DeserializationError", &text, &fields)?;
        error.setattr("__cause__", poison.cause.clone_ref(py).into_value(py))?;
        Ok(error)
    };
    errors::raised(made())
}
