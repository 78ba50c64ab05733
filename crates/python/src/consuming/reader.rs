//! `PartitionReader`: a bounded range of one partition as Arrow batches, for Spark's executors.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyAny;
use thalweg_columns::{ArrowSink, Layout, SlabPool, TableLimits};
use thalweg_consumer::{OffsetReset, Range, RangeReader, RangeStep, TopicPartition};
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::wait::ThreadWait;

use crate::convert::options::{Options, duration_ms};
use crate::convert::tables::ArrowBatch;
use crate::convert::{capsules, errors, settings, tls};
use crate::interpreter::gil;
use crate::operation::run;

/// Column buffers kept for reuse, in batches.
const SLAB_BATCHES: usize = 3;

struct Reading {
    /// Declared before the client, so that it is dropped first and releases the consumer.
    reader: RangeReader,
    sink: ArrowSink,
    client: ConsumerClient,
}

/// Reads the offsets `[start, end)` of a partition as Arrow batches.
#[pyclass(frozen, module = "thalweg._core")]
pub(crate) struct PartitionReader(Mutex<Option<Reading>>);

impl PartitionReader {
    /// Locks the reader for one thread. Never waits, because the reading thread may need the GIL
    /// before it unlocks.
    fn enter(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Reading>>> {
        match self.0.try_lock() {
            Ok(reading) => Ok(reading),
            Err(TryLockError::Poisoned(reading)) => Ok(reading.into_inner()),
            Err(TryLockError::WouldBlock) => Err(errors::raise(
                py,
                "IllegalStateError",
                "another thread is using the reader: only one thread at a time may use it",
            )),
        }
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

#[pymethods]
impl PartitionReader {
    #[new]
    #[pyo3(signature = (
        config, topic, partition, start, end, *, columns = None, fail_on_data_loss = true,
        batch_rows = 65536, batch_bytes = 16_777_216, timeout_ms = 120_000.0
    ))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        config: &Bound<'_, PyAny>,
        topic: &str,
        partition: i32,
        start: i64,
        end: i64,
        columns: Option<Vec<String>>,
        fail_on_data_loss: bool,
        batch_rows: usize,
        batch_bytes: usize,
        timeout_ms: f64,
    ) -> PyResult<Self> {
        let layout = layout(columns)?;
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
        let range = Range {
            partition: TopicPartition {
                topic: topic.into(),
                partition,
            },
            start,
            end,
            fail_on_data_loss,
            timeout: duration_ms(timeout_ms),
        };
        let reader = RangeReader::new(Arc::clone(client.consumer()), range, Instant::now());
        let limits = TableLimits {
            rows_max: batch_rows,
            bytes_max: batch_bytes,
        };
        let pool = SlabPool::new(SLAB_BATCHES * batch_bytes);
        let sink = ArrowSink::new(layout, limits, pool);
        Ok(Self(Mutex::new(Some(Reading {
            reader,
            sink,
            client,
        }))))
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<ArrowBatch> {
        let mut guard = self.enter(py)?;
        let Some(reading) = guard.as_mut() else {
            return Err(errors::raise(
                py,
                "IllegalStateError",
                "the reader is closed",
            ));
        };
        if reading.client.view().is_inherited() {
            return Err(errors::client(py, &thalweg_network::ClientError::Forked));
        }
        if self.0.is_poisoned() {
            // The sink may have lost or repeated rows.
            let text = "a panic has ended the reader. Create a new one";
            return Err(errors::raise(py, "IllegalStateError", text));
        }
        reading.reader.resume(Instant::now());
        let mut waiting = ThreadWait::begin();
        loop {
            if let Some(failure) = reading.client.view().failure() {
                return Err(errors::client(py, &failure));
            }
            let Reading { reader, sink, .. } = reading;
            let waker = waiting.waker();
            let step = py
                .detach(|| reader.poll(sink, waker, Instant::now()))
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
                    let until = reader.deadline();
                    gil::sleep(py, &mut waiting, Some(until))?;
                }
            }
        }
    }

    /// The skipped ranges `[from, to)` of offsets that the log no longer has. Empty after close.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<Vec<(i64, i64)>> {
        let guard = self.enter(py)?;
        Ok(guard
            .as_ref()
            .map_or_else(Vec::new, |reading| reading.reader.lost().to_vec()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let reading = self.enter(py)?.take();
        let Some(Reading {
            reader,
            sink,
            client,
        }) = reading
        else {
            return Ok(());
        };
        drop((reader, sink));
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
