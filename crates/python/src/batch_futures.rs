//! `FutureBatchMetadata`: the outcome of a `send_many` or `send_arrow`, done with its last batch.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView, PyTuple};
use thalweg_producer::{Acknowledged, AppendedRows, ProducerError};

use crate::callbacks::{self, Work};
use crate::futures::{self, Awaited, Outcome, Sent, Wanted, when_batch_done};
use crate::{errors, types};

/// Where the rows went: as ranges, or row by row where Python steps were set.
pub(crate) enum Rows {
    Bulk(AppendedRows),
    Each(Vec<Result<Sent, Py<PyAny>>>),
}

/// A row's own error.
enum RowError {
    Core(ProducerError),
    Python(Py<PyAny>),
}

/// What all rows came to.
struct Settled {
    /// Offset by row, -1 where it is not known.
    offsets: Vec<i64>,
    count: usize,
    /// Count, first and last offset by topic and partition.
    partitions: BTreeMap<(String, i32), (usize, i64, i64)>,
    errors: Vec<(usize, RowError)>,
}

/// Shared by the future, its callbacks and its metadata.
pub(crate) struct Batch {
    rows: Rows,
    len: usize,
    settled: OnceLock<Settled>,
    outcome: PyOnceLock<Result<Py<PyAny>, Py<PyAny>>>,
}

impl Batch {
    fn pending(&self) -> Option<&Arc<thalweg_producer::BatchCompletion>> {
        match &self.rows {
            // From the end: what was appended last is usually done last.
            Rows::Bulk(rows) => rows
                .completions()
                .rev()
                .find(|completion| !completion.is_done()),
            Rows::Each(rows) => rows
                .iter()
                .rev()
                .filter_map(|row| row.as_ref().ok())
                .map(|sent| &sent.completion)
                .find(|completion| !completion.is_done()),
        }
    }

    fn settled(&self, py: Python<'_>) -> &Settled {
        self.settled.get_or_init(|| {
            let mut settled = Settled {
                offsets: vec![-1; self.len],
                count: 0,
                partitions: BTreeMap::new(),
                errors: Vec::new(),
            };
            match &self.rows {
                Rows::Bulk(rows) => settled.take_bulk(rows),
                Rows::Each(rows) => settled.take_each(py, rows),
            }
            settled.errors.sort_by_key(|(row, _)| *row);
            settled
        })
    }
}

impl Settled {
    fn take_bulk(&mut self, rows: &AppendedRows) {
        for (row, completion, index) in rows.iter() {
            let outcome = completion
                .outcome(index)
                .expect("asked for once all is done");
            match outcome {
                Ok(written) => {
                    self.written(row, completion.topic(), completion.partition(), written);
                }
                Err(error) => self.errors.push((row, RowError::Core(error))),
            }
        }
        for (row, error) in rows.refused() {
            self.errors.push((*row, RowError::Core(error.clone())));
        }
    }

    fn take_each(&mut self, py: Python<'_>, rows: &[Result<Sent, Py<PyAny>>]) {
        for (row, sent) in rows.iter().enumerate() {
            match sent {
                Err(error) => self
                    .errors
                    .push((row, RowError::Python(error.clone_ref(py)))),
                Ok(sent) => {
                    let completion = &sent.completion;
                    match completion
                        .outcome(sent.index)
                        .expect("asked for once all is done")
                    {
                        Ok(written) => {
                            self.written(row, completion.topic(), completion.partition(), written);
                        }
                        Err(error) => self.errors.push((row, RowError::Core(error))),
                    }
                }
            }
        }
    }

    fn written(&mut self, row: usize, topic: &str, partition: i32, written: Acknowledged) {
        self.offsets[row] = written.offset;
        self.count += 1;
        let offset = written.offset;
        let key = (topic.to_owned(), partition);
        let entry = self.partitions.entry(key).or_insert((0, offset, offset));
        entry.0 += 1;
        entry.1 = entry.1.min(offset);
        entry.2 = entry.2.max(offset);
    }
}

impl Awaited for Batch {
    fn is_done(&self) -> bool {
        self.pending().is_none()
    }

    fn poll_done(&self, waker: &Waker) -> bool {
        while let Some(completion) = self.pending() {
            if completion.poll_done(waker).is_pending() {
                return false;
            }
        }
        true
    }

    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Outcome<'py>> {
        let known = self.outcome.get_or_try_init(py, || -> PyResult<_> {
            // The metadata shares what was settled; a strong reference to the rows is not needed.
            let settled = self.settled(py);
            let metadata = Bound::new(py, BatchMetadata::new(settled))?.into_any();
            if settled.errors.is_empty() {
                return Ok(Ok(metadata.unbind()));
            }
            let list = PyList::empty(py);
            for (row, error) in &settled.errors {
                let error = match error {
                    RowError::Core(error) => errors::producer(py, error)?,
                    RowError::Python(error) => error.bind(py).clone(),
                };
                list.append((row, error))?;
            }
            let fields = PyDict::new(py);
            fields.set_item("errors", list)?;
            fields.set_item("metadata", metadata)?;
            let class = py.import("thalweg.errors")?.getattr("BatchSendError")?;
            Ok(Err(class.call((), Some(&fields))?.unbind()))
        })?;
        Ok(match known {
            Ok(value) => Ok(value.bind(py).clone()),
            Err(error) => Err(error.bind(py).clone()),
        })
    }

    fn when_done(&self, work: Work) {
        // Only called through `FutureBatchMetadata::later`, which knows how to chain.
        callbacks::current().run(work);
    }
}

