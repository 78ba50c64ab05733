//! `RangeReader`: bounded ranges of partitions as Arrow batches, for Spark's executors.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyAny;
use thalweg_columns::{ArrowSink, Layout, SlabPool, TableLimits};
use thalweg_consumer::{
    OffsetReset, Range, RangeLimits, RangeReader as Ranges, RangeStep, TopicPartition,
};
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::wait::ThreadWait;

use crate::convert::options::{Options, duration_ms};
use crate::convert::tables::ArrowBatch;
use crate::convert::{capsules, errors, settings, tls};
use crate::interpreter::gil;
use crate::operation::run;

/// Column buffers kept for reuse, in batches.
const SLAB_BATCHES: usize = 3;

/// A topic, a partition, the first offset, and the end.
type GivenRange = (String, i32, i64, i64);
/// A topic, a partition, and the offsets `[from, to)` that are gone.
type Lost = (String, i32, i64, i64);

struct Reading {
    /// `None` if nothing is left to read.
    ranges: Option<Ranges>,
    sink: ArrowSink,
}

struct Connected {
    /// Declared before the client, so that it is dropped first and releases the consumer.
    reading: Option<Reading>,
    client: ConsumerClient,
}

/// Reads ranges of offsets as Arrow batches, with one client.
///
/// It is for Spark's executors.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct RangeReader(Mutex<Option<Connected>>);

impl RangeReader {
    /// Locks the reader for one thread. Never waits, because the reading thread may need the GIL
    /// before it unlocks.
    fn enter(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Connected>>> {
        match self.0.try_lock() {
            Ok(connected) => Ok(connected),
            Err(TryLockError::Poisoned(connected)) => Ok(connected.into_inner()),
            Err(TryLockError::WouldBlock) => Err(errors::raise(
                py,
                "IllegalStateError",
                "another thread is using the reader: only one thread at a time may use it",
            )),
        }
    }

    /// Returns the open client, if it can be used.
    fn usable<'a>(
        &self,
        py: Python<'_>,
        guard: &'a mut MutexGuard<'_, Option<Connected>>,
    ) -> PyResult<&'a mut Connected> {
        let Some(connected) = guard.as_mut() else {
            let text = "the reader is closed";
            return Err(errors::raise(py, "IllegalStateError", text));
        };
        if connected.client.view().is_inherited() {
            return Err(errors::client(py, &thalweg_network::ClientError::Forked));
        }
        if self.0.is_poisoned() {
            // The sink may have lost or repeated rows.
            let text = "a panic has ended the reader. Create a new one";
            return Err(errors::raise(py, "IllegalStateError", text));
        }
        Ok(connected)
    }
}

/// Returns the layout of these columns in this order, or of all columns but the headers.
fn layout(columns: Option<Vec<String>>) -> PyResult<Layout> {
    let Some(columns) = columns else {
        return Ok(Layout::spark(false));
    };
    let projected = Layout::spark(true).project(&columns);
    projected.map_err(|error| capsules::columns_error(&error))
}

/// Returns the ranges, each of another partition.
fn ranges_of(given: Vec<GivenRange>) -> PyResult<Vec<Range>> {
    let mut seen = BTreeSet::new();
    let mut ranges = Vec::with_capacity(given.len());
    for (topic, partition, start, end) in given {
        if start < 0 || end < 0 {
            return Err(PyValueError::new_err(format!(
                "the range {start} to {end} of {topic}-{partition} has a negative offset"
            )));
        }
        if !seen.insert((topic.clone(), partition)) {
            return Err(PyValueError::new_err(format!(
                "{topic}-{partition} has two ranges. Read them one after the other"
            )));
        }
        let partition = TopicPartition {
            topic: topic.as_str().into(),
            partition,
        };
        ranges.push(Range {
            partition,
            start,
            end,
        });
    }
    Ok(ranges)
}

#[pymethods]
impl RangeReader {
    #[new]
    #[pyo3(signature = (config, /))]
    fn new(py: Python<'_>, config: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut options = Options::new(config)?;
        let mut client_config = settings::client(&mut options)?;
        let mut consumer_config = settings::consumer(&mut options)?;
        settings::align_consumer(&mut consumer_config, &client_config);
        for unused in [
            "max_poll_records",
            "poll_arrow_max_bytes",
            "consumer_timeout_ms",
        ] {
            options.ignore(unused);
        }
        options.finish()?;
        tls::prepare(py, &mut client_config)?;
        // Positions are given. There is no group, and the reader handles offsets that are out of
        // range.
        consumer_config.group_id = None;
        consumer_config.auto_offset_reset = OffsetReset::None;
        let client = py
            .detach(|| ConsumerClient::start(&client_config, consumer_config))
            .map_err(|error| errors::client(py, &error))?;
        let timeout = client_config.bootstrap_timeout;
        run(py, &mut client.view().bootstrap(timeout))?;
        Ok(Self(Mutex::new(Some(Connected {
            reading: None,
            client,
        }))))
    }

