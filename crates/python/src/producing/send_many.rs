//! `send_many` and `send_arrow`: send a list or Arrow data in one call, in steps.
//!
//! Lists are converted to slices under the GIL. Partitioning, encoding and waiting run without it.
//! If Python steps are set, each element is sent like a `send` (`EachRow`).

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyMemoryView, PySequence, PyString, PyTuple};
use thalweg_cluster::metadata::TopicLookup;
use thalweg_columns::ArrowSource;
use thalweg_producer::{
    BulkAppend, BulkStep, ProducerError, Record, RecordSource, Reservation, TopicEntry,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::convert::{capsules, errors};
use crate::operation::{Operation, is_over};
use crate::producing::append::{
    Appender, Brought, PartitionWait, Unmet, Waiting, check_partition, now_ms,
};
use crate::producing::batch_futures::Rows;
use crate::producing::core::Core;
use crate::producing::list_source::{Columns, ListSource, Partitions, at_row};
use crate::producing::outgoing;
use crate::producing::sending::{Given, Sending};

/// A column that is being sent. Its output is where the rows are, and how many there are.
pub(crate) enum SendMany {
    Whole(WholeColumn),
    Each(EachRow),
}

impl Operation for SendMany {
    type Output = (Rows, usize);

    fn poll(
        &mut self,
        py: Python<'_>,
        core: &Core,
        waker: &Waker,
    ) -> PyResult<Option<Self::Output>> {
        match self {
            Self::Whole(column) => column.poll(py, core, waker),
            Self::Each(rows) => rows.poll(py, core, waker),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Whole(column) => column.deadline,
            Self::Each(rows) => rows.current.as_ref().and_then(Operation::deadline),
        }
    }

    fn given_up(&self, py: Python<'_>, core: &Core, error: &PyErr) {
        if let Self::Each(rows) = self
            && let Some(sending) = &rows.current
        {
            sending.given_up(py, core, error);
        }
    }
}

/// Checks the arguments of a `send_many`.
pub(crate) fn columns<'py>(
    topic: &Bound<'py, PyString>,
    values: &Bound<'py, PyAny>,
    keys: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    partition: Option<&Bound<'py, PyAny>>,
    timestamps_ms: Option<&Bound<'py, PyAny>>,
) -> PyResult<Columns> {
    let py = values.py();
    let values = column("values", values, None)?;
    let len = values.len();
    let optional = |name, given: Option<&Bound<'py, PyAny>>| {
        given
            .map(|given| column(name, given, Some(len)).map(Bound::unbind))
            .transpose()
    };
    Ok(Columns {
        keys: optional("keys", keys)?,
        headers: optional("headers", headers)?,
        partitions: match partition {
            None => Partitions::Chosen,
            Some(one) if one.is_instance_of::<PyInt>() => {
                outgoing::partition(one)?.map_or(Partitions::Chosen, Partitions::One)
            }
            Some(each) => Partitions::Each(each_row(
                &column("partition", each, Some(len))?,
                outgoing::partition,
            )?),
        },
        timestamps: optional("timestamps_ms", timestamps_ms)?
            .map(|times| timestamps_of(topic, times.bind(py)))
            .transpose()?,
        values: values.unbind(),
    })
}

/// Starts a `send_many`. `serialized` skips all Python steps.
pub(crate) fn send_lists<'py>(
    py: Python<'py>,
    core: &Core,
    topic: &Bound<'py, PyString>,
    columns: Columns,
    serialized: bool,
) -> PyResult<SendMany> {
    core.appender.check_open(py)?;
    let hooks = core.hooks.as_ref().filter(|_| !serialized);
    if hooks.is_some_and(|hooks| hooks.is_per_record() || hooks.has_serializer()) {
        return Ok(SendMany::Each(EachRow::new(topic, columns)));
    }
    let source = ListSource::new(py, columns, now_ms())?;
    WholeColumn::new(&core.appender, topic, Source::Lists(source)).map(SendMany::Whole)
}

