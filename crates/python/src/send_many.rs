//! `send_many` and `send_arrow`: one crossing for a whole column.
//!
//! Lists are read into slices under the GIL; partitioning, encoding and waiting go on without it.

use std::time::Instant;

use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PySequence, PyString, PyTuple};
use thalweg_cluster::metadata::TopicLookup;
use thalweg_columns::ArrowSource;
use thalweg_producer::{AppendedRows, BulkAppend, BulkStep, ProducerError, Record, RecordSource};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_records::{HeaderRef, Headers};

use crate::append::{Appender, NotAppended, now_ms};
use crate::batch_futures::{FutureBatchMetadata, Rows};
use crate::hooks::{Given, Hooks};
use crate::outgoing::{Data, HeaderList, header_refs};
use crate::producer::Core;
use crate::{capsules, errors, gil};

/// What a `send_many` was given, each column as a tuple of its own (the caller's list may change).
struct Columns<'py> {
    values: Bound<'py, PyTuple>,
    keys: Option<Bound<'py, PyTuple>>,
    headers: Option<Bound<'py, PyTuple>>,
    partitions: Partitions,
    timestamps: Option<Vec<Option<i64>>>,
}

enum Partitions {
    Chosen,
    One(i32),
    Each(Vec<Option<i32>>),
}

impl Partitions {
    fn of(&self, row: usize) -> Option<i32> {
        match self {
            Self::Chosen => None,
            Self::One(partition) => Some(*partition),
            Self::Each(partitions) => partitions[row],
        }
    }
}

/// Rows of Python lists as slices.
struct ListSource<'a> {
    values: &'a [Data<'a>],
    keys: Option<&'a [Data<'a>]>,
    headers: Option<&'a [Vec<HeaderRef<'a>>]>,
    partitions: &'a Partitions,
    timestamps: Option<&'a [Option<i64>]>,
    now_ms: i64,
}

impl RecordSource for ListSource<'_> {
    fn rows(&self) -> usize {
        self.values.len()
    }

    fn record(&mut self, row: usize) -> Record<'_> {
        Record {
            partition: self.partitions.of(row),
            timestamp_ms: self
                .timestamps
                .and_then(|times| times[row])
                .unwrap_or(self.now_ms),
            key: self.keys.and_then(|keys| keys[row].as_slice()),
            value: self.values[row].as_slice(),
            headers: self
                .headers
                .map_or(Headers::default(), |rows| Headers::List(&rows[row])),
        }
    }

    fn is_keyless(&self) -> bool {
        self.keys.is_none() && matches!(self.partitions, Partitions::Chosen)
    }
}

/// `send_many`.
#[allow(clippy::too_many_arguments)]
pub(crate) fn send_lists<'py>(
    py: Python<'py>,
    core: &Core,
    topic: &Bound<'py, PyString>,
    values: &Bound<'py, PyAny>,
    keys: Option<&Bound<'py, PyAny>>,
    headers: Option<&Bound<'py, PyAny>>,
    partition: Option<&Bound<'py, PyAny>>,
    timestamps_ms: Option<&Bound<'py, PyAny>>,
) -> PyResult<FutureBatchMetadata> {
    let values = column("values", values, None)?;
    let len = values.len();
    let optional = |name, given: Option<&Bound<'py, PyAny>>| {
        given
            .map(|given| column(name, given, Some(len)))
            .transpose()
    };
    let columns = Columns {
        keys: optional("keys", keys)?,
        headers: optional("headers", headers)?,
        partitions: match partition {
            None => Partitions::Chosen,
            Some(one) if one.is_instance_of::<PyInt>() => Partitions::One(one.extract()?),
            Some(each) => Partitions::Each(column("partition", each, Some(len))?.extract_vec()?),
        },
        timestamps: optional("timestamps_ms", timestamps_ms)?
            .map(|times| times.extract_vec())
            .transpose()?,
        values,
    };
    if let Some(hooks) = core
        .hooks
        .as_ref()
        .filter(|hooks| hooks.is_per_record() || hooks.has_serializer())
    {
        return Ok(send_each(py, core, hooks, topic, &columns));
    }
    send_slices(py, core, topic, &columns)
}

