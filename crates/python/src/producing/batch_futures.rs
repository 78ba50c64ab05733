//! `FutureBatchMetadata`: the result of a `send_many` or `send_arrow`, done with its last batch.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use thalweg_producer::{AppendedRows, BatchCompletion, ProducerError};

use crate::convert::errors;
use crate::interpreter::callbacks::{self, Work};
use crate::producing::batch_metadata::{BatchMetadata, Settled, Written};
use crate::producing::futures::{self, Awaited, Outcome, SentRecord, Wanted, when_batch_done};

/// Where the rows went: as ranges, or row by row if Python steps are set.
pub(crate) enum Rows {
    Bulk(AppendedRows),
    Each(Vec<Result<SentRecord, Py<PyAny>>>),
}

/// The error of one row.
enum RowError {
    Producer(ProducerError),
    Python(Py<PyAny>),
}

/// What is known of rows that are done.
struct Known {
    metadata: Py<BatchMetadata>,
    /// [(row, error)], if there are any.
    errors: Option<Py<PyList>>,
}

/// Shared by the future, its callbacks and its metadata.
pub(crate) struct Batch {
    rows: Rows,
    len: usize,
    known: OnceLock<Known>,
}

impl Batch {
    pub(crate) fn new(rows: Rows, len: usize) -> Self {
        Self {
            rows,
            len,
            known: OnceLock::new(),
        }
    }

    fn pending(&self) -> Option<&Arc<BatchCompletion>> {
        match &self.rows {
            // Starts at the end: the batch appended last is usually done last.
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

    fn settle(&self, py: Python<'_>) -> (Settled, Vec<(usize, RowError)>) {
        let mut tally = Tally::new(self.len);
        match &self.rows {
            Rows::Bulk(rows) => {
                for (row, completion, index) in rows.iter() {
                    tally.take(row, completion, index);
                }
                for (row, error) in rows.refused() {
                    tally.errors.push((*row, RowError::Producer(error.clone())));
                }
            }
            Rows::Each(rows) => {
                for (row, sent) in rows.iter().enumerate() {
                    match sent {
                        Ok(sent) => tally.take(row, &sent.completion, sent.index),
                        Err(error) => tally
                            .errors
                            .push((row, RowError::Python(error.clone_ref(py)))),
                    }
                }
            }
        }
        tally.finish()
    }

    /// Returns what is known of the rows. Call it only once they are done.
    fn known(&self, py: Python<'_>) -> PyResult<&Known> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let (settled, errors) = self.settle(py);
        let metadata = Py::new(py, BatchMetadata::from(settled))?;
        let list = PyList::empty(py);
        for (row, error) in &errors {
            let error = match error {
                RowError::Producer(error) => errors::producer(py, error)?,
                RowError::Python(error) => error.bind(py).clone(),
            };
            list.append((row, error))?;
        }
        let errors = (!errors.is_empty()).then(|| list.unbind());
        Ok(self.known.get_or_init(|| Known { metadata, errors }))
    }

    /// Shows the errors to the garbage collector. An error that was raised, in a serializer or by the
    /// application, holds the frames that it passed, and they hold the future.
    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(known) = self.known.get() {
            visit.call(known.errors.as_ref())?;
        }
        if let Rows::Each(rows) = &self.rows {
            for error in rows.iter().filter_map(|row| row.as_ref().err()) {
                visit.call(error)?;
            }
        }
        Ok(())
    }
}

/// Sums up rows by batch: it looks a partition up once per run of rows, not once per row.
struct Tally<'a> {
    settled: Settled,
    errors: Vec<(usize, RowError)>,
    /// The current run: its batch, count, first and last offset.
    run: Option<(&'a Arc<BatchCompletion>, Written)>,
}

impl<'a> Tally<'a> {
    fn new(len: usize) -> Self {
        let settled = Settled {
            offsets: vec![-1; len],
            count: 0,
            partitions: BTreeMap::new(),
        };
        Self {
            settled,
            errors: Vec::new(),
            run: None,
        }
    }

    fn take(&mut self, row: usize, completion: &'a Arc<BatchCompletion>, index: u32) {
        let outcome = completion
            .outcome(index)
            .expect("every record of the batch has its outcome");
        let offset = match outcome {
            Ok(written) => written.offset,
            Err(error) => return self.errors.push((row, RowError::Producer(error))),
        };
        self.settled.offsets[row] = offset;
        let same = |known: &&'a Arc<BatchCompletion>| Arc::ptr_eq(known, completion);
        if !self.run.as_ref().is_some_and(|(known, _)| same(known)) {
            self.end_run();
            self.run = Some((completion, (0, offset, offset)));
        }
        if let Some((_, (count, first, last))) = &mut self.run {
            *count += 1;
            *first = offset.min(*first);
            *last = offset.max(*last);
        }
    }

    fn end_run(&mut self) {
        let Some((completion, (count, first, last))) = self.run.take() else {
            return;
        };
        self.settled.count += count;
        let key = (completion.topic().clone(), completion.partition());
        let entry = self.settled.partitions.entry(key);
        let known = entry.or_insert((0, first, last));
        *known = (known.0 + count, known.1.min(first), known.2.max(last));
    }