/// Converts each element of a column with `read`. An error names its row.
fn each_row<T>(
    column: &Bound<'_, PyTuple>,
    read: fn(&Bound<'_, PyAny>) -> PyResult<Option<T>>,
) -> PyResult<Vec<Option<T>>> {
    let rows = column.iter_borrowed().enumerate();
    rows.map(|(row, item)| read(&item).map_err(|error| at_row(item.py(), row, error)))
        .collect()
}

/// Converts the timestamps of rows. An invalid one is reported with its row.
fn timestamps_of(
    topic: &Bound<'_, PyString>,
    column: &Bound<'_, PyTuple>,
) -> PyResult<Vec<Option<i64>>> {
    let times = each_row(column, outgoing::timestamp_ms)?;
    for (row, time) in times.iter().enumerate() {
        let checked = time.map_or(Ok(()), |ms| outgoing::check_timestamp(topic, ms));
        checked.map_err(|error| {
            PyValueError::new_err(format!("row {row}: {}", error.value(topic.py())))
        })?;
    }
    Ok(times)
}

/// Refuses a single `bytes` or `str`. It is a sequence, but of numbers or letters, never a column.
fn refuse_single(name: &str, given: &Bound<'_, PyAny>) -> PyResult<()> {
    let single = given.is_instance_of::<PyBytes>()
        || given.is_instance_of::<PyString>()
        || given.is_instance_of::<PyByteArray>()
        || given.is_instance_of::<PyMemoryView>();
    if !single {
        return Ok(());
    }
    let hint = if name == "values" {
        "; did you mean send()?"
    } else {
        ""
    };
    Err(PyTypeError::new_err(format!(
        "{name} must be a sequence with an element for each record, not one {} object{hint}",
        outgoing::type_name(given)
    )))
}

/// Returns a column as a tuple, and checks its length.
fn column<'py>(
    name: &str,
    given: &Bound<'py, PyAny>,
    len: Option<usize>,
) -> PyResult<Bound<'py, PyTuple>> {
    refuse_single(name, given)?;
    let sequence = given.cast::<PySequence>().map_err(|_| {
        PyTypeError::new_err(format!(
            "{name} must be a sequence with an element for each record"
        ))
    })?;
    let tuple = sequence.to_tuple()?;
    match len {
        Some(wanted) if tuple.len() != wanted => Err(PyValueError::new_err(format!(
            "{name} has {} elements, values has {wanted}",
            tuple.len()
        ))),
        _ => Ok(tuple),
    }
}

/// Starts a `send_arrow`.
pub(crate) fn send_columns<'py>(
    py: Python<'py>,
    core: &Core,
    topic: &Bound<'py, PyString>,
    data: &Bound<'py, PyAny>,
    partition: Option<i32>,
) -> PyResult<SendMany> {
    if let Some(hooks) = &core.hooks {
        let text = if hooks.has_serializer() {
            "send_arrow runs no Python code for rows, but this producer has a serializer. Use \
             send_many, or a producer without one"
        } else {
            "send_arrow runs no Python code for rows, but this producer has an interceptor or a \
             partitioner. Use send_many, or a producer without one"
        };
        return Err(errors::raise(py, "IllegalStateError", text));
    }
    core.appender.check_open(py)?;
    let (schema, batches) = capsules::batches(data)?;
    check_partition(topic.to_str()?, partition)?;
    let mut source = ArrowSource::new(&schema, &batches, now_ms())
        .map_err(|error| capsules::columns_error(&error))?;
    if let Some(partition) = partition {
        source = source.to_partition(partition);
    }
    WholeColumn::new(&core.appender, topic, Source::Arrow(source)).map(SendMany::Whole)
}

/// Sends each element like a `send`, because Python steps are set. Each row has its own error.
pub(crate) struct EachRow {
    topic: Py<PyString>,
    columns: Columns,
    rows: Vec<Result<crate::producing::futures::Sent, Py<PyAny>>>,
    current: Option<Sending>,
}

impl EachRow {
    fn new(topic: &Bound<'_, PyString>, columns: Columns) -> Self {
        Self {
            topic: topic.clone().unbind(),
            columns,
            rows: Vec::new(),
            current: None,
        }
    }

