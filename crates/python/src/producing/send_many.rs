//! `send_many` and `send_arrow`: send a list or Arrow data in one call.
//!
//! Lists are converted to slices under the GIL. Partitioning, encoding and waiting run without it
//! (`BulkSend` of the network crate). If Python steps are set, each element is sent like a `send`
//! (`EachRow`), here, because each of them holds the GIL.

use std::ops::Deref;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyInt, PyMemoryView, PySequence, PyString, PyTuple};
use thalweg_columns::ArrowSource;
use thalweg_network::Operation;
use thalweg_network::producer::BulkSend;
use thalweg_producer::{Record, RecordSource};

use crate::convert::options::now_ms;
use crate::convert::{capsules, errors};
use crate::operation::PyOperation;
use crate::producing::append::check_partition;
use crate::producing::batch_futures::Rows;
use crate::producing::futures::SentRecord;
use crate::producing::list_source::{Columns, ListSource, Partitions, at_row};
use crate::producing::open_producer::OpenProducer;
use crate::producing::outgoing;
use crate::producing::sending::{Given, Sending};

/// A column that is being sent. Its output is where the rows are, and how many there are.
pub(crate) enum SendMany<C> {
    Whole(WholeColumn),
    Each(EachRow<C>),
}

impl<C: Deref<Target = OpenProducer> + Clone> PyOperation for SendMany<C> {
    type Output = (Rows, usize);

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Self::Output>> {
        match self {
            Self::Whole(column) => column.poll(py, waker),
            Self::Each(rows) => rows.poll(py, waker),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Whole(column) => column.deadline(),
            Self::Each(rows) => rows.current.as_ref().and_then(PyOperation::deadline),
        }
    }

    fn give_up(&mut self, py: Python<'_>, error: &PyErr) {
        if let Self::Each(rows) = self
            && let Some(sending) = &mut rows.current
        {
            sending.give_up(py, error);
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
pub(crate) fn send_lists<'py, C: Deref<Target = OpenProducer>>(
    py: Python<'py>,
    core: C,
    topic: &Bound<'py, PyString>,
    columns: Columns,
    serialized: bool,
) -> PyResult<SendMany<C>> {
    core.check_open(py)?;
    let hooks = core.hooks.as_ref().filter(|_| !serialized);
    if hooks.is_some_and(|hooks| hooks.is_per_record() || hooks.has_serializer()) {
        return Ok(SendMany::Each(EachRow::new(core, topic, columns)));
    }
    let source = ListSource::new(py, columns, now_ms())?;
    WholeColumn::new(&core, topic, Source::Lists(source)).map(SendMany::Whole)
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
    core: &OpenProducer,
    topic: &Bound<'py, PyString>,
    data: &Bound<'py, PyAny>,
    partition: Option<i32>,
) -> PyResult<WholeColumn> {
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
    core.check_open(py)?;
    let (schema, batches) = capsules::batches(data)?;
    check_partition(topic.to_str()?, partition)?;
    let mut source = ArrowSource::new(&schema, &batches, now_ms())
        .map_err(|error| capsules::columns_error(&error))?;
    if let Some(partition) = partition {
        source = source.to_partition(partition);
    }
    WholeColumn::new(core, topic, Source::Arrow(source))
}

/// Sends each element like a `send`, because Python steps are set. Each row has its own error.
pub(crate) struct EachRow<C> {
    core: C,
    topic: Py<PyString>,
    columns: Columns,
    rows: Vec<Result<SentRecord, Py<PyAny>>>,
    current: Option<Sending<C>>,
}

impl<C: Deref<Target = OpenProducer>> EachRow<C> {
    fn new(core: C, topic: &Bound<'_, PyString>, columns: Columns) -> Self {
        Self {
            core,
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

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<(Rows, usize)>>
    where
        C: Clone,
    {
        let len = self.columns.len(py);
        while self.rows.len() < len {
            let mut sending = match self.current.take() {
                Some(sending) => sending,
                None => Sending::new(self.core.clone(), self.given(py, self.rows.len())),
            };
            let outcome = match sending.poll(py, waker) {
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
                    self.core.accumulator.note_refused(&error.to_string());
                    // With its traceback, which shows where the Python step raised. Its frames lead
                    // to those of the callers, so the garbage collector must see it.
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

/// Sends a column without Python steps.
pub(crate) struct WholeColumn {
    send: BulkSend<Source>,
    rows: usize,
}

impl WholeColumn {
    fn new(core: &OpenProducer, topic: &Bound<'_, PyString>, source: Source) -> PyResult<Self> {
        let rows = source.rows();
        let (client, topic) = (Arc::clone(&core.client), Arc::clone(&*core.topic(topic)?));
        let send = BulkSend::new(client, topic, source, core.max_block);
        Ok(Self { send, rows })
    }
}

impl PyOperation for WholeColumn {
    type Output = (Rows, usize);

    fn poll(&mut self, py: Python<'_>, waker: &Waker) -> PyResult<Option<Self::Output>> {
        let outcome = py.detach(|| Operation::poll(&mut self.send, waker));
        match outcome.transpose() {
            Ok(rows) => Ok(rows.map(|rows| (Rows::Bulk(rows), self.rows))),
            Err(error) => Err(errors::client(py, &error)),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        Operation::deadline(&self.send)
    }
}