/// The outcome of many records.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct FutureBatchMetadata(Arc<Batch>);

impl FutureBatchMetadata {
    pub(crate) fn new(rows: Rows, len: usize) -> Self {
        Self(Arc::new(Batch {
            rows,
            len,
            settled: OnceLock::new(),
            outcome: PyOnceLock::new(),
        }))
    }

    fn add(
        &self,
        py: Python<'_>,
        wanted: Wanted,
        f: Py<PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) {
        let (args, kwargs) = (
            args.clone().unbind(),
            kwargs.map(|given| given.clone().unbind()),
        );
        let batch = Arc::clone(&self.0);
        if batch.is_done() {
            futures::add(py, batch, wanted, f, args, kwargs);
        } else {
            later(batch, wanted, f, args, kwargs);
        }
    }
}

/// Waits on the callback thread's side for one batch after the other, then calls.
fn later(
    batch: Arc<Batch>,
    wanted: Wanted,
    f: Py<PyAny>,
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
) {
    let Some(pending) = batch.pending().map(Arc::clone) else {
        callbacks::current().run(Box::new(move |py| {
            futures::add(py, batch, wanted, f, args, kwargs);
        }));
        return;
    };
    when_batch_done(
        &pending,
        0,
        Box::new(move |_| later(batch, wanted, f, args, kwargs)),
    );
}

#[pymethods]
impl FutureBatchMetadata {
    #[pyo3(signature = (timeout = None))]
    fn get<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        futures::get(py, &*self.0, timeout)
    }

    #[getter]
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(futures::known(py, &*self.0)?.and_then(Result::ok))
    }

    #[getter]
    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(futures::known(py, &*self.0)?.and_then(Result::err))
    }

    fn succeeded(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(futures::known(py, &*self.0)?.is_some_and(|outcome| outcome.is_ok()))
    }

    fn failed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(futures::known(py, &*self.0)?.is_some_and(|outcome| outcome.is_err()))
    }

    /// Whether sending the failed rows again may help: if it may for each of them.
    fn retriable(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(error) = self.exception(py)? else {
            return Ok(false);
        };
        for item in error.getattr("errors")?.try_iter()? {
            let retriable = item?.get_item(1)?.getattr_opt("retriable")?;
            if !retriable.is_some_and(|flag| flag.is_truthy().unwrap_or(false)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_callback<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyRef<'py, Self> {
        slf.add(py, Wanted::Value, f, args, kwargs);
        slf
    }

    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_errback<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyRef<'py, Self> {
        slf.add(py, Wanted::Exception, f, args, kwargs);
        slf
    }

    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_both<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyRef<'py, Self> {
        slf.add(py, Wanted::Both, f, args, kwargs);
        slf
    }

    fn __len__(&self) -> usize {
        self.0.len
    }
}

/// What was written of many records.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct BatchMetadata {
    count: usize,
    partitions: BTreeMap<(String, i32), (usize, i64, i64)>,
    offsets: Vec<i64>,
    view: PyOnceLock<Py<PyAny>>,
}

impl BatchMetadata {
    fn new(settled: &Settled) -> Self {
        Self {
            count: settled.count,
            partitions: settled.partitions.clone(),
            offsets: settled.offsets.clone(),
            view: PyOnceLock::new(),
        }
    }
}

#[pymethods]
impl BatchMetadata {
    #[getter]
    fn count(&self) -> usize {
        self.count
    }

    #[getter]
    fn partitions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for ((topic, partition), (count, first, last)) in &self.partitions {
            let key = types::topic_partition(py, topic, *partition)?;
            dict.set_item(key, (count, first, last))?;
        }
        Ok(dict)
    }

    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let view = self.view.get_or_try_init(py, || -> PyResult<_> {
            let raw: Vec<u8> = self
                .offsets
                .iter()
                .flat_map(|offset| offset.to_ne_bytes())
                .collect();
            let bytes = PyBytes::new(py, &raw);
            let view = PyMemoryView::from(bytes.as_any())?;
            Ok(view.call_method1("cast", ("q",))?.unbind())
        })?;
        Ok(view.bind(py).clone())
    }

    fn __len__(&self) -> usize {
        self.offsets.len()
    }
}