    fn given(&self, py: Python<'_>, row: usize) -> Given {
        let columns = &self.columns;
        let item = |column: Option<&Py<PyTuple>>| {
            let value = column.and_then(|items| items.bind(py).get_item(row).ok());
            value.filter(|value| !value.is_none()).map(Bound::unbind)
        };
        Given {
            topic: self.topic.clone_ref(py),
            value: item(Some(&columns.values)),
            key: item(columns.keys.as_ref()),
            headers: item(columns.headers.as_ref()),
            partition: columns.partitions.of(row),
            timestamp_ms: columns.timestamps.as_ref().and_then(|times| times[row]),
        }
    }

    fn poll(
        &mut self,
        py: Python<'_>,
        core: &Core,
        waker: &Waker,
    ) -> PyResult<Option<(Rows, usize)>> {
        let len = self.columns.len(py);
        while self.rows.len() < len {
            let mut sending = match self.current.take() {
                Some(sending) => sending,
                None => Sending::new(self.given(py, self.rows.len())),
            };
            let outcome = match sending.poll(py, core, waker) {
                Ok(None) => {
                    self.current = Some(sending);
                    return Ok(None);
                }
                Ok(Some(outcome)) => outcome,
                // Ctrl-C in a Python step is raised in the caller. The record that it interrupted
                // is not sent.
                Err(error) if !error.is_instance_of::<PyException>(py) => return Err(error),
                Err(error) => {
                    // As for every row without a batch, only its future reports the error.
                    core.appender.accumulator.note_refused(&error.to_string());
                    Err(error.into_value(py).into_any())
                }
            };
            self.rows.push(outcome);
        }
        Ok(Some((Rows::Each(std::mem::take(&mut self.rows)), len)))
    }
}

/// Rows from either kind of column.
enum Source {
    Lists(ListSource),
    Arrow(ArrowSource),
}

impl RecordSource for Source {
    fn rows(&self) -> usize {
        match self {
            Self::Lists(source) => source.rows(),
            Self::Arrow(source) => source.rows(),
        }
    }

    #[inline]
    fn record(&mut self, row: usize) -> Record<'_> {
        match self {
            Self::Lists(source) => source.record(row),
            Self::Arrow(source) => source.record(row),
        }
    }

    fn is_keyless(&self) -> bool {
        match self {
            Self::Lists(source) => source.is_keyless(),
            Self::Arrow(source) => source.is_keyless(),
        }
    }
}

/// Sends a column without Python steps. A row that cannot be appended gets its error as its
/// result.
pub(crate) struct WholeColumn {
    topic: Arc<TopicEntry>,
    rows: usize,
    /// Taken when all rows have their result.
    bulk: Option<BulkAppend<Source>>,
    /// False until the topic is known. An error before that is raised by the call.
    started: bool,
    waiting: Option<Waiting>,
    /// The partition that a row asked for and that the call waits for, and the number of
    /// partitions then.
    missing: (Option<i32>, u32),
    /// Fresh metadata did not have it. Rows for missing partitions do not wait again while the
    /// number of partitions is the same.
    in_vain: bool,
    deadline: Option<Instant>,
}

impl WholeColumn {
    fn new(appender: &Appender, topic: &Bound<'_, PyString>, source: Source) -> PyResult<Self> {
        let topic = Arc::clone(&*appender.topic(topic)?);
        Ok(Self {
            rows: source.rows(),
            started: topic.partition_count() > 0 || source.rows() == 0,
            bulk: Some(BulkAppend::new(Arc::clone(&topic), source)),
            topic,
            waiting: None,
            missing: (None, 0),
            in_vain: false,
            deadline: None,
        })
    }

    fn poll(
        &mut self,
        py: Python<'_>,
        core: &Core,
        waker: &Waker,
    ) -> PyResult<Option<(Rows, usize)>> {
        let appender = &core.appender;
        if !self.started && self.waiting.is_none() {
            let wait = PartitionWait::new(py, appender, self.topic.name(), None)?;
            self.wait_for(appender, Waiting::Partition(wait));
        }
        loop {
            let mut memory = None;
            if let Some(mut waiting) = self.waiting.take() {
                let brought = match waiting.poll(py, appender, waker) {
                    Some(brought) => brought,
                    None if !is_over(self.deadline) => {
                        self.waiting = Some(waiting);
                        return Ok(None);
                    }
                    None => Err(waiting.timed_out(py, appender)),
                };
                match brought {
                    Ok(Brought::Memory(reserved)) => memory = Some(reserved),
                    Ok(Brought::Metadata(_)) => appender.refresh(self.topic.name()),
                    Err(unmet) => self.unmet(py, appender, unmet)?,
                }
                self.started = true;
                self.deadline = None;
            }
            if self.step(py, appender, memory) {
                let bulk = self.bulk.take().expect("not polled again once it is done");
                let rows = bulk.finish();
                if let Some((row, error)) = rows.refused().first() {
                    let text = format!("row {row}: {error}");
                    appender.accumulator.note_refused(&text);
                }
                return Ok(Some((Rows::Bulk(rows), self.rows)));
            }
        }
    }