    /// Starts to read other ranges, and drops unread batches of the earlier ones.
    #[pyo3(signature = (
        ranges, *, columns = None, fail_on_data_loss = true, batch_rows = 65536,
        batch_bytes = 16_777_216, timeout_ms = 120_000.0
    ))]
    #[allow(clippy::too_many_arguments)]
    fn start(
        &self,
        py: Python<'_>,
        ranges: Vec<GivenRange>,
        columns: Option<Vec<String>>,
        fail_on_data_loss: bool,
        batch_rows: usize,
        batch_bytes: usize,
        timeout_ms: f64,
    ) -> PyResult<()> {
        let layout = layout(columns)?;
        let ranges = ranges_of(ranges)?;
        let mut guard = self.enter(py)?;
        let connected = self.usable(py, &mut guard)?;
        let rows = TableLimits {
            rows_max: batch_rows,
            bytes_max: batch_bytes,
        };
        let limits = RangeLimits {
            fail_on_data_loss,
            timeout: duration_ms(timeout_ms),
        };
        let consumer = Arc::clone(connected.client.consumer());
        let pool = SlabPool::new(SLAB_BATCHES.saturating_mul(batch_bytes));
        connected.reading = None;
        // It waits for the lock of the table, which the I/O thread may hold.
        let ranges = py.detach(|| Ranges::new(consumer, ranges, limits, Instant::now()));
        connected.reading = Some(Reading {
            ranges,
            sink: ArrowSink::new(layout, rows, pool),
        });
        Ok(())
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<ArrowBatch> {
        let mut guard = self.enter(py)?;
        let Connected { reading, client } = self.usable(py, &mut guard)?;
        let Some(Reading {
            ranges: Some(ranges),
            sink,
        }) = reading
        else {
            return Err(PyStopIteration::new_err(()));
        };
        ranges.resume(Instant::now());
        let mut waiting = ThreadWait::begin();
        loop {
            if let Some(failure) = client.view().failure() {
                return Err(errors::client(py, &failure));
            }
            let waker = waiting.waker();
            let step = py
                .detach(|| ranges.poll(sink, waker, Instant::now()))
                .map_err(|error| errors::consumer(py, &error))?;
            if let Some(failure) = sink.take_failure() {
                return Err(capsules::columns_error(&failure));
            }
            match step {
                RangeStep::Records(_) if !sink.is_full() => {}
                RangeStep::Done if sink.is_empty() => return Err(PyStopIteration::new_err(())),
                RangeStep::Records(_) | RangeStep::SinkFull | RangeStep::Done => {
                    return taken(sink);
                }
                RangeStep::Pending => {
                    let until = ranges.deadline();
                    gil::sleep(py, &mut waiting, Some(until))?;
                }
            }
        }
    }

    /// The skipped offsets that the logs no longer have.
    ///
    /// They belong to the ranges that were started last. Empty after close.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<Vec<Lost>> {
        let guard = self.enter(py)?;
        let reading = guard.as_ref().and_then(|own| own.reading.as_ref());
        let ranges = reading.and_then(|reading| reading.ranges.as_ref());
        let lost = ranges.map_or_else(Vec::new, |ranges| ranges.lost().to_vec());
        Ok(lost
            .into_iter()
            .map(|lost| {
                let TopicPartition { topic, partition } = lost.partition;
                (topic.to_string(), partition, lost.from, lost.to)
            })
            .collect())
    }

    /// Closes the connections. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let connected = self.enter(py)?.take();
        let Some(Connected { reading, client }) = connected else {
            return Ok(());
        };
        drop(reading);
        if client.view().is_inherited() {
            // The thread and sockets belong to the parent. Dropping the handle would lock their
            // queues.
            std::mem::forget(client);
            return Ok(());
        }
        run(py, &mut client.view().close(Some(Duration::ZERO)))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type, exc, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Option<Bound<'_, PyAny>>,
        exc: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc, traceback);
        self.close(py)
    }
}

fn taken(sink: &mut ArrowSink) -> PyResult<ArrowBatch> {
    sink.take()
        .map(ArrowBatch::new)
        .map_err(|error| capsules::columns_error(&error))
}