trait ExtractVec {
    fn extract_vec<T>(&self) -> PyResult<Vec<Option<T>>>
    where
        T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>;
}

impl ExtractVec for Bound<'_, PyTuple> {
    fn extract_vec<T>(&self) -> PyResult<Vec<Option<T>>>
    where
        T: for<'a, 'py> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        self.iter()
            .map(|item| {
                if item.is_none() {
                    Ok(None)
                } else {
                    item.extract::<T>().map(Some).map_err(Into::into)
                }
            })
            .collect()
    }
}

/// A column as a tuple, of the wanted length.
fn column<'py>(
    name: &str,
    given: &Bound<'py, PyAny>,
    len: Option<usize>,
) -> PyResult<Bound<'py, PyTuple>> {
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

/// No Python steps: slices, then everything without the GIL.
fn send_slices<'py>(
    py: Python<'py>,
    core: &Core,
    topic: &Bound<'py, PyString>,
    columns: &Columns<'py>,
) -> PyResult<FutureBatchMetadata> {
    let value_objects: Vec<Bound<'py, PyAny>> = columns.values.iter().collect();
    let values = data_of(&value_objects, "value")?;
    let key_objects: Option<Vec<Bound<'py, PyAny>>> =
        columns.keys.as_ref().map(|keys| keys.iter().collect());
    let keys = key_objects
        .as_ref()
        .map(|objects| data_of(objects, "key"))
        .transpose()?;
    let held = columns.headers.as_ref().map(held_headers).transpose()?;
    let header_data = held
        .as_ref()
        .map(|lists| {
            lists
                .iter()
                .map(HeaderList::data)
                .collect::<PyResult<Vec<_>>>()
        })
        .transpose()?;
    let header_slices: Option<Vec<Vec<HeaderRef<'_>>>> = header_data
        .as_ref()
        .map(|rows| rows.iter().map(|row| header_refs(row)).collect());
    for (row, value) in values.iter().enumerate() {
        let has_key = keys
            .as_ref()
            .is_some_and(|keys| keys[row].as_slice().is_some());
        if value.as_slice().is_none() && !has_key {
            return Err(PyValueError::new_err(format!(
                "row {row}: Need at least one: key or value"
            )));
        }
    }
    let source = ListSource {
        values: &values,
        keys: keys.as_deref(),
        headers: header_slices.as_deref(),
        partitions: &columns.partitions,
        timestamps: columns.timestamps.as_deref(),
        now_ms: now_ms(),
    };
    let rows = append_all(py, &core.appender, topic, source)?;
    Ok(FutureBatchMetadata::new(
        Rows::Bulk(rows),
        columns.values.len(),
    ))
}

/// Refuses the whole column for one wrong element, by its row: nothing was sent yet.
fn data_of<'a>(objects: &'a [Bound<'_, PyAny>], what: &str) -> PyResult<Vec<Data<'a>>> {
    let rows = objects.iter().enumerate();
    rows.map(|(row, object)| {
        Data::new(Some(object), what).map_err(|error| {
            let text = format!("row {row}: {}", error.value(object.py()));
            PyTypeError::new_err(text)
        })
    })
    .collect()
}

fn held_headers<'py>(rows: &Bound<'py, PyTuple>) -> PyResult<Vec<HeaderList<'py>>> {
    rows.iter()
        .map(|row| {
            if row.is_none() {
                Ok(HeaderList::empty())
            } else {
                HeaderList::new(&row)
            }
        })
        .collect()
}

/// Python steps are set: each element goes the way of a `send`; its error is its own.
fn send_each<'py>(
    py: Python<'py>,
    core: &Core,
    hooks: &Hooks,
    topic: &Bound<'py, PyString>,
    columns: &Columns<'py>,
) -> FutureBatchMetadata {
    let item = |column: &Option<Bound<'py, PyTuple>>, row: usize| {
        let value = column.as_ref().and_then(|items| items.get_item(row).ok());
        value.filter(|value| !value.is_none())
    };
    let rows = columns.values.iter().enumerate().map(|(row, value)| {
        let given = Given {
            topic: topic.clone(),
            value: (!value.is_none()).then_some(value),
            key: item(&columns.keys, row),
            headers: item(&columns.headers, row),
            partition: columns.partitions.of(row),
            timestamp_ms: columns.timestamps.as_ref().and_then(|times| times[row]),
        };
        hooks
            .send_one(py, &core.appender, given)
            .map_err(|error| match error {
                NotAppended::Raise(error) => error.into_value(py).into_any(),
                NotAppended::Fail(error) => error,
            })
    });
    FutureBatchMetadata::new(Rows::Each(rows.collect()), columns.values.len())
}