    /// Appends until all rows are done (returns true) or it must wait (returns false).
    fn step(&mut self, py: Python<'_>, appender: &Appender, memory: Option<Reservation>) -> bool {
        let accumulator = &*appender.accumulator;
        let bulk = self
            .bulk
            .as_mut()
            .expect("not polled again once it is done");
        let step = py.detach(|| match memory {
            None => bulk.step(accumulator, Instant::now),
            Some(memory) => bulk.step_reserved(accumulator, memory, Instant::now),
        });
        match step {
            BulkStep::Done => return true,
            BulkStep::Closed(error) => bulk.refuse_rest(&error),
            BulkStep::BufferExhausted(wait) => self.wait_for(appender, Waiting::memory(wait)),
            BulkStep::UnknownPartition {
                partition,
                partitions,
                ..
            } if self.in_vain && self.missing.1 == partitions => {
                bulk.refuse_row(unknown_partition(self.topic.name(), partition, partitions));
            }
            BulkStep::UnknownPartition {
                partition,
                partitions,
                ..
            } => match PartitionWait::new(py, appender, self.topic.name(), partition) {
                Ok(wait) => {
                    self.missing = (partition, partitions);
                    self.wait_for(appender, Waiting::Partition(wait));
                }
                Err(_) => {
                    bulk.refuse_row(unknown_partition(self.topic.name(), partition, partitions));
                }
            },
        }
        false
    }

    fn wait_for(&mut self, appender: &Appender, waiting: Waiting) {
        self.waiting = Some(waiting);
        self.deadline = Some(appender.budget());
    }

    /// Handles a failed wait: some rows get the error, or the call if no row was processed.
    fn unmet(&mut self, py: Python<'_>, appender: &Appender, unmet: Unmet) -> PyResult<()> {
        let bulk = self
            .bulk
            .as_mut()
            .expect("not polled again once it is done");
        let error = match unmet {
            unmet if !self.started => return Err(unmet.into_error(py).into_raised(py)),
            Unmet::Memory(error) => error,
            Unmet::Metadata(_) => match appender.metadata.lookup(self.topic.name()) {
                TopicLookup::Known(_) => {
                    let (partition, partitions) = self.missing;
                    self.in_vain = true;
                    let error = unknown_partition(self.topic.name(), partition, partitions);
                    bulk.refuse_row(error);
                    return Ok(());
                }
                // The topic itself is gone or refused. No other row can succeed, and each would
                // wait as long.
                lookup => topic_gone(self.topic.name(), self.missing.0, &lookup),
            },
        };
        bulk.refuse_rest(&error);
        Ok(())
    }
}

fn topic_gone(topic: &Str, partition: Option<i32>, lookup: &TopicLookup) -> ProducerError {
    let (code, message) = match lookup {
        TopicLookup::Refused(code) => (*code, code.name().to_owned()),
        TopicLookup::Unreachable(error) => (ErrorCode::NETWORK_EXCEPTION, error.to_string()),
        _ => (
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            "no metadata within max_block_ms".to_owned(),
        ),
    };
    ProducerError::Broker {
        topic: topic.clone(),
        partition: partition.unwrap_or(-1),
        code,
        message: Str::from(message),
        possibly_written: false,
    }
}

fn unknown_partition(topic: &Str, partition: Option<i32>, partitions: u32) -> ProducerError {
    ProducerError::Broker {
        topic: topic.clone(),
        partition: partition.unwrap_or(-1),
        code: ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        message: Str::from(format!("the topic has {partitions} partitions")),
        possibly_written: false,
    }
}