    fn finish(mut self) -> (Settled, Vec<(usize, RowError)>) {
        self.end_run();
        self.errors.sort_by_key(|(row, _)| *row);
        (self.settled, self.errors)
    }
}

impl Awaited for Batch {
    fn is_done(&self) -> bool {
        self.pending().is_none()
    }

    fn is_orphaned(&self) -> bool {
        self.pending()
            .is_some_and(|completion| completion.is_orphaned())
    }

    fn poll_done(&self, waker: &Waker) -> bool {
        while let Some(completion) = self.pending() {
            if completion.poll_done(waker).is_pending() {
                return false;
            }
        }
        true
    }

    fn hasten(&self) {
        match &self.rows {
            Rows::Bulk(rows) => rows.completions().for_each(|batch| batch.hasten()),
            Rows::Each(rows) => rows.iter().flatten().for_each(SentRecord::hasten),
        }
    }

    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Outcome<'py>> {
        let Known { metadata, errors } = self.known(py)?;
        let metadata = metadata.bind(py);
        let Some(errors) = errors else {
            return Ok(Ok(metadata.clone().into_any()));
        };
        // A new one each time: a raised error holds the frames that it passed.
        let fields = PyDict::new(py);
        fields.set_item("errors", errors)?;
        fields.set_item("metadata", metadata)?;
        let class = py.import("thalweg.errors")?.getattr("BatchSendError")?;
        Ok(Err(class.call((), Some(&fields))?))
    }

    /// Waits for one batch after the other, because some may be done before their turn.
    fn when_done(self: Arc<Self>, py: Python<'_>, work: Work) {
        match self.pending().map(Arc::clone) {
            None => callbacks::current().run_now_or_in_turn(py, work),
            Some(pending) => {
                let again = Box::new(move |py: Python<'_>| self.when_done(py, work));
                when_batch_done(py, &pending, 0, again);
            }
        }
    }
}

/// The result of `send_many` or `send_arrow`. It is done when every row has its result.
///
/// `len()` is the number of rows given to the call.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct FutureBatchMetadata(Arc<Batch>);

impl FutureBatchMetadata {
    pub(crate) fn new(rows: Rows, len: usize) -> Self {
        Self(Arc::new(Batch::new(rows, len)))
    }

    fn add(
        &self,
        py: Python<'_>,
        wanted: Wanted,
        f: Py<PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let (args, kwargs) = (
            args.clone().unbind(),
            kwargs.map(|given| given.clone().unbind()),
        );
        futures::add(py, Arc::clone(&self.0), wanted, f, args, kwargs)
    }
}

#[pymethods]
impl FutureBatchMetadata {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // A callback that shares the rows may still need them, and the collector does not see it.
        if Arc::strong_count(&self.0) > 1 {
            return Ok(());
        }
        self.0.traverse(&visit)
    }

    /// Waits for all rows, at most `timeout` seconds. None means no limit.
    ///
    /// Raises `BatchSendError(errors=[(row, exception)], metadata=...)` if any row failed, or
    /// `KafkaTimeoutError` after the timeout.
    #[pyo3(signature = (timeout = None))]
    fn get<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        futures::get(py, &*self.0, timeout)
    }

    /// Whether the result of every row is known.
    #[getter]
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    /// Where the rows were written, if it is done and no row failed.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(futures::known(py, &*self.0)?.and_then(Result::ok))
    }

    /// The `BatchSendError`, if it is done and a row failed.
    #[getter]
    fn exception<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(futures::known(py, &*self.0)?.and_then(Result::err))
    }

    /// Whether it is done and every row was written.
    fn succeeded(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(futures::known(py, &*self.0)?.is_some_and(|outcome| outcome.is_ok()))
    }

    /// Whether it is done and a row failed.
    fn failed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(futures::known(py, &*self.0)?.is_some_and(|outcome| outcome.is_err()))
    }

    /// Whether it failed, and sending the failed rows again may succeed for each of them.
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

    /// Calls `f(*args, BatchMetadata, **kwargs)` if no row fails. See `FutureRecordMetadata`.
    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_callback<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyRef<'py, Self>> {
        slf.add(py, Wanted::Value, f, args, kwargs)?;
        Ok(slf)
    }

    /// Calls `f(*args, BatchSendError, **kwargs)` if a row fails. See `FutureRecordMetadata`.
    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_errback<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyRef<'py, Self>> {
        slf.add(py, Wanted::Exception, f, args, kwargs)?;
        Ok(slf)
    }

    /// Calls `f(*args, BatchMetadata or BatchSendError, **kwargs)` in both cases.
    #[pyo3(signature = (f, *args, **kwargs))]
    fn add_both<'py>(
        slf: PyRef<'py, Self>,
        py: Python<'py>,
        f: Py<PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<PyRef<'py, Self>> {
        slf.add(py, Wanted::Both, f, args, kwargs)?;
        Ok(slf)
    }

    fn __len__(&self) -> usize {
        self.0.len
    }
}