/// `send_arrow`.
pub(crate) fn send_columns<'py>(
    py: Python<'py>,
    core: &Core,
    topic: &Bound<'py, PyString>,
    data: &Bound<'py, PyAny>,
) -> PyResult<FutureBatchMetadata> {
    if let Some(hooks) = &core.hooks {
        let text = if hooks.has_serializer() {
            "send_arrow sends columns of bytes or strings; a serializer is set in Python"
        } else {
            "send_arrow does not visit Python for each row; an interceptor or partitioner is set"
        };
        return Err(errors::raise(py, "IllegalStateError", text));
    }
    let (schema, batches) = capsules::batches(data)?;
    let source = ArrowSource::new(&schema, &batches, now_ms())
        .map_err(|error| capsules::columns_error(&error))?;
    let len = source.rows();
    let rows = append_all(py, &core.appender, topic, source)?;
    Ok(FutureBatchMetadata::new(Rows::Bulk(rows), len))
}

/// Appends all rows; what cannot be appended has its error as its outcome.
fn append_all<S: RecordSource + Send>(
    py: Python<'_>,
    appender: &Appender,
    topic: &Bound<'_, PyString>,
    source: S,
) -> PyResult<AppendedRows> {
    let entry = appender.topic(topic)?;
    if entry.partition_count() == 0 && source.rows() > 0 {
        if let Err(error) = appender.await_partition(py, entry.name(), None, appender.budget()) {
            return Err(match error {
                NotAppended::Raise(error) => error,
                NotAppended::Fail(error) => PyErr::from_value(error.into_bound(py)),
            });
        }
        // The entry takes what has just become known.
        appender.accumulator.topic(entry.name());
    }
    let accumulator = &*appender.accumulator;
    let mut bulk = BulkAppend::new(std::sync::Arc::clone(entry), source);
    let mut step = py.detach(|| bulk.step(accumulator, Instant::now));
    loop {
        step = match step {
            BulkStep::Done => break,
            BulkStep::Closed(error) => {
                bulk.refuse_rest(&error);
                break;
            }
            BulkStep::BufferExhausted(mut wait) => {
                let memory = gil::wait(py, Some(appender.budget()), |waker| {
                    match wait.poll_reservation(waker) {
                        std::task::Poll::Ready(result) => Some(result),
                        std::task::Poll::Pending => None,
                    }
                })?;
                match memory {
                    Some(Ok(reservation)) => {
                        py.detach(|| bulk.step_reserved(accumulator, reservation, Instant::now))
                    }
                    Some(Err(error)) => {
                        bulk.refuse_rest(&error);
                        break;
                    }
                    None => {
                        bulk.refuse_rest(&ProducerError::BufferExhausted);
                        break;
                    }
                }
            }
            BulkStep::UnknownPartition {
                partition,
                partitions,
                ..
            } => {
                match appender.await_partition(py, entry.name(), partition, appender.budget()) {
                    Ok(_) => {
                        accumulator.topic(entry.name());
                    }
                    // A signal's exception ends the call; what was appended is on its way.
                    Err(NotAppended::Raise(error)) if !error.is_instance_of::<PyException>(py) => {
                        return Err(error);
                    }
                    Err(_) => match appender.metadata.lookup(entry.name()) {
                        TopicLookup::Known(_) => {
                            bulk.refuse_row(unknown_partition(entry.name(), partition, partitions));
                        }
                        // The topic itself is gone or refused: no other row will fare better, and
                        // each would wait as long.
                        lookup => bulk.refuse_rest(&topic_gone(entry.name(), partition, &lookup)),
                    },
                }
                py.detach(|| bulk.step(accumulator, Instant::now))
            }
        };
    }
    Ok(bulk.finish())
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
